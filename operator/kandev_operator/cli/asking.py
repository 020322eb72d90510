"""Permission requests of the agent, put to the person at the terminal one after another.

A question is withdrawn as soon as somebody else has answered it, or its turn is over. Where nobody
sits at a terminal it is only said how to answer. What is offered is the agent's own list of
options: no other answer exists.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from kandev_operator.cli.desk import Desk
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.screen import COMMAND, WARNING
from kandev_operator.clients.errors import AgentctlError
from kandev_operator.contract.agent import Permission, PermissionOption

Answering = Callable[[str, str | None], Awaitable[None]]
ALLOWING: Final = ("allow_once", "allow_always")
_SETTLING: Final = 0.3
"""A request that policy answers is answered at once: nobody need be asked."""


def allowing(options: tuple[PermissionOption, ...]) -> PermissionOption | None:
    """The option that permits least: once rather than always."""
    for kind in ALLOWING:
        for option in options:
            if option.kind == kind:
                return option
    return None


def title(permission: Permission) -> str:
    """What the agent wants to do, in one line."""
    kind = f" [{one_line(permission.tool_kind, 40)}]" if permission.tool_kind else ""
    return f"{one_line(permission.title, 500)}{kind}"


def how_to_answer(desk: Desk, session: str, permission: Permission) -> tuple[str, ...]:
    """The commands that answer a request."""
    name = one_line(permission.permission_id)
    return (desk.command(f"allow {session} {name}"), desk.command(f"deny {session} {name}"))


class Questions:
    """The open requests of one turn. Close it when the turn is over."""

    def __init__(self, desk: Desk, session: str, answer: Answering) -> None:
        self._desk = desk
        self._session = session
        self._answer = answer
        self._waiting: dict[str, Permission] = {}
        self._asking = ""
        self._task: asyncio.Task[None] | None = None

    def opened(self, permission: Permission) -> None:
        """The agent asks."""
        self._waiting[permission.permission_id] = permission
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask_all())

    async def closed(self, permission_id: str) -> None:
        """It is answered, by whomever, or nobody waits for an answer any more."""
        self._waiting.pop(permission_id, None)
        if permission_id == self._asking:
            await self._withdraw()
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._ask_all())

    async def close(self) -> None:
        """Withdraw everything."""
        self._waiting.clear()
        await self._withdraw()

    async def _withdraw(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _ask_all(self) -> None:
        """One question at a time, the oldest first."""
        while self._waiting:
            self._asking, permission = next(iter(self._waiting.items()))
            await asyncio.sleep(_SETTLING)
            self._waiting.pop(self._asking, None)
            self._show(permission)
            if self._desk.screen.is_attended:
                await self._ask(permission)
            else:
                for command in how_to_answer(self._desk, self._session, permission):
                    self._desk.screen.note(f"  {command}", COMMAND)

    def _show(self, permission: Permission) -> None:
        screen = self._desk.screen
        screen.end_line()
        screen.note(f"The agent asks for permission: {title(permission)}", WARNING)
        for number, option in enumerate(permission.options, 1):
            screen.note(f"  {number}) {_option(option)}", "")

    async def _ask(self, permission: Permission) -> None:
        screen, most = self._desk.screen, len(permission.options)
        while True:
            line = await screen.ask(
                "Your answer (a number, 0 to refuse, nothing to leave it open):"
            )
            if not line:
                for command in how_to_answer(self._desk, self._session, permission):
                    screen.note(f"It waits. Answer later with: {command}", "")
                return
            number = int(line) if line.isascii() and line.isdigit() and len(line) < 4 else -1
            if 0 <= number <= most:
                chosen = permission.options[number - 1].option_id if number else None
                await self._give(permission.permission_id, chosen)
                return
            screen.note(f"{line!r} is not a number from 0 to {most}", WARNING)

    async def _give(self, permission_id: str, option_id: str | None) -> None:
        try:
            await self._answer(permission_id, option_id)
        except AgentctlError as error:
            self._desk.screen.note(f"the answer was not taken: {error.message}", WARNING)


def _option(option: PermissionOption) -> str:
    kind = f" [{one_line(option.kind, 40)}]" if option.kind else ""
    return f"{one_line(option.name)} ({one_line(option.option_id)}){kind}"
