"""Who leads: one Lease object, held by writing into it again and again.

The promise: of all processes that ask `valid()` before they act, one at most is told yes. It
rests on intervals of each process's own clock and never on a comparison of two machines' clocks.
A holder counts from the moment it *sent* its last successful write, and stops early. A standby
counts from the moment it had *read* that write, and only what it watched itself. Every write is
guarded by the resourceVersion, so of two that want the same step one fails.

`term` is `leaseTransitions`: it grows with each change of holder, and it fences what is already
on its way when the leader changes. A process never writes a lower term than one it has seen,
whatever the API server was restored to.

Losing the Lease ends nothing: `valid()` turns False, and this loop tries on. What leading is
good for, it does not ask.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, Self

from kandev_operator.clients.errors import AlreadyExists, Conflict, KubeError, NotFound
from kandev_operator.clients.resources import LEASES, Resource
from kandev_operator.controller.lease_record import Pace, Record, Watch, held_spec

MAX_TERM_LEAP: Final = 10_000
"""By how much one adoption may raise the term: an agentctl is not trusted to use it up."""

_NEWS: Final = (Conflict, AlreadyExists, NotFound)  # the Lease is not as we knew it
_NO_ANSWER: Final = (KubeError, TimeoutError)

logger = logging.getLogger(__name__)


class Leases(Protocol):
    """The part of the Kubernetes client that is used here."""

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, timeout: float
    ) -> dict[str, Any]:
        """Read one object."""

    async def create(
        self, resource: Resource, namespace: str | None, body: dict[str, Any], *, timeout: float
    ) -> dict[str, Any]:
        """Create an object."""

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: dict[str, Any],
        *,
        timeout: float,
    ) -> dict[str, Any]:
        """Replace an object, guarded by its resourceVersion."""


class NotLeading(Exception):
    """A term was to be adopted, and the write that would have proven the lead did not succeed."""


def awake_clock() -> float:
    """Seconds that go on while the process, or the machine, is asleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def process_identity(name: str) -> str:
    """A holder's identity that no other process has, and no later one of the same name either."""
    return f"{name}_{secrets.token_hex(4)}"


