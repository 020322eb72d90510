"""Who may call what: the claims of a caller's token (JWT, EdDSA) and their scopes.

The audience is the executor's UID (or `remote.audience`), so a token for one executor is useless
at another. Calls of scope `control` carry the leader's `term` and the session's `epoch`; agentctl
remembers the highest of each and refuses lower ones, so a leader that lost its Lease cannot act.
Times are seconds since the epoch, as RFC 7519 says.
"""

from enum import StrEnum
from typing import Final

from kandev_operator.contract.wire import Wire

ALGORITHM: Final = "EdDSA"
ISSUER_OPERATOR: Final = "kandev-operator"
LEEWAY_SECONDS: Final = 300
"""Clocks may differ by this much; a larger skew is named as `clock_skew`, not as a bad token."""


class Scope(StrEnum):
    """What a token allows. A signing key has scopes of its own that bound every token it signs."""

    READ = "read"
    """Health, capabilities, status without the resume token, events, permissions."""
    PROMPT = "prompt"
    """Prompt, cancel, answer permissions."""
    FILES = "files"
    """Files and git of the workspace."""
    SHELL = "shell"
    """Terminals in the workspace."""
    CONTROL = "control"
    """Configure, start, stop; sees the resume token. The operator's alone."""


class Claims(Wire):
    """The payload of a caller's token."""

    iss: str
    aud: str
    iat: int
    exp: int
    scopes: tuple[Scope, ...]
    session: str | None = None
    """UID of the session the call is about; absent before an executor has one."""
    term: int | None = None
    epoch: int | None = None
