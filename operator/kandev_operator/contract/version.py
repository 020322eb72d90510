"""The contract's version and the one rule of compatibility.

An agentctl says its version in `/health`; a caller talks to it only when the major part is its own.
"""

from typing import Final

CONTRACT_VERSION: Final = "1.0"


def is_compatible(theirs: str) -> bool:
    """Tell whether an agentctl that speaks `theirs` ("MAJOR.MINOR") can be talked to."""
    return theirs.split(".", 1)[0] == CONTRACT_VERSION.split(".", 1)[0]
