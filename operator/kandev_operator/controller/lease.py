"""Who leads: one Lease object, held by writing into it again and again.

The promise: of all processes that ask `valid()` before they act, one at most is told yes. It
rests on intervals of each process's own clock and never on a comparison of two machines' clocks.
A holder counts from the moment it *sent* its last successful write, and stops a fifth early, so
that an action begun in the last instant is over in time. A standby counts from the moment it had
*read* that write, and only what it watched itself: time in which it could not read, or did not
run, proves nothing about the holder. Every write is guarded by the resourceVersion, so of two
that want the same step one fails.

`term` is `leaseTransitions`: it grows with each change of holder, and it fences what is already
on its way when the leader changes. A process never writes a lower term than one it has seen,
whatever the API server was restored to.

Losing the Lease ends nothing: `valid()` turns False, and this loop tries on. Nor does it ask what
leading is good for. The times inside the Lease are for people; nothing here reads them.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from kandev_operator.clients.errors import AlreadyExists, Conflict, KubeError, NotFound
from kandev_operator.clients.resources import LEASES, Resource

MAX_TERM_LEAP: Final = 10_000
"""By how much one adoption may raise the term: an agentctl is not trusted to use it up."""

_MOST_TRANSITIONS: Final = 2**31 - 1  # the field is an int32
_NEWS = (Conflict, AlreadyExists, NotFound)  # what we knew of the Lease is no longer so

logger = logging.getLogger(__name__)

Object = dict[str, Any]


class Leases(Protocol):
    """The part of the Kubernetes client that is used here."""

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, timeout: float
    ) -> Object:
        """Read one object."""

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, timeout: float
    ) -> Object:
        """Create an object."""

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, timeout: float
    ) -> Object:
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


@dataclass(frozen=True, slots=True)
class Pace:
    """All intervals of a Lease of this duration, in seconds."""

    duration: float

    @property
    def valid(self) -> float:
        """For how long a write is good, counted from when it was sent."""
        return self.duration * 4 / 5

    @property
    def renew(self) -> float:
        """A holder writes this often."""
        return self.duration / 3

    @property
    def timeout(self) -> float:
        """Longest request: after one that fails there is time for another."""
        return self.duration / 5

    @property
    def poll(self) -> float:
        """A standby reads this often; a holder that could not write tries again after it."""
        return min(1.0, self.duration / 10)


@dataclass(frozen=True, slots=True)
class _Record:
    """What a Lease object says, as far as it can be read."""

    holder: str
    transitions: int
    duration: float
    spec: Mapping[str, Any]

    @classmethod
    def of(cls, stored: Object, default_duration: float) -> "_Record":
        spec = stored.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            transitions=spec.get("leaseTransitions") or 0,
            duration=spec.get("leaseDurationSeconds") or default_duration,
            spec=spec,
        )


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
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self.pace = Pace(seconds)
        self._clock = clock
        self._wall = wall
        self._turn = asyncio.Lock()  # one request at a time: each builds on the one before
        self._stopping = asyncio.Event()
        self._renewed = asyncio.Event()

        self._stored: Object | None = None  # the Lease as last read or written
        self._claimed: int | None = None  # the first term written in our name, or tried to be
        self._term = 0
        self._highest = 0  # of all terms seen
        self._valid_until: float | None = None
        self._was_leading = False
        self._watched: Mapping[str, Any] | None = None  # another holder's record, unchanged …
        self._watched_at = 0.0  # … when it was last read …
        self._quiet = 0.0  # … and for how long it was seen to be
        self._problem: str | None = None

    def valid(self) -> bool:
        """Whether this process may act at this moment."""
        return self._valid_until is not None and self._clock() < self._valid_until

    @property
    def term(self) -> int:
        """The term of the lead held now, or held last; 0 before the first."""
        return self._term

    @property
    def problem(self) -> str | None:
        """Why the last attempt to read or write the Lease failed, for readiness and people."""
        return self._problem

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
            self._tell_a_loss()
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
        self._valid_until = None
        self._stopping.set()
        async with self._turn:
            self._valid_until = None  # a write that was under way may have set it
            stored = self._stored
            if stored is None or not self._is_ours(stored):
                return
            try:
                await self._replace(stored, {**stored["spec"], "holderIdentity": ""})
                logger.info("released the lease %s/%s", self._namespace, self._name)
            except (KubeError, TimeoutError) as error:
                logger.warning("the lease was not released and has to expire: %s", _words(error))

    async def adopt_term(self, minimum: int) -> int:
        """Lead with a term above `minimum`, which somebody has seen; tell which.

        It is ours only after the Lease itself says so: raises `NotLeading` where the write fails,
        and ValueError for a term that no history of this cluster can have led to.
        """
        if minimum > self._highest + MAX_TERM_LEAP:
            raise ValueError(f"term {minimum} is too far above {self._highest}")
        async with self._turn:
            if self._term > minimum and self.valid():
                return self._term
            stored = self._stored
            if self._stopping.is_set() or stored is None or not self._is_ours(stored):
                raise NotLeading(f"{self.identity} does not hold the lease")
            try:
                await self._write(stored, max(minimum, self._term) + 1)
            except (KubeError, TimeoutError) as error:
                if isinstance(error, _NEWS):
                    self._stored = None
                raise NotLeading(f"the lease could not be written: {_words(error)}") from None
            logger.info("term raised to %d, above one seen elsewhere", self._term)
            return self._term

    async def _attempt(self) -> bool:
        """Read or write once, or twice where news made the first vain. Never raises."""
        try:
            async with self._turn:
                try:
                    await self._step()
                except _NEWS:
                    self._stored = None
                    await self._step()
        except _NEWS:
            self._stored = None
            return False
        except (KubeError, TimeoutError) as error:
            self._fail(_words(error))
            return False
        except Exception:  # a mistake of ours must not end the loop that others rely on
            logger.exception("the lease loop failed")
            self._fail("a mistake in the lease loop; see the log")
            return False
        if self._problem is not None:
            logger.info("the lease can be read and written again")
        self._problem = None
        return True

    async def _step(self) -> None:
        """Renew what we hold; else look, and take it if nobody does."""
        if self._stopping.is_set():
            return
        if self._stored is None or not self._is_ours(self._stored):
            self._stored = await self._read()
            if self._stored is None:
                await self._create()
                return
            if not self._is_ours(self._stored) and not self._is_free(self._stored):
                return
        record = self._record(self._stored)
        if self._is_ours(self._stored):
            await self._write(self._stored, record.transitions)
        else:
            await self._write(self._stored, max(record.transitions, self._highest) + 1)

    async def _read(self) -> Object | None:
        try:
            async with asyncio.timeout(self.pace.timeout):
                stored = await self._kube.get(
                    LEASES, self._namespace, self._name, timeout=self.pace.timeout
                )
        except NotFound:
            self._note(None)
            return None
        self._note(stored)
        return stored

    def _note(self, stored: Object | None) -> None:
        """Take in what the Lease says: whether it is still ours, and how quiet its holder is."""
        now = self._clock()
        if stored is None:
            self._claimed, self._valid_until, self._watched = None, None, None
            return
        record = self._record(stored)
        self._highest = max(self._highest, record.transitions)
        if self._is_ours(stored):
            self._watched = None
            return
        # Whoever holds it, we do not. An attempt of ours that was not answered did not succeed.
        self._claimed, self._valid_until = None, None
        gap = now - self._watched_at
        if self._watched != record.spec:
            self._quiet = 0.0
        elif gap <= self.pace.renew:
            self._quiet += gap
        # A longer gap is not counted: the API server was away, and so was the holder's chance to
        # write, or we did not run. The holder gets what is left of its time when both are back.
        self._watched, self._watched_at = record.spec, now

    def _is_free(self, stored: Object) -> bool:
        record = self._record(stored)
        return not record.holder or self._quiet >= record.duration

    def _is_ours(self, stored: Object) -> bool:
        """Whether this record was written by us, after all, and by nobody since.

        The name alone does not say so: a restored API server shows what was true once.
        """
        record = self._record(stored)
        return (
            self._claimed is not None
            and record.holder == self.identity
            and record.transitions >= self._claimed
        )

    def _record(self, stored: Object) -> _Record:
        return _Record.of(stored, self.pace.duration)

    async def _create(self) -> None:
        term = self._highest + 1
        body = {
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({}, term),
        }
        self._claimed, began = term, self._clock()
        async with asyncio.timeout(self.pace.timeout):
            stored = await self._kube.create(
                LEASES, self._namespace, body, timeout=self.pace.timeout
            )
        self._won(stored, term, began)

    async def _write(self, stored: Object, term: int) -> None:
        """Write our name and this term. The lead counts from before the request was sent."""
        if term > _MOST_TRANSITIONS:
            raise ValueError("leaseTransitions is used up; delete the Lease")
        if self._claimed is None:
            self._claimed = term
        began = self._clock()
        written = await self._replace(stored, self._spec(stored.get("spec") or {}, term))
        self._won(written, term, began)

    async def _replace(self, stored: Object, spec: Object) -> Object:
        body = deepcopy(stored)
        body["spec"] = spec
        body["metadata"].pop("managedFields", None)
        async with asyncio.timeout(self.pace.timeout):
            return await self._kube.replace(
                LEASES, self._namespace, self._name, body, timeout=self.pace.timeout
            )

    def _spec(self, before: Mapping[str, Any], term: int) -> Object:
        now = datetime.fromtimestamp(self._wall(), tz=UTC)
        moment = now.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        renewing = before.get("holderIdentity") == self.identity
        return {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.pace.duration),
            "leaseTransitions": term,
            "acquireTime": (before.get("acquireTime") if renewing else None) or moment,
            "renewTime": moment,
        }

    def _won(self, stored: Object, term: int, began: float) -> None:
        self._stored, self._watched = stored, None
        self._term = term
        self._highest = max(self._highest, term)
        if self._stopping.is_set():
            return
        self._valid_until = began + self.pace.valid
        if self.valid():
            self._renewed.set()
            if not self._was_leading:
                logger.info("%s leads, term %d", self.identity, term)
            self._was_leading = True

    def _tell_a_loss(self) -> None:
        if self._was_leading and not self.valid() and not self._stopping.is_set():
            self._was_leading = False
            logger.warning("%s does not lead any more, term %d", self.identity, self._term)

    def _fail(self, words: str) -> None:
        if words != self._problem:
            logger.warning("the lease %s/%s: %s", self._namespace, self._name, words)
        self._problem = words


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
