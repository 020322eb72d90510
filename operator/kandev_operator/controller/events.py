"""Kubernetes Events, posted for edges alone, by one task, and never in the way of a pass.

The queue has a bound: under a flood of errors the newest Events are dropped, since status says
the same. An Event repeats no secret: its note is the text that status shows already.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.meta import Resource as Model
from kandev_operator.clients.errors import ClientError
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import EVENTS
from kandev_operator.core.verdict import Notice

log = logging.getLogger(__name__)

_QUEUE: Final = 500
_LONGEST_NOTE: Final = 1000
_CONTROLLER: Final = "kandev.dev/operator"


class EventPoster:
    """Takes notices from passes; `run` posts them."""

    def __init__(self, kube: Kube, identity: str, clock: Callable[[], datetime]) -> None:
        self._kube = kube
        self._identity = identity
        self._clock = clock
        self._queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(_QUEUE)

    def post(self, about: Model, notices: Iterable[Notice]) -> None:
        """Queue Events about an object; dropped where too many wait."""
        for notice in notices:
            body = self._body(about, notice)
            if not self._queue.full():
                self._queue.put_nowait((about.metadata.namespace, body))

    async def run(self) -> None:
        """Post what is queued, until cancelled. A failed post is logged and forgotten."""
        while True:
            namespace, body = await self._queue.get()
            try:
                await self._kube.create(EVENTS, namespace, body)
            except (ClientError, TimeoutError) as error:
                log.debug("an Event was not posted: %s", type(error).__name__)

    def _body(self, about: Model, notice: Notice) -> dict[str, Any]:
        now = self._clock()
        meta = about.metadata
        digest = hashlib.sha256(f"{meta.uid}/{notice.reason}/{now.timestamp()}".encode())
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{meta.name[:200]}.{digest.hexdigest()[:16]}",
                "namespace": meta.namespace,
            },
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._identity[:128],
            "action": "Reconcile",
            "reason": notice.reason,
            "note": notice.message[:_LONGEST_NOTE],
            "type": "Warning" if notice.warning else "Normal",
            "regarding": {
                "apiVersion": group.API_VERSION,
                "kind": about.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
            },
        }
