"""Names as git quotes them where it prints lines: "a\\tb\\303\\251" in double quotes. Pure."""

import re
from typing import Final

ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
LETTERS: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}


def unquoted(token: bytes) -> bytes:
    """The bytes of a name that may be quoted."""
    if not (len(token) >= 2 and token.startswith(b'"') and token.endswith(b'"')):
        return token
    return ESCAPE.sub(_meaning, token[1:-1])


def prefixed(prefix: bytes, token: bytes) -> bytes:
    """The token of a name with something before it, inside the quotes if there are any."""
    return b'"' + prefix + token[1:] if token.startswith(b'"') else prefix + token


def _meaning(found: "re.Match[bytes]") -> bytes:
    text = found[1]
    return LETTERS.get(text, text) if len(text) == 1 else bytes([int(text, 8) & 0xFF])
