"""The watch: kopf as an informer, in a thread and a loop of its own, and nothing but that.

kopf lists and watches our four kinds and hands each body over to the operator's loop. It has its
own loop because at its end it cancels every task of the loop it ran in, and it does end: an
expired list or a deleted CRD stops it as a whole. Then it is started again here, with back-off,
while workers, Lease and followers go on, and a sweep is asked for, because kopf never reports
what was deleted while it was not watching. No kopf state is kept in objects.

Whether it watches is not taken from kopf, which does not say, but from its requests (`streams`).
Whatever the API server answers, a request is tried again without end: kopf that gives up can
hang in its own shutdown, waiting for credentials that nobody gets any more. A run that neither
watches nor tries to, or does not come to its end, is abandoned with its loop.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Final

import aiohttp
import kopf

from kandev_operator.api import group
from kandev_operator.clients.credentials import Source
from kandev_operator.clients.errors import Unauthorized
from kandev_operator.controller.cache import KINDS, Body, strip
from kandev_operator.controller.streams import Place, Streams, place_of

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_STEADY_SECONDS: Final = 120.0
"""A watch that lived this long before it broke begins again with the shortest pause."""
_END_SECONDS: Final = 4.0
"""kopf may take so long to end."""
_SILENT_SECONDS: Final = 100.0
"""Longer than kopf waits for any answer before it asks again."""
_LOOK_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 3.0
_SAME_AGAIN_SECONDS: Final = 10.0

OnEvent = Callable[[str, str, Body], None]
"""Called in the operator's loop: type (ADDED, MODIFIED, DELETED or LISTED), kind, body."""


