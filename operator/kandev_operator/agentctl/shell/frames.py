"""The text frames of a viewer's socket, as bytes in and values out, and the other way round.

A frame that makes no sense is a value, too: the viewer hears of it, and its socket is closed once
there were too many. Nothing of a frame is ever quoted, since it may hold a token.
"""

from typing import Final

from pydantic import TypeAdapter, ValidationError

from kandev_operator.contract.errors import Code
from kandev_operator.contract.shell import Complaint, Control
from kandev_operator.contract.wire import Wire

MAX_TEXT_BYTES: Final = 16 * 1024
"""Longest text frame that is looked at; a token is the longest thing that one holds."""
MOST_COMPLAINTS: Final = 20
"""So many bad text frames are answered; with the next one the socket is closed."""

_CONTROL: Final[TypeAdapter[Control]] = TypeAdapter(Control)


def read(text: str) -> Control | Complaint:
    """What a viewer says, or what to answer it."""
    if len(text) > MAX_TEXT_BYTES:
        words = f"text frames end at {MAX_TEXT_BYTES} characters"
        return Complaint(code=Code.TOO_LARGE.value, message=words)
    try:
        return _CONTROL.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        words = f"the text frame does not fit: {first['type']}"
        return Complaint(code=Code.INVALID_REQUEST.value, message=words)


def write(notice: Wire) -> str:
    """A text frame to a viewer."""
    return notice.model_dump_json()
