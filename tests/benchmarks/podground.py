"""The ground of what is measured in pods: a real node with an audit log, images, two users.

As `ground`, but pods run on it: that takes root, on Debian or Ubuntu. Each scene has a namespace
and an operator of its own. Knows nothing of what is measured.
"""

import contextlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.ground import MASTERS
from benchmarks.report import NotHere
from cluster.images import agents, oci, product
from cluster.node import Node
from stage.nodescene import NodeScene, install_crds, operator_beside
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace

PERSON, OPERATOR = "person", "operator"
_WAIT = 3600.0


class PodGround:
    """One benchmark's node and what was started on it."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise NotHere("a real node needs root: sudo make bench")
        self.folder = Path(tempfile.mkdtemp(prefix="kandev-bench-"))
        # Another run of ours may have the machine; its end is waited for.
        self.node = Node(audit=True, patience=_WAIT)
        self._numbers = itertools.count(1)
        self._operators: list[OperatorProcess] = []

    def __enter__(self) -> Self:
        try:
            self.node.prepare()
            archives = [product.agentctl(), agents.scripted()]
            self.node.start()
            self.node.load(*archives)
            self._agentctl, self._agent = map(oci.image_name, archives)
            install_crds(self.node)
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
        """End what was started, the node last."""
        with contextlib.ExitStack() as closing:
            closing.callback(shutil.rmtree, self.folder, ignore_errors=True)
            closing.callback(self.node.stop)
            for operator in self._operators:
                closing.callback(operator.kill)

    def scene(self) -> NodeScene:
        """A namespace that a person uses, with an operator under a name of its own."""
        name = f"bench-{next(self._numbers)}"
        self.node.create_namespace(name)
        log = self.folder / f"{name}.log"
        user = self.node.kubeconfig_for(OPERATOR, MASTERS)
        operator = operator_beside(self.node, name, log, self._agentctl, kubeconfig=user)
        self._operators.append(operator)
        person = self.node.kubeconfig_for(PERSON, MASTERS)
        place = Namespace(self.node, name, self.folder, operator.tail, kubeconfig=person)
        return NodeScene(place, operator.start(), self._agent)
