"""The key that the gateway signs with, read again every so often: it may be rotated.

Until it could be read once, nothing can be asked of any agentctl; that is said in readiness and
tried again, and stops nothing else.
"""

import asyncio
import logging
import time

from kandev_operator.clients.errors import ClientError
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import read_signing_key
from kandev_operator.clients.tokens import Minter
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.wire.envelope import ErrorCode

REREAD_SECONDS = 60.0
RETRY_SECONDS = 3.0
_log = logging.getLogger(__name__)


class Keys:
    """One key at a time."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._minter: Minter | None = None
        self.problem: str | None = "the signing key has not been read yet"

    def minter(self) -> Minter:
        """Who signs. Raises Refusal while there is no key."""
        if self._minter is None:
            raise Refusal(ErrorCode.UNREACHABLE, f"no agentctl can be asked: {self.problem}")
        return self._minter

    async def run(self) -> None:
        """Read it, for ever."""
        while True:
            try:
                key = await read_signing_key(self._kube, self._namespace)
            except ClientError as error:
                if self.problem != str(error):
                    _log.warning("the signing key cannot be read: %s", error)
                self.problem = str(error)
            else:
                self.problem = None
                if self._minter is None or self._minter.kid != key.kid:
                    self._minter = Minter(key, time.time, issuer="kandev-gateway")
            await asyncio.sleep(REREAD_SECONDS if self._minter else RETRY_SECONDS)
