"""What git ignores, for whoever lists files: asked of git itself, in a process of its own.

Patterns of a repository can be made to take for ever to match; git can be ended, a thread of ours
could not. Where git is missing, or there is no repository, or it stops answering, nothing is known.
What a pattern matches is looked up in the index then: a tracked file is not ignored, and no folder
that holds one is.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from kandev_operator.agentctl.git.repository import Options, Repositories, Repository
from kandev_operator.agentctl.git.run import Running
from kandev_operator.agentctl.git.tracked import Tracked
from kandev_operator.agentctl.refusal import Refusal

ASKING_SECONDS: Final = 10.0
FIELDS: Final = 4
"""Of a record of check-ignore: source, line, pattern, path."""
BATCH: Final = 500
HERE: Final = b"./"
"""Before each path, so that none is read as a pattern: check-ignore takes no literal pathspecs."""


class NobodyToAsk:
    """Where git knows nothing."""

    async def ignored(self, paths: Sequence[bytes]) -> frozenset[bytes] | None:
        return None


class Asked:
    """A `git check-ignore` that answers path by path, and the index behind it."""

    def __init__(self, process: Running, repository: Repository, tracked: Tracked) -> None:
        self._process, self._repository, self._tracked = process, repository, tracked
        self._rest = b""
        self._lost = False

    async def ignored(self, paths: Sequence[bytes]) -> frozenset[bytes] | None:
        if self._lost or not paths:
            return None if self._lost else frozenset()
        try:
            async with asyncio.timeout(ASKING_SECONDS), asyncio.TaskGroup() as group:
                group.create_task(self._tell(paths))
                answers = group.create_task(self._hear(len(paths)))
            matched = answers.result()
            if not matched:
                return matched
            async with asyncio.timeout(ASKING_SECONDS):
                return matched - await self._tracked.among(self._repository, sorted(matched))
        except (TimeoutError, ExceptionGroup, Refusal):
            self._lost = True
            return None

    async def _tell(self, paths: Sequence[bytes]) -> None:
        for start in range(0, len(paths), BATCH):
            part = b"".join(HERE + path + b"\0" for path in paths[start : start + BATCH])
            await self._process.stdin.write(part)

    async def _hear(self, count: int) -> frozenset[bytes]:
        fields: list[bytes] = []
        while len(fields) < count * FIELDS:
            data = await self._process.stdout.read(64 * 1024)
            if not data:
                raise EOFError
            *whole, self._rest = (self._rest + data).split(b"\0")
            fields += whole
        found = set()
        for at in range(0, count * FIELDS, FIELDS):
            _, _, pattern, path = fields[at : at + FIELDS]
            if pattern and not pattern.startswith(b"!"):
                found.add(path.removeprefix(HERE))
        return frozenset(found)


class Ignores:
    """What git ignores in the workspace, asked of the repository that a folder is in."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._tracked = Tracked()

    @asynccontextmanager
    async def judge(self) -> AsyncIterator[Asked | NobodyToAsk]:
        """Somebody to ask, for as long as the block lasts."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                repository = await stack.enter_async_context(self._repositories.open(()))
                process = await stack.enter_async_context(
                    repository.streaming(
                        *("check-ignore", "--stdin", "-z", "--verbose", "--non-matching"),
                        "--no-index",
                        options=Options(seconds=60.0, extra={"GIT_LITERAL_PATHSPECS": "0"}),
                    )
                )
                asked: Asked | NobodyToAsk = Asked(process, repository, self._tracked)
            except Refusal:
                asked = NobodyToAsk()
            yield asked

    async def candidates(self, folder: bytes) -> AsyncIterator[Sequence[bytes]]:
        """Files in a folder that are not ignored, in batches, tracked ones among them.

        A repository inside is told as its folder, with a slash at the end: git does not look into
        it. Raises Refusal where git knows nothing.
        """
        names = tuple(folder.split(b"/")) if folder else ()
        home = await self._repositories.nearest(names)
        before = b"".join(name + b"/" for name in home)
        inside = b"/".join(names[len(home) :])
        async with self._repositories.open(home) as repository:
            links = await _links(repository)
            async with repository.streaming(
                *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"),
                *(("--", inside.decode("utf-8", "surrogateescape")) if inside else ()),
            ) as process:
                process.stdin.close()
                rest = b""
                async for data in process.chunks():
                    *paths, rest = (rest + data).split(b"\0")
                    yield [before + (path + b"/" if path in links else path) for path in paths]
                code, err = await process.wait()
                if code:
                    raise repository.refusal(err)


async def _links(repository: Repository) -> frozenset[bytes]:
    """The folders of submodules."""
    done = await repository.tried(
        "ls-files", "-z", "--stage", "--", ".gitmodules", options=Options()
    )
    if not done.out:
        return frozenset()
    staged = await repository.git("ls-files", "-z", "--stage")
    records = (record.partition(b"\t") for record in staged.split(b"\0"))
    return frozenset(path for head, _, path in records if head.startswith(b"160000 "))
