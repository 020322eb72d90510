"""The gateway's own key: what it signs calls to agentctl with, and what seals its cookies.

Read (or made) at the start and again every so often: it may be rotated, and its public half must
stay where the operator finds it. Until it could be read once, no agentctl can be asked and nobody
can log in; that is said in readiness and tried again, and stops nothing else.
"""

import asyncio
import logging
import time
from typing import Final

from kandev_operator.clients.errors import ClientError
from kandev_operator.clients.guestkey import load_or_create_guest_key
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import Minter
from kandev_operator.gateway.ports import RightsUnknown
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.rights.cookie import Seal
from kandev_operator.gateway.wire.envelope import ErrorCode

REREAD_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 3.0
ISSUER: Final = "kandev-gateway"
_log = logging.getLogger(__name__)


class Keys:
    """One key at a time."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._minter: Minter | None = None
        self._seal: Seal | None = None
        self.problem: str | None = "the signing key has not been read yet"

    def minter(self) -> Minter:
        """Who signs. Raises Refusal while there is no key."""
        if self._minter is None:
            raise Refusal(ErrorCode.UNREACHABLE, f"no agentctl can be asked: {self.problem}")
        return self._minter

    def seal(self) -> Seal:
        """What closes and opens cookies. Raises RightsUnknown while there is no key."""
        if self._seal is None:
            raise RightsUnknown(self.problem)
        return self._seal

    async def run(self) -> None:
        """Read it, for ever."""
        while True:
            try:
                key = await load_or_create_guest_key(self._kube, self._namespace)
            except ClientError as error:
                if self.problem != str(error):
                    _log.warning("the signing key cannot be had: %s", error)
                self.problem = str(error)
            else:
                self.problem = None
                if self._minter is None or self._minter.kid != key.kid:
                    self._minter = Minter(key, time.time, issuer=ISSUER)
                    self._seal = Seal.of(key, time.time)
            await asyncio.sleep(RETRY_SECONDS if self.problem else REREAD_SECONDS)
