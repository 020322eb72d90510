"""Messages out of events, and the holes between events. Pure.

Text is appended in the order of the journal, structured content replaces what was there: so a
message is the same whoever builds it, and from however many pieces. Numbers of a journal follow
each other; where they do not, something is kept nowhere, and that is told at its place, as the
same gap event whoever looks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.store.rows import fit
from kandev_operator.gateway.wire.messages import Message

Key = tuple[str, str]
"""A message: its journal and id."""


def key_of(event: Event) -> Key | None:
    """The message that an event is part of, if it can be shown as one."""
    if event.kind is not EventKind.MESSAGE:
        return None
    named, data = event.data.get("message_id"), event.data
    shown = isinstance(data.get("text"), str) or isinstance(data.get("content"), dict)
    return (event.journal_id, fit(named)) if isinstance(named, str) and named and shown else None


def text_of(event: Event) -> str:
    """What it appends to its message."""
    text = event.data.get("text")
    return text if isinstance(text, str) else ""


@dataclass(slots=True)
class _Draft:
    first: Event
    last_seq: int
    texts: list[str] = field(default_factory=list)
    content: dict[str, Any] | None = None


class Assembler:
    """Collects events, oldest first; any of them may be left out that adds nothing any more."""

    def __init__(self) -> None:
        self._drafts: dict[Key, _Draft] = {}

    def add(self, event: Event) -> None:
        """One more event; what is no part of a message changes nothing."""
        key = key_of(event)
        if key is None:
            return
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(event, event.seq)
        draft.last_seq = max(draft.last_seq, event.seq)
        if text := text_of(event):
            draft.texts.append(text)
        content = event.data.get("content")
        if isinstance(content, dict):
            draft.content = content

    def extend(self, events: Iterable[Event]) -> None:
        """Several, oldest first."""
        for event in events:
            self.add(event)

    def reaches(self, key: Key, last_seq: int) -> None:
        """The message's newest event, where that one was not given in."""
        draft = self._drafts.get(key)
        if draft is not None:
            draft.last_seq = max(draft.last_seq, last_seq)

    def messages(self) -> list[Message]:
        """All of them, in the order in which each began."""
        return [_message(key, draft) for key, draft in self._drafts.items()]


def _message(key: Key, draft: _Draft) -> Message:
    first = draft.first
    return Message(
        message_id=key[1],
        journal_id=key[0],
        seq=first.seq,
        last_seq=draft.last_seq,
        author=_word(first.data, "author"),
        kind=_word(first.data, "kind"),
        turn_id=_word(first.data, "turn_id") or None,
        execution_id=first.execution_id,
        at=first.at,
        text="".join(draft.texts),
        content=draft.content,
    )


def _word(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) else ""


def missing_before(event: Event, after: int) -> Event | None:
    """The gap between number `after` of a journal and this event of it; None where there is none.

    A gap event that agentctl has written itself tells of what it lost.
    """
    start = after + 1
    if event.kind is EventKind.GAP and event.data.get("from_seq") == start:
        return None
    return gap(event, start, event.seq - 1) if start < event.seq else None


def is_told_to_us(event: Event) -> bool:
    """Whether a gap was told to this reader, and is not in the journal itself."""
    return event.kind is EventKind.GAP and event.data.get("to_seq") != event.seq - 1


def gap(beside: Event, start: int, end: int) -> Event:
    """What tells that these numbers of a journal are kept nowhere."""
    return Event(
        journal_id=beside.journal_id,
        seq=end,
        kind=EventKind.GAP,
        at=beside.at,
        session_id=beside.session_id,
        data={"from_seq": start, "to_seq": end},
    )


def at_offset(event: Event, offset: int | None) -> Event:
    """The same event, saying how many characters of its message come before its text."""
    if offset is None or not isinstance(event.data.get("text"), str):
        return event
    return event.model_copy(update={"data": {**event.data, "offset": offset}})
