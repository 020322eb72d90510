"""Text files of the workspace as an agent's client reads and writes them: whole, by absolute path.

The same ways as everybody's (beneath the root, by rename), without preconditions: the agent is
told what is there, and overwrites it as any editor would. Folders on the way are made.
"""

import os
from pathlib import Path

from kandev_operator.agentctl.beneath import Names, Root
from kandev_operator.agentctl.files.reading import read
from kandev_operator.agentctl.files.writing import Precondition, Writer
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code

TRIES = 3


class TextFiles:
    """The workspace's text files. Both calls raise Refusal."""

    def __init__(self, root: Root, pool: Pool, writer: Writer) -> None:
        self._root, self._pool, self._writer = root, pool, writer

    async def read(self, path: str) -> str:
        """The text of a file."""
        content = await self._pool.run(read, self._root, self._names(path), None)
        try:
            return content.data.decode()
        except UnicodeDecodeError:
            raise Refusal(Code.NOT_A_FILE, "it is not a text file in UTF-8") from None

    async def write(self, path: str, text: str) -> None:
        """Make the file, or replace its content."""
        await self._pool.run(self._put, self._names(path), text.encode("utf-8", "replace"))

    def _put(self, names: Names, data: bytes) -> None:
        if len(names) > 1:
            self._writer.make_folder(names[:-1], parents=True)
        for attempt in range(TRIES):
            # Replaced if it is there, made if it is not; somebody may come in between.
            try:
                self._writer.write(names, data, Precondition(None if attempt % 2 else "*"), None)
                return
            except Refusal as refusal:
                if refusal.code is not Code.PRECONDITION_FAILED or attempt == TRIES - 1:
                    raise

    def _names(self, path: str) -> Names:
        """The path's names beneath the workspace, however its own path is spelled."""
        if not os.path.isabs(path) or "\0" in path:
            raise Refusal(Code.INVALID_REQUEST, "paths are absolute")
        for folder in (self._root.workspace, Path(os.path.realpath(self._root.workspace))):
            begin = os.fspath(folder).rstrip("/") + "/"
            rest = os.fsencode(path.removeprefix(begin))
            names = tuple(n for n in rest.split(b"/") if n not in (b"", b"."))
            if path.startswith(begin) and names:
                return names
        raise Refusal(Code.OUTSIDE_WORKSPACE, "the path is not in the workspace")