class Watch:
    """Owns the kopf thread. `start` and `stop` belong to the operator's loop."""

    def __init__(
        self,
        source: Source,
        namespaces: Sequence[str],
        on_event: OnEvent,
        on_restart: Callable[[], None],
    ) -> None:
        self._source = source
        self._namespaces = tuple(namespaces)
        self._on_event = on_event
        self._on_restart = on_restart
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._again: str | None = None
        self._streams: Streams | None = None
        self._ended: str = "the watch has not started yet"
        self._told = ""
        self._no_entry = ""
        self._sessions: list[aiohttp.ClientSession] = []
        self.last_event: dict[str, float] = {}

    def start(self) -> None:
        """Begin to watch. Events arrive in the loop that runs now."""
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; waits for kopf to close its streams, at most a few seconds."""
        self._stopping.set()
        self._end_run()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    def restart(self, why: str) -> None:
        """Watch anew from fresh lists: what the open streams tell is not to be trusted."""
        if self._again is None and not self._stopping.is_set():
            self._again = why
            self._end_run()

    @property
    def is_up(self) -> bool:
        """Every kind is being watched."""
        return not self.problem

    @property
    def problem(self) -> str:
        """Why it is not up; empty while it is."""
        streams = self._streams
        return self._ended if streams is None else streams.problem

    def _end_run(self) -> None:
        if self._inner is not None:
            loop, flag = self._inner
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(flag.set)

    def _run(self) -> None:
        # kopf tells every attempt and every end; what matters of it is told here, once.
        for loud in ("kopf._cogs.clients", "kopf._core.reactor.running", "kopf.activities"):
            logging.getLogger(loud).setLevel(logging.CRITICAL)
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began, self._again = time.monotonic(), None
            words = _in_own_loop(self._once())
            self._ended, self._streams = self._again or words, None
            if self._stopping.is_set():
                return
            if self._again is not None or time.monotonic() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            log.warning("%s; watching again in %.0f s", self._ended, pause)
            self._stopping.wait(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
            self._call_home(self._on_restart)

    def _call_home(self, what: Callable[..., None], *args: Any) -> None:
        assert self._home is not None, "start was called"
        with contextlib.suppress(RuntimeError):  # the operator's loop has ended before us
            self._home.call_soon_threadsafe(what, *args)

    async def _once(self) -> None:
        stop = asyncio.Event()
        self._inner = (asyncio.get_running_loop(), stop)
        if self._stopping.is_set():
            return
        self._streams = streams = Streams(self._places(), time.monotonic)
        self._no_entry = ""
        try:
            await self._watch(streams, stop)
        finally:
            sessions, self._sessions = self._sessions, []
            for session in sessions:
                await session.close()

    async def _watch(self, streams: Streams, stop: asyncio.Event) -> None:
        tasks = await kopf.spawn_tasks(
            registry=self._registry(streams),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=stop,
        )
        ended: set[Any] = set()
        while not ended:
            # The first of its root tasks that ends is the end of all.
            first = asyncio.FIRST_COMPLETED
            ended, _ = await asyncio.wait(tasks, timeout=_LOOK_SECONDS, return_when=first)
            self._tell(streams)
            if self._no_entry:
                # kopf would now wait without end for credentials that it does not ask for again.
                raise _Abandoned(self._no_entry)
            if streams.silent_seconds > _SILENT_SECONDS:
                raise _Abandoned(f"it neither watches nor tries to: {streams.problem}")
        ours = {task for task in (asyncio.current_task(),) if task is not None}
        closing = asyncio.create_task(kopf.run_tasks(tasks, ignored=ours), name="watch-closing")
        await asyncio.wait((closing,), timeout=_END_SECONDS)
        if not closing.done():
            raise _Abandoned("it did not come to its end")
        await closing

    def _places(self) -> list[Place]:
        namespaces = self._namespaces or (None,)
        plurals = [_watched(kind)[-1] for kind in KINDS]
        return [Place(plural, each) for plural in plurals for each in namespaces]

    def _registry(self, streams: Streams) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login(streams))
        for kind in KINDS:
            kopf.on.event(*_watched(kind), registry=registry)(self._seer(kind))
        return registry

    def _seer(self, kind: str) -> Any:
        async def seen(event: Any, **_: Any) -> None:
            body = strip(dict(event["object"]))
            self.last_event[kind] = time.monotonic()
            self._call_home(self._on_event, event["type"] or "LISTED", kind, body)

        return seen

    def _login(self, streams: Streams) -> Any:
        """kopf's way to credentials: asked at the start of a run, and after each 401."""
        given: dict[tuple[str, str | None], float] = {}

        async def login(**_: Any) -> kopf.AiohttpSession:
            try:
                access = await self._source.load()
                who, now = (access.connection, access.authorization), time.monotonic()
                if now - given.get(who, -_SAME_AGAIN_SECONDS) < _SAME_AGAIN_SECONDS:
                    # Just given, and refused: giving it again would be a tight loop.
                    raise Unauthorized("watch", "the API server does not accept the credentials")
            except Unauthorized as error:
                self._no_entry = str(error)
                raise kopf.PermanentError(str(error)) from None
            given[who] = now
            config = access.configuration
            scheme, _blank, token = (access.authorization or "").partition(" ")
            info = kopf.ConnectionInfo(
                server=config.host,
                ca_path=config.ssl_ca_cert,
                insecure=not config.verify_ssl,
                certificate_path=config.cert_file,
                private_key_path=config.key_file,
                scheme=scheme if token else None,
                token=token or None,
            )
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
                headers=info.as_http_headers(),
                trace_configs=[self._trace(streams)],
            )
            self._sessions.append(session)
            return kopf.AiohttpSession(
                server=config.host, aiohttp_session=session, default_namespace=access.namespace
            )

        return login

    def _trace(self, streams: Streams) -> aiohttp.TraceConfig:
        """Looks at kopf's requests as they pass."""

        def about(params: Any) -> tuple[Place, str] | None:
            place = place_of(params.url.path)
            verb = "watch" if params.url.query.get("watch") == "true" else "list"
            return (place, verb) if place is not None and params.method == "GET" else None

        async def asked(_session: Any, _context: Any, params: Any) -> None:
            if (seen := about(params)) is not None:
                streams.asked(*seen)

        async def answered(_session: Any, _context: Any, params: Any) -> None:
            if (seen := about(params)) is None:
                return
            status = params.response.status
            if streams.answered(*seen, status, params.response.reason or ""):
                # Whatever broke the stream: the server may be another than before it.
                self._call_home(self._on_restart)

        async def failed(_session: Any, _context: Any, params: Any) -> None:
            if (seen := about(params)) is not None:
                error = params.exception
                streams.failed(*seen, f"{type(error).__name__}: {error}"[:200])

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(asked)
        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace

    def _tell(self, streams: Streams) -> None:
        """One line when the watch goes down or a right is missing, and one when all is well."""
        problem = streams.refusal or streams.problem
        if not problem and self._told:
            log.info("everything is watched again")
        elif streams.refusal and problem != self._told:
            log.error("%s; the role must grant list and watch", problem)
        elif problem and streams.was_up and not self._told:
            log.warning("the watch is down: %s", problem)
        else:
            return
        self._told = problem


class _Abandoned(Exception):
    """A run of kopf was given up."""


def _watched(kind: str) -> tuple[str, ...]:
    """How kopf is told of a kind; the plural comes last."""
    if kind == group.POD:
        return ("v1", "pods")
    return (group.GROUP, group.VERSION, group.PLURALS[kind])


def _in_own_loop(running: Coroutine[Any, Any, None]) -> str:
    """Run to the end, in a loop that goes with it; how it ended, in words.

    Unlike asyncio.run it waits for no task that hangs: such a one is cancelled and left behind.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(running)
        return "the watch ended"
    except BaseException as error:  # whatever ends kopf, the watch begins again
        return f"the watch broke: {type(error).__name__}: {error}"[:300]
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        loop.close()


class _Patience:
    """Pauses between the tries of a request, in seconds: they never come to an end."""

    def __iter__(self) -> Iterator[float]:
        return chain((0.5, 1.0, 2.0), repeat(_RETRY_SECONDS))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    # The API server sends the pods of executors alone.
    settings.watching.label_selectors["v1", "pods"] = group.LABEL_EXECUTOR_UID
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = _Patience()
    # Else a shutdown that hangs for ten minutes would kill the process.
    settings.process.ultimate_exiting_timeout = None
    # A worker only hands a body over. One for each of thousands of listed objects at once, each
    # lingering for a second, would cost more memory than the objects do.
    settings.watching.chunk_size = 500
    settings.queueing.worker_limit = 64
    settings.queueing.idle_timeout = 0.02
    settings.queueing.exit_timeout = 0.5
    return settings
