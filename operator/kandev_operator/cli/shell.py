"""`kubectl kandev shell`: a terminal in the session's workspace, left and found again.

While the line to agentctl is away, it is made anew, and the shell is shown from the byte on that
was seen last; what is typed meanwhile goes nowhere, so that no key ever reaches another place than
the one it was meant for. A shell that is gone with its agentctl is not made again in silence.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Final

from kandev_operator.cli import rooms
from kandev_operator.cli.commands import Shell
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.detach import DetachKeys
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, Passing, Refusal
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.reach import Line, NotServed
from kandev_operator.cli.shelloptions import DETACH_KEYS
from kandev_operator.cli.tty import QUIET, Terminal
from kandev_operator.clients import errors
from kandev_operator.clients.shell import ShellConnection
from kandev_operator.contract.errors import Code
from kandev_operator.contract.shell import (
    Attached,
    Ended,
    Gap,
    InputRefused,
    Notice,
    ShellExit,
    ShellReport,
    ShellRequest,
)
from kandev_operator.contract.status import Room

RENEW_EVERY: Final = 120.0
"""Seconds between two tokens on one connection."""
TYPED_AHEAD: Final = 256
"""Portions of input that wait for the connection; beyond them it is slower than the hand."""


async def shell(desk: Desk, command: Shell) -> int:
    """Carry the command out; the exit code is the shell's own where it ended."""
    if command.listing:
        return await _list(desk, command.session)
    if command.close:
        return await _close(desk, command)
    terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno())
    if not terminal.is_terminal:
        raise Misuse("a shell needs a terminal, for its input and its output")
    cols, rows = terminal.size()
    request = ShellRequest(name=command.name, cols=cols, rows=rows, command=tuple(command.words))
    line = await desk.reach.line(command.session)
    try:
        await rooms.require(line, Room.SHELL)
        shown: ShellReport | None
        if command.view_only:
            shown, whether = await _running(line, command.name), "found"
        else:
            shown = made = await line.client.make_shell(request)
            whether = "made" if made.created else "found"
    except errors.AgentctlError as error:
        raise line.fault(error) from error
    if shown is None:
        raise Refusal(
            f"session {command.session} has no shell {command.name} that runs, and --view makes "
            "none",
            f"See which there are: {desk.command(f'shell {command.session} --list')}",
        )
    keys = "" if command.detach_keys != b"\x1dd" else f" Leave it with {DETACH_KEYS}."
    desk.screen.note(f"shell {command.name} of session {command.session}, {whether}.{keys}")
    return await _Visit(desk, command, terminal, shown).run()


async def _running(line: Line, name: str) -> ShellReport | None:
    """The shell of that name, while it runs."""
    there = (await line.client.shells()).shells
    return next((each for each in there if each.name == name and each.exit is None), None)


