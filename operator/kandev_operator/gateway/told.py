"""An event of agentctl's journal as the notification that subscribers get of it. Pure.

What is not for people (tokens, capabilities, operations) becomes none. The peer is not trusted: a
field of another type than the contract's is left out, and nothing here fails.
"""

from kandev_operator.contract.events import Event, EventKind, cursor
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.wire.messages import LiveWords, MessageChange, Missing
from kandev_operator.gateway.wire.notices import (
    Notice,
    PermissionNotice,
    PermissionOption,
    TurnNotice,
)

Told = tuple[Notice, Wire]
_CHARS = 4_000


def told(event: Event, session_id: str, task_id: str) -> Told | None:
    """The notification for an event that is kept."""
    data = event.data
    match event.kind:
        case EventKind.MESSAGE:
            return _message(event, session_id, task_id)
        case EventKind.GAP:
            gap = Missing(
                session_id=session_id,
                task_id=task_id,
                journal_id=event.journal_id,
                from_seq=_int(data.get("from_seq")),
                to_seq=_int(data.get("to_seq")),
            )
            return Notice.MESSAGE_GAP, gap
        case EventKind.PERMISSION_REQUESTED:
            return Notice.PERMISSION_REQUESTED, _permission(event, session_id, task_id)
        case EventKind.PERMISSION_RESOLVED:
            resolved = PermissionNotice(
                session_id=session_id,
                task_id=task_id,
                cursor=cursor(event.journal_id, event.seq),
                permission_id=_text(data.get("permission_id")),
                turn_id=_some(data.get("turn_id")),
                option_id=_some(data.get("option_id")),
                by=_some(data.get("by")),
            )
            return Notice.PERMISSION_RESOLVED, resolved
        case EventKind.TURN_STARTED | EventKind.TURN_ENDED | EventKind.PROMPT:
            return Notice.TURN, _turn(event, session_id, task_id)
        case _:
            return None


def live(event: Event, session_id: str, task_id: str) -> LiveWords:
    """Words that are not kept yet."""
    data = event.data
    return LiveWords(
        session_id=session_id,
        task_id=task_id,
        message_id=_text(data.get("message_id")),
        author=_text(data.get("author")),
        kind=_text(data.get("kind")),
        turn_id=_some(data.get("turn_id")),
        offset=_int(data.get("offset")),
        text=_long(data.get("text")),
    )


def _message(event: Event, session_id: str, task_id: str) -> Told:
    data = event.data
    content = data.get("content")
    offset = _int(data.get("offset"))
    change = MessageChange(
        session_id=session_id,
        task_id=task_id,
        cursor=cursor(event.journal_id, event.seq),
        message_id=_text(data.get("message_id")),
        journal_id=event.journal_id,
        seq=event.seq,
        author=_text(data.get("author")),
        kind=_text(data.get("kind")),
        turn_id=_some(data.get("turn_id")),
        execution_id=event.execution_id,
        at=event.at,
        offset=offset,
        text=_long(data.get("text")),
        content=content if isinstance(content, dict) else None,
    )
    return (Notice.MESSAGE_UPDATED if offset else Notice.MESSAGE_ADDED), change


def _permission(event: Event, session_id: str, task_id: str) -> PermissionNotice:
    asked = event.data.get("permission")
    asked = asked if isinstance(asked, dict) else {}
    listed = asked.get("options")
    options = (
        [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    )
    return PermissionNotice(
        session_id=session_id,
        task_id=task_id,
        cursor=cursor(event.journal_id, event.seq),
        permission_id=_text(asked.get("permission_id")),
        turn_id=_some(asked.get("turn_id")),
        title=_text(asked.get("title")),
        tool_kind=_some(asked.get("tool_kind")),
        options=tuple(
            PermissionOption(
                option_id=_text(each.get("option_id")),
                name=_text(each.get("name")),
                kind=_text(each.get("kind")),
            )
            for each in options
        ),
        requested_at=_some(asked.get("requested_at")),
    )


def _turn(event: Event, session_id: str, task_id: str) -> TurnNotice:
    data = event.data
    turn = data.get("turn")
    turn = turn if isinstance(turn, dict) else data
    what = {EventKind.TURN_STARTED: "started", EventKind.TURN_ENDED: "ended"}
    return TurnNotice(
        session_id=session_id,
        task_id=task_id,
        cursor=cursor(event.journal_id, event.seq),
        what=what.get(event.kind, "prompt"),
        turn_id=_some(turn.get("turn_id")),
        prompt_id=_some(turn.get("prompt_id")),
        outcome=_some(turn.get("outcome")),
        stop_reason=_some(turn.get("stop_reason")),
        fate=_some(data.get("fate")),
        reason=_some(data.get("reason")),
    )


def _text(value: object) -> str:
    return value[:_CHARS] if isinstance(value, str) else ""


def _long(value: object) -> str:
    return value if isinstance(value, str) else ""


def _some(value: object) -> str | None:
    return value[:_CHARS] if isinstance(value, str) else None


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
