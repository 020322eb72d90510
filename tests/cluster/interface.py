"""What a test may ask of any cluster, whoever runs it.

`Cluster` is the promise. The control plane made here (`controlplane.py`) keeps all of it; a cluster
that somebody else runs (`foreign.py`) keeps the first half, and answers the second, which reaches
into the cluster's own processes and data, with an `Unsupported` that says what is missing. A test
that needs such a power fails with that sentence; it never passes by doing nothing.
"""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.audit import AuditLog
from cluster.errors import KubectlError, Unsupported


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of one moment, to go back to. Belongs to the control plane that made it."""

    path: Path


class Cluster(ABC):
    """A cluster to test against. Every method blocks: in an event loop use `asyncio.to_thread`."""

    description: str

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; exists between start and stop."""

    @abstractmethod
    def prepare(self) -> None:
        """Do what may take minutes, at a moment when they do not count. `start` does it too."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Undo `prepare` and `start`. Harmless if they never ran, or ran half."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # What every cluster can do.

    @property
    @abstractmethod
    def kubectl_command(self) -> Path: ...

    @property
    @abstractmethod
    def scratch(self) -> Path:
        """A folder of our own that is removed by stop."""

    def kubectl(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
        timeout: float = 60,
    ) -> str:
        """Run kubectl as the administrator, or with another kubeconfig; return what it printed."""
        done = subprocess.run(
            [self.kubectl_command, "--kubeconfig", kubeconfig or self.kubeconfig, *arguments],
            input=stdin or "",
            env=self._kubectl_environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            words = " ".join(map(str, arguments))
            raise KubectlError(f"kubectl {words}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def create_namespace(self, name: str) -> None:
        """Make a namespace in which pods can be created at once."""
        self.kubectl("create", "namespace", name)

    def delete_namespace(self, name: str) -> None:
        """Ask for the namespace and all in it to go; whoever runs the cluster does it later."""
        with suppress(KubectlError):
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def _kubectl_environment(self) -> Mapping[str, str]:
        """Return an environment in which kubectl neither reads nor writes the user's own files."""
        kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        return kept | {
            "KUBECACHEDIR": str(self.scratch / "kubectl-cache"),
            "KUBECTL_KUBERC": "false",
        }

    # What takes power over the cluster's processes and data.

    @property
    def audit(self) -> AuditLog:
        """Who wrote what. Present if the cluster was made with `audit=True`."""
        raise self._unsupported("its audit log cannot be read")

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig of another user, whom RBAC and the audit log know by that name."""
        raise self._unsupported("it signs no certificates for us")

    def pause_apiserver(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        raise self._unsupported("its API server cannot be paused")

    def resume_apiserver(self) -> None:
        raise self._unsupported("its API server cannot be paused")

    def kill_apiserver(self) -> None:
        """Kill it without a farewell: connections break and new ones are refused."""
        raise self._unsupported("its API server cannot be killed")

    def start_apiserver(self) -> None:
        """Start it again on the same port and data, and return when it is ready."""
        raise self._unsupported("its API server cannot be started")

    def snapshot(self) -> Snapshot:
        """Keep a copy of all objects as they are now; the API server hardly notices."""
        raise self._unsupported("its data cannot be copied")

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the objects of the snapshot back, versions included, and restart the API server."""
        raise self._unsupported("its data cannot be replaced")

    def _unsupported(self, what: str) -> Unsupported:
        return Unsupported(
            f"{self.description}: {what}. Such tests need a control plane made for the run:"
            " the fixture own_control_plane"
        )