class _Visit:
    """One person before one shell, over any number of connections."""

    def __init__(self, desk: Desk, command: Shell, terminal: Terminal, made: ShellReport) -> None:
        self._desk, self._command, self._terminal = desk, command, terminal
        self._shell_id = made.shell_id
        self._cursor: int | None = None
        self._keys = DetachKeys(command.detach_keys)
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(TYPED_AHEAD)
        self._dropped = 0
        self._resized = asyncio.Event()
        self._connection: ShellConnection | None = None
        self._attached = asyncio.Event()
        self._replay_end = 0
        self._left = asyncio.Event()

    async def run(self) -> int:
        """Until the shell ends or the person leaves; gives the exit code."""
        with self._terminal.raw():
            try:
                with (
                    _ended_by_signals(),
                    self._terminal.reading(self._take),
                    self._terminal.watching_size(self._resized.set),
                ):
                    ended = await self._visit()
            finally:
                await self._terminal.write(QUIET + b"\r\n")
        if ended is None:
            again = self._desk.command(f"shell {self._command.session}")
            self._desk.screen.note(f"The shell goes on. Come back with: {again}")
            return ExitCode.OK
        return _exit_code(ended)

    def _take(self, data: bytes) -> None:
        """Whatever is typed. While nobody could get it, it goes nowhere."""
        typed, left = self._keys.feed(data)
        if left or not data:
            self._left.set()
            return
        connection = self._connection
        if self._cursor is not None and connection is None:
            return  # it is away
        if connection is not None and connection.cursor < self._replay_end:
            return  # what a replay makes the terminal answer must not be typed either
        if not typed:
            return
        try:
            self._typed.put_nowait(typed)
        except asyncio.QueueFull:
            # Not waited for: then the keys that leave would not be seen either.
            self._dropped += len(typed)

    async def _visit(self) -> ShellExit | None:
        """The shell's end, or None where the person left it."""
        visiting = asyncio.create_task(self._connections())
        leaving = asyncio.create_task(self._left.wait())
        try:
            await asyncio.wait((visiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            return visiting.result() if visiting.done() else None
        finally:
            for task in (visiting, leaving):
                task.cancel()
            await asyncio.gather(visiting, leaving, return_exceptions=True)

    async def _connections(self) -> ShellExit:
        pace = self._desk.pace
        pause, away = pace.first, False
        while True:
            before, ended = self._cursor, None
            try:
                line = await self._desk.reach.line(self._command.session)
                ended = await self._attempt(line, away=away)
            except (NotServed, Passing):
                if before is None:
                    raise
            if ended is not None:
                return ended
            if self._cursor != before:
                pause, away = pace.first, False
            if not away:
                await self._say("the line to the shell is lost; what you type goes nowhere")
                away = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, pace.longest)

    async def _attempt(self, line: Line, *, away: bool) -> ShellExit | None:
        try:
            return await self._connected(line, away=away)
        except errors.AgentctlError as error:
            if isinstance(error, errors.Refused) and error.code == Code.UNKNOWN_SHELL:
                raise self._gone() from None
            if self._cursor is None or isinstance(error, errors.ContractMismatch):
                raise line.fault(error) from error
        return None

    def _gone(self) -> Fault:
        again = self._desk.command(f"shell {self._command.session}")
        return Refusal(
            "the shell is gone: it was closed, or its agentctl ended or was replaced",
            f"Make a new one: {again}",
        )

    async def _connected(self, line: Line, *, away: bool) -> ShellExit | None:
        """One connection, until the shell ends; None where only the connection did."""
        await line.client.shell(self._shell_id)  # says why where the upgrade could not
        async with line.client.attach_shell(
            self._shell_id, self._cursor, view_only=self._command.view_only
        ) as connection:
            if not self._command.view_only:
                await connection.resize(*self._terminal.size())
            halves = [
                asyncio.create_task(self._outward(connection)),
                asyncio.create_task(self._inward(connection, away=away)),
            ]
            try:
                await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
                return next(half.result() for half in reversed(halves) if half.done())
            finally:
                self._connection = None
                self._attached.clear()
                while not self._typed.empty():
                    self._typed.get_nowait()
                for half in halves:
                    half.cancel()
                await asyncio.gather(*halves, return_exceptions=True)

    async def _outward(self, connection: ShellConnection) -> None:
        """What is typed, how large the window is, and newer tokens."""
        loop = asyncio.get_running_loop()
        await self._attached.wait()  # no key goes to whom has not said who it is
        renew_at = loop.time() + RENEW_EVERY
        while True:
            typed = asyncio.create_task(self._typed.get())
            resized = asyncio.create_task(self._resized.wait())
            try:
                await asyncio.wait(
                    (typed, resized),
                    timeout=max(renew_at - loop.time(), 0),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if typed.done():
                    await connection.type(typed.result())
                    if dropped := self._dropped:
                        self._dropped = 0
                        await self._say(f"{dropped} bytes were too much at once, and are lost")
                if resized.done():
                    self._resized.clear()
                    if not self._command.view_only:
                        await connection.resize(*self._terminal.size())
            finally:
                typed.cancel()
                resized.cancel()
            if loop.time() >= renew_at:
                renew_at = loop.time() + RENEW_EVERY
                await connection.renew()

    async def _inward(self, connection: ShellConnection, *, away: bool) -> ShellExit | None:
        async with aclosing(connection.frames()) as frames:
            async for frame in frames:
                if isinstance(frame, bytes):
                    await self._terminal.write(frame)
                    self._cursor = connection.cursor
                elif isinstance(frame, Attached):
                    self._check(frame)
                    self._cursor, self._replay_end = frame.cursor, frame.end
                    self._connection = connection
                    self._attached.set()
                    if away:
                        await self._say("the line is back")
                elif isinstance(frame, Ended):
                    return frame.exit
                else:
                    await self._told(frame)
                    self._cursor = connection.cursor
        return None

    def _check(self, attached: Attached) -> None:
        """Ids are never given twice, so this cannot be another shell; it is looked at all the
        same, before the first key is sent."""
        if attached.shell_id != self._shell_id:
            raise self._gone()

    async def _told(self, notice: Notice) -> None:
        match notice:
            case Gap():
                await self._say(f"{notice.end - notice.start} bytes are not kept any more")
            case InputRefused(reason="not_owner"):
                await self._say("somebody else types here; yours did not count")
            case InputRefused(reason="full"):
                await self._say(f"{notice.size} bytes were not taken: the program does not read")
            case _:
                return

    async def _say(self, words: str) -> None:
        await self._terminal.write(f"\r\n\x1b[0m[kandev: {words}]\r\n".encode())


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A request to end must not leave the terminal raw: it cancels, and so unwinds, this task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _exit_code(ended: ShellExit) -> int:
    if ended.code is not None:
        return ended.code
    name = ended.signal or ""
    known = getattr(signal, name, None) if name.startswith("SIG") else None
    return 128 + int(known) if isinstance(known, signal.Signals) else 1


async def _list(desk: Desk, session: str) -> int:
    line = await desk.reach.line(session)
    try:
        await rooms.require(line, Room.SHELL)
        listed = await line.client.shells()
    except errors.AgentctlError as error:
        raise line.fault(error) from error
    if not listed.shells:
        made = desk.command(f"shell {session}")
        desk.screen.note(f"Session {session} has no shell. Make one: {made}")
    for each in listed.shells:
        desk.screen.say(_line_of(each))
    return ExitCode.OK


def _line_of(shell: ShellReport) -> str:
    if shell.exit is None:
        state = f"running, {shell.viewers} looking"
    else:
        how = shell.exit.signal or f"code {shell.exit.code}"
        state = f"ended ({one_line(how, 40)})"
    return f"{one_line(shell.name)}  {state}  {one_line(' '.join(shell.command), 60)}"


async def _close(desk: Desk, command: Shell) -> int:
    line = await desk.reach.line(command.session)
    try:
        await rooms.require(line, Room.SHELL)
        for each in (await line.client.shells()).shells:
            if each.name == command.name:
                await line.client.close_shell(each.shell_id)
                desk.screen.note(f"Shell {command.name} is closed.")
                return ExitCode.OK
    except errors.AgentctlError as error:
        raise line.fault(error) from error
    raise Refusal(f"session {command.session} has no shell {command.name}")
