"""The operator as a whole: puts the parts together, owns every task, starts and stops in order.

Start: the served schema is right, the first lists are complete, the watch is on; then workers
wait for the Lease and run passes. Stop: no new passes, those under way end, the Lease is given
back so that a standby takes over at once, and then the watch closes. An outage of the API server
ends nothing here: it stops acting (the Lease runs out) and makes the process not ready.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from kandev_operator.api import group
from kandev_operator.api.troubles import Problem
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.credentials import find_source
from kandev_operator.clients.docker import DockerEngine
from kandev_operator.clients.errors import ClientError
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.local import LocalHost
from kandev_operator.clients.signing import load_or_create_signing_key
from kandev_operator.clients.tokens import Minter, SigningKey
from kandev_operator.controller import routes, schema, standing
from kandev_operator.controller.cache import Body, Cache, Change
from kandev_operator.controller.callers import Callers
from kandev_operator.controller.events import EventPoster
from kandev_operator.controller.graves import Graves
from kandev_operator.controller.guests import Guests
from kandev_operator.controller.keyring import Keyring
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.controller.lookups import Lookups
from kandev_operator.controller.metrics import Levels, Metrics
from kandev_operator.controller.prober import Prober
from kandev_operator.controller.pulls import Pulls
from kandev_operator.controller.queue import Key, QueueClosed, WorkQueue
from kandev_operator.controller.reconcile import Reconciler
from kandev_operator.controller.rights import Rights
from kandev_operator.controller.scope import leadership
from kandev_operator.controller.secrets import Secrets
from kandev_operator.controller.server import Server
from kandev_operator.controller.settings import Settings
from kandev_operator.controller.sweep import Sweep
from kandev_operator.controller.tracing import tracing
from kandev_operator.controller.watch import Watch
from kandev_operator.controller.wiring import Wiring

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 10.0
_TAKE_UP_SECONDS: Final = 0.5
_STUCK_SECONDS: Final = 120.0
_UNCHECKED: Final = "the served schema was not checked yet"


def utc_now() -> datetime:
    """The one clock of the operator's decisions."""
    return datetime.now(UTC)  # noqa: TID251 - here is where time comes from


