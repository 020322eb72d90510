"""One execution whose process lives on the upstream: what `execution.Execution` is for our own.

It finds or makes the instance, starts the agent's process there and initializes it once, opens
conversations, hands prompts over, and tells the machine what came of it. It decides nothing about
the session. What it must know about their side it asks for: a process counts as gone when the
upstream says so, and as unknown (so nothing is told) while the upstream does not answer.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.upstream import launch, wire
from kandev_operator.agentctl.upstream.client import Client, Process, Trouble, Vanished
from kandev_operator.agentctl.upstream.launch import NotLaunched, Started
from kandev_operator.agentctl.upstream.opening import Opening, Where
from kandev_operator.agentctl.upstream.record import Records
from kandev_operator.agentctl.upstream.stream import Broken, Rejected, Stream
from kandev_operator.agentctl.upstream.turn import Conversation, Live
from kandev_operator.agentctl.verdicts import Fault
from kandev_operator.contract.status import Exit, Failure, FailureCode

log = logging.getLogger("kandev.agentctl.upstream")
Json = dict[str, Any]

LOOK_SECONDS: Final = 5.0
"""How often the process is looked at; an exit is usually told by an event before that."""
STDERR_SECONDS: Final = 3.0
LAST_WORDS: Final = 0.3
"""What a process said before it died may be told after its death."""


@dataclass(frozen=True, slots=True)
class Means:
    """What every execution on one upstream works with."""

    client: Client
    settings: Settings
    redactor: Redactor


@dataclass(frozen=True, slots=True)
class Rejoined:
    """The process is there already, from before a restart of ours."""

    live: Live | None
    """The turn that was under way."""


class UpstreamRun:
    """One agent process on the upstream. `tell` takes what happened to the machine, at once."""

    def __init__(
        self,
        execution_id: str,
        where: Where,
        means: Means,
        records: Records,
        tell: Callable[[ev.Event], None],
        rejoined: Rejoined | None = None,
    ) -> None:
        self.execution_id = execution_id
        self._where, self._records, self._tell = where, records, tell
        self._client, self._redactor = means.client, means.redactor
        self._settings = means.settings
        self._rejoined = rejoined
        self._started: Started | None = None
        self._stream: Stream | None = None
        self._opening: Opening | None = None
        self._talk: Conversation | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self.over = asyncio.Event()
        self._gone = asyncio.Event()
        self._left = asyncio.Event()
        self._end_grace: float | None = None
        self._ending = False
        self._last_seen: Process | None = None
        self._spawned: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The process's number on the upstream's machine."""
        return self._started.pid if self._started and not self._gone.is_set() else None

    # ---- life --------------------------------------------------------------------------

    async def run(self, may_launch: Callable[[], Coroutine[Any, Any, Failure | None]]) -> None:
        """Launch or rejoin, serve until the process is gone or we leave it."""
        try:
            self._started = await self._begin(may_launch)
        except NotLaunched as exc:
            self._tell(ev.InitializeFailed(now(), self.execution_id, exc.failure, launched=False))
            return
        if self._started.pid == launch.UNKNOWN_PID:
            await self._end_whatever_runs()
            return
        self._stream = Stream(
            self._client,
            self._where.instance_id,
            self._started.pid,
            on_event=self._event,
            on_connected=self._connected,
            on_silence=lambda: self._tell(ev.Silenced(now(), self.execution_id)),
            on_gone=self._is_gone,
        )
        self._talk = Conversation(
            self.execution_id,
            self._stream,
            self._redactor.hide,
            self._tell,
            self._look,
            self._rejoined.live if self._rejoined else None,
            lambda offers: self._records.learn(offers=offers),
        )
        self._opening = Opening(
            self._stream,
            self._talk,
            self._where,
            self._records,
            self._redactor.hide,
            self._settings.patience.initialize,
        )
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            owned = [tasks.create_task(self._stream.run()), tasks.create_task(self._keep_looking())]
            if self._rejoined is None:
                owned.append(tasks.create_task(self._initialize(self._started)))
            if self._end_grace is not None:
                self._spawn(self._end(self._end_grace))
            ends = [tasks.create_task(e.wait()) for e in (self._gone, self._left)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self._tasks = None
            if self._gone.is_set() and not self._left.is_set():
                await self._tell_exit()
            for task in (*owned, *ends, *self._spawned):
                task.cancel()

    async def _end_whatever_runs(self) -> None:
        """agentctl died while a process was being started: there may be one, or none."""
        while not self._left.is_set():
            try:
                instance = await self._client.find(self._where.instance_id)
                await self._client.stop(instance)
            except Vanished:
                pass
            except Trouble as trouble:
                log.debug("what may have been started is not stopped yet: %s", trouble)
                await self._pause()
                continue
            self._records.forget()
            self._tell(ev.Exited(now(), self.execution_id, Exit(at=now())))
            return

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._left.wait()

    async def _begin(
        self, may_launch: Callable[[], Coroutine[Any, Any, Failure | None]]
    ) -> Started:
        record = self._records.now
        if self._rejoined is not None and record is not None:
            return Started(record.pid, record.capabilities)
        if refused := await may_launch():
            raise NotLaunched(refused)
        where = self._where
        assert where.spec is not None
        if self._end_grace is not None:
            message = "ended before it was launched"
            raise NotLaunched(Failure(code=FailureCode.SUPERSEDED, message=message))
        return await launch.begin(
            self._client,
            self._records,
            launch.Order(
                execution_id=self.execution_id,
                instance_id=where.instance_id,
                session_id=where.session_id,
                workspace=where.workspace,
                spec=where.spec,
                may_adopt=where.may_adopt,
            ),
        )

    async def _tell_exit(self) -> None:
        await asyncio.sleep(LAST_WORDS)
        seen = self._last_seen
        code, signal = (seen.exit_code, _signal(seen.exit_error)) if seen else (None, None)
        told = Exit(
            code=None if signal else code, signal=signal, at=now(), stderr_tail=await self._stderr()
        )
        self._records.forget()
        log.info("the upstream's agent ended: code %s signal %s", told.code, told.signal)
        self._tell(ev.Exited(now(), self.execution_id, told))

    async def _stderr(self) -> str:
        """The last lines of stderr; none while it is not known which secrets to hide in them.

        Asked for in any case: with the answer, everything that was said before it has come.
        """
        if self._stream is None:
            return ""
        try:
            told = await self._stream.call("agent.stderr", {}, STDERR_SECONDS)
        except (Broken, Rejected, TimeoutError):
            return ""
        if self._where.spec is None:
            return ""
        lines = told.get("lines")
        text = "\n".join(str(line) for line in lines) if isinstance(lines, list) else ""
        return self._redactor.hide(text)[-2000:]

    # ---- looking -----------------------------------------------------------------------

    async def _look(self) -> bool | None:
        """Whether the process still runs; None while the upstream does not say."""
        assert self._started is not None
        try:
            instance = await self._client.find(self._where.instance_id)
            process = await self._client.process(instance)
        except Vanished:
            self._is_gone(None)
            return False
        except Trouble:
            return None
        if process.running and process.pid == self._started.pid:
            return True
        self._is_gone(process if process.pid == self._started.pid else None)
        return False

    def _is_gone(self, process: Process | None) -> None:
        self._last_seen = process or self._last_seen
        self._gone.set()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _connected(self) -> None:
        assert self._talk is not None
        self._tell(ev.Rejoined(now(), self.execution_id))
        rejoined, self._rejoined = self._rejoined, None
        if rejoined is not None and rejoined.live is not None and not rejoined.live.arrived:
            self._spawn(self._talk.doubt(rejoined.live))
        await self._talk.connected()

    async def _event(self, event: Json) -> None:
        assert self._talk is not None
        await self._talk.event(event)

    # ---- initialize and open -----------------------------------------------------------

    async def _initialize(self, started: Started) -> None:
        if started.capabilities is not None:
            self._tell(ev.Initialized(now(), self.execution_id, started.capabilities))
            return
        try:
            assert self._opening is not None
            told = await self._opening.capabilities(started)
        except Fault as fault:
            self._tell(ev.InitializeFailed(now(), self.execution_id, fault.failure))
            return
        self._records.learn(capabilities=told)
        self._tell(ev.Initialized(now(), self.execution_id, told))

    def open(self, act: fx.Open) -> None:
        self._spawn(self._open(act))

    async def _open(self, act: fx.Open) -> None:
        try:
            assert self._opening is not None
            method, token, offers = await self._opening.opened(act)
        except Fault as fault:
            failure = fault.failure
            if failure.code == FailureCode.AGENT_ERROR and await self._look() is False:
                return  # it died of it, which `run` tells
        except TimeoutError:
            message = f"the conversation was not open within {act.timeout:g} s"
            failure = Failure(code=FailureCode.TIMED_OUT, message=message)
        else:
            self._records.learn(conversation=token, offers=offers)
            told = ev.Opened(now(), self.execution_id, act.operation_id, method, token, offers)
            self._tell(told)
            return
        self._tell(ev.OpenFailed(now(), self.execution_id, act.operation_id, failure))

    # ---- turns -------------------------------------------------------------------------

    def send(self, act: fx.SendPrompt) -> None:
        if self._talk is not None:
            self._talk.begins(act.turn_id, act.token)
            self._spawn(self._talk.send(act))

    def cancel(self, act: fx.CancelTurn) -> None:
        if self._talk is not None:
            self._spawn(self._talk.cancel())

    def choose(self, act: fx.Choose) -> None:
        self._spawn(self._choose(act))

    async def _choose(self, act: fx.Choose) -> None:
        assert self._stream is not None
        limit = self._settings.patience.choice
        try:
            action, payload = wire.choice(act.method, act.token, act.params)
            await self._stream.call(action, payload, limit)
        except Fault as fault:
            failure = fault.failure
        except Rejected as no:
            failure = wire.failure_of(no.message, self._redactor.hide)
        except (Broken, TimeoutError):
            message = f"{act.method} was not answered within {limit:g} s"
            failure = Failure(code=FailureCode.TIMED_OUT, message=message)
        else:
            self._tell(ev.SettingAnswered(now(), self.execution_id, act.operation_id, {}))
            return
        self._tell(ev.SettingFailed(now(), self.execution_id, act.operation_id, failure))

    def answer(self, act: fx.AnswerPermission) -> None:
        if self._talk is not None:
            self._spawn(self._talk.answer(act.key, act.option_id))

    # ---- the end -----------------------------------------------------------------------

    def end(self, grace: float) -> None:
        """End the process gently; once it has begun, a second wish changes nothing."""
        if self._end_grace is None:
            self._end_grace = grace
            self._spawn(self._end(grace))

    async def _end(self, grace: float) -> None:
        if self._ending or self._talk is None:
            return
        self._ending = True
        self._records.learn(ending=True)
        if grace > 0:
            await self._talk.settled(min(grace / 2, 5.0), self._settings.patience.after_turn)
        while not self._gone.is_set():
            try:
                instance = await self._client.find(self._where.instance_id)
                await self._client.stop(instance)
            except Vanished:
                self._is_gone(None)
            except Trouble as trouble:
                log.warning("the upstream did not stop its agent: %s", trouble)
            if await self._look() is not False:
                await asyncio.sleep(1.0)

    def leave(self) -> None:
        """agentctl ends and the process stays: it is found again by the next one."""
        self._left.set()

    def kill(self) -> None:
        """For a bug of ours: nothing is believed of the process; the next launch ends it."""
        self._records.forget()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)


def _signal(error: str) -> str | None:
    """Go tells a signal in words: "signal: killed"."""
    words = {"killed": "SIGKILL", "terminated": "SIGTERM", "interrupt": "SIGINT"}
    _, found, name = error.partition("signal: ")
    if not found:
        return None
    return words.get(name.split(" ")[0].strip(), name[:40])
