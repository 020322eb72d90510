"""Pods on a real node, from a test's side: written down, applied, waited for, spoken with.

`restricted` writes a pod that Pod Security *restricted* lets in. `Pods` is what a test does in one
namespace; each wait has a deadline, and its error says what the pod looked like at the end.
"""

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.errors import KubectlError
from cluster.node import Node

USER = 1000
_PATIENCE = 120.0
_LOOK_EVERY = 0.2

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container: an existing claim by name, or an empty folder without one."""

    volume: str
    path: str
    claim: str = ""


def restricted(
    name: str,
    image: str,
    command: Sequence[str],
    *,
    mounts: Sequence[Mount] = (),
    init: Sequence[Json] = (),
    env: Mapping[str, str] | None = None,
    grace: int = 1,
    **spec: Any,
) -> Json:
    """Return a pod of one container `main` that runs as uid and fsGroup 1000 and may do nothing."""
    volumes = {
        mount.volume: {"persistentVolumeClaim": {"claimName": mount.claim}}
        if mount.claim
        else {"emptyDir": {}}
        for mount in mounts
    }
    main = container("main", image, command, mounts=mounts, env=env)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": grace,
            "securityContext": {
                "runAsUser": USER,
                "runAsNonRoot": True,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [{"name": volume, **source} for volume, source in volumes.items()],
            "initContainers": list(init),
            "containers": [main],
            **spec,
        },
    }


def container(
    name: str,
    image: str,
    command: Sequence[str],
    *,
    mounts: Sequence[Mount] = (),
    env: Mapping[str, str] | None = None,
) -> Json:
    """Return a container that *restricted* lets in; its image must be on the node."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "Never",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "volumeMounts": [{"name": mount.volume, "mountPath": mount.path} for mount in mounts],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


class Pods:
    """What a test does in its namespace."""

    def __init__(self, node: Node, namespace: str) -> None:
        self.node = node
        self.namespace = namespace

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 60) -> str:
        return self.node.kubectl("-n", self.namespace, *words, stdin=stdin, timeout=timeout)

    def apply(self, *manifests: Json) -> None:
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(document))

    def claim(self, name: str, *, size: str = "64Mi", mode: str = "ReadWriteOnce") -> None:
        """Ask for a volume of the node's own storage class."""
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
        spec["storageClassName"] = "local"
        metadata = {"name": name}
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": spec,
            }
        )

    def get(self, name: str, kind: str = "pod") -> Json | None:
        """Return an object, or None if there is none of that name."""
        text = self.kubectl("get", kind, name, "--ignore-not-found", "--output=json")
        return json.loads(text) if text.strip() else None

    def wait(
        self, name: str, is_so: Callable[[Json], bool], what: str, *, patience: float = _PATIENCE
    ) -> Json:
        """Wait until a pod is as described and return it."""
        deadline = time.monotonic() + patience
        while True:
            pod = self.get(name)
            if pod is not None and is_so(pod):
                return pod
            if time.monotonic() > deadline:
                status = json.dumps((pod or {}).get("status"))
                said = self._last_words(name)
                raise AssertionError(f"pod {name} is not {what}: {status}\nIt said:\n{said}")
            time.sleep(_LOOK_EVERY)

    def wait_ready(self, name: str, *, patience: float = _PATIENCE) -> Json:
        return self.wait(
            name, lambda pod: condition(pod, "Ready") == "True", "ready", patience=patience
        )

    def wait_ended(self, name: str, *, patience: float = _PATIENCE) -> Json:
        """Wait until all its containers have ended, well or badly."""
        return self.wait(
            name,
            lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"),
            "over",
            patience=patience,
        )

    def logs(self, name: str, container: str = "main") -> str:
        return self.kubectl("logs", name, "--container", container)

    def execute(self, name: str, *command: str) -> str:
        return self.kubectl("exec", name, "--container", "main", "--", *command)

    def _last_words(self, name: str) -> str:
        try:
            return self.kubectl("logs", name, "--all-containers", "--tail=30")
        except KubectlError as error:
            return str(error)

    def delete(self, name: str, *, patience: float = _PATIENCE) -> None:
        """Delete a pod and wait until nothing of it is left."""
        self.kubectl("delete", "pod", name, f"--timeout={patience:g}s", timeout=patience + 10)

    def address(self, name: str) -> str:
        pod = self.get(name)
        assert pod is not None
        address: str = pod["status"]["podIP"]
        return address


def condition(pod: Json, kind: str) -> str:
    """Return the status of a pod's condition: True, False, Unknown, or nothing."""
    found = [
        entry["status"] for entry in pod["status"].get("conditions", []) if entry["type"] == kind
    ]
    return found[0] if found else ""


def exit_code(pod: Json, container: str = "main") -> int | None:
    """Return how a container ended, or None while it has not."""
    for status in pod["status"].get("containerStatuses", []):
        if status["name"] == container and "terminated" in status["state"]:
            code: int = status["state"]["terminated"]["exitCode"]
            return code
    return None


def fetch(address: str, port: int, path: str, timeout: float = 5) -> tuple[int, bytes]:
    """Ask a pod by its own address, as an operator inside the cluster would."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


__all__ = [
    "USER",
    "KubectlError",
    "Mount",
    "Pods",
    "condition",
    "container",
    "exit_code",
    "fetch",
    "restricted",
]
