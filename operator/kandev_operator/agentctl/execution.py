"""One execution: one run of the agent's process, from launch to the last trace of it.

It carries out what the machine wants of this process and tells it, as events, what came of it. It
decides nothing: a late answer is told like any other, and the machine drops it. Its tasks belong
to one task group; none of them outlives the process.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kandev_operator.agentctl import orphans
from kandev_operator.agentctl.clientside import ClientSide, TextFiles
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.opening import Opening
from kandev_operator.agentctl.process import AgentProcess, LaunchFailed, environment
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.terminals import Terminal
from kandev_operator.agentctl.transport import JsonLines, Oversize
from kandev_operator.agentctl.verdicts import Fault
from kandev_operator.contract.agent import AgentSpec
from kandev_operator.contract.status import Capabilities, Exit, Failure, FailureCode

if TYPE_CHECKING:
    from kandev_operator.agentctl.bridge import Bridge

log = logging.getLogger("kandev.agentctl")
Told = TypeVar("Told")

EXIT_PATIENCE = 2.0
"""A connection that closed: how long the process may take to be gone, too."""
DRAIN = 0.5
"""What a dead process had written is still read for so long."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where and as what the agent runs."""

    spec: AgentSpec
    home: Path
    marker_verified: bool
    files: TextFiles | None


