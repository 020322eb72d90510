"""The ground every benchmark stands on: an audited control plane of its own, CRDs, two users.

The operator and the person who applies are different users, so that the audit log tells them
apart. All of it lies in one temporary folder and is gone with `close`, whatever happened before.
Knows nothing of what is measured.
"""

import asyncio
import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.controlplane import ControlPlane
from kandev_operator.clients.local import LocalHost
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace

REPOSITORY = Path(__file__).resolve().parents[2]
LEASES = "kandev-system"
MASTERS = ("system:masters",)


class Ground:
    """One benchmark's control plane and what was started on it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kandev-bench-"))
        self.cluster = ControlPlane(audit=True)
        self._numbers = itertools.count(1)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self.cluster.start()
            crds = str(REPOSITORY / "crds")
            self.cluster.kubectl("apply", "--server-side", "-f", crds)
            self.cluster.kubectl(
                "wait", "--for=condition=Established", "--timeout=60s", "-f", crds
            )
            self.cluster.create_namespace(LEASES)
            self.user = self.cluster.kubeconfig_for("person", MASTERS)
            self.operator_user = self.cluster.kubeconfig_for("operator", MASTERS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what was started, newest first."""
        try:
            self._closing.close()
            asyncio.run(self._end_agentctls())
        finally:
            self.cluster.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def on_close(self, keep: contextlib.AbstractContextManager[object]) -> None:
        """Leave this when the ground is closed."""
        self._closing.push(keep)

    def namespace(self) -> Namespace:
        """A new namespace, with a folder for worktrees, used by the person."""
        name = f"bench-{next(self._numbers)}"
        self.cluster.create_namespace(name)
        root = self.folder / name
        root.mkdir()
        return Namespace(self.cluster, name, root, kubeconfig=self.user)

    def operator(
        self, places: Sequence[Namespace], *options: str, name: str = "operator"
    ) -> OperatorProcess:
        """An operator for these namespaces, not started yet; it is killed at the end."""
        operator = OperatorProcess(
            self.operator_user,
            self.folder / f"{name}-{next(self._numbers)}.log",
            namespaces=[place.name for place in places],
            roots={place.name: place.root for place in places},
            lease_namespace=LEASES,
            options=options,
        )
        for place in places:
            place.tail = operator.tail
        self._closing.callback(operator.kill)
        return operator

    def apply(self, place: Namespace, bodies: Sequence[Body]) -> None:
        """Make many objects at once, without kubectl's annotation and its readings before."""
        for batch in itertools.batched(bodies, 500) if hasattr(itertools, "batched") else [bodies]:
            listed = {"apiVersion": "v1", "kind": "List", "items": list(batch)}
            place.cluster.kubectl(
                "-n",
                place.name,
                "create",
                "-f",
                "-",
                stdin=json.dumps(listed),
                kubeconfig=place.kubeconfig,
                timeout=300,
            )

    async def _end_agentctls(self) -> None:
        host = LocalHost({})
        for state in self.folder.glob("*/.kandev/*"):
            found = host.find(state)
            if found is not None:
                await host.stop(found, 2.0)
            else:
                await host.sweep(state)
