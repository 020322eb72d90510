"""The public keys of gateways: found in the operator's namespace, and listed beside our own.

A gateway lays its public key out there; agentctls take its tokens because the operator lists it.
What it may allow is bounded here and not there (`clients.guestkey`): whoever can write that
ConfigMap may talk to agents, and neither start nor stop one. What is no list of keys is none, and
harms no key of ours.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kandev_operator.clients.errors import ClientError
from kandev_operator.clients.guestkey import KEYS_NAME, read_guest_keys
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import GuestKey
from kandev_operator.controller.logs import EdgeLog

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0


class Guests:
    """Whose tokens are taken beside ours."""

    def __init__(self, kube: Kube, namespace: str, edges: EdgeLog) -> None:
        self._kube, self._namespace, self._edges = kube, namespace, edges
        self.keys: tuple[GuestKey, ...] = ()

    async def run(self, changed: Callable[[], None]) -> None:
        """Look all the time. `changed` is called when agentctls have to be told."""
        while True:
            await self.look(changed)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, changed: Callable[[], None]) -> None:
        """Look once. Keys that cannot be read now stay as they were read last."""
        problem = None
        found = self.keys
        try:
            found = await read_guest_keys(self._kube, self._namespace)
        except ValueError as error:
            found, problem = (), f"ConfigMap {KEYS_NAME} is not used: {error}"[:300]
        except (ClientError, TimeoutError) as error:
            problem = f"gateways' keys: {error}"[:300]
        if problem is not None:
            self._edges.log("operator", "guests", logging.WARNING, problem)
        else:
            self._edges.over("operator", "guests", logging.INFO, "gateways' keys can be read")
        if found != self.keys:
            self.keys = found
            log.info("gateways' keys that are listed: %d", len(found))
            changed()
