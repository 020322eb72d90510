"""What this room asks of whoever knows what git ignores; it does not know git itself.

Paths are bytes, relative to the workspace. Whoever answers may know nothing (no git, no
repository): then nothing is ignored, and a search walks the folders.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Judge(Protocol):
    """Says of paths whether git ignores them; None: not known."""

    async def ignored(self, paths: Sequence[bytes]) -> frozenset[bytes] | None: ...


class Ignoring(Protocol):
    """Knows what git ignores in the workspace."""

    def judge(self) -> AbstractAsyncContextManager[Judge]:
        """Somebody to ask, for as long as one answer is made."""
        ...

    def candidates(self, folder: bytes) -> AsyncIterator[Sequence[bytes]]:
        """Files in a folder that are not ignored, in batches; a repository inside ends in a slash.

        Raises Refusal where that is not known.
        """
        ...
