"""The operator's own user in one namespace, with exactly the rights it needs, to take some away.

With a right missing, the API server refuses one kind of write while all others go on: the place
between two writes, at which an operator can then be killed, lasts as long as a test wants.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.errors import KubectlError
from cluster.interface import Cluster

KANDEV: Final = "kandev.dev"
_SEE: Final = ("get", "list", "watch")
RIGHTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    (KANDEV, "agentprofiles"): _SEE,
    (KANDEV, "tasks"): _SEE,
    (KANDEV, "tasks/status"): ("update",),
    (KANDEV, "tasksessions"): (*_SEE, "delete"),
    (KANDEV, "tasksessions/status"): ("update",),
    (KANDEV, "executors"): (*_SEE, "create", "delete", "patch"),
    (KANDEV, "executors/status"): ("update",),
    # An owner that blocks its own deletion may be named only by who may set its finalizers.
    (KANDEV, "tasksessions/finalizers"): ("update",),
    (KANDEV, "executors/finalizers"): ("update",),
    ("", "pods"): (*_SEE, "create", "delete"),
    ("", "persistentvolumeclaims"): ("get", "create"),
    ("", "secrets"): ("get", "create", "update"),
    ("", "configmaps"): ("get", "create", "update"),
    ("", "events"): ("create", "patch", "list"),
    ("events.k8s.io", "events"): ("create", "patch"),
    ("coordination.k8s.io", "leases"): ("get", "create", "update"),
}


class Account:
    """A user that may do in one namespace what an operator does there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.user = f"operator-of-{namespace}"
        self.kubeconfig: Path = cluster.kubeconfig_for(self.user)
        self._give(RIGHTS)
        cluster.kubectl(
            *("create", "rolebinding", "operator", "-n", namespace),
            *("--role=operator", f"--user={self.user}"),
        )
        self._wait("update", "leases", True)

    @contextmanager
    def without(self, verb: str, resource: str, group: str = KANDEV) -> Iterator[None]:
        """Take one right away, from now until the end of the block."""
        self.take(verb, resource, group)
        try:
            yield
        finally:
            self.give_back(verb, resource)

    def take(self, verb: str, resource: str, group: str = KANDEV) -> None:
        left = tuple(each for each in RIGHTS[group, resource] if each != verb)
        self._give({**RIGHTS, (group, resource): left})
        self._wait(verb, resource, False)

    def give_back(self, verb: str, resource: str) -> None:
        self._give(RIGHTS)
        self._wait(verb, resource, True)

    def _give(self, rights: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
            for (group, resource), verbs in rights.items()
            if verbs
        ]
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "operator", "namespace": self.namespace},
            "rules": rules,
        }
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(role))

    def _wait(self, verb: str, resource: str, wanted: bool) -> None:
        """Return when the API server acts on it."""
        plain, _, sub = resource.partition("/")
        named = f"{plain}.{KANDEV}" if (KANDEV, resource) in RIGHTS else plain
        words = ["auth", "can-i", verb, named, "-n", self.namespace]
        words += [f"--subresource={sub}"] if sub else []
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if self._may(words) is wanted:
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.user}: {verb} {resource} did not become {wanted}")

    def _may(self, words: list[str]) -> bool:
        try:
            said = self.cluster.kubectl(*words, kubeconfig=self.kubeconfig)
        except KubectlError:
            return False
        return said.strip().startswith("yes")
