"""Events of a conversation, as pieces of text for a reader.

Pure: an event goes in, the pieces it adds come out. A message that is told in several events is
one message with several pieces; a tool call is said when it begins and when it has ended, in one
line each; states of the process are left out unless they cut something off. What an event holds
was written by an agent: shapes are checked, nothing is believed, and nothing is made plain here
(the screen does that to everything).
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kandev_operator.cli.plain import one_line
from kandev_operator.contract.events import Event, EventKind

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_CALLS_KEPT: Final = 500


class Voice(StrEnum):
    """Whose words a piece is."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL = "tool"
    PLAN = "plan"
    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of one voice. Not `begins`: they go on with the message before."""

    voice: Voice
    text: str
    at: str
    begins: bool = True
    turn_id: str | None = None


class Transcript:
    """Follows one conversation, event by event."""

    def __init__(self) -> None:
        self._message: tuple[str, Voice] | None = None
        self._calls: OrderedDict[str, str] = OrderedDict()

    def pieces(self, event: Event) -> tuple[Piece, ...]:
        """What this event adds for a reader; often nothing."""
        if event.kind is EventKind.MESSAGE:
            return self._said(event)
        told = _beside(event)
        if told is None:
            return ()
        self._message = None
        voice, text = told
        return (Piece(voice, text, event.at, turn_id=turn_of(event)),)

    def _said(self, event: Event) -> tuple[Piece, ...]:
        data = event.data
        message_id, kind = _text(data, "message_id"), _text(data, "kind")
        text = data.get("text")
        if isinstance(text, str):
            voice = _voice(_text(data, "author"), kind)
            begins = self._message != (message_id, voice)
            self._message = (message_id, voice)
            return (Piece(voice, text, event.at, begins, turn_of(event)),)
        self._message = None
        content = data.get("content")
        content = content if isinstance(content, dict) else {}
        line = self._line(message_id, kind, content)
        if line is None:
            return ()
        voice = {"tool_call": Voice.TOOL, "plan": Voice.PLAN}.get(
            kind, _voice(_text(data, "author"), kind)
        )
        return (Piece(voice, line, event.at, turn_id=turn_of(event)),)

    def _line(self, message_id: str, kind: str, content: dict[str, Any]) -> str | None:
        if kind == "tool_call":
            status = _text(content, "status") or "pending"
            before = self._calls.pop(message_id, None)
            self._calls[message_id] = status
            if len(self._calls) > _CALLS_KEPT:
                self._calls.popitem(last=False)
            news = before is None or (status in _ENDED and status != before)
            return _call(content, status) if news else None
        if kind == "plan":
            return _plan(content)
        return _attachments(kind, content)


def turn_of(event: Event) -> str | None:
    """The turn that an event belongs to, where it says so."""
    data = event.data
    for holder in (data, data.get("turn"), data.get("permission")):
        if isinstance(holder, dict) and isinstance(found := holder.get("turn_id"), str):
            return found
    return None


def _voice(author: str, kind: str) -> Voice:
    if author == "user":
        return Voice.USER
    if author == "agentctl":
        return Voice.WARNING
    return Voice.THOUGHT if kind == "thought" else Voice.AGENT


def _call(content: dict[str, Any], status: str) -> str:
    title = one_line(_text(content, "title") or "a tool call")
    kind = one_line(_text(content, "kind"), 40)
    return f"{title}{f' [{kind}]' if kind else ''} {one_line(status, 40)}"


def _plan(content: dict[str, Any]) -> str:
    steps = _dicts(content.get("entries"))
    done = sum(_text(each, "status") == "completed" for each in steps)
    now = [_text(each, "content") for each in steps if _text(each, "status") == "in_progress"]
    return f"{done} of {len(steps)} steps done" + (f"; now: {one_line(now[0])}" if now else "")


def _attachments(kind: str, content: dict[str, Any]) -> str:
    said = []
    for block in _dicts(content.get("blocks"))[:20] or [content]:
        words = [_text(block, name) for name in ("type", "name", "title", "mimeType", "uri")]
        said.append(f"[{one_line(' '.join(word for word in words if word) or kind)}]")
    return " ".join(said) or f"[{one_line(kind)}]"


def _beside(event: Event) -> tuple[Voice, str] | None:
    """What is worth a line although nobody said it."""
    data = event.data
    match event.kind:
        case EventKind.GAP:
            return Voice.WARNING, gap_words(data)
        case EventKind.TURN_ENDED:
            return _turn_ended(data.get("turn"))
        case EventKind.OPERATION:
            return _operation(data.get("operation"))
        case EventKind.PERMISSION_REQUESTED:
            asked = data.get("permission")
            asked = asked if isinstance(asked, dict) else {}
            title, name = one_line(_text(asked, "title")), one_line(_text(asked, "permission_id"))
            return Voice.NOTE, f"asks for permission: {title} (request {name})"
        case EventKind.PERMISSION_RESOLVED:
            chosen = one_line(_text(data, "option_id"))
            by = one_line(_text(data, "by"))
            return Voice.NOTE, f"permission answered: {chosen or 'cancelled'} (by {by})"
        case EventKind.AGENT if _text(data, "status") == "exited":
            return Voice.WARNING, f"the agent's process ended{_how(data.get('exit'))}"
        case _:
            return None


def gap_words(data: dict[str, Any]) -> str:
    """What a gap event means to a reader."""
    start, end = data.get("from_seq"), data.get("to_seq")
    if isinstance(start, int) and isinstance(end, int) and start <= end:
        return f"events {start} to {end} are missing: they are not kept any more"
    return "the journal is another one from here on; what follows is all that it has"


def _turn_ended(turn: Any) -> tuple[Voice, str] | None:
    told = turn if isinstance(turn, dict) else {}
    outcome = _text(told, "outcome")
    if outcome in ("completed", ""):
        return None
    failure = told.get("failure")
    why = _text(failure, "message") if isinstance(failure, dict) else ""
    words = {
        "cancelled": "the turn was cancelled",
        "interrupted": "the turn was cut off: the agent's process died",
        "failed": "the turn failed",
    }.get(outcome, f"the turn ended: {one_line(outcome)}")
    return Voice.WARNING, f"{words}{f': {one_line(why, 500)}' if why else ''}"


def _operation(told: Any) -> tuple[Voice, str] | None:
    """Where another process of the agent went on, or began anew."""
    done = told if isinstance(told, dict) else {}
    state, resumes = _text(done, "state"), _text(done, "mode") == "resume"
    if _text(done, "kind") != "start" or state not in ("succeeded", "failed"):
        return None
    if state == "failed":
        failure = done.get("failure")
        why = _text(failure, "message") if isinstance(failure, dict) else ""
        what = "resuming the conversation" if resumes else "starting a conversation"
        return Voice.WARNING, f"{what} failed{f': {one_line(why, 500)}' if why else ''}"
    if done.get("token_replaced") is True:
        return Voice.WARNING, (
            "the agent answered the resume with another conversation: it does not know what was "
            "said before"
        )
    if resumes:
        return Voice.NOTE, "the conversation was resumed: the agent's new process knows it"
    return Voice.NOTE, "a new conversation begins: the agent knows nothing of an earlier one"


def _how(told: Any) -> str:
    exit_ = told if isinstance(told, dict) else {}
    code, name = exit_.get("code"), exit_.get("signal")
    if name is not None:
        return f" by signal {one_line(str(name), 40)}"
    return f" with code {code}" if isinstance(code, int) else ""


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
