"""Where agents run: what the engine asks of a place for executions, and the usual place, here.

A `Run` is one execution of the agent's process; it carries out the machine's acts and tells what
came of them. `Runs` makes them. Of a place that outlives agentctl the engine asks two things more:
which process lives on there after a restart, and whether the place answers at all.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Protocol

from kandev_operator.agentctl.clientside import TextFiles
from kandev_operator.agentctl.execution import Execution, Place, load_bridge
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.reopen import Living
from kandev_operator.agentctl.machine.state import UNPROBED, State
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.statedir import SessionFolder
from kandev_operator.contract.agent import AgentSpec
from kandev_operator.contract.status import Capabilities, Failure

Tell = Callable[[ev.Event], None]


class Run(Protocol):
    """One execution."""

    @property
    def execution_id(self) -> str: ...
    @property
    def over(self) -> asyncio.Event: ...
    @property
    def pid(self) -> int | None: ...

    async def run(self, may_launch: Callable[[], Coroutine[Any, Any, Failure | None]]) -> None: ...
    def open(self, act: fx.Open) -> None: ...
    def send(self, act: fx.SendPrompt) -> None: ...
    def cancel(self, act: fx.CancelTurn) -> None: ...
    def choose(self, act: fx.Choose) -> None: ...
    def answer(self, act: fx.AnswerPermission) -> None: ...
    def end(self, grace: float) -> None: ...

    def leave(self) -> None:
        """agentctl ends. Called only where processes outlive it."""

    def kill(self) -> None:
        """No gentleness: after a bug of ours."""


class Runs(Protocol):
    """A place for executions."""

    @property
    def unprobed(self) -> Capabilities:
        """What is known of an agent there before it was asked."""

    @property
    def outlives_us(self) -> bool:
        """Whether a process there goes on when agentctl ends."""

    def make(
        self,
        execution_id: str,
        spec: AgentSpec,
        folder: SessionFolder,
        marker_verified: bool,
        tell: Tell,
        files: TextFiles | None,
    ) -> Run: ...

    def living(self, folder: SessionFolder) -> Living | None:
        """After a restart: the process that lives on with an open conversation."""

    def rejoin(
        self, state: State, folder: SessionFolder, marker_verified: bool, tell: Tell
    ) -> Run: ...

    async def watch(self, told: Callable[[str | None], None]) -> None:
        """For ever: tell why the place is of no use now, or None when it is again."""

    async def close(self) -> None: ...


class LocalRuns:
    """Processes of this machine, children of this process: they end with it."""

    unprobed: ClassVar[Capabilities] = UNPROBED
    outlives_us: ClassVar[bool] = False

    def __init__(self, settings: Settings, redactor: Redactor) -> None:
        self._settings, self._redactor = settings, redactor

    def make(
        self,
        execution_id: str,
        spec: AgentSpec,
        folder: SessionFolder,
        marker_verified: bool,
        tell: Tell,
        files: TextFiles | None,
    ) -> Run:
        place = Place(spec, folder.home, marker_verified, files)
        return Execution(execution_id, place, self._settings, self._redactor, tell)

    def living(self, folder: SessionFolder) -> Living | None:
        return None

    def rejoin(self, state: State, folder: SessionFolder, marker_verified: bool, tell: Tell) -> Run:
        raise AssertionError("no process of this machine outlives its agentctl")

    async def watch(self, told: Callable[[str | None], None]) -> None:
        # Nobody waits for it yet: /health answers already, and the first agent is still to come.
        await asyncio.to_thread(load_bridge)
        await asyncio.Event().wait()

    async def close(self) -> None:
        return
