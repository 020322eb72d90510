"""A world for the machine: an agent that lives and dies, a journal, a crash, beside its callers.

Rules are what the world does; `house` watches. A calm spell in between lets everything come to its
end, so that random steps get deep.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kandev_operator.agentctl.machine import State
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.draft import DECIDED
from kandev_operator.agentctl.machine.reopen import Kept, reopen
from kandev_operator.agentctl.machine.tables import OPEN
from kandev_operator.contract.agent import PermissionPolicy
from kandev_operator.contract.status import (
    AgentInfo,
    AgentStatus,
    Capabilities,
    Exit,
    Failure,
)
from unit.agentctl.callers import Callers, text
from unit.agentctl.house import AT, Process

OPTIONS = (("yes", "Yes", "allow_once"), ("no", "No", "reject_once"))
FAILURE = Failure(code="agent_error", message="no")
OFFERS = {
    "modes": {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]},
    "configOptions": [{"id": "web", "currentValue": False}],
}


class World(Callers):
    """Everything that can happen to the machine."""

    # ---- what the agent does -----------------------------------------------------------

    def living(self) -> Process:
        assert self.process is not None
        return self.process

    @rule(well=st.booleans(), name=st.sampled_from(["a", "a", "b", ""]))
    @precondition(lambda self: self.state.status is AgentStatus.INITIALIZING)
    def initialize(self, well: bool, name: str = "a") -> None:
        process = self.living()
        process.spoke, x = True, process.execution_id
        if well:
            can = Capabilities(
                load_session=True,
                supports_session_resume=True,
                agent=AgentInfo(name=name, version="1") if name else None,
            )
            self.dispatch(ev.Initialized(AT, x, can))
        else:
            self.dispatch(ev.InitializeFailed(AT, x, FAILURE))

    @rule()
    @precondition(
        lambda self: (
            self.process
            and self.state.status in (AgentStatus.INITIALIZING, AgentStatus.STOPPING)
            and not self.process.spoke
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
                self.dispatch(ev.Opened(AT, x, o, "session/new", token, OFFERS))

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

    @rule(well=st.booleans())
    @precondition(lambda self: self.process and self.process.choosing)
    def choice_ends(self, well: bool) -> None:
        process = self.living()
        act, process.choosing = process.choosing, None
        assert act is not None
        x = process.execution_id
        if well:
            self.dispatch(ev.SettingAnswered(AT, x, act.operation_id))
        else:
            self.dispatch(ev.SettingFailed(AT, x, act.operation_id, FAILURE))
        before = self.state
        self.dispatch(ev.SettingAnswered(AT, x, act.operation_id))
        assert self.state == before, "a late answer to a choice changes nothing"

    @rule(mode=st.sampled_from(["a", "b", ""]))
    @precondition(lambda self: self.state.status in OPEN)
    def the_agent_changes_its_mode(self, mode: str) -> None:
        told = {"sessionUpdate": "current_mode_update", "currentModeId": mode}
        session = self.state.opened_token or ""
        self.dispatch(ev.UpdateCame(AT, self.living().execution_id, session, told))
        if mode:
            assert self.state.conversation.mode_id == mode, "the agent's own word counts"

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

    @rule()
    def another_agent_comes(self) -> None:
        """The profile was made again, with another agent in it, which is asked to resume."""
        self.calm_spell(PermissionPolicy.ASK)
        self.stop(for_good=False)
        self.ends()
        self.configure(PermissionPolicy.ASK, "u2")
        self.initialize(well=True, name="b")
        self.start("resume", odd=False, room=True)

    @rule(kind=st.sampled_from(["mode", "config"]))
    def a_choice_is_being_made(self, kind: str) -> None:
        """The agent is asked for a mode or an option, and has not answered."""
        self.calm_spell(PermissionPolicy.ASK)
        self.choose_setting(kind, offered=True, room=True)
        assert self.living().choosing is not None

    @rule(mode=st.sampled_from(["new", "resume"]))
    def a_start_is_under_way(self, mode: str) -> None:
        """The agent is asked to open a conversation, and has not answered."""
        self.calm_spell(PermissionPolicy.ASK)
        if self.usual_mode() == "new":
            mode = "new"
        self.stop(for_good=False)
        self.ends()
        self.start(mode, odd=False, room=True)
        self.initialize(well=True)
        assert self.living().opening is not None

    def usual_mode(self) -> str:
        """A token of another agent is of no use to the one that calm spells run."""
        token = self.state.token
        return "resume" if token is not None and token.agent in (None, "a") else "new"

    def calm_step(self) -> None:
        process, status = self.process, self.state.status
        if process is None:
            self.fence(rises=True, late=False)
            self.start(self.usual_mode(), odd=False, room=True)
        elif process.ending:
            self.ends()
        elif status is AgentStatus.INITIALIZING:
            self.initialize(well=True)
        elif status is AgentStatus.INITIALIZED:
            self.start(self.usual_mode(), odd=False, room=True)
        elif process.opening is not None:
            self.update("agent_message_chunk", known=True)  # it replays its history
            self.opening_ends("well")
        elif process.choosing is not None:
            self.choice_ends(well=True)
        elif process.turn is not None:
            process.given_up = False
            self.update("agent_message_chunk", known=True)
            self.ask_permission()
            self.answer("end_turn")
