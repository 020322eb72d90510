"""Text of others, made harmless for a terminal.

What agents, agentctl and status say is data: it may hold escape sequences that would move the
cursor, rename the window or hide words, and marks that turn the direction of writing. Every text
that is printed goes through here first. Tabs and line ends stay; a line end of any kind is one.
"""

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r\n?|[\u2028\u2029\x85]")
_HARMFUL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SIGN: Final = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return _HARMFUL.sub(_SIGN, _LINE_END.sub("\n", text))


def one_line(text: str, limit: int = 200) -> str:
    """The same in one line, cut with a sign where it is longer than the limit."""
    joined = " ".join(plain(text).split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"
