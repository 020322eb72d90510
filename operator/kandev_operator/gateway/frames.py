"""Frames as text: the envelope around a payload that is JSON already, and may be sent to many.

Pure but for the counter and clock that it is given.
"""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from pydantic import ValidationError

from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.wire.envelope import ErrorBody, ErrorCode, Frame, FrameType


def payload_of(model: Wire) -> str:
    """A payload as JSON; what is not known is left out."""
    return model.model_dump_json(exclude_none=True)


class Frames:
    """Writes frames. `now` gives RFC 3339."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._numbers = count(1)

    def notification(self, action: str, payload: str) -> str:
        """What nobody asked for."""
        return self._frame(f"n{next(self._numbers)}", FrameType.NOTIFICATION, action, payload)

    def response(self, request: Frame, payload: dict[str, Any]) -> str:
        """The answer to a request."""
        body = json.dumps(payload)  # escaped: a name on disk may hold what is no UTF-8
        return self._frame(request.id, FrameType.RESPONSE, request.action, body)

    def error(self, request: Frame | None, body: ErrorBody) -> str:
        """The refusal of a request, or of what is none."""
        asked = request or Frame(id="?", type=FrameType.ERROR, action="?")
        return self._frame(asked.id, FrameType.ERROR, asked.action, payload_of(body))

    def _frame(self, id_: str, type_: FrameType, action: str, payload: str) -> str:
        head = json.dumps({"id": id_, "type": type_.value, "action": action}, ensure_ascii=False)
        return f'{head[:-1]}, "timestamp": "{self._now()}", "payload": {payload}}}'


def request_of(text: str) -> Frame:
    """A request out of what a client sent. Raises Refusal `invalid_frame`."""
    try:
        frame = Frame.model_validate_json(text)
    except ValidationError:
        words = "a frame is a JSON object {id, type, action, payload}"
        raise Refusal(ErrorCode.INVALID_FRAME, words) from None
    if frame.type is not FrameType.REQUEST:
        words = f"clients send frames of type request, not {frame.type.value}"
        raise Refusal(ErrorCode.INVALID_FRAME, words)
    return frame
