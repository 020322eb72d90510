"""What is read when a decision needs it and watched by nobody: claims, nodes, warnings, classes.

Each answer is kept for a short while, so that many passes cost one read, and failures are not
kept. A right that is missing (an operator of one namespace knows no nodes) is an answer that says
so, never "there is none".
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from kandev_operator.clients.errors import ClientError, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    WARNINGS,
)
from kandev_operator.core.observed import Found, Look, Missing, Unreadable
from kandev_operator.core.podseen import ClaimSeen, NodeSeen

T = TypeVar("T")

KEPT_SECONDS: Final = 4.0
LONG_SECONDS: Final = 300.0
_KEEP_AT_MOST: Final = 2_000
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_TIMEOUT: Final = 5.0
_WORDS: Final = 300


class Lookups:
    """Reads with a short memory."""

    def __init__(self, kube: Kube, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._kept: dict[tuple[str, ...], tuple[float, Any]] = {}

    async def claim(self, namespace: str, name: str) -> Look[ClaimSeen]:
        """A PersistentVolumeClaim."""
        return await self._read(
            ("claim", namespace, name),
            lambda: self._kube.get(PERSISTENT_VOLUME_CLAIMS, namespace, name, timeout=_TIMEOUT),
            ClaimSeen.from_body,
        )

    def learn_claim(self, namespace: str, body: dict[str, Any]) -> None:
        """A claim that was just made, as the API server answered."""
        seen = ClaimSeen.from_body(body)
        self._keep(("claim", namespace, seen.name), Found(seen))

    async def node(self, name: str, *, fresh: bool = False) -> Look[NodeSeen]:
        """A node; as it is now, where a second agent may be let in by what is seen."""
        return await self._read(
            ("node", name),
            lambda: self._kube.get(NODES, None, name, timeout=_TIMEOUT),
            NodeSeen.from_body,
            fresh=fresh,
        )

    async def warning(self, namespace: str, pod_uid: str, *, fresh: bool = False) -> str:
        """The newest warning that somebody posted about a pod; empty when there is none."""
        look = await self._read(
            ("warning", namespace, pod_uid),
            lambda: self._warnings(namespace, pod_uid),
            _newest,
            fresh=fresh,
        )
        return look.value if isinstance(look, Found) else ""

    async def _warnings(self, namespace: str, pod_uid: str) -> dict[str, Any]:
        items, _ = await self._kube.list(
            WARNINGS,
            namespace,
            field_selector=f"involvedObject.uid={pod_uid},type=Warning",
            limit=100,
            timeout=_TIMEOUT,
        )
        return {"items": items}

    async def gives_to_one_pod(self, storage_class: str | None) -> bool:
        """Whether volumes of this class (None: the default one) can be kept from a second pod:
        a CSI driver serves it. Not knowing is a no."""
        place = ("one-pod", storage_class or "")
        known = self._kept.get(place)
        if known is not None and self._clock() - known[0] < LONG_SECONDS:
            return bool(known[1])
        try:
            answer = await self._driver_is_csi(storage_class)
        except (ClientError, TimeoutError):
            answer = False
        self._keep(place, answer)
        return answer

    async def _driver_is_csi(self, storage_class: str | None) -> bool:
        if storage_class is not None:
            found = await self._kube.get(STORAGE_CLASSES, None, storage_class, timeout=_TIMEOUT)
        else:
            listed, _ = await self._kube.list(STORAGE_CLASSES, None, timeout=_TIMEOUT)
            default = [each for each in listed if _is_default(each)]
            if not default:
                return False
            found = default[0]
        driver = str(found.get("provisioner") or "")
        if (
            not driver or "/" in driver
        ):  # no CSI driver has such a name, and none could be asked for
            return False
        await self._kube.get(CSI_DRIVERS, None, driver, timeout=_TIMEOUT)
        return True

    async def _read(
        self,
        place: tuple[str, ...],
        ask: Callable[[], Awaitable[dict[str, Any]]],
        read: Callable[[dict[str, Any]], T],
        *,
        fresh: bool = False,
    ) -> Look[T]:
        at, known = self._kept.get(place, (float("-inf"), None))
        if not fresh and known is not None and self._clock() - at < KEPT_SECONDS:
            look: Look[T] = known
            return look
        try:
            look = Found(read(await ask()))
        except NotFound:
            look = Missing()
        except (ClientError, TimeoutError) as error:
            return Unreadable(type(error).__name__)
        self._keep(place, look)
        return look

    def _keep(self, place: tuple[str, ...], answer: Any) -> None:
        if len(self._kept) >= _KEEP_AT_MOST:
            self._kept.clear()
        self._kept[place] = (self._clock(), answer)


def _newest(body: dict[str, Any]) -> str:
    def moment(event: dict[str, Any]) -> str:
        meta = event.get("metadata") or {}
        series = event.get("series") or {}
        return str(
            series.get("lastObservedTime")
            or event.get("lastTimestamp")
            or event.get("eventTime")
            or meta.get("creationTimestamp")
            or ""
        )

    events = sorted(body["items"], key=moment)
    if not events:
        return ""
    said = " ".join(str(events[-1].get("message") or "").split())
    return f"{events[-1].get('reason')}: {said}"[:_WORDS]


def _is_default(storage_class: dict[str, Any]) -> bool:
    notes = (storage_class.get("metadata") or {}).get("annotations") or {}
    return bool(notes.get(_DEFAULT_CLASS) == "true")
