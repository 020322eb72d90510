"""Scopes that overlap: whoever holds what, no two of them act at once."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kandev_operator.clients.errors import Forbidden, Unavailable
from kandev_operator.clients.resources import LEASES, Resource
from kandev_operator.controller.lease import Lease
from kandev_operator.controller.lease_record import Pace
from kandev_operator.controller.scope import Neighbours, Scope
from unit.controller.lease_api import POLL, D, Line, Object, Server, now, until

pytestmark = [pytest.mark.unit, pytest.mark.looptime]

HOME = "all"
NAME = "kandev-operator"


class World:
    """An API server with a Lease in each namespace."""

    def __init__(self) -> None:
        self.servers: defaultdict[str, Server] = defaultdict(Server)


class Client:
    """One process's way to it; each namespace can be cut off alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mode = "ok"
        self.cut: set[str] = set()
        self.lists = 0

    def _line(self, namespace: str | None) -> Line:
        assert namespace is not None
        mode = "fail" if namespace in self.cut else self.mode
        return Line(self.world.servers[namespace], mode)

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, timeout: float
    ) -> Object:
        return await self._line(namespace).get(resource, namespace, name, timeout=timeout)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, timeout: float
    ) -> Object:
        return await self._line(namespace).create(resource, namespace, body, timeout=timeout)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, timeout: float
    ) -> Object:
        line = self._line(namespace)
        return await line.replace(resource, namespace, name, body, timeout=timeout)

    async def list(
        self, resource: Resource, namespace: str | None, *, field_selector: str, timeout: float
    ) -> tuple[list[dict[str, Any]], str]:
        assert resource is LEASES
        assert namespace is None
        assert field_selector == f"metadata.name={NAME}"
        self.lists += 1
        if self.mode == "hang":
            await asyncio.Event().wait()
        if self.mode == "forbidden":
            raise Forbidden("leases", "no role for leases", status=403)
        if self.mode != "ok":
            raise Unavailable("leases", "the server is not there", status=503)
        servers = self.world.servers.values()
        return [each.read() for each in servers if each.stored is not None], "1"


