"""Finding a repository in the workspace, and calling git in it with everything switched off.

The folder is resolved beneath the workspace and held open; git runs in that folder and looks for
its `.git` nowhere else. The repository's configuration is read first, since what it could name to
be run is switched off by name (`guard`).
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from kandev_operator.agentctl.beneath import Names, Root, told
from kandev_operator.agentctl.git import environment, guard, words
from kandev_operator.agentctl.git.run import MAX_OUTPUT, SECONDS, Call, Done, Running, run, running
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.redaction import HIDDEN
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import encode_path

Hide = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Options:
    """What one call is allowed beyond reading."""

    writes: bool = False
    hooks: bool = False
    protocols: str = ""
    settings: environment.Settings = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    seconds: float = SECONDS


READS: Final = Options()
WRITES: Final = Options(writes=True)


class Repository:
    """One repository, its folder held open. Made by `Repositories.open`."""

    def __init__(self, names: Names, folder: int, real: str, own: Mapping[str, str], hide: Hide):
        self.names, self._folder, self._real = names, folder, real
        self._own, self._hide = own, hide
        self.configuration: tuple[guard.Setting, ...] = ()
        self.git_dir = b""
        self.shallow = False

    def keep_secret(self, secret: str) -> None:
        """Hide one more word in whatever git says."""
        hide = self._hide
        self._hide = lambda text: hide(text.replace(secret, HIDDEN))

    @property
    def wire(self) -> str:
        return encode_path(b"/".join(self.names))

    async def learn(self) -> None:
        """Read the configuration; refuses a folder that is no repository."""
        done = await run(
            self._call(("config", "--list", "-z", "--show-scope", "--includes"), READS)
        )
        if done.code:
            raise words.refusal(done.err, self._hide)
        self.configuration = guard.listing(done.out)
        where = await self.git("rev-parse", "--is-shallow-repository", "--absolute-git-dir")
        shallow, _, folder = where.partition(b"\n")
        self.shallow, self.git_dir = shallow == b"true", folder.removesuffix(b"\n")

    async def git(self, *args: str, options: Options = READS, stdin: bytes = b"") -> bytes:
        """Run to the end; what it printed. Raises Refusal with git's words."""
        done = await self.tried(*args, options=options, stdin=stdin)
        if done.code:
            raise words.refusal(done.err or done.out, self._hide)
        return done.out

    async def tried(
        self, *args: str, options: Options = READS, stdin: bytes = b"", limit: int = MAX_OUTPUT
    ) -> Done:
        """The same, but its refusal is an answer."""
        return await run(self._call(args, options, stdin), limit)

    @asynccontextmanager
    async def streaming(self, *args: str, options: Options = READS) -> AsyncIterator[Running]:
        """Run it for as long as the block lasts."""
        async with running(self._call(args, options)) as process:
            yield process

    def refusal(self, err: bytes, code: Code | None = None) -> Refusal:
        return words.refusal(err, self._hide, code)

    def _call(self, args: tuple[str, ...], options: Options, stdin: bytes = b"") -> Call:
        settings = [*guard.overrides(self.configuration), *options.settings]
        env = environment.environment(
            self._own,
            self._real,
            settings=settings,
            protocols=options.protocols,
            hooks=options.hooks,
            writes=options.writes,
        )
        if ssh := guard.ssh_command(self.configuration):
            env["GIT_SSH_COMMAND"] = ssh
        env |= options.extra
        return Call(args, self._folder, env, stdin, options.seconds, options.pass_fds)


class Repositories:
    """Opens repositories of one workspace."""

    def __init__(self, root: Root, pool: Pool, own: Mapping[str, str], hide: Hide) -> None:
        self._root, self._pool, self._own, self._hide = root, pool, own, hide

    async def nearest(self, names: Names) -> Names:
        """The folder nearest above, or this one, that has a `.git`; the workspace where none has.

        Raises Refusal.
        """
        return await self._pool.run(_nearest, self._root, names)

    @asynccontextmanager
    async def open(self, names: Names) -> AsyncIterator[Repository]:
        """A repository whose `.git` is in this folder; raises Refusal."""
        folder = await self._pool.run(_open, self._root, names)
        try:
            real = os.readlink(f"/proc/self/fd/{folder}")
            repository = Repository(names, folder, real, self._own, self._hide)
            await repository.learn()
            yield repository
        finally:
            os.close(folder)


def _open(root: Root, names: Names) -> int:
    with told(), root.folder(names) as fd:
        return os.dup(fd)


def _nearest(root: Root, names: Names) -> Names:
    for end in range(len(names), 0, -1):
        with told(), root.place((*names[:end], b".git"), follow=False) as place:
            if place.stat() is not None:
                return names[:end]
    return ()
