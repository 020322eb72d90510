"""Namespaces, without the controllers that a whole cluster would have for them.

Nobody in a bare control plane gives a new namespace its service account, without which no pod can
be created there, and nobody empties a deleted namespace, so everything in it would stay for the
next test's operator to find. These functions do both by hand, at once.
"""

from collections.abc import Iterator
from typing import Any

from cluster.api import Api

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_GONE = 404
_EXISTS = 409


def create(api: Api, name: str) -> None:
    api.demand("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    add_service_account(api, name)


def add_service_account(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.demand("POST", path, {"metadata": {"name": "default"}}, allow=_EXISTS)


def delete(api: Api, name: str) -> None:
    """Remove a namespace and all in it, whoever holds a finalizer on it."""
    path = f"/api/v1/namespaces/{name}"
    # First, so that nobody can put anything into a namespace that is being emptied.
    namespace = api.demand("DELETE", path, allow=_GONE)
    if namespace.get("kind") != "Namespace":
        return
    for collection in _collections(api, name):
        listed = api.demand("DELETE", collection, _AT_ONCE, allow=_GONE)
        for item in listed.get("items", []):
            if item["metadata"].get("finalizers"):
                _release(api, f"{collection}/{item['metadata']['name']}")
    namespace["spec"]["finalizers"] = []
    namespace["metadata"].pop("resourceVersion", None)
    api.demand("PUT", f"{path}/finalize", namespace, allow=_GONE)


def _release(api: Api, path: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    api.demand("PATCH", path, patch, allow=_GONE, content_type="application/merge-patch+json")


def _collections(api: Api, namespace: str) -> Iterator[str]:
    """Yield the path of every collection that a namespace can hold, each kind in one version."""
    for root in ("/api", "/apis"):
        for group in api.demand("GET", root, Accept=_DISCOVERY)["items"]:
            # The first version is the preferred one, and knows all kinds that are worth emptying;
            # an older one that holds a kind of its own is covered by its own entry.
            seen: set[str] = set()
            for version in group["versions"]:
                base = "/".join(filter(None, (root, group["metadata"].get("name"))))
                for resource in version["resources"]:
                    if _can_be_emptied(resource) and resource["resource"] not in seen:
                        seen.add(resource["resource"])
                        words = (base, version["version"], "namespaces", namespace)
                        yield "/".join((*words, resource["resource"]))


def _can_be_emptied(resource: dict[str, Any]) -> bool:
    return resource["scope"] == "Namespaced" and "deletecollection" in resource["verbs"]
