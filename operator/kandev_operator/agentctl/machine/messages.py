"""What is said, as events: coalesced per message, bounded, in the order in which it was said.

Chunks of one message are gathered and told as one event every so often, when the speaker or kind
changes, or when enough came; an event with a known message id appends. Text is never cut, only
split; structured content (tool calls, plans, images) is trimmed to a bound, since an agent may
send anything. What an agent says is taken as data: nothing of it decides anything here.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import Arm
from kandev_operator.agentctl.machine.events import Timer
from kandev_operator.agentctl.machine.state import Speech
from kandev_operator.contract.events import EventKind

FLUSH_CHARS: Final = 16_000
EVENT_CHARS: Final = 64_000
"""Longest text of one event; longer texts are split."""
KEPT_CALLS: Final = 200
STRING_CHARS: Final = 4_000
CONTENT_CHARS: Final = 64_000
ITEMS: Final = 100
DEPTH: Final = 6
TRIMMED: Final = "[trimmed]"


def speak(draft: Draft, source: tuple[str, str, str], text: str) -> None:
    """Add text to the message being spoken, or begin a new one."""
    if not text:
        return
    speech = draft.state.speech
    if speech is None or speech.source != source:
        flush(draft)
        number = draft.state.messages_begun + 1
        speech = Speech(f"{draft.state.execution_id}-m{number}", source, "")
        draft.set(messages_begun=number)
    if not speech.text:
        draft.acts.append(Arm(Timer.FLUSH, speech.message_id))
    draft.set(speech=replace(speech, text=speech.text + text))
    if len(speech.text) + len(text) >= FLUSH_CHARS:
        _tell(draft)


def flush_due(draft: Draft, message_id: str) -> None:
    """The flush timer of this message fired; the message may still go on."""
    speech = draft.state.speech
    if speech is not None and speech.message_id == message_id:
        _tell(draft)


def flush(draft: Draft) -> None:
    """Tell what is left of the message being spoken, and end it."""
    if draft.state.speech is not None:
        _tell(draft)
        draft.set(speech=None)


def _tell(draft: Draft) -> None:
    speech = draft.state.speech
    if speech is None or not speech.text:
        return
    author, kind, _ = speech.source
    _texts(draft, speech.message_id, author, kind, speech.text)
    draft.set(speech=replace(speech, text="", told=speech.told + len(speech.text)))


def _texts(draft: Draft, message_id: str, author: str, kind: str, text: str) -> None:
    for start in range(0, len(text), EVENT_CHARS):
        part = text[start : start + EVENT_CHARS]
        _emit(draft, message_id, author, kind, {"text": part})


def _emit(draft: Draft, message_id: str, author: str, kind: str, body: Mapping[str, Any]) -> None:
    turn = draft.state.turn
    draft.emit(
        EventKind.MESSAGE,
        {
            "message_id": message_id,
            "author": author,
            "kind": kind,
            **body,
            "turn_id": turn.turn_id if turn else None,
        },
    )


def record_prompt(draft: Draft, prompt_id: str, content: tuple[dict[str, Any], ...]) -> None:
    """The user's words, as the turn begins in which the agent gets them."""
    flush(draft)
    texts = [b["text"] for b in content if isinstance(b.get("text"), str)]
    message_id = f"prompt-{prompt_id}"
    _texts(draft, message_id, "user", "text", "\n".join(texts))
    others = [_described(b) for b in content if not isinstance(b.get("text"), str)]
    if others:
        _emit(draft, message_id, "user", "attachments", {"content": {"blocks": others}})


def _described(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block that is not text, without its bytes."""
    shown = {k: v for k, v in block.items() if k in ("type", "mimeType", "name", "uri", "title")}
    data = block.get("data")
    if isinstance(data, str):
        shown["size"] = len(data)
    bounded: dict[str, Any] = trim(shown)
    return bounded


def chunk(draft: Draft, kind: str, update: Mapping[str, Any]) -> None:
    """An agent's message or thought chunk."""
    content = update.get("content")
    if not isinstance(content, Mapping):
        return
    own_id = update.get("messageId")
    source = ("agent", kind, own_id[:200] if isinstance(own_id, str) else "")
    text = content.get("text")
    if content.get("type") == "text" and isinstance(text, str):
        speak(draft, source, text)
        return
    flush(draft)
    number = draft.state.messages_begun + 1
    draft.set(messages_begun=number)
    message_id = f"{draft.state.execution_id}-m{number}"
    _emit(draft, message_id, "agent", "content", {"content": _described(content)})


def tool_call(draft: Draft, update: Mapping[str, Any]) -> None:
    """A tool call begins or changes; the event shows it whole, as it is now."""
    call_id = update.get("toolCallId")
    if not isinstance(call_id, str):
        return
    flush(draft)
    key = sha256(call_id.encode("utf-8", "replace")).hexdigest()[:16]
    fields = {k: trim(v) for k, v in update.items() if k not in ("sessionUpdate", "_meta")}
    calls = dict(draft.state.calls)
    merged = {**calls.pop(key, {}), **{k: v for k, v in fields.items() if v is not None}}
    calls[key] = merged
    draft.set(calls=tuple(calls.items())[-KEPT_CALLS:])
    turn = draft.state.turn
    message_id = f"{turn.turn_id if turn else draft.state.execution_id}-c{key}"
    _emit(draft, message_id, "agent", "tool_call", {"content": merged})


def plan(draft: Draft, update: Mapping[str, Any]) -> None:
    """The agent's plan, whole each time."""
    flush(draft)
    turn = draft.state.turn
    message_id = f"{turn.turn_id if turn else draft.state.execution_id}-plan"
    _emit(draft, message_id, "agent", "plan", {"content": {"entries": trim(update.get("entries"))}})


def usage(draft: Draft, told: dict[str, Any]) -> None:
    """How full the context is; each one replaces the one before."""
    _emit(draft, f"{draft.state.execution_id}-usage", "agent", "usage", {"content": told})


def terminal(draft: Draft, terminal_id: str, told: dict[str, Any]) -> None:
    """What became of a terminal that tool calls show by its id."""
    flush(draft)
    message_id = f"{draft.state.execution_id}-{terminal_id}"
    _emit(draft, message_id, "agent", "terminal", {"content": trim(told)})


def fault(draft: Draft, text: str) -> None:
    """Something was dropped: said in the conversation, by agentctl itself."""
    flush(draft)
    number = draft.state.messages_begun + 1
    draft.set(messages_begun=number)
    message_id = f"{draft.state.execution_id}-m{number}"
    _texts(draft, message_id, "agentctl", "fault", text[:STRING_CHARS])


def trim(value: Any) -> Any:
    """Bound a JSON value: long strings, long lists, deep nesting, and all of it together."""
    return _Trimmer().trim(value, DEPTH)


class _Trimmer:
    def __init__(self) -> None:
        self._left = CONTENT_CHARS

    def trim(self, value: Any, depth: int) -> Any:
        self._left -= 8
        if self._left <= 0:
            return TRIMMED
        match value:
            case str():
                kept = value[: min(STRING_CHARS, self._left)]
                self._left -= len(kept)
                return kept if len(kept) == len(value) else kept + TRIMMED
            case None | bool() | int() | float():
                return value
            case list() | tuple() if depth:
                kept_items = [self.trim(v, depth - 1) for v in value[:ITEMS]]
                return kept_items if len(value) <= ITEMS else [*kept_items, TRIMMED]
            case dict() if depth:
                items = list(value.items())[:ITEMS]
                return {str(k)[:200]: self.trim(v, depth - 1) for k, v in items}
            case _:
                return TRIMMED
