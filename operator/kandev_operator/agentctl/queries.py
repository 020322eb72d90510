"""Reading a call's query: paths, numbers, yes and no. What does not fit is refused, unquoted."""

import re
from collections.abc import Mapping
from typing import Final

from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import decode_path, split_path

TRUE, FALSE = ("true", "1"), ("false", "0", "")
MAX_TEXT: Final = 255


def path(text: str) -> tuple[bytes, ...]:
    """The names in a path as it is spelled on the wire."""
    try:
        return split_path(decode_path(text))
    except ValueError as exc:
        raise Refusal(Code.INVALID_REQUEST, str(exc)) from None


def path_in(query: Mapping[str, str], name: str = "path") -> tuple[bytes, ...]:
    """A path in the query; the workspace where it is left out."""
    return path(query.get(name, ""))


def number_in(query: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """A whole number in the query."""
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise Refusal(Code.INVALID_REQUEST, f"`{name}` is a number from {least} to {most}")
    return int(text)


def flag_in(query: Mapping[str, str], name: str) -> bool:
    """A yes or no in the query; no where it is left out."""
    text = query.get(name, "").lower()
    if text not in TRUE + FALSE:
        raise Refusal(Code.INVALID_REQUEST, f"`{name}` is true or false")
    return text in TRUE


def text_in(query: Mapping[str, str], name: str, pattern: str) -> str | None:
    """A short text in the query that fits a pattern of the contract; None where it is left out."""
    text = query.get(name, "")
    if not text:
        return None
    if len(text) > MAX_TEXT or not re.fullmatch(pattern, text):
        raise Refusal(Code.INVALID_REQUEST, f"`{name}` is not one")
    return text
