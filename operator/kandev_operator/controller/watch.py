"""The watch: kopf as an informer, in a thread and a loop of its own, and nothing but that.

kopf lists and watches our four kinds and hands each body over to the operator's loop. It has its
own loop because at its end it cancels every task of the loop it ran in, and it does end: an
expired list or a refused watch stops it as a whole. Then it is started again here, with back-off,
while workers, Lease and followers go on, and a sweep is asked for, because kopf never reports
what was deleted while it was not watching. No kopf state is kept in objects.

Whether it watches is not taken from kopf, which does not say, but from its requests (`streams`).
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
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
        self._refusal = ""
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
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began, self._again = time.monotonic(), None
            try:
                asyncio.run(self._once())
                words = "the watch ended"
            except BaseException as error:  # whatever ends kopf, the watch begins again
                words = f"the watch broke: {type(error).__name__}: {error}"[:300]
            refusal = self._streams.refusal if self._streams else ""
            again = self._again
            self._ended, self._streams = again or refusal or words, None
            if self._stopping.is_set():
                return
            if again is not None or time.monotonic() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            level = logging.DEBUG if refusal and not again else logging.WARNING
            log.log(level, "%s; watching again in %.0f s", self._ended, pause)
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
        await kopf.operator(
            registry=self._registry(streams),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=stop,
        )

    def _places(self) -> list[Place]:
        namespaces = self._namespaces or (None,)
        return [Place(group.PLURALS[kind], each) for kind in KINDS for each in namespaces]

    def _registry(self, streams: Streams) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login(streams))
        for kind in KINDS:
            watched = (group.GROUP, group.VERSION, group.PLURALS[kind])
            kopf.on.event(*watched, registry=registry)(self._seer(kind))
        return registry

    def _seer(self, kind: str) -> Any:
        async def seen(event: Any, **_: Any) -> None:
            body = strip(dict(event["object"]))
            self.last_event[kind] = time.monotonic()
            self._call_home(self._on_event, event["type"] or "LISTED", kind, body)

        return seen

    def _login(self, streams: Streams) -> Any:
        """kopf's way to credentials: asked at the start of a run, and after each 401."""
        refused: set[tuple[str, str | None]] = set()

        async def login(**_: Any) -> kopf.AiohttpSession:
            try:
                access = await self._source.load()
            except Unauthorized as error:
                raise kopf.PermanentError(str(error)) from None
            # Asked again for what it was given: that was refused, and would be in a tight loop.
            given = (access.connection, access.authorization)
            if given in refused:
                raise kopf.PermanentError("the API server does not accept the credentials")
            refused.add(given)
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
            # kopf closes it at its end.
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
                headers=info.as_http_headers(),
                trace_configs=[self._trace(streams)],
            )
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
            self._tell_refusal(streams)

        async def failed(_session: Any, _context: Any, params: Any) -> None:
            if (seen := about(params)) is not None:
                error = params.exception
                streams.failed(*seen, f"{type(error).__name__}: {error}"[:200])

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(asked)
        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace

    def _tell_refusal(self, streams: Streams) -> None:
        """One line when a right is missing, however often kopf tries, and one when it is there."""
        refusal = streams.refusal
        if refusal and refusal != self._refusal:
            log.error("%s; grant the verbs list and watch", refusal)
        elif self._refusal and streams.problem == "":
            log.info("everything can be watched again")
        else:
            return
        self._refusal = refusal


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = [1, 2, 3, 5]
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    return settings
