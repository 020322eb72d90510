"""The rules of the house: what must hold whatever callers, agents and crashes do.

It carries out what the machine wants as `engine` does, in memory, and watches: every rule is a
named check that runs at the moment when it could be broken. What happens is in `world`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from kandev_operator.agentctl.machine import State, step
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.state import KEPT_OPERATIONS
from kandev_operator.agentctl.machine.tables import ALIVE
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    AgentStatus,
    OperationState,
)

AT = "2026-01-01T00:00:00.000Z"


@dataclass
class Process:
    """An agent process, as the world knows it."""

    execution_id: str
    spoke: bool = False
    """It was launched, and answered `initialize` one way or the other."""
    opening: fx.Open | None = None
    turn: fx.SendPrompt | None = None
    given_up: bool = False
    """Its turn was cancelled and not answered in time."""
    asked: set[str] = field(default_factory=set)
    choosing: fx.Choose | None = None
    ending: bool = False
    alive: bool = True


class House(RuleBasedStateMachine):
    """What stands around the machine, and looks. `seen` counts which effects ever came."""

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
        self.cancelled: set[str] = set()
        """Prompts that were cancelled while they waited."""
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
                self.check_opening(act)
                process.opening = act
            case fx.SendPrompt():
                self.check_sending(process, act)
                process.turn, process.given_up = act, False
                self.sent.append(act.prompt_id)
            case fx.AnswerPermission():
                process.asked.discard(act.key)
            case fx.Choose():
                assert process.choosing is None, "one choice at a time"
                assert self.operations[act.operation_id].state is OperationState.RUNNING
                token = self.state.token
                assert token is not None
                assert act.token == token.value, "chosen in the current conversation"
                process.choosing = act
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
        assert all(p in self.sent or p in self.cancelled for p in ahead), "the order is kept"
        assert act.prompt_id not in self.cancelled, "what was cancelled is never sent"
        token = self.state.token
        assert token is not None
        assert act.token == token.value, "prompts go to the current conversation"

    def check_opening(self, act: fx.Open) -> None:
        """A token that is known to be another agent's, of another profile, is not asked for."""
        token, agent = self.state.token, self.state.capabilities.agent
        if act.token is None or token is None or token.value != act.token or agent is None:
            return
        other_agent = token.agent not in (None, agent.name)
        running = self.state.running_profile_uid
        other_profile = None not in (token.profile, running) and token.profile != running
        assert not (other_agent and other_profile), "a token of another agent is not asked for"

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
                if prompt_id in self.cancelled:
                    assert fate is PromptFate.NOT_DELIVERED, "cancelled for good"
                    continue
                assert fate is PromptFate.QUEUED, f"{prompt_id} is {fate} but was never sent"

    @invariant()
    def what_is_kept_is_what_is_known(self) -> None:
        assert list(self.state.prompts) == list(self.prompts.values())
        known, kept = list(self.operations.values()), list(self.state.operations)
        assert kept == [o for o in known if o in kept], "as they were stored, in their order"
        assert len(kept) >= min(len(known), KEPT_OPERATIONS), "only surplus is forgotten"
        left = [o for o in known if o not in kept]
        assert not any(o.state is OperationState.RUNNING for o in left), "and nothing under way"
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
        choices = [o for o in running if o.kind in ("mode", "config")]
        assert len(choices) <= 1, "one choice at a time"
        setting = self.state.setting
        assert [o.operation_id for o in choices] == ([setting.operation_id] if setting else [])
        if not alive:
            assert not self.state.conversation.modes, "what was offered is gone with the process"
        if running and not alive:
            raise AssertionError("an operation runs, but nothing is under way")

    @invariant()
    def who_asked_for_permission_waits_for_an_open_request(self) -> None:
        if self.process is not None:
            open_keys = {p.key for p in self.state.permissions}
            assert self.process.asked == open_keys