class Lease:
    """One process's view of the Lease. `run` needs an owner; everything else may be asked."""

    def __init__(
        self,
        kube: Leases,
        namespace: str,
        name: str,
        identity: str,
        *,
        seconds: float = 15,
        clock: Callable[[], float] = awake_clock,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`identity` must be this process's alone: see `process_identity`."""
        self.identity = identity
        self.pace = Pace(seconds)
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._wall = wall
        self._turn = asyncio.Lock()  # one request at a time: each builds on the one before
        self._stopping = asyncio.Event()
        self._renewed = asyncio.Event()
        self._record: Record | None = None  # the Lease as last read or written
        self._others = Watch(self.pace.renew)
        self._claimed: int | None = None  # the lowest term written in our name, or tried to be
        self._highest = 0  # of all terms seen
        self._term = 0
        self._valid_until: float | None = None
        self._settles = False
        self._leads = "leads"
        self._settled_at = 0.0
        self._held_back = False
        self._was_leading = False
        self._problem: str | None = None

    def in_scope(self, *, settles: bool) -> Self:
        """Make it one part of what a `scope` is led by; to be called before `run`.

        One that settles is acted on only after it was held for one duration, unless it was taken
        over without a gap: others look at it who act without holding it, and stop within that.
        """
        self._leads = "holds the lease"
        self._settles = settles
        return self

    def valid(self) -> bool:
        """Whether this process may act at this moment."""
        return self.held() and self._settled_at <= self._clock()

    def held(self) -> bool:
        """Whether nobody else may act; we may not yet, where it has to settle."""
        return self._valid_until is not None and self._clock() < self._valid_until

    @property
    def term(self) -> int:
        """The term of the lead held now, or held last; 0 before the first."""
        return self._term

    @property
    def place(self) -> str:
        """Its namespace and name, for people."""
        return f"{self._namespace}/{self._name}"

    @property
    def rival(self) -> str:
        """Who else holds it, as last read; empty where nobody does, or has let it run out."""
        record = self._record
        if record is None or self._is_ours(record) or self._others.is_free():
            return ""
        return record.holder

    @property
    def problem(self) -> str | None:
        """Why the last attempt to read or write the Lease failed, for readiness and people."""
        return self._problem

    @property
    def renewed_seconds(self) -> float | None:
        """How long ago the last write that holds the Lease was sent; None for who holds it not."""
        if self._valid_until is None:
            return None
        return self._clock() - (self._valid_until - self.pace.valid)

    async def wait_valid(self) -> None:
        """Return when this process may act."""
        while not self.valid():
            self._renewed.clear()
            await self._renewed.wait()

    async def run(self) -> None:
        """Get the Lease, keep it, get it again when it was lost; until `release`."""
        while not self._stopping.is_set():
            began = self._clock()
            went_well = await self._attempt()
            pause = self.pace.poll
            if went_well and self.valid():
                pause = max(0.0, began + self.pace.renew - self._clock())
            try:
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def release(self) -> None:
        """Stop for good: act no more at once, and let a standby take over without waiting."""
        self._stopping.set()
        await self._give_up()

    async def hold_back(self) -> None:
        """Give it up, where it is held, and only look at it until `go_on`."""
        if not self._held_back:
            self._held_back = True
            await self._give_up()

    def go_on(self) -> None:
        """Ask for it again."""
        self._held_back = False

    async def _give_up(self) -> None:
        self._valid_until = None
        async with self._turn:
            record = self._record
            if record is None or not self._is_ours(record):
                return
            self._record = None
            try:
                await self._replace(record, {**record.spec, "holderIdentity": ""})
            except _NO_ANSWER as error:
                logger.warning("the lease was not released and has to expire: %s", _words(error))
            else:
                logger.info("%s released the lease", self.identity)

    async def adopt_term(self, minimum: int) -> int:
        """Lead with a term above `minimum`, which somebody has seen; tell which.

        It is ours only after the Lease itself says so: raises NotLeading where the write fails,
        and ValueError for a term that no history of this cluster can have led to.
        """
        if minimum > self._highest + MAX_TERM_LEAP:
            raise ValueError(f"term {minimum} is too far above {self._highest}")
        async with self._turn:
            if self._term > minimum and self.valid():
                return self._term
            record = self._record
            if self._stopping.is_set() or record is None or not self._is_ours(record):
                raise NotLeading(f"{self.identity} does not hold the lease")
            try:
                await self._write(record, max(minimum, self._highest) + 1)
            except _NO_ANSWER as error:
                # Whatever became of it, the loop's next write meets it and reads again.
                raise NotLeading(f"the lease could not be written: {_words(error)}") from None
            logger.info("term raised to %d, above one seen elsewhere", self._term)
            return self._term

    async def _attempt(self) -> bool:
        """Read and write as needed; again, if news made the first try vain. Never raises."""
        problem = None
        try:
            async with self._turn:
                try:
                    await self._step()
                except _NEWS:
                    self._record = None
                    await self._step()
        except _NEWS as error:
            self._record = None
            problem = _words(error)
        except _NO_ANSWER as error:
            problem = _words(error)
        except Exception as error:
            # A mistake of ours, and no reason to end the loop that all others rely on.
            problem = f"{type(error).__name__} in the lease loop: {error}"
            if problem != self._problem:
                logger.exception("the lease loop failed")
        self._tell(problem)
        return problem is None

    async def _step(self) -> None:
        """Renew what we hold; else look, and take it if it is free."""
        if self._stopping.is_set():
            return
        if self._held_back:
            # Looked at all the same: who takes it over must know that somebody wrote into it.
            self._record = await self._read()
            return
        nobody_else_led = self.held()
        if self._record is None or not self._is_ours(self._record):
            self._record = await self._read()
        record = self._record
        if record is not None and self._is_ours(record):
            # Lower than one we have seen: the API server was restored. History goes on above.
            lost = record.transitions < self._highest
            await self._write(record, self._highest + 1 if lost else record.transitions)
        elif self._others.is_free() or (record is None and nobody_else_led):
            await self._write(record, self._highest + 1)

    async def _read(self) -> Record | None:
        """Read the Lease, and give up what it does not grant us any more."""
        record = None
        try:
            async with asyncio.timeout(self.pace.timeout):
                stored = await self._kube.get(
                    LEASES, self._namespace, self._name, timeout=self.pace.timeout
                )
            record = Record.of(stored, self.pace.duration)
            self._highest = max(self._highest, record.transitions)
        except NotFound:
            pass
        if record is None or not self._is_ours(record):
            self._claimed = self._valid_until = None
            self._others.see(record, self._clock())
        return record

    def _is_ours(self, record: Record) -> bool:
        """Whether this was written by us, after all, and by nobody since.

        The name alone does not say so: a restored API server shows what was true once.
        """
        claimed = self._claimed is not None and record.transitions >= self._claimed
        return claimed and record.holder == self.identity

    async def _write(self, record: Record | None, term: int) -> None:
        """Write our name and this term. The lead counts from before the request was sent."""
        before = record.spec if record is not None else {}
        spec = held_spec(before, self.identity, term, self.pace.duration, self._wall())
        if self._claimed is None:
            self._claimed = term
        began = self._clock()
        unbroken = self._is_unbroken(began)
        if record is None:
            self._record = await self._create(spec)
        else:
            self._record = await self._replace(record, spec)
        self._others.hold(self._record)
        self._term = self._highest = max(self._highest, term)
        if self._settles and not unbroken:
            self._settled_at = self._clock() + self.pace.duration
        if not self._stopping.is_set() and not self._held_back:
            self._valid_until = began + self.pace.valid
            self._renewed.set()

    def _is_unbroken(self, now: float) -> bool:
        """Whether somebody, we or who held it before us, wrote into it a short while ago."""
        ours = None if self._valid_until is None else self._valid_until - self.pace.valid
        last = ours if ours is not None else self._others.changed_at
        return last is not None and now - last <= self.pace.unbroken

    async def _create(self, spec: dict[str, Any]) -> Record:
        body = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": spec}
        async with asyncio.timeout(self.pace.timeout):
            stored = await self._kube.create(
                LEASES, self._namespace, body, timeout=self.pace.timeout
            )
        return Record.of(stored, self.pace.duration)

    async def _replace(self, record: Record, spec: dict[str, Any]) -> Record:
        async with asyncio.timeout(self.pace.timeout):
            stored = await self._kube.replace(
                LEASES,
                self._namespace,
                self._name,
                record.with_spec(spec),
                timeout=self.pace.timeout,
            )
        return Record.of(stored, self.pace.duration)

    def _tell(self, problem: str | None) -> None:
        """Log what changed: the lead, and whether the Lease can be read and written."""
        if problem != self._problem:
            lease = f"the lease {self.place}"
            if problem is None:
                logger.info("%s can be read and written again", lease)
            else:
                logger.warning("%s: %s", lease, problem)
            self._problem = problem
        leads = self.valid()
        if leads != self._was_leading and not self._stopping.is_set():
            words = self._leads if leads else "does not lead any more"
            level = logging.INFO if leads else logging.WARNING
            logger.log(level, "%s %s, term %d", self.identity, words, self._term)
            self._was_leading = leads


def _words(error: Exception) -> str:
    return str(error) or f"no answer ({type(error).__name__})"
