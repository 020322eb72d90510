"""What passes read of Secrets and ConfigMaps, and the one Secret they write: a session's token.

Reads are live (Secrets are not watched: the operator would hold every Secret of the cluster) and
kept for a short while, so that many sessions of one profile cost one read. The token Secret holds
`token`, `epoch`, `established` and `previous`; it is written guarded, and never by an older epoch.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any, Final

from kandev_operator.api.meta import OwnerReference
from kandev_operator.clients.errors import AlreadyExists, ClientError, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import CONFIG_MAPS, SECRETS, Resource
from kandev_operator.core.observed import Found, Look, Missing, TokenSeen, Unreadable

KEPT_SECONDS: Final = 20.0
MISSING_SECONDS: Final = 3.0
"""What is missing is waited for by somebody."""
_LONGEST_PREVIOUS: Final = 20
_KEEP_AT_MOST: Final = 1_000


class Secrets:
    """Reads with a short memory; writes token Secrets."""

    def __init__(self, kube: Kube, clock: Callable[[], float], hide: Callable[[str], None]) -> None:
        """`hide` is told every secret value that passes through, so that no log shows it."""
        self._kube = kube
        self._clock = clock
        self._hide = hide
        self._kept: dict[tuple[str, str, str], tuple[float, Look[dict[str, Any]]]] = {}

    async def read(
        self, resource: Resource, namespace: str, name: str, *, fresh: bool = False
    ) -> Look[dict[str, Any]]:
        """A Secret or ConfigMap, at most a few seconds old; as it is now where `fresh` is asked.

        Failures are not kept.
        """
        place = (resource.plural, namespace, name)
        at, known = self._kept.get(place, (0.0, Unreadable()))
        longest = MISSING_SECONDS if isinstance(known, Missing) else KEPT_SECONDS
        kept = not fresh and self._clock() - at < longest
        if kept and not isinstance(known, Unreadable):
            return known
        try:
            look: Look[dict[str, Any]] = Found(await self._kube.get(resource, namespace, name))
        except NotFound:
            look = Missing()
        except (ClientError, TimeoutError) as error:
            return Unreadable(type(error).__name__)
        if len(self._kept) >= _KEEP_AT_MOST:
            self._kept.clear()
        self._kept[place] = (self._clock(), look)
        return look

    async def value(self, resource: Resource, namespace: str, name: str, key: str) -> Look[str]:
        """One key of a Secret or ConfigMap, as text."""
        look = await self.read(resource, namespace, name)
        if not isinstance(look, Found):
            return look
        data = look.value.get("data") or {}
        if key not in data:
            return Missing()
        if resource is CONFIG_MAPS:
            return Found(str(data[key]))
        try:
            text = base64.b64decode(data[key], validate=True).decode()
        except (ValueError, binascii.Error):
            return Missing()
        self._hide(text)
        return Found(text)

    async def token(self, namespace: str, name: str) -> Look[TokenSeen]:
        """The token that a session's Secret keeps."""
        try:
            body = await self._kube.get(SECRETS, namespace, name)
        except NotFound:
            return Missing()
        except (ClientError, TimeoutError) as error:
            return Unreadable(type(error).__name__)
        data = _decoded(body)
        if not data.get("token"):
            return Missing()
        self._hide(data["token"])
        return Found(
            TokenSeen(
                value=data["token"],
                sha256=hashlib.sha256(data["token"].encode()).hexdigest(),
                established=True,  # a Secret alone cannot tell: never drop what may have history
                epoch=_number(data.get("epoch")),
            )
        )

    async def store_token(
        self, namespace: str, name: str, owner: OwnerReference, token: TokenSeen, epoch: int
    ) -> None:
        """Keep this token, unless the Secret holds a higher epoch."""
        self._hide(token.value)
        data = {"token": token.value, "epoch": str(epoch)}
        await self._write(namespace, name, owner, data, epoch)

    async def retire_token(
        self, namespace: str, name: str, owner: OwnerReference, epoch: int
    ) -> None:
        """A fresh start: the new epoch without a token, the old one kept as previous.

        Repeated after the new conversation has begun it changes nothing: a token of this epoch is
        that conversation's, and no older one.
        """
        await self._write(namespace, name, owner, {"token": "", "epoch": str(epoch)}, epoch)

    async def _write(
        self, namespace: str, name: str, owner: OwnerReference, data: dict[str, str], epoch: int
    ) -> None:
        try:
            stored = await self._kube.get(SECRETS, namespace, name)
        except NotFound:
            if await self._create(namespace, name, owner, data):
                return
            stored = await self._kube.get(SECRETS, namespace, name)
        known = _decoded(stored)
        previous = known.get("previous", "")
        older = [line for line in previous.split("\n") if line]
        if _stands(known, older, data["token"], epoch):
            return
        if known.get("token") and known["token"] != data["token"]:
            previous = "\n".join([known["token"], *older][:_LONGEST_PREVIOUS])
        encoded = _encoded({**data, "previous": previous} if previous else data)
        await self._kube.replace(SECRETS, namespace, name, {**stored, "data": encoded})

    async def _create(
        self, namespace: str, name: str, owner: OwnerReference, data: dict[str, str]
    ) -> bool:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kandev.dev/resume-token",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"kandev.dev/session-uid": owner.uid},
                "ownerReferences": [owner.dump()],
            },
            "data": _encoded(data),
        }
        try:
            await self._kube.create(SECRETS, namespace, body)
        except AlreadyExists:
            return False
        return True


def _stands(known: dict[str, str], older: list[str], token: str, epoch: int) -> bool:
    """Whether what the Secret holds is as new as what is to be written, or newer.

    Within one epoch there is an order too: first no token (a fresh start), then the token of the
    conversation that began, then any that the agent put in its place; never back. So a write that
    is repeated, or comes late from a process that was frozen, loses nothing.
    """
    held = _number(known.get("epoch"))
    if held != epoch:
        return held > epoch
    return token in ("", known.get("token"), *older)


def _encoded(data: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}


def _decoded(body: dict[str, Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, text in (body.get("data") or {}).items():
        try:
            out[key] = base64.b64decode(text, validate=True).decode()
        except (ValueError, binascii.Error):
            continue
    return out


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
