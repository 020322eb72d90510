"""A world for the machine: callers, an agent that lives and dies, a journal, a crash.

It carries out what the machine wants as `engine` does, in memory, and watches: every rule of the
house is a named check that runs at the moment when it could be broken. Rules are what the world
does; a calm spell in between lets everything come to its end, so that random steps get deep.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_operator.agentctl.machine import State, step
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.draft import DECIDED
from kandev_operator.agentctl.machine.reopen import Kept, reopen
from kandev_operator.agentctl.machine.tables import ALIVE, OPEN
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    AgentStatus,
    Capabilities,
    Exit,
    Failure,
    OperationState,
)

AT = "2026-01-01T00:00:00.000Z"
OPTIONS = (("yes", "Yes", "allow_once"), ("no", "No", "reject_once"))
FAILURE = Failure(code="agent_error", message="no")


def text(words: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": words},)


@dataclass
class Process:
    """An agent process, as the world knows it."""

    execution_id: str
    opening: fx.Open | None = None
    turn: fx.SendPrompt | None = None
    given_up: bool = False
    """Its turn was cancelled and not answered in time."""
    asked: set[str] = field(default_factory=set)
    ending: bool = False
    alive: bool = True


class World(RuleBasedStateMachine):
    """Everything around the machine. The class attribute counts which acts were ever seen."""

    seen: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.state = State(session_id="s")
        self.operations: dict[str, Any] = {}
        self.prompts: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        self.process: Process | None = None
        self.old: list[tuple[str, str]] = []
        """(execution, turn) of the past, for late events."""
        self.accepted: list[str] = []
        self.sent: list[str] = []
        self.serial = 0
        self.term = self.epoch = 1
        self.completed_tokens: set[str] = set()
        self.resumed_tokens: set[str] = set()
        self.timers: dict[ev.Timer, str] = {}
        self.outcomes: dict[str, str] = {}

    def fresh(self, what: str) -> str:
        self.serial += 1
        return f"{what}{self.serial}"

    # ---- carrying out ------------------------------------------------------------------

    def dispatch(self, event: ev.Event, *, room: bool = True) -> fx.Reply | None:
        before = self.state
        outcome = step(before, event)
        assert step(before, event) == outcome, "a step is pure"
        if isinstance(outcome.reply, fx.Refused):
            return outcome.reply
        if not room and outcome.stores:
            return None  # the journal is full: the old state stays, nothing happened
        self.state = outcome.state
        for store in outcome.stores:
            self.seen.add(type(store).__name__)
            self.keep(store, before)
        self.check_token(before, event)
        for act in outcome.acts:
            self.seen.add(type(act).__name__)
            self.perform(act)
        return outcome.reply

    def keep(self, store: fx.Store, before: State) -> None:
        match store:
            case fx.StoreOperation(operation=operation):
                self.check_outcome(operation)
                self.operations[operation.operation_id] = operation
            case fx.StorePrompt(prompt=prompt):
                if prompt.prompt_id not in self.prompts:
                    self.accepted.append(prompt.prompt_id)
                self.prompts[prompt.prompt_id] = prompt
            case fx.Append(kind=EventKind.MESSAGE, data=data):
                opening = before.status is AgentStatus.OPENING
                shown = opening and data["author"] == "agent"
                assert not shown, "what is replayed is never shown"
            case fx.Append():
                pass
            case _:
                self.kept[type(store).__name__] = store

    def perform(self, act: fx.Act) -> None:
        if isinstance(act, fx.Arm):
            self.timers[act.timer] = act.key
            return
        if isinstance(act, fx.Launch):
            assert self.process is None, "two agents never live at once"
            stored = self.kept["StoreExecution"]
            assert stored == fx.StoreExecution(act.execution_id, None), "stored before launched"
            self.process = Process(act.execution_id)
            return
        process = self.process
        if process is None or process.execution_id != act.execution_id:
            assert isinstance(act, fx.AnswerPermission), f"{act} is for nobody"
            return
        match act:
            case fx.Open():
                assert self.operations[act.operation_id].state is OperationState.RUNNING
                assert process.opening is None, "opened once"
                process.opening = act
            case fx.SendPrompt():
                self.check_sending(process, act)
                process.turn, process.given_up = act, False
                self.sent.append(act.prompt_id)
            case fx.AnswerPermission():
                process.asked.discard(act.key)
            case fx.End():
                process.ending = True
            case fx.CancelTurn():
                assert process.turn is not None, "a cancel has a turn"

    # ---- the rules of the house --------------------------------------------------------

    def check_sending(self, process: Process, act: fx.SendPrompt) -> None:
        assert act.prompt_id not in self.sent, "no prompt is sent twice"
        assert process.turn is None or process.given_up, "one prompt at a time"
        assert not process.ending
        assert self.prompts[act.prompt_id].fate is PromptFate.SENDING, "stored before sent"
        ahead = self.accepted[: self.accepted.index(act.prompt_id)]
        assert all(p in self.sent for p in ahead), "the order is kept"
        token = self.state.token
        assert token is not None
        assert act.token == token.value, "prompts go to the current conversation"

    def check_outcome(self, operation: Any) -> None:
        known = self.operations.get(operation.operation_id)
        decided = known is not None and known.state is not OperationState.RUNNING
        assert not decided, "an outcome never changes"

    def check_token(self, before: State, event: ev.Event) -> None:
        old, new = before.token, self.state.token
        if old == new:
            return
        if new is None:
            fresh = isinstance(event, ev.StartAsked) and event.mode == "new"
            assert fresh, "a token is retired by a fresh start alone"
            assert old is not None
            assert event.epoch >= old.epoch, "an older epoch retires nothing"
            return
        if old is not None:
            assert new.epoch >= old.epoch, "an older epoch replaces nothing"
        if old is None or old.value != new.value:
            told = isinstance(event, ev.Opened | ev.UpdateCame)
            assert told, "only an id that the agent told becomes current"
            assert event.execution_id == before.execution_id, "and only this very process"
        if new.established and not (old and old.value == new.value and old.established):
            known = new.value in self.completed_tokens | self.resumed_tokens
            renamed = isinstance(event, ev.UpdateCame) and old is not None and old.established
            assert known or renamed, "established by a completed turn or by coming back"

    @invariant()
    def nothing_accepted_is_lost(self) -> None:
        known = {p.prompt_id: p for p in self.state.prompts}
        for prompt_id in self.accepted:
            assert prompt_id in known, "an accepted prompt is never forgotten"
            if prompt_id not in self.sent:
                fate = known[prompt_id].fate
                assert fate is PromptFate.QUEUED, f"{prompt_id} is {fate} but was never sent"

    @invariant()
    def what_is_kept_is_what_is_known(self) -> None:
        assert list(self.state.prompts) == list(self.prompts.values())
        assert list(self.state.operations) == list(self.operations.values())
        token = self.kept.get("StoreToken")
        assert self.state.token == (token.token if token else None)
        fence = self.kept.get("StoreFence")
        assert (self.state.term, self.state.epoch) == (
            (fence.term, fence.epoch) if fence else (0, 0)
        )

    @invariant()
    def one_turn_lives_and_only_while_running(self) -> None:
        sending = [p for p in self.state.prompts if p.fate is PromptFate.SENDING]
        assert len(sending) <= 1
        turn = self.state.turn
        if self.state.status is AgentStatus.RUNNING:
            assert turn is not None
        if turn is None:
            assert not sending
            assert not self.state.permissions, "a permission request belongs to a turn"
        else:
            assert self.state.status in (AgentStatus.RUNNING, AgentStatus.STOPPING)
            assert self.process is not None
            assert turn.execution_id == self.process.execution_id

    @invariant()
    def the_status_is_true(self) -> None:
        alive = self.state.status in ALIVE
        assert alive == (self.process is not None), "alive means that there is a process"
        if self.process is not None:
            assert self.process.ending == (self.state.status is AgentStatus.STOPPING)
        running = [o for o in self.state.operations if o.state is OperationState.RUNNING]
        starts = [o for o in running if o.kind == "start"]
        assert len(starts) <= 1, "one start at a time"
        assert bool(starts) == (self.state.wish is not None)
        if running and not alive:
            raise AssertionError("an operation runs, but nothing is under way")

    @invariant()
    def who_asked_for_permission_waits_for_an_open_request(self) -> None:
        if self.process is not None:
            open_keys = {p.key for p in self.state.permissions}
            assert self.process.asked == open_keys

    # ---- what callers do ---------------------------------------------------------------

    @rule(policy=st.sampled_from(PermissionPolicy))
    def configure(self, policy: PermissionPolicy) -> None:
        event = ev.Configured(AT, self.fresh("hash"), policy, self.fresh("x"))
        self.dispatch(event)

    @rule()
    def configure_again(self) -> None:
        if self.state.profile_hash is not None:
            before = self.state
            again = ev.Configured(
                AT, self.state.profile_hash, PermissionPolicy.ASK, self.fresh("x")
            )
            self.dispatch(again)
            assert self.state == before, "the same configuration has no effect"

    @rule(rises=st.booleans(), late=st.booleans())
    def fence(self, rises: bool, late: bool) -> None:
        self.epoch += rises
        epoch = self.epoch - (2 if late else 0)
        reply = self.dispatch(ev.FenceSeen(AT, self.term, epoch))
        stale = epoch < self.state.epoch
        assert isinstance(reply, fx.Refused) == stale, "older ones are refused, all others not"
        assert self.state.epoch >= epoch

    @rule(mode=st.sampled_from(["new", "resume"]), odd=st.booleans(), room=st.booleans())
    def start(self, mode: Any, odd: bool, room: bool) -> None:
        token = self.state.token.value if self.state.token and not odd else "from-elsewhere"
        event = ev.StartAsked(
            AT,
            operation_id=self.fresh("o"),
            mode=mode,
            epoch=self.epoch,
            timeout=1.0,
            execution_id=self.fresh("x"),
            token=token if mode == "resume" else None,
        )
        busy = self.state.wish is not None and self.state.wish.epoch >= self.epoch
        reply = self.dispatch(event, room=room)
        if busy or self.state.profile_hash is None:
            assert isinstance(reply, fx.Refused), "a second start of this epoch is a conflict"
        if isinstance(reply, fx.OperationReply):
            before = self.state
            again = self.dispatch(event)
            assert isinstance(again, fx.OperationReply)
            assert again.operation.operation_id == event.operation_id
            assert self.state == before, "the same operation is not done again"

    @rule()
    def stop(self) -> None:
        self.dispatch(ev.StopAsked(AT, self.fresh("o"), self.epoch, 1.0))

    @rule(room=st.booleans(), count=st.integers(1, 3))
    def prompt(self, room: bool, count: int) -> None:
        for _ in range(count):
            prompt_id = self.fresh("p")
            reply = self.dispatch(ev.PromptAsked(AT, prompt_id, text(prompt_id)), room=room)
            if isinstance(reply, fx.PromptReply):
                assert prompt_id in self.accepted, "accepted once it is stored"

    @rule(data=st.data())
    @precondition(lambda self: self.accepted)
    def prompt_again(self, data: st.DataObject) -> None:
        prompt_id = data.draw(st.sampled_from(self.accepted))
        before = self.state
        reply = self.dispatch(ev.PromptAsked(AT, prompt_id, text("again")))
        assert isinstance(reply, fx.PromptReply)
        assert self.state == before, "the same prompt id only tells its fate"

    @rule()
    def cancel(self) -> None:
        self.dispatch(ev.CancelAsked(AT))

    @rule(option=st.sampled_from(["yes", "no", None, "never offered"]))
    @precondition(lambda self: self.state.permissions)
    def choose(self, option: str | None) -> None:
        permission = self.state.permissions[0]
        self.dispatch(ev.PermissionChosen(AT, permission.permission_id, option))

    # ---- what the agent does -----------------------------------------------------------

    def living(self) -> Process:
        assert self.process is not None
        return self.process

    @rule(well=st.booleans())
    @precondition(lambda self: self.state.status is AgentStatus.INITIALIZING)
    def initialize(self, well: bool) -> None:
        x = self.living().execution_id
        if well:
            can = Capabilities(load_session=True, supports_session_resume=True)
            self.dispatch(ev.Initialized(AT, x, can))
        else:
            self.dispatch(ev.InitializeFailed(AT, x, FAILURE))

    @rule()
    @precondition(
        lambda self: (
            self.process
            and self.state.status in (AgentStatus.INITIALIZING, AgentStatus.STOPPING)
            and self.state.capabilities.agent is None
            and self.process.opening is None
            and self.process.turn is None
        )
    )
    def never_launched(self) -> None:
        process, self.process = self.living(), None
        self.dispatch(ev.InitializeFailed(AT, process.execution_id, FAILURE, launched=False))

    @rule(outcome=st.sampled_from(["well", "well", "another id", "fails", "exits"]))
    @precondition(lambda self: self.process and self.process.opening)
    def opening_ends(self, outcome: str) -> None:
        process = self.living()
        act = process.opening
        assert act is not None
        process.opening = None
        x, o = process.execution_id, act.operation_id
        match outcome:
            case "fails":
                self.dispatch(ev.OpenFailed(AT, x, o, FAILURE))
            case "exits":
                self.dies()
            case _:
                token = act.token
                if act.mode == "new" or outcome == "another id" or token is None:
                    token = self.fresh("t")
                else:
                    self.resumed_tokens.add(token)
                self.dispatch(ev.Opened(AT, x, o, "session/new", token))

    @rule(
        kind=st.sampled_from(["agent_message_chunk", "tool_call", "plan", "usage_update", "odd"]),
        known=st.booleans(),
    )
    @precondition(lambda self: self.process)
    def update(self, kind: str, known: bool) -> None:
        told: dict[str, Any] = {"sessionUpdate": kind, "content": text("w")[0], "toolCallId": "c"}
        session = self.state.opened_token or "?" if known else "a sub-agent"
        self.dispatch(ev.UpdateCame(AT, self.living().execution_id, session, told))

    @rule()
    @precondition(lambda self: self.state.status in OPEN)
    def rename(self) -> None:
        told = {"sessionUpdate": "session_info_update", "_meta": {"sessionId": self.fresh("t")}}
        self.dispatch(ev.UpdateCame(AT, self.living().execution_id, "?", told))

    @rule(reason=st.sampled_from(["end_turn", "end_turn", "cancelled", "fails"]))
    @precondition(lambda self: self.process and self.process.turn)
    def answer(self, reason: str) -> None:
        process = self.living()
        act = process.turn
        assert act is not None
        live = self.state.turn is not None and self.state.turn.turn_id == act.turn_id
        if not process.given_up:
            process.turn = None
        x = process.execution_id
        if reason == "fails":
            self.dispatch(ev.TurnFailed(AT, x, act.turn_id, FAILURE))
        else:
            if reason == "end_turn" and live:
                self.completed_tokens.add(self.state.opened_token or "")
            self.dispatch(ev.TurnAnswered(AT, x, act.turn_id, reason))
        self.old.append((x, act.turn_id))

    @rule(data=st.data())
    @precondition(lambda self: self.old)
    def late_answer(self, data: st.DataObject) -> None:
        x, turn_id = data.draw(st.sampled_from(self.old))
        before = self.state
        self.dispatch(ev.TurnAnswered(AT, x, turn_id, "end_turn"))
        assert self.state == before, "a late end of an older turn changes nothing"

    @rule(data=st.data())
    @precondition(lambda self: self.old)
    def late_words_of_an_older_process(self, data: st.DataObject) -> None:
        x, _ = data.draw(st.sampled_from(self.old))
        if self.process is not None and self.process.execution_id == x:
            return
        before = self.state
        told = {"sessionUpdate": "session_info_update", "_meta": {"sessionId": "old"}}
        self.dispatch(ev.UpdateCame(AT, x, "old", told))
        self.dispatch(ev.Opened(AT, x, "o1", "session/new", "old"))
        self.dispatch(ev.Exited(AT, x, Exit(at=AT, code=1)))
        if x != self.state.execution_id:
            assert self.state == before, "an older process changes nothing"

    @rule()
    @precondition(lambda self: self.process)
    def ask_permission(self) -> None:
        process = self.living()
        key = self.fresh("k")
        process.asked.add(key)
        self.dispatch(ev.PermissionAsked(AT, process.execution_id, key, "Run", "execute", OPTIONS))

    @rule()
    @precondition(lambda self: self.process)
    def dies(self) -> None:
        process, self.process = self.living(), None
        if process.turn is not None:
            self.old.append((process.execution_id, process.turn.turn_id))
        self.dispatch(ev.Exited(AT, process.execution_id, Exit(at=AT, signal="SIGKILL")))

    @rule()
    @precondition(lambda self: self.process and self.process.ending)
    def ends(self) -> None:
        self.dies()

    @rule()
    @precondition(lambda self: self.process)
    def breaks(self) -> None:
        self.dispatch(ev.StreamBroken(AT, self.living().execution_id, FAILURE))

    @rule(timer=st.sampled_from(ev.Timer))
    def ring(self, timer: ev.Timer) -> None:
        key = self.timers.get(timer, "never armed")
        process = self.process
        if timer is ev.Timer.CANCEL_GRACE and process is not None and process.turn is not None:
            turn = self.state.turn
            process.given_up |= (
                turn is not None and turn.turn_id == key and self.state.turn_cancelled
            )
        self.dispatch(ev.TimerFired(AT, timer, key))

    # ---- what befalls agentctl ---------------------------------------------------------

    @rule()
    def crash(self) -> None:
        """agentctl dies with its agent; a new one has what the journal kept, and nothing else."""
        if self.process is not None and self.process.turn is not None:
            self.old.append((self.process.execution_id, self.process.turn.turn_id))
        self.process = None
        self.timers = {}
        before = self.state
        self.state = State()
        outcome = reopen(self.rebuilt(), term=0, at=AT)
        assert (outcome.state.term, outcome.state.epoch) == (before.term, before.epoch)
        assert outcome.state.token == before.token
        assert outcome.state.turns_completed == before.turns_completed
        self.state = outcome.state
        for store in outcome.stores:
            self.keep(store, State())
        again = reopen(self.rebuilt(), term=0, at=AT)
        assert not again.stores, "reopened twice, nothing is left to conclude"
        assert again.state == outcome.state

    def rebuilt(self) -> Kept:
        fence = self.kept.get("StoreFence", fx.StoreFence(0, 0))
        token = self.kept.get("StoreToken", fx.StoreToken(None, (), 0, AT))
        execution = self.kept.get("StoreExecution")
        turn = self.kept.get("StoreTurn")
        capabilities = self.kept.get("StoreCapabilities")
        return Kept(
            session_id="s",
            term=fence.term,
            epoch=fence.epoch,
            operations=tuple(self.operations.values()),
            prompts=tuple(self.prompts.values()),
            token=token.token,
            previous_tokens=token.previous,
            execution_id=execution.execution_id if execution else None,
            execution_ended=execution.ended if execution else None,
            turn=turn.turn if turn else None,
            last_turn=turn.ended if turn else None,
            turns_completed=turn.completed if turn else 0,
            capabilities=capabilities.capabilities if capabilities else None,
        )

    # ---- a calm spell ------------------------------------------------------------------

    @rule(policy=st.sampled_from(PermissionPolicy))
    def calm_spell(self, policy: PermissionPolicy) -> None:
        """Nobody asks for anything but a start, and the agent does as it should."""
        self.configure(policy)
        for _ in range(200):
            if self.state.status in OPEN and not self.state.queue and self.state.turn is None:
                break
            self.calm_step()
        else:
            raise AssertionError("it never comes to rest")
        fates = {p.fate for p in self.state.prompts}
        assert fates <= DECIDED, "every accepted prompt has its fate"

    @rule(count=st.integers(1, 3), asks=st.booleans())
    def a_turn_begins(self, count: int, asks: bool) -> None:
        """Where most of what can go wrong begins: a turn is under way, and others may wait."""
        self.calm_spell(PermissionPolicy.ASK)
        self.prompt(room=True, count=count)
        assert self.state.status is AgentStatus.RUNNING
        if asks:
            self.ask_permission()

    @rule()
    def a_turn_follows_another(self) -> None:
        """The next turn of the same process is under way, and the last one may answer late."""
        self.a_turn_begins(2, asks=True)
        self.old.clear()
        self.answer("end_turn")

    @rule(mode=st.sampled_from(["new", "resume"]))
    def a_start_is_under_way(self, mode: str) -> None:
        """The agent is asked to open a conversation, and has not answered."""
        self.calm_spell(PermissionPolicy.ASK)
        self.stop()
        self.ends()
        self.start(mode, odd=False, room=True)
        self.initialize(well=True)
        assert self.living().opening is not None

    def calm_step(self) -> None:
        process, status = self.process, self.state.status
        if process is None:
            self.fence(rises=True, late=False)
            mode = "resume" if self.state.token else "new"
            self.start(mode, odd=False, room=True)
        elif process.ending:
            self.ends()
        elif status is AgentStatus.INITIALIZING:
            self.initialize(well=True)
        elif status is AgentStatus.INITIALIZED:
            self.start("resume" if self.state.token else "new", odd=False, room=True)
        elif process.opening is not None:
            self.update("agent_message_chunk", known=True)  # it replays its history
            self.opening_ends("well")
        elif process.turn is not None:
            process.given_up = False
            self.update("agent_message_chunk", known=True)
            self.ask_permission()
            self.answer("end_turn")
