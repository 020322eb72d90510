"""Who leads a scope: one Lease in each of its places, and nobody else in it.

Two operators whose scopes overlap must not both lead, whatever they are called and wherever they
live. An operator of some namespaces holds a Lease in each of them and leads when it holds all; so
of two that share a namespace one waits. Leases are asked for in one order, and none is kept by
whoever lacks an earlier one, or sees another installation in one of them: so nobody waits in a
ring, and who does not lead is in nobody's way.

An operator of all namespaces holds one Lease at a place that all such operators know. It cannot
hold one in each namespace; it looks at them instead (`Neighbours`), and yields while anybody holds
one or did a moment ago. Whoever takes such a Lease anew waits before acting for as long as one
look is good (`Lease.in_scope`), so there is no moment in which both act.

`Scope` answers what `Lease` answers, and is what passes ask. It does not know what leading is for.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kandev_operator.clients.errors import KubeError
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import LEASES, Resource
from kandev_operator.controller.lease import Lease, NotLeading, awake_clock, process_identity
from kandev_operator.controller.lease_record import Pace, Record, Watch
from kandev_operator.controller.settings import Settings

_LOOK_SECONDS: Final = 0.1
_SHOWN: Final = 3

logger = logging.getLogger(__name__)


class Lists(Protocol):
    """The part of the Kubernetes client that is used here."""

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        field_selector: str,
        timeout: float,
    ) -> tuple[list[dict[str, Any]], str]:
        """Read all objects."""


class Neighbours:
    """Other operators' Leases in the whole cluster, as last looked at."""

    def __init__(
        self, kube: Lists, name: str, own_namespace: str, pace: Pace, clock: Callable[[], float]
    ) -> None:
        self._kube = kube
        self._name = name
        self._own = own_namespace
        self._pace = pace
        self._clock = clock
        self._watches: dict[str, Watch] = {}
        self._clear_until: float | None = None
        self.problem: str | None = None

    def clear(self) -> bool:
        """Whether nobody else leads anywhere, by a look that is still good."""
        return self._clear_until is not None and self._clock() < self._clear_until

    async def look(self) -> None:
        """Look once. A look that fails makes nothing clear that was not."""
        began = self._clock()
        try:
            async with asyncio.timeout(self._pace.timeout):
                found, _ = await self._kube.list(
                    LEASES,
                    None,
                    field_selector=f"metadata.name={self._name}",
                    timeout=self._pace.timeout,
                )
        except (KubeError, TimeoutError) as error:
            self.problem = f"others' leases cannot be listed: {str(error) or type(error).__name__}"
            return
        held = self._read(found, self._clock())
        if held:
            self._clear_until = None
            shown = ", ".join(sorted(held)[:_SHOWN])
            self.problem = f"another operator leads in namespace {shown}"
        else:
            self._clear_until = began + self._pace.valid
            self.problem = None

    def _read(self, found: list[dict[str, Any]], now: float) -> list[str]:
        """The namespaces whose Lease somebody holds, or held a short while ago."""
        records = {
            each["metadata"]["namespace"]: Record.of(each, self._pace.duration)
            for each in found
            if each["metadata"]["namespace"] != self._own
        }
        for namespace in records.keys() - self._watches.keys():
            self._watches[namespace] = Watch(2 * self._pace.renew)
        for namespace, watch in self._watches.items():
            # One that was deleted counts too: its holder may not know of it yet.
            watch.see(records.get(namespace), now)
        self._watches = {
            namespace: watch
            for namespace, watch in self._watches.items()
            if namespace in records or not watch.is_deserted()
        }
        return [place for place, watch in self._watches.items() if not watch.is_deserted()]


