"""Whether an operator leads: what its Lease says, and whether somebody still writes into it.

A leader writes its Lease every third of the Lease's duration. One that was written a moment ago
by this machine's clock is believed. Any other is watched for longer than that third: it changes,
and then only the clocks differ, or nobody renews it. A Lease that is missing, or may not be read,
proves nothing: the operator may keep its own under another name or elsewhere. What a status is
worth while nobody leads is `explain`'s business.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kandev_operator.api.timestamps import moment
from kandev_operator.cli.clock import now
from kandev_operator.clients.errors import Forbidden, KubeError, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import LEASES

LEASE_NAME: Final = "kandev-operator"
EVERYWHERE: Final = "kube-system"
"""Where an operator of all namespaces has its Lease, if the chart installed it."""
_USUAL_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 60.0
_SLACK_SECONDS: Final = 2.0
"""A write takes its time, and one that failed is tried again."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Leads:
    """An operator renews its Lease in this namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class NobodyLeads:
    """There is a Lease in this namespace, and nobody renews it."""

    namespace: str
    since: datetime | None
    """When it was renewed last, by the clock of who did; None when it does not say."""
    released: bool
    """The operator that held it ended as it was told to, and no other has taken its place."""


@dataclass(frozen=True, slots=True)
class NotKnown:
    """No Lease could be read, which says nothing about the operator."""

    why: str


Leader = Leads | NobodyLeads | NotKnown


@dataclass(frozen=True, slots=True)
class _Read:
    """One Lease, as it was read."""

    namespace: str
    spec: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        told = self.spec.get("leaseDurationSeconds")
        if not isinstance(told, int) or told <= 0:
            return _USUAL_SECONDS
        return min(float(told), _LONGEST_SECONDS)

    @property
    def renewed(self) -> datetime | None:
        told = self.spec.get("renewTime")
        try:
            return moment(told) if isinstance(told, str) else None
        except ValueError:
            return None

    @property
    def is_released(self) -> bool:
        return not self.spec.get("holderIdentity")

    def is_fresh(self, at: datetime) -> bool:
        renewed = self.renewed
        if renewed is None or self.is_released:
            return False
        return abs((at - renewed).total_seconds()) <= self.seconds

    def watch_seconds(self) -> float:
        """How long it is watched before it counts as left alone."""
        return self.seconds / 3 + _SLACK_SECONDS


async def look(kube: Kube, *namespaces: str, poll: float = 0.5) -> Leader:
    """Look for a leader's Lease in these namespaces. Never raises what the cluster answers.

    Takes some seconds where a Lease looks old, and else no longer than reading it.
    """
    places = tuple(dict.fromkeys(namespaces))
    answers = [await _read(kube, each) for each in places]
    found = [each for each in answers if isinstance(each, _Read)]
    at = now()
    for each in found:
        if each.is_fresh(at):
            return Leads(each.namespace)
    unreadable = [each for each in answers if isinstance(each, str)]
    if unreadable:
        return NotKnown(" ".join(unreadable))
    if not found:
        where = " or ".join(places)
        return NotKnown(f"There is no Lease {LEASE_NAME} in namespace {where}.")
    return await _watched(kube, found, poll)


async def _read(kube: Kube, namespace: str) -> _Read | str | None:
    """The Lease; None where there is none, and words where that cannot be known."""
    try:
        body = await kube.get(LEASES, namespace, LEASE_NAME)
    except NotFound:
        return None
    except Forbidden:
        return f"The Lease {LEASE_NAME} in namespace {namespace} may not be read."
    except KubeError as error:
        return f"The Lease {LEASE_NAME} in namespace {namespace} cannot be read: {error.message}."
    spec = body.get("spec")
    return _Read(namespace, spec if isinstance(spec, dict) else {})


async def _watched(kube: Kube, known: list[_Read], poll: float) -> Leader:
    """Whether somebody writes into one of these after all. Only a reading counts, not its lack."""
    loop = asyncio.get_running_loop()
    over = loop.time() + max(each.watch_seconds() for each in known)
    while True:
        is_last = loop.time() >= over
        for each in known:
            again = await _read(kube, each.namespace)
            if isinstance(again, str) and is_last:
                return NotKnown(again)
            if isinstance(again, _Read) and again.spec != each.spec and not again.is_released:
                return Leads(each.namespace)
        if is_last:
            break
        await asyncio.sleep(poll)
    newest = max(known, key=lambda each: each.renewed or _NEVER)
    return NobodyLeads(newest.namespace, newest.renewed, newest.is_released)
