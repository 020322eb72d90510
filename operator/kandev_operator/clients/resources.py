"""Which kinds of objects the operator touches, and where they live in the API's paths.

A `Resource` is a fixed value; nothing is discovered at run time. A namespaced resource without
a namespace means all namespaces, which only a list can ask for.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from kandev_operator.api import group as kandev


@dataclass(frozen=True)
class Resource:
    """One kind of object, as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects; the core group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
        """The path of an object, or of the collection where no name is given."""
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.kind} {name} needs a namespace")
        parts.append(self.plural)
        if name is not None:
            # These would silently address the collection, or the one above it.
            if name in ("", ".", ".."):
                raise ValueError(f"{name!r} cannot be the name of a {self.kind}")
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _ours(kind: str) -> Resource:
    return Resource(kandev.GROUP, kandev.VERSION, kandev.PLURALS[kind], kind)


AGENT_PROFILES: Final = _ours(kandev.AGENT_PROFILE)
TASKS: Final = _ours(kandev.TASK)
TASK_SESSIONS: Final = _ours(kandev.TASK_SESSION)
EXECUTORS: Final = _ours(kandev.EXECUTOR)

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
PODS: Final = Resource("", "v1", "pods", "Pod")
PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"
)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
WARNINGS: Final = Resource("", "v1", "events", "Event")
"""Events as they can be selected by the object that they are about."""
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