class Execution:
    """One agent process. `tell` takes what happened to the machine, at once."""

    def __init__(
        self,
        execution_id: str,
        place: Place,
        settings: Settings,
        redactor: Redactor,
        tell: Callable[[ev.Event], None],
    ) -> None:
        self.execution_id = execution_id
        self._place, self._settings, self._redactor = place, settings, redactor
        self._tell = tell
        self.process: AgentProcess | None = None
        self._bridge: Bridge | None = None
        self._client: ClientSide | None = None
        self._transport: JsonLines | None = None
        self._watch: asyncio.Task[None] | None = None
        self._capabilities = Capabilities()
        self._tasks: asyncio.TaskGroup | None = None
        self.over = asyncio.Event()
        self._end_grace: float | None = None
        self._ending = False
        self._turn_over = asyncio.Event()
        self._turn_over.set()
        self._turn_ended_at = float("-inf")

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self.process is None or self.process.gone.is_set() else self.process.pid

    @property
    def cwd(self) -> str:
        return self._place.spec.cwd or str(self._settings.workspace)

    # ---- life --------------------------------------------------------------------------

    async def run(self, may_launch: Callable[[], Coroutine[Any, Any, Failure | None]]) -> None:
        """Launch, serve until the process is gone, sweep. Never raises for what an agent does."""
        try:
            process = await self._launch(may_launch)
        except _NotLaunched as exc:
            self._tell(ev.InitializeFailed(now(), self.execution_id, exc.failure, launched=False))
            return
        self.process = process
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                stderr = tasks.create_task(process.keep_stderr())
                tasks.create_task(self._initialize(process))
                if self._end_grace is not None:
                    tasks.create_task(self._end(self._end_grace))
                await process.gone.wait()
                if self._client is not None:
                    await self._client.end()
                await process.sweep()
                await self._drain(stderr)
                self._gone(process)
                self._tasks = None
                if self._bridge is not None:
                    await self._bridge.close()
                stderr.cancel()
                if self._watch is not None:
                    self._watch.cancel()
        finally:
            self._tasks = None
            process.kill()
            process.close()

    async def _drain(self, stderr: "asyncio.Task[None]") -> None:
        """What was written before the end still counts; an escaped child may hold the pipes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                if self._transport is not None:
                    await self._transport.ended.wait()
                await asyncio.wait((stderr,))
        await asyncio.sleep(0)  # the library's handlers of the last lines run before this returns

    async def _launch(
        self, may_launch: Callable[[], Coroutine[Any, Any, Failure | None]]
    ) -> AgentProcess:
        if refused := await may_launch():
            raise _NotLaunched(refused)
        state = str(self._settings.state)
        try:
            killed = await asyncio.to_thread(orphans.kill_leftovers, state)
        except orphans.Lingering as exc:
            raise _NotLaunched(
                Failure(code=FailureCode.WORKSPACE_IN_USE, message=str(exc))
            ) from None
        if killed:
            log.warning("killed %d processes of an earlier execution", killed)
        if not (Path(self.cwd).is_absolute() and await asyncio.to_thread(Path(self.cwd).is_dir)):
            message = f"the working directory {self.cwd[:300]} does not exist"
            raise _NotLaunched(Failure(code=FailureCode.CWD_MISSING, message=message))
        if self._end_grace is not None:
            message = "ended before it was launched"
            raise _NotLaunched(Failure(code=FailureCode.SUPERSEDED, message=message))
        spec = self._place.spec
        marks = {orphans.STATE_MARK: state, orphans.EXECUTION_MARK: self.execution_id}
        env = environment(os.environ, spec.env, self._place.home, marks)
        self._client = ClientSide(self._place.files, self.cwd, env, self._terminal_ended)
        try:
            return await AgentProcess.launch(
                (spec.command, *spec.args),
                env=env,
                cwd=self.cwd,
                state=state,
                hide=self._redactor.hide,
            )
        except LaunchFailed as exc:
            failure = Failure(code=FailureCode.COMMAND_NOT_FOUND, message=str(exc))
            raise _NotLaunched(failure) from None

    def _gone(self, process: AgentProcess) -> None:
        told = Exit(
            code=process.exit_code,
            signal=process.exit_signal,
            at=now(),
            stderr_tail=process.tail.text(),
        )
        log.info("agent process %d ended: code %s signal %s", process.pid, told.code, told.signal)
        self._tell(ev.Exited(now(), self.execution_id, told))

    # ---- initialize and open -----------------------------------------------------------

    async def _initialize(self, process: AgentProcess) -> None:
        bridge_room = await asyncio.to_thread(load_bridge)
        if process.gone.is_set() and self._tasks is None:
            return
        transport = JsonLines(
            process.stdout,
            process.stdin,
            limit=self._settings.max_line_bytes,
            on_noise=lambda line: process.tail.add(b"stdout: " + line[:500] + b"\n"),
            on_oversize=self._oversize,
        )
        self._transport = transport
        bridge = bridge_room.Bridge(transport, self, self._client, self._redactor.hide)
        self._bridge = bridge
        if self._tasks is not None:
            self._watch = self._tasks.create_task(self._watch_output(process, transport))
        try:
            told = await bridge.initialize(self._settings.patience.initialize)
        except Fault as fault:
            self._tell(ev.InitializeFailed(now(), self.execution_id, fault.failure))
        except ConnectionError:
            await self._connection_lost(process)
        else:
            self._capabilities = told.model_copy(update={"probed_at": now()})
            self._tell(ev.Initialized(now(), self.execution_id, self._capabilities))

    async def _watch_output(self, process: AgentProcess, transport: JsonLines) -> None:
        """An agent that closes its output is of no use, even if nobody waits for an answer."""
        await transport.ended.wait()
        await self._connection_lost(process)

    async def _connection_lost(self, process: AgentProcess) -> None:
        """The pipe closed: usually the process died, and that is told by `run`."""
        try:
            async with asyncio.timeout(EXIT_PATIENCE):
                await process.gone.wait()
        except TimeoutError:
            said = self._transport
            garbage = said is not None and said.noise and not said.messages
            failure = Failure(
                code=FailureCode.GARBAGE if garbage else FailureCode.AGENT_ERROR,
                message="the agent closed its input or output and lives on",
            )
            self._tell(ev.StreamBroken(now(), self.execution_id, failure))

    def open(self, act: fx.Open) -> None:
        self._spawn(self._open(act))

    def _opening(self, bridge: "Bridge") -> Opening:
        verified, patience = self._place.marker_verified, self._settings.patience
        return Opening(bridge, self._capabilities, self.cwd, verified, patience)

    async def _open(self, act: fx.Open) -> None:
        process, bridge = self.process, self._bridge
        if process is None or bridge is None:
            return
        late = f"the conversation was not open within {act.timeout:g} s"
        got = await self._in_time(process, self._opening(bridge).open(act), act.timeout, late)
        if isinstance(got, Failure):
            self._tell(ev.OpenFailed(now(), self.execution_id, act.operation_id, got))
        elif got is not None:
            self._tell(ev.Opened(now(), self.execution_id, act.operation_id, *got))

    async def _in_time(
        self, process: AgentProcess, asked: Awaitable[Told], limit: float, late: str
    ) -> Told | Failure | None:
        """What the agent answers, or why it does not. None: its line is cut, which is told."""
        try:
            async with asyncio.timeout(limit):
                return await asked
        except TimeoutError:
            return Failure(code=FailureCode.TIMED_OUT, message=late)
        except Fault as fault:
            return fault.failure
        except ConnectionError:
            await self._connection_lost(process)
            return None

    # ---- turns -------------------------------------------------------------------------

    def send(self, act: fx.SendPrompt) -> None:
        self._turn_over.clear()
        self._spawn(self._send(act))

    async def _send(self, act: fx.SendPrompt) -> None:
        process, bridge = self.process, self._bridge
        if process is None or bridge is None:
            return
        try:
            reason, usage = await bridge.prompt(act.token, act.content)
        except Fault as fault:
            self._tell(ev.TurnFailed(now(), self.execution_id, act.turn_id, fault.failure))
        except ConnectionError:
            await self._connection_lost(process)
        else:
            self._tell(ev.TurnAnswered(now(), self.execution_id, act.turn_id, reason, usage))
        finally:
            self._turn_ended_at = time.monotonic()
            self._turn_over.set()

    def cancel(self, act: fx.CancelTurn) -> None:
        self._spawn(self._cancel(act))

    async def _cancel(self, act: fx.CancelTurn) -> None:
        if self._bridge is not None:
            try:
                await self._bridge.cancel(act.token)
            except ConnectionError:
                return  # it is gone or going, which `run` tells

    def choose(self, act: fx.Choose) -> None:
        self._spawn(self._choose(act))

    async def _choose(self, act: fx.Choose) -> None:
        process, bridge = self.process, self._bridge
        if process is None or bridge is None:
            return
        limit = self._settings.patience.choice
        late = f"{act.method} was not answered within {limit:g} s"
        asked = bridge.choose(act.method, act.token, act.params)
        got = await self._in_time(process, asked, limit, late)
        if isinstance(got, Failure):
            self._tell(ev.SettingFailed(now(), self.execution_id, act.operation_id, got))
        elif got is not None:
            self._tell(ev.SettingAnswered(now(), self.execution_id, act.operation_id, got))

    def answer(self, act: fx.AnswerPermission) -> None:
        if self._bridge is not None:
            self._bridge.answer_permission(act.key, act.option_id)

    # ---- the end -----------------------------------------------------------------------

    def end(self, grace: float) -> None:
        """End the process gently; once it has begun, a second wish changes nothing."""
        if self._end_grace is None:
            self._end_grace = grace
            self._spawn(self._end(grace))

    async def _end(self, grace: float) -> None:
        if self._ending or self.process is None:
            return
        self._ending = True
        if grace > 0:
            try:
                async with asyncio.timeout(min(grace / 2, 5.0)):
                    await self._turn_over.wait()
            except TimeoutError:
                pass  # it does not stop its turn: then in the middle of it
            stored_at = self._turn_ended_at + self._settings.patience.after_turn
            left = stored_at - time.monotonic()
            if left > 0:
                await asyncio.sleep(min(left, self._settings.patience.after_turn))
        await self.process.end(grace)

    def leave(self) -> None:
        """Never asked of a process that dies with us."""
        raise AssertionError("a process of this machine is ended, not left")

    def kill(self) -> None:
        """No gentleness: for when agentctl itself must not wait."""
        if self.process is not None:
            self.process.kill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            work.close()
            return
        self._tasks.create_task(work)

    # ---- what the agent says -----------------------------------------------------------

    def update(self, session_id: str, update: dict[str, Any]) -> None:
        self._tell(ev.UpdateCame(now(), self.execution_id, session_id, update))

    def permission(
        self, key: str, title: str, tool_kind: str | None, options: tuple[tuple[str, str, str], ...]
    ) -> None:
        self._tell(ev.PermissionAsked(now(), self.execution_id, key, title, tool_kind, options))

    def _terminal_ended(self, terminal: Terminal) -> None:
        ended = terminal.ended
        output = self._redactor.hide(terminal.output())[-TERMINAL_CHARS:]
        told = ev.TerminalEnded(
            now(),
            self.execution_id,
            terminal.terminal_id,
            output,
            ended.code if ended else None,
            ended.signal if ended else None,
        )
        self._tell(told)

    def _oversize(self, line: Oversize) -> None:
        limit = self._settings.max_line_bytes
        text = f"the agent wrote a line of {line.size} bytes, over the limit of {limit}"
        log.warning("%s", text)
        if line.is_update:
            self._tell(ev.FaultSeen(now(), self.execution_id, text + "; it was dropped"))
            return
        failure = Failure(code=FailureCode.GARBAGE, message=text)
        self._tell(ev.StreamBroken(now(), self.execution_id, failure))


TERMINAL_CHARS = 4_000
"""Of a terminal's output, the end of which is told as a message."""


class _NotLaunched(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


def load_bridge() -> Any:
    """What speaks ACP, off the loop: the library is large, and /health answers meanwhile."""
    from kandev_operator.agentctl import bridge

    return bridge
