"""May the operator do all that it will have to? Asked at the start, and again from time to time.

`NEEDED` is every call that it makes to the API server, by kind and verb; the roles in the chart
grant exactly that. A right that is missing would show only when it is needed, in the middle of
some session's life: so the API server is asked before (SelfSubjectAccessReview, which everybody
may make), and an operator that lacks one is not ready and says which. It works all the same: what
it may do it does.

Not asked for: what it can do without (nodes and storage classes), and Secrets where all namespaces
are watched, for they may be granted in some of them alone.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.clients.errors import ClientError, Forbidden
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource
from kandev_operator.clients.signing import JWKS_NAME, SECRET_NAME
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.controller.settings import Settings

REVIEWS: Final = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
_SEE: Final = ("get", "list", "watch")
Table = Mapping[tuple[str, str], tuple[str, ...]]

NEEDED: Final[Table] = {
    (group.GROUP, "agentprofiles"): _SEE,
    (group.GROUP, "tasks"): _SEE,
    (group.GROUP, "tasks/status"): ("update",),
    (group.GROUP, "tasksessions"): (*_SEE, "delete"),
    (group.GROUP, "tasksessions/status"): ("update",),
    (group.GROUP, "executors"): (*_SEE, "create", "patch", "delete"),
    (group.GROUP, "executors/status"): ("update",),
    # An owner that blocks its own deletion may be named only by who may set its finalizers.
    (group.GROUP, "tasksessions/finalizers"): ("update",),
    (group.GROUP, "executors/finalizers"): ("update",),
    ("", "pods"): (*_SEE, "create", "delete"),
    ("", "persistentvolumeclaims"): ("get", "create"),
    ("", "configmaps"): ("get", "create", "update"),
    ("", "events"): ("list",),
    ("events.k8s.io", "events"): ("create",),
}
"""Where sessions live."""
SECRETS: Final[Table] = {("", "secrets"): ("get", "create", "update")}
"""Where sessions live whose tokens are kept; each by its name."""

_AGAIN_SECONDS: Final = 5.0
_AT_ONCE: Final = 8
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one kind, in a namespace (empty: in all), of one object (empty: of any)."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        which = f" {self.name}" if self.name else ""
        return f"{self.verb} {full}{which} {self._where}"

    @property
    def _where(self) -> str:
        return f"in namespace {self.namespace}" if self.namespace else "in all namespaces"

    def review(self) -> dict[str, Any]:
        """The question, as the API server wants it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {"spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}}}


def needed(settings: Settings) -> Iterator[Right]:
    """Everything that an operator of these settings must be allowed to do."""
    for namespace in settings.namespaces or ("",):
        yield from _of(NEEDED, namespace)
        if namespace:
            yield from _of(SECRETS, namespace)
    lease = ("coordination.k8s.io", "leases")
    for namespace in settings.lease_namespaces:
        yield Right("create", *lease, namespace)
        for verb in ("get", "update"):
            yield Right(verb, *lease, namespace, settings.lease_name)
    if settings.exclusive:
        yield Right("list", *lease)
    home = settings.key_namespace
    yield Right("create", "", "secrets", home)
    yield Right("create", "", "configmaps", home)
    for verb in ("get", "update"):
        yield Right(verb, "", "secrets", home, SECRET_NAME)
        yield Right(verb, "", "configmaps", home, JWKS_NAME)


def _of(table: Table, namespace: str) -> Iterator[Right]:
    for (api_group, resource), verbs in table.items():
        for verb in verbs:
            yield Right(verb, api_group, resource, namespace)


class Rights:
    """What is missing, as last asked. `run` needs an owner."""

    def __init__(self, kube: Kube, settings: Settings, edges: EdgeLog) -> None:
        self._kube = kube
        self._needed = tuple(needed(settings))
        self._period = settings.sweep_seconds
        self._edges = edges
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.problem: str | None = "what the operator may do was not asked yet"

    async def run(self) -> None:
        """Ask at once, at every sweep's period, and often while something is missing."""
        while True:
            try:
                answers = await asyncio.gather(*map(self._may, self._needed))
            except (ClientError, TimeoutError):
                # No answer says nothing about rights; who watches the API server tells of it.
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._tell([right for right, may in zip(self._needed, answers, strict=True) if not may])
            await asyncio.sleep(_AGAIN_SECONDS if self.problem else self._period)

    async def _may(self, right: Right) -> bool:
        async with self._turns:
            try:
                answer = await self._kube.create(REVIEWS, None, right.review())
            except Forbidden:
                return True  # it may not even ask; what is missing will show
        return bool((answer.get("status") or {}).get("allowed"))

    def _tell(self, missing: list[Right]) -> None:
        if not missing:
            self.problem = None
            self._edges.over("operator", "rights", logging.INFO, "the operator may do all it must")
            return
        shown = ", ".join(map(str, missing[:_SHOWN]))
        more = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        self.problem = f"the operator may not {shown}{more}: its role must grant it"
        self._edges.log("operator", "rights", logging.ERROR, self.problem)
