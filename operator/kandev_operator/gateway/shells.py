"""A terminal carried between one socket and agentctl: bytes both ways, and its end.

The relay stays as long as its client wants it; its bytes wait in a short queue, and while that is
full nothing is read from agentctl, which then lets this viewer meet a gap. What is typed goes in
the order in which it came. A line that breaks ends the relay with `lost`: the client attaches again
with the cursor it has, and gets each byte once.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from kandev_operator.api.session import TaskSession
from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.shell import ShellConnection
from kandev_operator.contract import shell as contract
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.refusals import Refusal, of_agentctl
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.notices import Notice, ShellExit, ShellOutput

RENEW_SECONDS: Final = 120.0
TYPED: Final = 64
"""Pieces of input that wait for agentctl; then the socket is not read any further."""
ATTACH_SECONDS: Final = 10.0

Say = Callable[[Notice, Wire], Awaitable[None]]


class Relay:
    """One terminal of one socket."""

    def __init__(self, session: TaskSession, task_id: str, say: Say) -> None:
        self.session_id = session.metadata.uid
        self._task_id = task_id
        self._say = say
        self._typed: asyncio.Queue[bytes | tuple[int, int]] = asyncio.Queue(TYPED)
        self.attached: asyncio.Future[contract.Attached] = (
            asyncio.get_running_loop().create_future()
        )
        self.shell_id = ""

    async def run(self, client: AgentctlClient, request: asked.ShellSubscribe) -> None:
        """Carry until the shell or the line ends. What fails before the first byte is raised."""
        ended: contract.ShellExit | None = None
        try:
            after = await self._find(client, request)
            async with (
                client.attach_shell(self.shell_id, after) as connection,
                asyncio.TaskGroup() as group,
            ):
                beside = [
                    group.create_task(self._type(connection)),
                    group.create_task(_renew(connection)),
                ]
                ended = await self._show(connection)
                for task in beside:
                    task.cancel()
        except* errors.AgentctlError as group_:
            self._fail(group_.exceptions[0])
        if not self.attached.done():
            self._fail(errors.Unreachable("attach", "the line broke before the first byte"))
        elif self.attached.exception() is None:
            await self._say(Notice.SHELL_EXIT, self._exit(ended))

    async def refuse(self) -> None:
        """The right to it was taken away."""
        forbidden = ShellExit(
            session_id=self.session_id,
            task_id=self._task_id,
            shell_id=self.shell_id,
            reason="forbidden",
        )
        await self._say(Notice.SHELL_EXIT, forbidden)

    def _fail(self, error: BaseException) -> None:
        """Before the first byte, whoever subscribes is told; after it, the end says `lost`."""
        if not self.attached.done() and isinstance(error, errors.AgentctlError):
            self.attached.set_exception(of_agentctl(error))

    async def type(self, data: bytes) -> None:
        """Type; waits while agentctl does not take it."""
        await self._typed.put(data)

    async def resize(self, cols: int, rows: int) -> None:
        """The client's window has this size."""
        await self._typed.put((cols, rows))

    async def _find(self, client: AgentctlClient, request: asked.ShellSubscribe) -> int | None:
        """The shell that the client had, or the one of that name; where its bytes go on."""
        if request.shell_id is not None:
            listed = await client.shells()
            known = {each.shell_id for each in listed.shells}
            if listed.instance_id == request.instance_id and request.shell_id in known:
                self.shell_id = request.shell_id
                return request.cursor
        wanted = contract.ShellRequest(name=request.name, cols=request.cols, rows=request.rows)
        self.shell_id = (await client.make_shell(wanted)).shell_id
        return None

    async def _show(self, connection: ShellConnection) -> contract.ShellExit | None:
        async for frame in connection.frames():
            match frame:
                case bytes():
                    await self._say(Notice.SHELL_OUTPUT, self._output(connection, frame))
                case contract.Attached():
                    if not self.attached.done():
                        self.attached.set_result(frame)
                case contract.Ended(exit=how):
                    return how
                case _:
                    pass
        return None

    def _output(self, connection: ShellConnection, data: bytes) -> ShellOutput:
        attached = connection.attached
        return ShellOutput(
            session_id=self.session_id,
            task_id=self._task_id,
            shell_id=self.shell_id,
            instance_id=attached.instance_id if attached else "",
            cursor=connection.cursor - len(data),
            data=base64.b64encode(data).decode(),
        )

    def _exit(self, how: contract.ShellExit | None) -> ShellExit:
        return ShellExit(
            session_id=self.session_id,
            task_id=self._task_id,
            shell_id=self.shell_id,
            reason=str(how.reason) if how else "lost",
            code=how.code if how else None,
            signal=how.signal if how else None,
        )

    async def _type(self, connection: ShellConnection) -> None:
        while True:
            match await self._typed.get():
                case (cols, rows):
                    await connection.resize(cols, rows)
                case bytes(data):
                    await connection.type(data)


async def _renew(connection: ShellConnection) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        await connection.renew()


def decoded(request: asked.ShellInput) -> bytes:
    """What was typed. Raises Refusal."""
    with contextlib.suppress(ValueError):
        return base64.b64decode(request.data, validate=True)
    raise Refusal("invalid_request", "data is not base64")
