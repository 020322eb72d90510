"""The world of an agent whose process lives elsewhere: it can fall silent, and it outlives us.

The rules of the house stay the same; a crash of agentctl leaves the process, and what a new one
believes of it is held against what is true.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kandev_operator.agentctl.machine import State
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.reopen import Living, outlived, rejoin
from kandev_operator.agentctl.machine.tables import OPEN
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.status import AgentStatus
from unit.agentctl.house import AT
from unit.agentctl.world import OFFERS, World


class FarWorld(World):
    """What else can happen there."""

    def __init__(self) -> None:
        super().__init__()
        self.record: Living | None = None
        """What agentctl wrote down about the process, beside the journal."""
        self.crashes = 0

    def perform(self, act: fx.Act) -> None:
        super().perform(act)
        if isinstance(act, fx.Launch):
            told = (self.state.running_hash or "", self.state.running_policy)
            self.record = Living(act.execution_id, None, *told)
        if isinstance(act, fx.End) and self.record is not None:
            self.record = replace(self.record, ending=True)

    def dispatch(self, event: ev.Event, *, room: bool = True) -> fx.Reply | None:
        """The record follows: what is open in the process, and that it is gone."""
        reply = super().dispatch(event, room=room)
        if self.process is None:
            self.record = None
        elif self.state.status in OPEN:
            told = (self.state.running_hash or "", self.state.running_policy, OFFERS)
            self.record = Living(self.process.execution_id, self.state.opened_token, *told)
        return reply

    @rule()
    @precondition(lambda self: self.process)
    def silence(self) -> None:
        sent = len(self.sent)
        self.dispatch(ev.Silenced(AT, self.living().execution_id))
        self.prompt(room=True, count=1)
        assert len(self.sent) == sent, "nothing is handed to a process that cannot be reached"

    @rule()
    @precondition(lambda self: self.process)
    def back(self) -> None:
        self.dispatch(ev.Rejoined(AT, self.living().execution_id))

    @rule(data=st.data())
    @precondition(lambda self: self.state.permissions)
    def withdrawn(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.state.permissions)).key
        process = self.living()
        process.asked.discard(key)
        self.dispatch(ev.PermissionWithdrawn(AT, process.execution_id, key))

    def calm_spell(self, policy: PermissionPolicy) -> None:
        if self.process is not None:
            self.back()
        super().calm_spell(policy)

    @rule()
    def crash(self) -> None:
        """agentctl dies; the process goes on, in the middle of whatever it was doing."""
        process = self.process
        if process is None or not outlived(self.rebuilt(), self.record):
            if process is not None:
                self.process = None
                self.record = None
            super().crash()
            return
        assert self.record is not None
        before, self.state = self.state, State()
        self.timers = {}
        process.asked.clear()  # they are asked again, as new ones
        process.choosing = process.opening = None
        process.ending = False  # by nobody who lives, until the new one ends it
        self.crashes += 1
        outcome = rejoin(self.rebuilt(), self.record, term=0, at=AT, numbered=1000 * self.crashes)
        assert outcome.state.turn == _without_asking(before), "its turn goes on"
        assert outcome.state.token == before.token
        assert outcome.state.silent, "nothing is handed over before it was reached"
        if before.status in OPEN and outcome.state.status is not AgentStatus.STOPPING:
            assert outcome.state.opened_token == before.opened_token
            assert outcome.state.turns_begun == before.turns_begun
        self.state = outcome.state
        for store in outcome.stores:
            self.keep(store, State())
        for act in outcome.acts:
            self.perform(act)

    @rule(mode=st.sampled_from(["new", "resume"]))
    def a_start_does_not_outlive_agentctl(self, mode: str) -> None:
        self.a_start_is_under_way(mode)
        self.crash()
        assert self.state.status is AgentStatus.STOPPING, "what it came to is not known"

    @rule()
    def idle_and_silent(self) -> None:
        self.calm_spell(PermissionPolicy.ASK)
        self.silence()

    @rule(reason=st.sampled_from(["end_turn", "fails"]))
    def a_turn_outlives_agentctl(self, reason: str) -> None:
        """The very thing that this is about."""
        self.calm_spell(PermissionPolicy.ASK)
        self.prompt(room=True, count=2)
        first = self.sent[-1]
        self.crash()
        assert self.state.status is AgentStatus.RUNNING
        assert self.sent[-1] == first
        self.back()
        self.answer(reason)
        fate = {p.prompt_id: p.fate for p in self.state.prompts}[first]
        assert fate is PromptFate.DELIVERED


def _without_asking(state: State) -> object:
    turn = state.turn
    return turn.model_copy(update={"awaiting_permission": False}) if turn else None
