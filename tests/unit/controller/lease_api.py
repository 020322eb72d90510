"""The stage for leases: an API server with one Lease, lines to it that break, and runners."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from kandev_operator.clients.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    Unavailable,
)
from kandev_operator.clients.resources import LEASES, Resource
from kandev_operator.controller.lease import Lease

D = 15.0
POLL = 1.0

Object = dict[str, Any]


class Server:
    """What is stored, with versions and guards like the real one's."""

    def __init__(self) -> None:
        self.stored: Object | None = None
        self.version = 0
        self.writes: list[Object] = []

    @property
    def spec(self) -> Object:
        assert self.stored is not None
        return dict(self.stored["spec"])

    def snapshot(self) -> Object | None:
        return deepcopy(self.stored)

    def restore(self, snapshot: Object | None) -> None:
        """Go back to an older state; versions go on from elsewhere, as after etcd's restore."""
        self.version += 1_000
        self.stored = deepcopy(snapshot)
        if self.stored is not None:
            self.stored["metadata"]["resourceVersion"] = str(self.version)

    def read(self) -> Object:
        if self.stored is None:
            raise NotFound("get leases", "not found", status=404)
        return deepcopy(self.stored)

    def write(self, body: Object, *, create: bool) -> Object:
        metadata = body["metadata"]
        assert "managedFields" not in metadata, "kilobytes that nobody needs to send"
        if create:
            if self.stored is not None:
                raise AlreadyExists("create leases", "already exists", status=409)
            uid = f"uid-{self.version}"
        else:
            held = (self.stored or {}).get("metadata", {})
            identity = (metadata.get("uid"), metadata.get("resourceVersion"))
            if identity != (held.get("uid"), held.get("resourceVersion")):
                raise Conflict("replace leases", "the object has been modified", status=409)
            uid = held["uid"]
        self.version += 1
        self.stored = deepcopy(body)
        self.stored["metadata"] |= {
            "uid": uid,
            "resourceVersion": str(self.version),
            "managedFields": [{"manager": "test"}],
        }
        self.writes.append(deepcopy(self.stored["spec"]))
        return deepcopy(self.stored)

    def put(self, **spec: Any) -> None:
        """Write as somebody else, without a guard."""
        body = {"metadata": {"name": "kandev-operator", "namespace": "system"}, "spec": spec}
        if self.stored is not None:
            body["metadata"] = dict(self.stored["metadata"])
            del body["metadata"]["managedFields"]
        self.write(body, create=self.stored is None)


class Line:
    """One client's connection to the server. `mode` says what becomes of a request.

    `ok`; `hang`: it is lost and nobody answers; `deaf`: it is carried out, but the answer is
    lost; `late`: it is carried out only when the client has given up; `fail`: 503 at once;
    `forbidden`: 403 at once; `broken`: the client itself has a bug.
    """

    def __init__(self, server: Server, mode: str = "ok", latency: float = 0.0) -> None:
        self.server = server
        self.mode = mode
        self.latency = latency
        self.calls = 0
        self._late: set[asyncio.Task[None]] = set()

    async def end(self) -> None:
        """Forget what is still on its way."""
        for task in [*self._late]:
            task.cancel()
            await asyncio.wait([task])

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, timeout: float
    ) -> Object:
        return await self._call(resource, None, create=False, timeout=timeout)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, timeout: float
    ) -> Object:
        return await self._call(resource, body, create=True, timeout=timeout)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, timeout: float
    ) -> Object:
        return await self._call(resource, body, create=False, timeout=timeout)

    async def _call(
        self, resource: Resource, body: Object | None, *, create: bool, timeout: float
    ) -> Object:
        assert resource is LEASES
        assert timeout > 0
        self.calls += 1
        body = deepcopy(body)
        if self.latency:
            await asyncio.sleep(self.latency)
        match self.mode:
            case "fail":
                raise Unavailable("leases", "the server is not there", status=503)
            case "forbidden":
                raise Forbidden("leases", "no role for leases", status=403)
            case "broken":
                raise TypeError("a bug")
            case "hang":
                await asyncio.Event().wait()
            case "late" if body is not None:
                task = asyncio.create_task(self._carry_out_late(body, create, 2 * timeout))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                await asyncio.Event().wait()
            case "deaf" | "late":
                self._carry_out(body, create)
                await asyncio.Event().wait()
        return self._carry_out(body, create)

    async def _carry_out_late(self, body: Object, create: bool, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            self._carry_out(body, create)
        except (Conflict, AlreadyExists):
            return

    def _carry_out(self, body: Object | None, create: bool) -> Object:
        return self.server.read() if body is None else self.server.write(body, create=create)


def now() -> float:
    return asyncio.get_running_loop().time()


def a_lease(line: Line, identity: str, seconds: float = D) -> Lease:
    clock = asyncio.get_running_loop().time
    return Lease(
        line,
        "system",
        "kandev-operator",
        identity,
        seconds=seconds,
        clock=clock,
        wall=lambda: 1_700_000_000 + clock(),
    )


@asynccontextmanager
async def running(*leases: Lease) -> AsyncIterator[None]:
    """Run them as an operator does, and end them hard."""
    tasks = [asyncio.create_task(lease.run()) for lease in leases]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until(condition: Callable[[], bool], seconds: float = 120) -> float:
    """Wait in small steps, and tell how long it took."""
    began = now()
    while not condition():
        await asyncio.sleep(0.05)
        assert now() - began < seconds, "it never came"
    return now() - began
