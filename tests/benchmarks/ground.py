"""The ground every benchmark stands on: an audited control plane of its own, CRDs, two users.

The operator and the person who applies are different users, so that the audit log tells them
apart. All of it lies in one temporary folder and is gone with `close`, whatever happened before.
Knows nothing of what is measured.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.controlplane import ControlPlane
from kandev_operator.clients.local import LocalHost
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests"
LEASES = "kandev-system"
MASTERS = ("system:masters",)


def environment() -> dict[str, str]:
    """That of this process, in which the modules of `tests` are found."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Ground:
    """One benchmark's control plane and what was started on it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kandev-bench-"))
        # What a killed process leaves in its temporary folder goes with ours.
        scratch = self.folder / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        self.cluster = ControlPlane(audit=True)
        self._numbers = itertools.count(1)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self.cluster.start()
            crds = str(REPOSITORY / "crds")
            self.cluster.kubectl("apply", "--server-side", "-f", crds)
            self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
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

    def plain(self, place: Namespace) -> "PlainKopf":
        """The baseline's operator for one namespace, not started yet; killed at the end."""
        user = self.cluster.kubeconfig_for("kopf", MASTERS)
        plain = PlainKopf(user, place.name, self.folder / f"plain-{next(self._numbers)}.log")
        self._closing.callback(plain.kill)
        return plain

    async def _end_agentctls(self) -> None:
        host = LocalHost({})
        for state in self.folder.glob("*/.kandev/*"):
            found = host.find(state)
            if found is not None:
                await host.stop(found, 2.0)
            else:
                await host.sweep(state)


class PlainKopf:
    """The process of the baseline. It can be started again after its end."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self.log = log
        self._command = [sys.executable, "-m", "benchmarks.plainkopf", str(kubeconfig), namespace]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def tail(self) -> str:
        """The end of its log, for a failure's text."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
