"""The watch: kopf as an informer, in a thread and a loop of its own, and nothing but that.

kopf lists and watches our four kinds and hands each body over to the operator's loop. It has its
own loop because at its end it cancels every task of the loop it ran in, and it does end: an
expired list or a refused watch stops it as a whole. Then it is started again here, with back-off,
while workers, Lease and followers go on, and a sweep is asked for, because kopf never reports
what was deleted while it was not watching. No kopf state is kept in objects.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from kandev_operator.api import group
from kandev_operator.clients.credentials import Source
from kandev_operator.controller.cache import KINDS, Body, strip

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
        self._up_since: float | None = None
        self.problem: str = "the watch has not started yet"
        self.last_event: dict[str, float] = {}

    def start(self) -> None:
        """Begin to watch. Events arrive in the loop that runs now."""
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; waits for kopf to close its streams, at most a few seconds."""
        self._stopping.set()
        inner, thread = self._inner, self._thread
        if inner is not None:
            loop, flag = inner
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(flag.set)
        if thread is not None:
            await asyncio.to_thread(thread.join, 5.0)

    @property
    def is_up(self) -> bool:
        """kopf runs and has begun to watch."""
        return self._up_since is not None

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                asyncio.run(self._once())
                self.problem = "the watch ended"
            except BaseException as error:  # whatever ends kopf, the watch begins again
                self.problem = f"the watch broke: {type(error).__name__}: {error}"[:300]
            self._up_since = None
            if self._stopping.is_set():
                return
            if time.monotonic() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            log.warning("%s; watching again in %.0f s", self.problem, pause)
            self._stopping.wait(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
            self._call_home(self._on_restart)

    def _call_home(self, what: Callable[..., None], *args: Any) -> None:
        assert self._home is not None, "start was called"
        with contextlib.suppress(RuntimeError):  # the operator's loop has ended before us
            self._home.call_soon_threadsafe(what, *args)

    async def _once(self) -> None:
        stop, ready = asyncio.Event(), asyncio.Event()
        self._inner = (asyncio.get_running_loop(), stop)
        if self._stopping.is_set():
            return
        async with asyncio.TaskGroup() as tasks:
            noting = tasks.create_task(self._note_ready(ready), name="watch-ready")
            try:
                # kopf cancels the tasks that began after it; this one began before.
                await kopf.operator(
                    registry=self._registry(),
                    settings=_settings(),
                    standalone=True,
                    clusterwide=not self._namespaces,
                    namespaces=self._namespaces,
                    stop_flag=stop,
                    ready_flag=ready,
                )
            finally:
                noting.cancel()

    async def _note_ready(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self._up_since = time.monotonic()
        self.problem = ""

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
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

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        access = await self._source.load()
        config = access.configuration
        scheme, _blank, token = (access.authorization or "").partition(" ")
        return kopf.ConnectionInfo(
            server=config.host,
            ca_path=config.ssl_ca_cert,
            insecure=not config.verify_ssl,
            certificate_path=config.cert_file,
            private_key_path=config.key_file,
            scheme=scheme if token else None,
            token=token or None,
            default_namespace=access.namespace,
        )


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
