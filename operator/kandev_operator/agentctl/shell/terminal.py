"""One shell: a process on a terminal, its scroll-back, and its viewers, from birth to the sweep.

Output goes into the ring and wakes the viewers; each takes it from there at its own pace, so no
queue stands between them that could fill. When the process is over, everything that it started is
killed, and the viewers hear how it ended after the last byte.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from kandev_operator.agentctl import orphans
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.shell.process import PtyProcess
from kandev_operator.agentctl.shell.ring import Ring
from kandev_operator.agentctl.shell.viewers import Size, Viewers
from kandev_operator.contract.shell import (
    EndReason,
    InputOwner,
    InputRefused,
    Resized,
    ShellExit,
    ShellReport,
    ShellRequest,
)
from kandev_operator.contract.wire import Wire

log = logging.getLogger("kandev.agentctl")

DRAIN: Final = 1.0
"""What a dead process had written is still read for so long, in seconds."""
GRACE: Final = 2.0
"""How long a shell may take to end after a hang-up."""

RefusedBecause = Literal["not_owner", "view_only", "full", "ended"]


@dataclass(eq=False, slots=True)
class Seat:
    """A viewer's place: woken when there is output or something to be told.

    Of each kind of notice only the latest is kept: a viewer that reads slowly hears how things
    are, not all that happened.
    """

    viewer_id: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _notices: dict[str, Wire] = field(default_factory=dict)

    def tell(self, notice: Resized | InputOwner) -> None:
        """Keep a notice for it."""
        self._notices[notice.type] = notice
        self.wake.set()

    def refuse(self, reason: RefusedBecause, size: int) -> None:
        """So much of its input did not count."""
        known = self._notices.get("input_refused")
        if isinstance(known, InputRefused):
            size += known.size
        self._notices["input_refused"] = InputRefused(reason=reason, size=size)
        self.wake.set()

    def take(self) -> list[Wire]:
        """What it must be told now."""
        told = [*self._notices.values()]
        self._notices.clear()
        return told


class Terminal:
    """One shell."""

    def __init__(
        self,
        shell_id: str,
        session_id: str | None,
        request: ShellRequest,
        process: PtyProcess,
        ring: Ring,
        where: tuple[str, tuple[str, ...]],
    ) -> None:
        self.shell_id, self.session_id, self.name = shell_id, session_id, request.name
        self.ring = ring
        self._process = process
        self._cwd, self._command = where
        self._viewers = Viewers(request.input, Size(request.cols, request.rows))
        self._seats: dict[int, Seat] = {}
        self._created_at = now()
        self._reason = EndReason.EXITED
        self.exit: ShellExit | None = None
        self.over = asyncio.Event()
        """It has ended, nothing that it started lives, and its last byte is in the ring."""

    def report(self) -> ShellReport:
        """What is told of it to a caller."""
        size = self._viewers.size
        return ShellReport(
            shell_id=self.shell_id,
            name=self.name,
            command=self._command,
            cwd=self._cwd,
            pid=self._process.pid,
            cols=size.cols,
            rows=size.rows,
            input=self._viewers.policy,
            created_at=self._created_at,
            viewers=len(self._viewers),
            first_cursor=self.ring.start,
            cursor=self.ring.end,
            exit=self.exit,
        )

    # ---- viewers -----------------------------------------------------------------------

    @property
    def size(self) -> Size:
        return self._viewers.size

    @property
    def owner(self) -> int | None:
        """Who may type, where that is one."""
        return self._viewers.owner

    @property
    def is_watched(self) -> bool:
        return bool(self._seats)

    def attach(self, size: Size | None, *, may_type: bool) -> Seat:
        """Give a viewer a seat; raises Full. Detach it when it is gone."""
        with self._telling():
            viewer = self._viewers.add(size, may_type=may_type)
        seat = self._seats[viewer] = Seat(viewer)
        return seat

    def detach(self, seat: Seat) -> None:
        """A viewer is gone, for whatever reason."""
        del self._seats[seat.viewer_id]
        with self._telling():
            self._viewers.remove(seat.viewer_id)

    def resize(self, seat: Seat, size: Size) -> None:
        """A viewer's window has this size."""
        with self._telling():
            self._viewers.resize(seat.viewer_id, size)

    def take_input(self, seat: Seat) -> None:
        """A viewer wants to be the one who types."""
        with self._telling():
            taken = self._viewers.take(seat.viewer_id)
        if taken:
            seat.tell(InputOwner(owner=seat.viewer_id))

    def release_input(self, seat: Seat) -> None:
        """And does not any more."""
        with self._telling():
            self._viewers.release(seat.viewer_id)

    async def type(self, seat: Seat, data: bytes, patience: float) -> None:
        """A viewer types. Waits while the process does not read, up to `patience` seconds; then,
        as where it may not type, the viewer hears that this did not count."""
        with self._telling():
            refused = self._viewers.types(seat.viewer_id)
        if refused is not None:
            seat.refuse(refused, len(data))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._process.room.wait()
        if self.exit is not None:
            seat.refuse("ended", len(data))
        elif not self._process.room.is_set():
            seat.refuse("full", len(data))
        else:
            self._process.write(data)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Whatever changes within is done, and told to every viewer."""
        size, owner = self._viewers.size, self._viewers.owner
        yield
        if self._viewers.size != size:
            size = self._viewers.size
            self._process.resize(size)
            for seat in self._seats.values():
                seat.tell(Resized(cols=size.cols, rows=size.rows))
        if self._viewers.owner != owner:
            for seat in self._seats.values():
                seat.tell(InputOwner(owner=self._viewers.owner))

    # ---- life --------------------------------------------------------------------------

    def _output(self, data: bytes) -> None:
        self.ring.write(data)
        self._wake()

    def _wake(self) -> None:
        for seat in self._seats.values():
            seat.wake.set()

    async def run(self, state: str) -> None:
        """Serve until the process and everything that it started are gone."""
        self._process.start(self._output)
        try:
            await self._process.gone.wait()
            await self._drain()
            await self._sweep(state)
            await self._drain()
        finally:
            self._process.kill()
            self._process.close()
            self.exit = ShellExit(
                reason=self._reason,
                code=self._process.exit_code,
                signal=self._process.exit_signal,
                at=now(),
            )
            self.over.set()
            self._wake()
        log.info("shell %s ended: code %s", self.shell_id, self.exit.code)

    async def _drain(self) -> None:
        """What was written before the end still counts; a child may hold the terminal open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._process.drained.wait()

    async def _sweep(self, state: str) -> None:
        try:
            killed = await asyncio.to_thread(
                orphans.kill_shell, state, self.shell_id, self._process.pid
            )
        except orphans.Lingering as exc:
            log.error("shell %s: %s", self.shell_id, exc)
            return
        if killed:
            log.info("killed %d processes that shell %s left", killed, self.shell_id)

    async def end(self, reason: EndReason, grace: float = GRACE) -> None:
        """Hang up, wait, kill; returns when it is over."""
        if not self._process.gone.is_set():
            self._reason = reason
            self._process.hang_up()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._process.gone.wait()
            self._process.kill()
        await self.over.wait()
