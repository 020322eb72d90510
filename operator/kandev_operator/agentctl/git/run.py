"""One git process: launched in a group of its own, read while it runs, ended in time.

Its output is bounded by whoever reads it, its words by a tail. Whoever leaves early (a timeout, a
caller that is gone, enough was read) ends the whole group: first TERM, at which git removes its
locks, then KILL. The end is told by the kernel (a pidfd).
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from kandev_operator.agentctl import orphans
from kandev_operator.agentctl.process import Pipe
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code

CHUNK: Final = 64 * 1024
WORDS: Final = 16 * 1024
"""Bytes of stderr that are kept, the last ones."""
GRACE: Final = 2.0
SECONDS: Final = 30.0
MAX_OUTPUT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """What to run, and where."""

    args: tuple[str, ...]
    folder: int
    """File descriptor of the folder to run in."""
    env: Mapping[str, str]
    stdin: bytes = b""
    seconds: float = SECONDS
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A process that ended by itself."""

    code: int
    out: bytes
    err: bytes


class Running:
    """A process under way. Made by `running`."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.stdin = Pipe()
        self.stdout = asyncio.StreamReader(limit=CHUNK)
        self._stderr = asyncio.StreamReader(limit=CHUNK)
        self._gone = asyncio.Event()
        self._pipes: list[asyncio.BaseTransport] = []
        self._words = bytearray()
        self._listener: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(self._popen.pid)
        loop.add_reader(pidfd, self._ended, pidfd)
        await loop.connect_write_pipe(lambda: self.stdin, self._popen.stdin)
        for reader, pipe in ((self.stdout, self._popen.stdout), (self._stderr, self._popen.stderr)):
            transport, _ = await loop.connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                pipe,
            )
            self._pipes.append(transport)
        self._listener = asyncio.create_task(self._listen())

    def _ended(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._popen.poll()
        orphans.collected(self._popen.pid)
        self._gone.set()

    async def _listen(self) -> None:
        while data := await self._stderr.read(CHUNK):
            self._words += data
            del self._words[:-WORDS]

    async def write(self, data: bytes) -> None:
        """Everything it is to read; what it does not want to read any more is no mistake."""
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), CHUNK):
                await self.stdin.write(data[start : start + CHUNK])
        self.stdin.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What it prints, as it comes."""
        while data := await self.stdout.read(CHUNK):
            yield data

    async def wait(self) -> tuple[int, bytes]:
        """Its exit code and its last words."""
        await self._gone.wait()
        if self._listener is not None:
            # A child that escaped may hold the pipe open: its words are not waited for.
            await asyncio.wait({self._listener}, timeout=0.2)
        code = self._popen.returncode
        return (-1 if code is None else code), bytes(self._words)

    async def end(self) -> None:
        """End what is left of the group, and let go of the pipes."""
        if not self._gone.is_set():
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._gone.wait()
        self._signal(signal.SIGKILL)
        await self._gone.wait()
        if self._listener is not None:
            self._listener.cancel()
        self.stdin.drop()
        for pipe in self._pipes:
            pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._popen.pid, number)


@asynccontextmanager
async def running(call: Call) -> AsyncIterator[Running]:
    """Run git for as long as the block lasts; raises Refusal where there is no git."""
    executable = shutil.which("git", path=call.env.get("PATH"))
    if executable is None:
        raise Refusal(Code.GIT_MISSING, "there is no git executable here")
    try:
        popen = orphans.launch(
            lambda: subprocess.Popen(
                [executable, "--no-pager", *call.args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Entered by the child through the descriptor: nobody can swap it meanwhile.
                cwd=f"/proc/self/fd/{call.folder}",
                env=dict(call.env),
                start_new_session=True,
                pass_fds=call.pass_fds,
            )
        )
    except OSError as exc:
        words = f"git cannot be run: {exc.strerror}"
        raise Refusal(Code.GIT_MISSING, words) from None
    process = Running(popen)
    try:
        async with asyncio.timeout(call.seconds):
            await process.connect()
            yield process
    except TimeoutError:
        words = f"git did not end within {call.seconds:g} s, and was ended"
        raise Refusal(Code.GIT_TIMEOUT, words) from None
    finally:
        await _to_the_end(process)


async def _to_the_end(process: Running) -> None:
    """End it, even if the caller is being cancelled: no process is left behind."""
    ending = asyncio.ensure_future(process.end())
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await ending
        raise


async def run(call: Call, limit: int = MAX_OUTPUT) -> Done:
    """Run git to its end; output over the limit is a refusal."""
    async with running(call) as process:
        writing = asyncio.create_task(process.write(call.stdin))
        try:
            out = bytearray()
            async for data in process.chunks():
                out += data
                if len(out) > limit:
                    raise Refusal(Code.TOO_LARGE, f"git printed more than {limit} bytes")
            code, err = await process.wait()
            return Done(code, bytes(out), err)
        finally:
            writing.cancel()
