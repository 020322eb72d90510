"""A machine played by hand: one event after the other, and what came of the last one."""

from typing import Any

from kandev_operator.agentctl.machine import State, step
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import AgentStatus, Capabilities, Failure

AT = "2026-01-01T00:00:00.000Z"
HELLO = ({"type": "text", "text": "hello"},)
FAILURE = Failure(code="agent_error", message="no")


class Play:
    """A state, and what came of the last event."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or State(session_id="s")
        self.stores: tuple[fx.Store, ...] = ()
        self.acts: tuple[fx.Act, ...] = ()

    def on(self, event: ev.Event) -> Any:
        outcome = step(self.state, event)
        self.state, self.stores, self.acts = outcome.state, outcome.stores, outcome.acts
        return outcome.reply

    def configured(
        self, policy: PermissionPolicy = PermissionPolicy.ASK, timeout: float | None = None
    ) -> "Play":
        self.on(ev.Configured(AT, "h1", policy, "x1", timeout))
        return self

    def initialized(self, execution: str = "x1", **can: Any) -> "Play":
        self.on(ev.Initialized(AT, execution, Capabilities(load_session=True, **can)))
        return self

    def start(self, mode: Any = "new", operation: str = "o1", epoch: int = 1, **more: Any) -> Any:
        event = ev.StartAsked(AT, operation, mode, epoch, 9.0, f"x-{operation}", **more)
        return self.on(event)

    def open(
        self, token: str = "t1", answer: dict[str, Any] | None = None, **policy: Any
    ) -> "Play":
        self.configured(**policy).initialized().start()
        self.on(ev.Opened(AT, "x1", "o1", "session/new", token, answer or {}))
        assert self.state.status is AgentStatus.IDLE
        return self

    def prompt(self, prompt_id: str = "p1", *content: dict[str, Any]) -> Any:
        return self.on(ev.PromptAsked(AT, prompt_id, content or HELLO))

    def says(self, words: str, kind: str = "agent_message_chunk", session: str = "t1") -> None:
        told = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
        self.on(ev.UpdateCame(AT, self.state.execution_id or "", session, told))

    def appended(self, kind: EventKind) -> list[dict[str, Any]]:
        return [s.data for s in self.stores if isinstance(s, fx.Append) and s.kind is kind]

    def fate(self, prompt_id: str = "p1") -> PromptFate:
        return next(p.fate for p in self.state.prompts if p.prompt_id == prompt_id)