class Operator:
    """One operator process. `run` returns after `stop` was asked for and everything ended."""

    def __init__(
        self, settings: Settings, hide: Callable[[str], None] = lambda _secret: None
    ) -> None:
        self._settings = settings
        self._hide = hide
        self._stopping = asyncio.Event()
        self._obstacle: tuple[Problem, str] | None = (Problem.SCHEMA, _UNCHECKED)
        self._started = time.monotonic()
        self.metrics = Metrics(self._levels)
        self._tracing = tracing(settings.otlp_endpoint, settings.identity)
        self.edges = EdgeLog()
        self.server = Server(
            settings.listen_host,
            settings.listen_port,
            liveness=self._not_alive,
            readiness=self._not_ready,
            metrics=self.metrics.page,
        )
        self._docker: DockerEngine | None = None
        self._wiring: Wiring | None = None
        self._reconciler: Reconciler | None = None
        self._sweep: Sweep | None = None
        self._rights: Rights | None = None
        self._watch: Watch | None = None
        self._postponed: set[Key] = set()

    def stop(self) -> None:
        """Ask for a graceful end."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`. Raises only for what cannot be served at all (no credentials)."""
        settings = self._settings
        await self.server.start()
        log.info("serving /healthz, /readyz and /metrics on port %d", self.server.port)
        source = find_source(settings.kubeconfig, settings.context)
        kube = await Kube.connect(
            settings.kubeconfig, settings.context, on_request=self.metrics.requested
        )
        async with kube, open_session() as http, contextlib.AsyncExitStack() as stack:
            if settings.docker_executors:
                self._docker = await stack.enter_async_context(DockerEngine(settings.docker_host))
            key = await self._prepared(kube)
            if key is None:
                await self.server.stop()
                return
            self._assemble(kube, http, key)
            assert self._sweep is not None
            self._watch = Watch(source, settings.namespaces, self._seen, self._sweep.ask)
            try:
                await self._serve()
            finally:
                await self._watch.stop()
                await self.server.stop()
                await asyncio.to_thread(self._tracing.close)
        log.info("stopped")

    async def _prepared(self, kube: Kube) -> SigningKey | None:
        """The schema is right and the signing key is there; None when asked to stop before."""
        while not self._stopping.is_set():
            words = await schema.problem(kube)
            obstacle = Problem.SCHEMA
            if words is None:
                try:
                    key = await load_or_create_signing_key(kube, self._settings.key_namespace)
                    self._obstacle = None
                    return key
                except (ClientError, TimeoutError) as error:
                    obstacle = Problem.KEY
                    words = f"the signing key cannot be had: {error}"[:300]
            self._obstacle = (obstacle, words)
            self.edges.log("operator", "schema", logging.ERROR, words)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._stopping.wait()
        return None

    def _assemble(self, kube: Kube, http: object, key: SigningKey) -> None:
        settings = self._settings
        minter = Minter(key, time.time)
        through = kube if settings.pods_through_api else None
        callers = Callers(http, minter, through, self.metrics.called)  # type: ignore[arg-type]
        cache = Cache(self._changed)
        self._wiring = Wiring(
            settings=settings,
            kube=kube,
            http=http,  # type: ignore[arg-type]
            cache=cache,
            queue=WorkQueue(),
            lease=leadership(kube, settings),
            prober=Prober(
                callers.reading,
                self._probed,
                utc_now,
                period=settings.probe_seconds,
                count=self.metrics.probed,
            ),
            metrics=self.metrics,
            tracing=self._tracing,
            events=EventPoster(kube, settings.identity, utc_now),
            secrets=Secrets(kube, time.monotonic, self._hide),
            lookups=Lookups(kube, time.monotonic),
            graves=Graves(),
            callers=callers,
            keyring=Keyring(
                kube,
                settings.key_namespace,
                minter,
                settle=timedelta(seconds=settings.key_settle_seconds),
                clock=utc_now,
                edges=self.edges,
            ),
            guests=Guests(kube, settings.key_namespace, self.edges),
            minter=minter,
            local=LocalHost(settings.local_executors),
            docker=self._docker,
            pulls=Pulls(self._docker, self._probed, utc_now) if self._docker else None,
            clock=utc_now,
        )
        self._reconciler = Reconciler(self._wiring, self.edges)
        self._sweep = Sweep(kube, cache, settings.namespaces, self.metrics, self.edges)
        self._rights = Rights(kube, settings, self.edges)

    async def _serve(self) -> None:
        """All long tasks, until asked to stop; then the graceful end."""
        wiring, sweep, watch = self._wiring, self._sweep, self._watch
        assert wiring is not None
        assert sweep is not None
        assert watch is not None
        assert self._rights is not None
        async with asyncio.TaskGroup() as tasks:
            loops = [
                tasks.create_task(
                    sweep.run(self._settings.sweep_seconds, self._drift, self._rewound),
                    name="sweep",
                ),
                tasks.create_task(wiring.prober.run(), name="prober"),
                tasks.create_task(wiring.events.run(), name="events"),
                tasks.create_task(self._take_up(), name="take-up"),
                tasks.create_task(
                    wiring.keyring.run(wiring.lease.valid, self._new_keys), name="key"
                ),
                tasks.create_task(wiring.guests.run(self._new_keys), name="guests"),
                tasks.create_task(self._rights.run(), name="rights"),
            ]
            if wiring.pulls is not None:
                loops.append(tasks.create_task(wiring.pulls.run(), name="pulls"))
            lease = tasks.create_task(wiring.lease.run(), name="lease")
            await _either(sweep.complete, self._stopping)
            watch.start()
            workers = [
                tasks.create_task(self._work(), name=f"worker-{n}")
                for n in range(self._settings.workers)
            ]
            await self._stopping.wait()
            log.info("stopping: no new work, then the lease is given back")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await wiring.queue.close()
            for worker in workers:
                worker.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await wiring.lease.release()
            for task in (*loops, lease):
                task.cancel()

    async def _work(self) -> None:
        """One worker: runs a pass where this process leads; else only looks, and keeps the key."""
        wiring, reconciler = self._wiring, self._reconciler
        assert wiring is not None
        assert reconciler is not None
        while True:
            try:
                key = await wiring.queue.get()
            except QueueClosed:
                return
            try:
                if wiring.lease.valid():
                    await reconciler.run(key)
                else:
                    self._postponed.add(key)
                    if not await reconciler.look(key):
                        self._postponed.discard(key)
            except Exception:
                # A bug of ours in one object's pass must not take the others down.
                log.exception("a pass over %s failed", key)
                wiring.queue.retry(key)
            finally:
                wiring.queue.done(key)

    async def _take_up(self) -> None:
        """Have every key run that was only looked at while this process did not lead."""
        wiring = self._wiring
        assert wiring is not None
        while True:
            await wiring.lease.wait_valid()
            while self._postponed:
                wiring.queue.add(self._postponed.pop())
            await asyncio.sleep(_TAKE_UP_SECONDS)

    def _new_keys(self) -> None:
        """Executors' passes hand out what their agentctls check tokens by."""
        wiring = self._wiring
        assert wiring is not None
        for place in wiring.cache.places(group.EXECUTOR):
            wiring.queue.add(Key(*place), low=True)

    def _seen(self, type_: str, kind: str, body: Body) -> None:
        """A watch event, in the operator's loop."""
        assert self._wiring is not None
        if type_ == "DELETED":
            meta = body["metadata"]
            if kind == group.POD:
                # The last word about it: how its containers ended.
                self._wiring.cache.put(kind, body)
            self._wiring.cache.drop(kind, meta.get("namespace", ""), meta["name"], meta.get("uid"))
        else:
            self._wiring.cache.put(kind, body)

    def _changed(self, change: Change) -> None:
        """An object is new, different or gone: ring for everything it concerns."""
        wiring, sweep = self._wiring, self._sweep
        assert wiring is not None
        if change.place[0] == group.POD and change.after is None and change.before is not None:
            wiring.graves.remember(change.before)
        listing = sweep is not None and not sweep.complete.is_set()
        for key, delay in routes.concerned(wiring.cache, change):
            if delay:
                wiring.queue.add_after(key, delay)
            else:
                wiring.queue.add(key, low=listing)
        kind, _, _ = change.place
        if kind == group.EXECUTOR and change.after is None and change.before is not None:
            wiring.prober.forget(change.before["metadata"]["uid"])

    def _probed(self, executor_uid: str) -> None:
        """An agentctl said something new: its executor and whoever is in it look again."""
        wiring = self._wiring
        assert wiring is not None
        place = wiring.cache.place_of(executor_uid)
        if place is None:
            return
        _, namespace, name = place
        wiring.queue.add(Key(group.EXECUTOR, namespace, name))
        for session in wiring.cache.sessions_of(group.EXECUTOR, namespace, name):
            wiring.queue.add(Key(group.TASK_SESSION, namespace, session))

    def _drift(self, differences: int) -> None:
        """The watch keeps silent about changes: begin it anew."""
        assert self._watch is not None
        self._watch.restart(f"the watch missed changes twice in a row, {differences} the last time")

    def _rewound(self) -> None:
        """The API server was restored: streams wait for versions that may never come."""
        assert self._watch is not None
        self._watch.restart("the API server was restored, and the watch follows a history it lost")

    def _not_alive(self) -> list[str]:
        """Liveness: our own loop and workers. An outage elsewhere is no reason to restart."""
        if self._wiring is None:
            return []
        stuck = self._wiring.queue.running_longer_than(_STUCK_SECONDS)
        return [f"a pass over {key} does not end" for key in stuck]

    def _not_ready(self) -> list[str]:
        """Readiness: schema, lists and watch. A standby is ready."""
        problems = self._problems()
        if not problems and (self._sweep is None or self._watch is None):
            return ["starting"]
        return list(problems.values())

    def _problems(self) -> dict[Problem, str]:
        """What keeps this process from being ready, each with its details."""
        sweep, watch, wiring = self._sweep, self._watch, self._wiring
        found: dict[Problem, str] = {}
        if self._obstacle is not None:
            found[self._obstacle[0]] = self._obstacle[1]
        if sweep is None or watch is None or wiring is None:
            return found
        if sweep.problem is not None:
            found[Problem.LISTS] = sweep.problem
        if watch.problem:
            found[Problem.WATCH] = watch.problem
        if self._rights is not None and self._rights.problem is not None:
            found[Problem.RIGHTS] = self._rights.problem
        if wiring.lease.problem is not None:
            found[Problem.LEASE] = f"lease: {wiring.lease.problem}"
        return found

    def _levels(self) -> Levels:
        wiring, reconciler, watch = self._wiring, self._reconciler, self._watch
        problems = frozenset(self._problems())
        if wiring is None or reconciler is None:
            return Levels(problems=problems)
        return standing.levels(wiring, reconciler, watch, problems)


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    """Return when either is set."""
    waits = [asyncio.ensure_future(one.wait()), asyncio.ensure_future(other.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def serve(settings: Settings, hide: Callable[[str], None]) -> None:
    """Run an operator until SIGTERM or SIGINT. `hide` takes what no log line may show."""
    operator = Operator(settings, hide)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.stop)
    await operator.run()