class Actor:
    """One operator process."""

    def __init__(self, world: World, name: str, *namespaces: str) -> None:
        self.namespaces = set(namespaces)
        self.client = Client(world)
        clock = asyncio.get_running_loop().time
        installation, _, _ = name.rpartition("/")

        def lease(namespace: str) -> Lease:
            return Lease(
                self.client,
                namespace,
                NAME,
                f"{name}_1",
                seconds=D,
                clock=clock,
                wall=lambda: 1_700_000_000 + clock(),
            )

        if namespaces:
            leases = [lease(each).in_scope(settles=True) for each in sorted(namespaces)]
            self.scope = Scope(leases, installation=installation)
        else:
            others = Neighbours(self.client, NAME, HOME, Pace(D), clock)
            leases = [lease(HOME).in_scope(settles=False)]
            self.scope = Scope(leases, others, installation=installation)
        self.task: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        return self.scope.valid()

    def start(self) -> "Actor":
        self.task = asyncio.create_task(self.scope.run())
        return self

    async def kill(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def stop(self) -> None:
        await self.scope.release()
        await self.kill()

    def overlaps(self, other: "Actor") -> bool:
        if not self.namespaces or not other.namespaces:
            return True
        return bool(self.namespaces & other.namespaces)


@asynccontextmanager
async def together(
    *actors: Actor, late: Sequence[Actor] = ()
) -> AsyncIterator[Callable[[], list[Actor]]]:
    """Run them (those that are late, when they are started), and look all the time that no two
    leaders overlap. The leaders, when asked."""

    async def look() -> None:
        while True:
            leaders = [each for each in actors if each.leads]
            for one in leaders:
                rivals = [each for each in leaders if each is not one and one.overlaps(each)]
                assert not rivals, f"two lead at {now()}"
            await asyncio.sleep(0.1)

    for actor in actors:
        if actor not in late:
            actor.start()
    looking = asyncio.create_task(look())
    try:
        yield lambda: [each for each in actors if each.leads]
    finally:
        for actor in actors:
            await actor.kill()
        looking.cancel()
        await asyncio.wait([looking])
        if not looking.cancelled() and (error := looking.exception()) is not None:
            raise error


async def test_who_holds_a_lease_in_each_place_leads_in_one_term() -> None:
    world = World()
    world.servers["b"].put(leaseTransitions=41)
    one = Actor(world, "x/one", "a", "b")
    async with together(one):
        took = await until(lambda: one.leads)
        # A namespace that was led by nobody may just be led by somebody who looks at it.
        assert D <= took < D + 2 * POLL
        assert one.scope.term == 42
        assert {each.spec["leaseTransitions"] for each in world.servers.values()} == {42}
        assert one.scope.problem is None


async def test_a_sibling_takes_all_of_it_over_without_a_pause_and_in_a_higher_term() -> None:
    world = World()
    one, two = Actor(world, "x/one", "a", "b"), Actor(world, "x/two", "a", "b")
    async with together(one):
        await until(lambda: one.leads)
        async with together(two):
            await asyncio.sleep(3 * D)
            assert not two.leads
            assert two.scope.problem is None, "a standby is ready"
            await one.stop()
            assert await until(lambda: two.leads) < 4 * POLL
            assert two.scope.term == one.scope.term + 1


async def test_of_two_that_share_a_namespace_one_waits_and_says_so() -> None:
    world = World()
    one, two = Actor(world, "x/one", "a", "b"), Actor(world, "y/two", "b", "c")
    beside = Actor(world, "z/three", "d")
    async with together(one, two, beside, late=[two]) as leaders:
        await until(lambda: leaders() == [one, beside])
        two.start()
        await asyncio.sleep(4 * D)
        assert leaders() == [one, beside]
        problem = two.scope.problem
        assert problem == f"does not lead: b/{NAME} is held by another operator, x/one_1"
        assert one.scope.problem is beside.scope.problem is None
        assert world.servers["c"].stored is None or not world.servers["c"].spec["holderIdentity"]
        await one.stop()
        await until(lambda: two.leads)
        assert two.scope.problem is None


async def test_who_waits_for_a_later_namespace_keeps_no_earlier_one() -> None:
    world = World()
    one, two = Actor(world, "x/one", "b"), Actor(world, "y/two", "a", "b")
    third = Actor(world, "z/three", "a")
    async with together(one, two, third, late=[two, third]) as leaders:
        await until(lambda: one.leads)
        two.start()
        await until(lambda: two.scope.problem is not None)
        third.start()
        await until(lambda: third.leads)
        assert leaders() == [one, third]
        await one.kill()
        await third.kill()
        await until(lambda: two.leads)


async def test_nobody_keeps_a_later_lease_who_lost_an_earlier_one() -> None:
    world = World()
    one, two = Actor(world, "x/one", "a", "b"), Actor(world, "x/two", "a", "b")
    async with together(one, two) as leaders:
        await until(lambda: bool(leaders()))
        (first,) = leaders()
        (other,) = {one, two} - {first}
        first.client.cut.add("a")
        await until(lambda: other.leads)
        assert world.servers["b"].spec["holderIdentity"] == other.scope._leases[1].identity


async def test_an_operator_of_everything_yields_to_one_of_a_namespace() -> None:
    world = World()
    wide, one = Actor(world, "x/wide"), Actor(world, "y/one", "a")
    async with together(wide, one, late=[one]):
        assert await until(lambda: wide.leads) < 2 * POLL, "nobody else is there"
        one.start()
        await until(lambda: one.leads)
        assert not wide.leads
        assert wide.scope.problem == "does not lead: another operator leads in namespace a"
        assert one.scope.problem is None
        await one.kill()
        await until(lambda: wide.leads)
        assert wide.scope.problem is None


async def test_two_operators_of_everything_share_one_lease() -> None:
    world = World()
    one, two = Actor(world, "x/one"), Actor(world, "y/two")
    async with together(one):
        await until(lambda: one.leads)
        async with together(two):
            await asyncio.sleep(3 * D)
            assert not two.leads
            assert "held by another operator, x/one_1" in (two.scope.problem or "")


async def test_a_standby_of_everything_does_not_look_around() -> None:
    world = World()
    one, two = Actor(world, "x/one"), Actor(world, "x/two")
    async with together(one):
        await until(lambda: one.leads)
        async with together(two):
            await asyncio.sleep(3 * D)
            assert two.client.lists == 0


async def test_who_may_not_look_around_does_not_lead_and_says_why() -> None:
    world = World()
    wide = Actor(world, "x/wide")
    async with together(wide):
        await until(lambda: wide.leads)
        await asyncio.sleep(2 * D)
        wide.client.mode = "forbidden"
        await until(lambda: not wide.leads)
        assert "no role for leases" in (wide.scope.problem or "")


async def test_a_lease_that_somebody_deleted_still_counts_for_a_while() -> None:
    world = World()
    wide, one = Actor(world, "x/wide"), Actor(world, "y/one", "a")
    async with together(one, wide, late=[wide]):
        await until(lambda: one.leads)
        wide.start()
        await until(lambda: wide.scope.problem is not None)
        one.client.mode = "hang"
        world.servers["a"].stored = None
        took = await until(lambda: wide.leads)
        assert took > D, "its holder does not know yet"


async def test_a_term_is_raised_in_every_place() -> None:
    world = World()
    one = Actor(world, "x/one", "a", "b")
    async with together(one):
        await until(lambda: one.leads)
        assert await one.scope.adopt_term(70) == 71
        assert one.leads
        assert {each.spec["leaseTransitions"] for each in world.servers.values()} == {71}


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_no_two_that_overlap_lead_at_once(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    scopes = [(), (), ("a",), ("a",), ("a", "b"), ("b", "c"), ("d",)]
    actors = [Actor(world, f"i{n // 2}/p{n}", *places) for n, places in enumerate(scopes)]
    led: set[Actor] = set()
    async with together(*actors) as leaders:
        for _ in range(40):
            actor = dice.choice(actors)
            match dice.randrange(5):
                case 0:
                    actor.client.mode = dice.choice(["hang", "fail", "deaf"])
                case 1:
                    actor.client.cut ^= {dice.choice("abcd")}
                case 2 if world.servers:
                    gone = dice.choice([*world.servers.values()])
                    gone.stored = None if dice.random() < 0.3 else gone.stored
                case _:
                    actor.client.mode, actor.client.cut = "ok", set()
            await asyncio.sleep(dice.choice([0.5, POLL, 5.0, D, 2 * D]))
            led.update(leaders())
        # However it was, it heals.
        for actor in actors:
            actor.client.mode, actor.client.cut = "ok", set()
        await until(lambda: any(each.namespaces for each in leaders()))
    assert led
