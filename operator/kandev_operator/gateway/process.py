"""The gateway's process: its parts put together, started in order, and ended gently.

Everything that runs is a task of one group. Asked to end, it tells the sockets, gives them a
moment, and then stops; what was not written yet is read again from the journals by the next one.
"""

import asyncio
import contextlib
import datetime
import logging
import signal
import socket
import time
from dataclasses import replace

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.kube import Kube
from kandev_operator.gateway.actions.objects import GATEWAY_MANAGER
from kandev_operator.gateway.app import House, build
from kandev_operator.gateway.cache import Cache
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.door import Door, EveryRight, OpenDoor
from kandev_operator.gateway.following import Following
from kandev_operator.gateway.hub import Hub
from kandev_operator.gateway.keys import Keys
from kandev_operator.gateway.lines import Lines
from kandev_operator.gateway.options import Settings
from kandev_operator.gateway.pages.built import NotBuilt
from kandev_operator.gateway.pages.routes import page_routes
from kandev_operator.gateway.pageviews import PageViews
from kandev_operator.gateway.ports import HistoryUnavailable, Rights
from kandev_operator.gateway.recorder.metrics import RecorderMetrics
from kandev_operator.gateway.recorder.recorder import Recorder
from kandev_operator.gateway.recorder.settings import Keeping, RecorderSettings
from kandev_operator.gateway.rights.login import LoginDoor, Proxy
from kandev_operator.gateway.rights.reviews import Reviews
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.store import Store
from kandev_operator.gateway.watch import Watch
from kandev_operator.gateway.wire.envelope import MAX_FRAME_BYTES

GOODBYE_SECONDS = 1.0
PING_SECONDS = 20.0
_log = logging.getLogger(__name__)


class Archive:
    """Where sessions were whose objects are gone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def place_of(self, session_uid: str) -> tuple[str, str] | None:
        """Namespace and name. Raises HistoryUnavailable."""
        try:
            seen = await self._store.session_seen(session_uid)
        except StoreUnavailable as error:
            raise HistoryUnavailable(str(error)) from None
        return (seen.namespace, seen.name) if seen is not None else None


async def serve(settings: Settings) -> None:
    """Serve until a signal comes. Raises ClientError, StoreRefused or OSError at the start."""
    registry = CollectorRegistry()
    store = Store(settings.database_url)
    bound = socket.create_server((settings.host, settings.port), reuse_port=False, backlog=1024)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(bound.close)
        stack.push_async_callback(store.close)
        connecting = Kube.connect(settings.kubeconfig, field_manager=GATEWAY_MANAGER)
        kube = await stack.enter_async_context(await connecting)
        http = await stack.enter_async_context(open_session())
        cache = Cache()
        keys = Keys(kube, settings.operator_namespace)
        lines = Lines(kube, http, cache, keys.minter)
        keeping = replace(Keeping(), days=settings.keep_days)
        recorder = Recorder(
            store, now, RecorderSettings(keeping=keeping), RecorderMetrics(registry)
        )
        rights, door = _rights(settings, kube, keys)
        desk = Desk(kube, cache, lines, rights, recorder, Archive(store), now, settings.template)
        following = Following(cache, lines, recorder, settings.namespaces)
        hub = Hub(desk)
        watch = Watch(kube, cache, settings.namespaces, hub.freshness_changed)

        def problems() -> list[str]:
            seen = [] if watch.complete.is_set() else ["the cluster was not listed yet"]
            return seen + ([keys.problem] if keys.problem else [])

        house = House(desk, hub, door, registry, problems, _pages(desk, door))
        server = _Server(_config(build(house)))
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(each) for each in (watch.run(), recorder.run(), keys.run())]
            parts.append(group.create_task(_list_first(watch, following)))
            serving = group.create_task(server.serve(sockets=[bound]))
            _log.info("serving on http://%s:%s", *bound.getsockname()[:2])
            ending = group.create_task(_until_asked(house, server))
            await serving
            for part in (*parts, ending):
                part.cancel()


def _rights(settings: Settings, kube: Kube, keys: Keys) -> tuple[Rights, Door]:
    """The cluster's word on people; or everybody at home, where that was asked for."""
    if not settings.login:
        return EveryRight(), OpenDoor()
    reviews = Reviews(kube, time.monotonic)
    proxy = Proxy(settings.trusted_proxies, settings.user_header, settings.group_header)
    return reviews, LoginDoor(reviews, keys.seal, frozenset(settings.public_urls), proxy)


def _pages(desk: Desk, door: Door) -> list[BaseRoute]:
    """A gateway without its page still serves programs."""
    try:
        return page_routes(PageViews(desk), door.person)
    except NotBuilt as error:
        _log.warning("no page is served: %s", error)
        return []


async def _list_first(watch: Watch, following: Following) -> None:
    await watch.complete.wait()
    following.listed()


async def _until_asked(house: House, server: uvicorn.Server) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()
    house.ending.set()
    await asyncio.sleep(GOODBYE_SECONDS)
    server.should_exit = True


class _Server(uvicorn.Server):
    """Signals are ours: sockets are told before they are closed."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Leave them."""
        yield


def _config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type] # Starlette is one
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        timeout_graceful_shutdown=5,
        server_header=False,
        # Else a peer on loopback (a port-forward) could claim any address, a trusted proxy's too.
        proxy_headers=False,
    )


def now() -> str:
    """The time of day, RFC 3339 in UTC."""
    moment = datetime.datetime.now(datetime.UTC)  # noqa: TID251 # the process's own clock
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
