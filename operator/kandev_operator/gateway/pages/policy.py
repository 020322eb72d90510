"""What a browser may do with a page of ours: load our own files, use our own socket, nothing else.

No script stands in a page, and no style: `style-src` has a nonce because the terminal makes style
elements of its own, and the page's script signs those. A page of anybody else's cannot frame ours,
and does not learn our addresses.
"""

import secrets
from typing import Final

_RULES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'nonce-{nonce}'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)


def fresh_nonce() -> str:
    """For one answer, never to be guessed."""
    return secrets.token_urlsafe(18)


def headers(nonce: str) -> dict[str, str]:
    """The headers of a page."""
    return {
        "Content-Security-Policy": "; ".join(_RULES).format(nonce=nonce),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