class Scope:
    """Leads who holds every Lease of it, and has no neighbour in it."""

    def __init__(
        self,
        leases: Sequence[Lease],
        neighbours: Neighbours | None = None,
        *,
        installation: str = "",
        pause: float = _LOOK_SECONDS,
    ) -> None:
        """`leases` in the order in which every operator asks for them. `installation` begins the
        identity of each of our own replicas, so that others' can be told from them."""
        self._leases = tuple(leases)
        self._neighbours = neighbours
        self._installation = installation
        self._pause = pause
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._led = False
        self._told: str | None = None

    def valid(self) -> bool:
        """Whether this process may act at this moment."""
        if not self._holds_all() or len({lease.term for lease in self._leases}) > 1:
            return False
        return self._neighbours is None or self._neighbours.clear()

    @property
    def renewed_seconds(self) -> float | None:
        """How long ago the one written longest ago was; None: not all are held."""
        ages = [lease.renewed_seconds for lease in self._leases]
        known = [age for age in ages if age is not None]
        return max(known) if known and len(known) == len(ages) else None

    @property
    def term(self) -> int:
        """The term of the lead: the highest of its Leases', which the others are raised to."""
        return max(lease.term for lease in self._leases)

    @property
    def problem(self) -> str | None:
        """Why it cannot lead, or not be known to, for readiness and people. A standby whose own
        sibling leads has no problem."""
        for lease in self._leases:
            if lease.problem is not None:
                return lease.problem
            if self._is_foreign(lease.rival):
                return f"does not lead: {lease.place} is held by another operator, {lease.rival}"
        neighbours = self._neighbours
        if neighbours is not None and neighbours.problem is not None and self._holds_all():
            return f"does not lead: {neighbours.problem}"
        return None

    async def wait_valid(self) -> None:
        """Return when this process may act."""
        while not self.valid():
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Get the Leases, keep them, get them again; until `release`."""
        for later in self._leases[1:]:
            await later.hold_back()
        async with asyncio.TaskGroup() as tasks:
            for lease in self._leases:
                tasks.create_task(lease.run(), name=f"lease {lease.place}")
            if self._neighbours is not None:
                tasks.create_task(self._look(self._neighbours), name="neighbours")
            while not self._stopping.is_set():
                await self._in_order()
                self._tell()
                await self._rest(self._pause)

    async def release(self) -> None:
        """Stop for good: act no more, and let others take over without waiting."""
        self._stopping.set()
        await asyncio.gather(*(lease.release() for lease in self._leases))

    async def adopt_term(self, minimum: int) -> int:
        """Lead with a term above `minimum` in every place; see `Lease.adopt_term`."""
        for lease in self._leases:
            await lease.adopt_term(minimum)
        await self._level()
        return self.term

    async def _level(self) -> None:
        """Raise every term to the highest, which may take more than one round. Raises as
        `adopt_term` does."""
        while any(lease.term < self.term for lease in self._leases):
            for lease in self._leases:
                if lease.term < self.term:
                    await lease.adopt_term(self.term - 1)

    async def _in_order(self) -> None:
        """Ask for a Lease only while all before it are held; and have all say one term.

        For none where another installation has one of them: it would only be kept from others.
        """
        held = not any(self._is_foreign(lease.rival) for lease in self._leases)
        for lease in self._leases:
            if held:
                lease.go_on()
            else:
                await lease.hold_back()
            held = held and lease.held()
        if self._holds_all():
            try:
                await self._level()
            except (NotLeading, ValueError) as error:
                logger.warning("the terms of the leases differ: %s", error)

    async def _look(self, neighbours: Neighbours) -> None:
        """Look around while the Leases are held: a standby acts on nothing."""
        while not self._stopping.is_set():
            if self._holds_all():
                await neighbours.look()
            await self._rest(self._leases[0].pace.poll)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _holds_all(self) -> bool:
        return all(lease.valid() for lease in self._leases)

    def _is_foreign(self, holder: str) -> bool:
        ours = f"{self._installation}/"
        return bool(self._installation and holder) and not holder.startswith(ours)

    def _tell(self) -> None:
        """Log what changed: the lead, and what stands against it."""
        problem, leads = self.problem, self.valid()
        if problem is not None and problem != self._told:
            logger.error("%s", problem)
        self._told = problem
        if leads:
            self._changed.set()
        if leads != self._led:
            words = "leads" if leads else "does not lead any more"
            level = logging.INFO if leads else logging.WARNING
            logger.log(level, "%s %s, term %d", self._leases[0].identity, words, self.term)
            self._led = leads


def leadership(kube: Kube, settings: Settings) -> Lease | Scope:
    """What decides whether this process leads, by its settings: one Lease, or a scope."""
    name, prefix = settings.lease_name, settings.installation
    identity = process_identity(f"{prefix}/{settings.identity}" if prefix else settings.identity)

    def lease(namespace: str) -> Lease:
        return Lease(kube, namespace, name, identity, seconds=settings.lease_seconds)

    places = settings.lease_namespaces
    if settings.exclusive:
        pace = Pace(settings.lease_seconds)
        others = Neighbours(kube, name, places[0], pace, awake_clock)
        return Scope([lease(places[0]).in_scope(settles=False)], others, installation=prefix)
    if prefix or len(places) > 1:
        return Scope([lease(each).in_scope(settles=True) for each in places], installation=prefix)
    return lease(places[0])
