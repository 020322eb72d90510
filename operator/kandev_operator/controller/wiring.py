"""What one operator process is made of, handed around as one frozen value.

No logic: every room of the controller takes the parts it needs from here, and `app` puts them
together. The clock is here so that nothing else calls one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import aiohttp

from kandev_operator.clients.docker import DockerEngine
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.local import LocalHost
from kandev_operator.clients.tokens import GuestKey, Minter, SigningKey
from kandev_operator.controller.cache import Cache
from kandev_operator.controller.graves import Graves
from kandev_operator.controller.guests import Guests
from kandev_operator.controller.keyring import Keyring
from kandev_operator.controller.lease import Lease
from kandev_operator.controller.lookups import Lookups
from kandev_operator.controller.metrics import Metrics
from kandev_operator.controller.prober import Prober
from kandev_operator.controller.pulls import Pulls
from kandev_operator.controller.queue import WorkQueue
from kandev_operator.controller.scope import Scope
from kandev_operator.controller.settings import Settings
from kandev_operator.controller.tracing import Tracing

if TYPE_CHECKING:
    from kandev_operator.controller.callers import Callers
    from kandev_operator.controller.events import EventPoster
    from kandev_operator.controller.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Wiring:
    """Everything that passes, followers and sweeps share."""

    settings: Settings
    kube: Kube
    http: aiohttp.ClientSession
    cache: Cache
    queue: WorkQueue
    lease: Lease | Scope
    prober: Prober
    metrics: Metrics
    tracing: Tracing
    events: EventPoster
    secrets: Secrets
    lookups: Lookups
    graves: Graves
    callers: Callers
    keyring: Keyring
    guests: Guests
    minter: Minter
    local: LocalHost
    docker: DockerEngine | None
    """Absent where no namespace may have containers."""
    pulls: Pulls | None
    clock: Callable[[], datetime]

    @property
    def key(self) -> SigningKey:
        """What signs now; it changes while keys are rotated."""
        return self.keyring.key

    @property
    def keys(self) -> tuple[SigningKey | GuestKey, ...]:
        """What agentctls check tokens by: our own first, then the gateways'."""
        return (self.key, *self.guests.keys)
