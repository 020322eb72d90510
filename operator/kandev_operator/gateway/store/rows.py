"""An event as rows, and rows as events. Pure.

What becomes a column of its own is bounded and made fit for any database; the whole of it stays
in `data`. A message is found by its journal and id; what is unfit to be shown as a message (no id,
neither text nor content) is kept like any other event.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.contract.events import Event, EventKind

ID_CHARS: Final = 255
_AT_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One event, as its table has it but for the journal's key."""

    seq: int
    kind: str
    at: str
    execution_id: str | None
    message_id: str | None
    chars: int
    size: int
    data: str
    has_content: bool


@dataclass(frozen=True, slots=True)
class Span:
    """Where a message lies, as far as some rows tell. Two of them join by minimum and maximum."""

    message_id: str
    first_seq: int
    last_seq: int
    content_seq: int


def row_of(event: Event) -> Row:
    """What is kept of an event."""
    data = json.dumps(event.data, separators=(",", ":"))
    message_id, chars, has_content = None, 0, False
    if event.kind is EventKind.MESSAGE:
        named, text = event.data.get("message_id"), event.data.get("text")
        has_content = isinstance(event.data.get("content"), dict)
        chars = len(text) if isinstance(text, str) else 0
        if isinstance(named, str) and named and (has_content or isinstance(text, str)):
            message_id = fit(named)
    return Row(
        seq=event.seq,
        kind=event.kind.value,
        at=fit(event.at, _AT_CHARS),
        execution_id=None if event.execution_id is None else fit(event.execution_id),
        message_id=message_id,
        chars=chars if message_id is not None else 0,
        size=len(data),
        data=data,
        has_content=has_content and message_id is not None,
    )


def spans(rows: Iterable[Row]) -> list[Span]:
    """Where the messages of these rows lie, by id."""
    found: dict[str, Span] = {}
    for row in rows:
        if row.message_id is None:
            continue
        before = found.get(row.message_id)
        found[row.message_id] = Span(
            row.message_id,
            min(row.seq, before.first_seq if before else row.seq),
            max(row.seq, before.last_seq if before else row.seq),
            max(row.seq if row.has_content else 0, before.content_seq if before else 0),
        )
    return [found[message_id] for message_id in sorted(found)]


def fit(text: str, limit: int = ID_CHARS) -> str:
    """A text that every database takes: without NUL and half characters, and not too long."""
    whole = text[:limit].replace("\0", "\ufffd")
    return whole.encode("utf-8", "replace").decode()


def event_of(session_uid: str, journal_id: str, row: Any) -> Event:
    """The event that a row of the table keeps; `row` gives its columns by name."""
    return Event(
        journal_id=journal_id,
        seq=row["seq"],
        kind=EventKind(row["kind"]),
        at=row["at"],
        session_id=session_uid,
        execution_id=row["execution_id"],
        data=json.loads(row["data"]),
    )
