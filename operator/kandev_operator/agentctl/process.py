"""The agent's process: launched in a session of its own, talked to by pipes, ended for certain.

Gentle first: stdin is closed, since that is what every agent obeys; then TERM to the whole group,
then KILL to the group and to everything that escaped from it. The end of the process is told by
the kernel (a pidfd), not by its pipes, which an escaped child may hold open for ever. What it
writes on stderr is kept as a bounded tail, with secrets hidden.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kandev_operator.agentctl import exits, orphans
from kandev_operator.contract.paths import MAX_TEXT_CHARS

log = logging.getLogger("kandev.agentctl")

TAIL_BYTES: Final = 16 * 1024
PIPE_LIMIT: Final = 256 * 1024
BASE_ENV: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "GIT_CONFIG_SYSTEM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LaunchFailed(Exception):
    """The process could not be made; the text says why and quotes no argument."""


def environment(
    own: Mapping[str, str], told: Mapping[str, str], home: Path, marks: Mapping[str, str]
) -> dict[str, str]:
    """The agent's environment: what it was told, over a small base; nothing else of ours."""
    base = {name: own[name] for name in BASE_ENV if name in own}
    base.setdefault("PATH", DEFAULT_PATH)
    return {**base, "HOME": str(home), **told, **marks}


class Tail:
    """The last bytes of what was written."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._hide = hide

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        while self._size > TAIL_BYTES and len(self._parts) > 1:
            self._size -= len(self._parts.popleft())

    def text(self) -> str:
        """Hidden before it is cut, so that no half of a secret is left standing."""
        whole = b"".join(self._parts).decode("utf-8", "replace").replace("\0", "")
        return self._hide(whole)[-MAX_TEXT_CHARS:]


class Pipe(asyncio.BaseProtocol):
    """The writing end of the agent's stdin."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._free.set()

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    async def write(self, data: bytes) -> None:
        """Write, and wait while the agent does not read."""
        if self._lost or self._transport is None or self._transport.is_closing():
            raise ConnectionError("the agent's input is closed")
        self._transport.write(data)
        await self._free.wait()
        if self._lost:
            raise ConnectionError("the agent's input is closed")

    def close(self) -> None:
        """End of input, after what was written already."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """Let go of it, written or not."""
        if self._transport is not None and not self._lost:
            self._transport.abort()


def _popen(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> "subprocess.Popen[bytes]":
    try:
        return orphans.launch(
            lambda: subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
                # Threads are few here and none holds a lock that the child needs before exec.
                preexec_fn=orphans.die_with_parent(os.getpid()),
            )
        )
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not launchable"
        raise LaunchFailed(f"{argv[0][:200]}: {why}") from None


class AgentProcess:
    """One running process. Made by `launch`."""

    def __init__(
        self, popen: "subprocess.Popen[bytes]", state: str, hide: Callable[[str], str]
    ) -> None:
        self._popen = popen
        self._state = state
        self.pid = popen.pid
        self.stdin = Pipe()
        self.stdout = asyncio.StreamReader(limit=PIPE_LIMIT)
        self._stderr = asyncio.StreamReader(limit=PIPE_LIMIT)
        self.tail = Tail(hide)
        self.gone = asyncio.Event()
        self._readers: list[asyncio.BaseTransport] = []

    @classmethod
    async def launch(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        state: str,
        hide: Callable[[str], str],
    ) -> "AgentProcess":
        """Start it; raises LaunchFailed."""
        popen = _popen(argv, env, cwd)
        process = cls(popen, state, hide)
        try:
            await process._connect()
        except BaseException:
            popen.kill()
            popen.wait()
            orphans.collected(popen.pid)
            raise
        return process

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_write_pipe(lambda: self.stdin, self._popen.stdin)
        for reader, pipe in ((self.stdout, self._popen.stdout), (self._stderr, self._popen.stderr)):
            transport, _ = await loop.connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                pipe,
            )
            self._readers.append(transport)
        pidfd = os.pidfd_open(self.pid)
        loop.add_reader(pidfd, self._ended, pidfd)

    def _ended(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._popen.poll()
        orphans.collected(self.pid)
        self.gone.set()

    async def keep_stderr(self) -> None:
        """Read stderr into the tail, for as long as somebody holds it open."""
        while data := await self._stderr.read(16 * 1024):
            self.tail.add(data)

    @property
    def exit_code(self) -> int | None:
        return exits.code_of(self._popen.returncode)

    @property
    def exit_signal(self) -> str | None:
        return exits.signal_of(self._popen.returncode)

    async def end(self, grace: float) -> None:
        """Close stdin, wait, TERM the group, wait, KILL."""
        self.stdin.close()
        if not await self._gone_within(grace / 2):
            self._signal_group(signal.SIGTERM)
            await self._gone_within(grace / 2)
        if not self.gone.is_set():
            self._signal_group(signal.SIGKILL)
            self._popen.kill()
            await self.gone.wait()

    def kill(self) -> None:
        """Kill the group at once."""
        self._signal_group(signal.SIGKILL)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.gone.wait()
        return self.gone.is_set()

    def _signal_group(self, number: signal.Signals) -> None:
        # The leader may be gone while its group lives on; the pid is not reused as long as a
        # group of that number exists.
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    async def sweep(self) -> None:
        """After the process itself is gone: kill what it left, and let go of the pipes."""
        self._signal_group(signal.SIGKILL)
        try:
            await asyncio.to_thread(orphans.kill_leftovers, self._state)
        except orphans.Lingering as exc:
            log.error("%s", exc)

    def close(self) -> None:
        """Let go of the pipes."""
        self.stdin.drop()
        for transport in self._readers:
            transport.close()
