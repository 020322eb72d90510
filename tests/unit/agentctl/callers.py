"""What callers do in the machine's world: configure, start, stop, prompt, cancel, choose, answer.

Each rule is one call, as often repeated, late or refused as callers are. What the agent does, and
what befalls both, is `world`'s.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.errors import Code
from unit.agentctl.house import AT, House


def text(words: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": words},)


class Callers(House):
    """Whatever a caller may do, at any time."""

    @rule(policy=st.sampled_from(PermissionPolicy), profile=st.sampled_from(["u1", "u2", None]))
    def configure(self, policy: PermissionPolicy, profile: str | None = "u1") -> None:
        event = ev.Configured(AT, self.fresh("hash"), policy, self.fresh("x"), 1.0, profile)
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

    @rule(for_good=st.booleans())
    def stop(self, for_good: bool) -> None:
        waiting = [p.prompt_id for p in self.state.queue]
        reply = self.dispatch(ev.StopAsked(AT, self.fresh("o"), self.epoch, 1.0, for_good))
        if for_good and isinstance(reply, fx.OperationReply):
            self.cancelled.update(waiting)
            assert not self.state.queue, "nobody will come for them, and so they are told"

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
        reply = self.dispatch(ev.PromptAsked(AT, prompt_id, text(prompt_id)))
        assert isinstance(reply, fx.PromptReply)
        assert self.state == before, "the same prompt id only tells its fate"
        reply = self.dispatch(ev.PromptAsked(AT, prompt_id, text("another")))
        assert isinstance(reply, fx.Refused), "an id stands for one prompt"
        assert reply.code is Code.ID_REUSED
        assert self.state == before

    @rule()
    def cancel(self) -> None:
        self.dispatch(ev.CancelAsked(AT))

    @rule(data=st.data())
    @precondition(lambda self: self.accepted)
    def cancel_one(self, data: st.DataObject) -> None:
        prompt_id = data.draw(st.sampled_from(self.accepted))
        waits = prompt_id not in self.sent
        if waits:
            self.cancelled.add(prompt_id)
        reply = self.dispatch(ev.CancelAsked(AT, prompt_id))
        if waits:
            assert reply == fx.CancelReply(None, PromptFate.NOT_DELIVERED)

    @rule(
        kind=st.sampled_from(["mode", "config"]),
        offered=st.booleans(),
        room=st.booleans(),
    )
    def choose_setting(self, kind: Any, offered: bool, room: bool) -> None:
        name, value = ("", "b") if kind == "mode" else ("web", True)
        event = ev.SettingAsked(
            AT, self.fresh("o"), self.epoch, kind, name, value if offered else "never offered"
        )
        reply = self.dispatch(event, room=room)
        if not offered:
            assert isinstance(reply, fx.Refused), "only what is offered can be chosen"
        if isinstance(reply, fx.OperationReply) and event.operation_id in self.operations:
            before = self.state
            again = self.dispatch(event)
            assert isinstance(again, fx.OperationReply)
            assert self.state == before, "the same operation is not done again"

    @rule(option=st.sampled_from(["yes", "no", None, "never offered"]))
    @precondition(lambda self: self.state.permissions)
    def choose(self, option: str | None) -> None:
        permission = self.state.permissions[0]
        self.dispatch(ev.PermissionChosen(AT, permission.permission_id, option))

    @rule(data=st.data())
    @precondition(lambda self: self.state.permissions)
    def nobody_chooses_in_time(self, data: st.DataObject) -> None:
        permission = data.draw(st.sampled_from(self.state.permissions))
        key = permission.permission_id
        self.dispatch(ev.TimerFired(AT, ev.Timer.PERMISSION, key))
        left = {p.permission_id for p in self.state.permissions}
        assert key not in left, "refused when its time is over"
