"""A `session/update` of the agent: part of the live turn, or not ours to show.

While a conversation is being opened the agent replays its history: that is counted and dropped,
since the journal has it already. The same goes for updates when no turn is under way and for those
of sessions that are not the open one (agents run sub-agents). Some kinds say nothing about the
turn (commands, mode, usage): they describe the conversation, whenever they come, and are no sign
that a prompt arrived.
"""

from typing import Any, Final

from kandev_operator.agentctl.machine import messages, settings, tokens, turns
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.events import FaultSeen, TerminalEnded, UpdateCame
from kandev_operator.agentctl.machine.tables import OPEN
from kandev_operator.contract.status import AgentStatus

OF_THE_SESSION: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)


def came(draft: Draft, event: UpdateCame) -> None:
    """Take one update."""
    state = draft.state
    kind = event.update.get("sessionUpdate")
    if state.status is AgentStatus.OPENING:
        if kind in OF_THE_SESSION:
            settings.updated(draft, event.update)
        else:
            draft.set(replayed=state.replayed + 1)
        return
    if kind in OF_THE_SESSION and state.status in OPEN:
        _of_the_session(draft, event)
        return
    if state.turn is None or event.session_id != state.opened_token or kind in OF_THE_SESSION:
        draft.set(stray=state.stray + 1)
        return
    turns.arrived(draft)
    match kind:
        case "agent_message_chunk":
            messages.chunk(draft, "text", event.update)
        case "agent_thought_chunk":
            messages.chunk(draft, "thought", event.update)
        case "tool_call" | "tool_call_update":
            messages.tool_call(draft, event.update)
        case "plan":
            messages.plan(draft, event.update)
        case _:
            pass  # an echo of the prompt, or a kind of a later protocol


def _of_the_session(draft: Draft, event: UpdateCame) -> None:
    ours = event.session_id == draft.state.opened_token
    if event.update.get("sessionUpdate") == "session_info_update":
        _renamed(draft, event.update)
        ours = ours or event.session_id == draft.state.opened_token
    if ours:
        settings.updated(draft, event.update)
    else:
        draft.set(stray=draft.state.stray + 1)


def _renamed(draft: Draft, update: dict[str, Any]) -> None:
    """The agent itself says that it keeps this conversation under another id."""
    meta = update.get("_meta")
    value = meta.get("sessionId") if isinstance(meta, dict) else None
    state = draft.state
    if not isinstance(value, str) or not value.strip() or value == state.opened_token:
        return
    current = state.token
    if current is None or current.value != state.opened_token or len(value) > 64 * 1024:
        return
    draft.set(opened_token=value)
    tokens.adopt(draft, value, established=current.established, epoch=current.epoch)


def fault(draft: Draft, event: FaultSeen) -> None:
    """Something of the agent's was dropped; in a turn it is said in the conversation."""
    if draft.state.turn is not None:
        turns.arrived(draft)
        messages.fault(draft, event.text)


def terminal(draft: Draft, event: TerminalEnded) -> None:
    """A command that the agent had run is over: what it wrote last, and how it ended."""
    told = {
        "terminal_id": event.terminal_id,
        "output": event.output,
        "exit_code": event.code,
        "signal": event.signal,
    }
    messages.terminal(draft, event.terminal_id, told)
