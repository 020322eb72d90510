"""The operator's signing key as it is now: read again all the time, replaced when a person asks.

The Secret says what holds, for every operator, gateway and plugin alike; whoever leads carries a
rotation on (`core.rotation`), and notes in the Secret how far it is. What signs here changes with
the Secret, without a restart; what agentctls know of it is handed out by the executors' passes,
which are rung for. A Secret that somebody deleted is made again with the key in use.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.clients import resources
from kandev_operator.clients.errors import ClientError, Conflict, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import (
    SECRET_NAME,
    publish_jwks,
    restore_signing_key,
    store_signing_key,
)
from kandev_operator.clients.tokens import Minter, SigningKey
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.core import rotation
from kandev_operator.core.rotation import Rotation, Step
from kandev_operator.core.stored import told_moment

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
STEP: Final = f"{group.GROUP}/rotation-step"
AT: Final = f"{group.GROUP}/rotation-at"
HANDLED: Final = f"{group.GROUP}/last-handled-rotate-request"


class Keyring:
    """Which key signs."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        minter: Minter,
        *,
        settle: timedelta,
        clock: Callable[[], datetime],
        edges: EdgeLog,
    ) -> None:
        self._kube, self._namespace, self._minter = kube, namespace, minter
        self._settle, self._clock, self._edges = settle, clock, edges
        self._since = clock()

    @property
    def key(self) -> SigningKey:
        """The key that signs, with the one that is listed beside it."""
        return self._minter.key

    async def run(self, leads: Callable[[], bool], changed: Callable[[], None]) -> None:
        """Look all the time. `changed` is called when agentctls have to be told."""
        every = min(LOOK_SECONDS, self._settle.total_seconds() / 4)
        while True:
            await asyncio.sleep(every)
            await self._guarded(lambda: self.look(leads(), changed))

    async def look(self, leads: bool, changed: Callable[[], None]) -> None:
        """Take over what the Secret says; who leads sees to it, and carries a rotation on."""
        try:
            secret = await self._kube.get(resources.SECRETS, self._namespace, SECRET_NAME)
        except NotFound:
            if leads and await restore_signing_key(self._kube, self._namespace, self.key):
                log.warning("the signing key's Secret was gone and is there again")
            return
        stored = SigningKey.from_secret_data(secret.get("data") or {})
        if leads:
            stored = await self._carried_on(secret, stored)
        if stored != self.key:
            self._minter.use(stored)
            self._since = self._clock()
            changed()
            if leads:
                await publish_jwks(self._kube, self._namespace, [stored])
            log.info("the signing key is %s", stored.kid)

    async def _carried_on(self, secret: dict[str, Any], stored: SigningKey) -> SigningKey:
        """The key after the step that is due, and stored; the same where none is."""
        notes = secret["metadata"].get("annotations") or {}
        wish = notes.get(group.ANNOTATION_ROTATE_REQUESTED)
        known = _read(notes)
        if known.at is not None and known.at < self._since:
            # What nobody handed out while no operator ran has its time before it still.
            known = replace(known, at=self._since)
        step = rotation.due(wish, known, settle=self._settle, now=self._clock())
        if step is None or step.step is None or step.at is None:
            return stored
        after = turned(stored, step.step)
        done = {HANDLED: step.wish or "", STEP: str(step.step), AT: rfc3339(step.at)}
        await store_signing_key(self._kube, self._namespace, secret, after, done)
        log.info("rotation of the signing key: %s", step.step)
        return after

    async def _guarded(self, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except Conflict:
            return  # somebody else wrote: next time
        except (ClientError, TimeoutError) as error:
            self._edges.log("operator", "key", logging.WARNING, f"signing key: {error}"[:300])


def turned(key: SigningKey, step: Step) -> SigningKey:
    """The key after this step. Where the other one is missing (a person took it out of the
    Secret), there is nothing to turn to."""
    other = key.retired[0] if key.retired else None
    match step:
        case Step.ANNOUNCED:
            return key.beside(SigningKey.generate(key.scopes))
        case Step.REPLACED:
            return other.beside(key) if other is not None else key
        case Step.DONE:
            return key.beside(None)


def _read(notes: dict[str, str]) -> Rotation:
    known = {str(step): step for step in Step}
    return Rotation(notes.get(HANDLED), known.get(notes.get(STEP, "")), told_moment(notes.get(AT)))
