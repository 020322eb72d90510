"""The CustomResourceDefinitions, made from the models.

    python -m kandev_operator.api.crd --write crds/    after a change to a model
    python -m kandev_operator.api.crd --check crds/    as the tests do

`definition` is pure: it gives the whole definition of one kind as the API server takes it. What
is said here and not in the models is how a kind looks from outside: its names, and the columns
that `kubectl get` prints. How models become schemas is said in `schema`.
"""

import argparse
import difflib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kandev_operator.api import group
from kandev_operator.api.executor import Executor, ExecutorSpec, ExecutorStatus
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.profile import AgentProfile, AgentProfileSpec, AgentProfileStatus
from kandev_operator.api.schema import spec_schema, status_schema
from kandev_operator.api.session import TaskSession, TaskSessionSpec, TaskSessionStatus
from kandev_operator.api.task import Task, TaskSpec, TaskStatus

HEADER: Final = """\
# Generated from the models in operator/kandev_operator/api. Do not edit: change a model and run
#   python -m kandev_operator.api.crd --write crds/
"""

_API_VERSION = "Version of the API that the object is written in: always kandev.dev/v1alpha1."


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; a wide one is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    def dump(self) -> dict[str, Any]:
        """As the definition holds it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.wide:
            column["priority"] = 1
        return column


_REASON: Final = Column(
    "Reason",
    '.status.conditions[?(@.type=="Ready")].reason',
    description="Reason of condition Ready",
)
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as seen from outside."""

    resource: type[Resource]
    spec: type[Model]
    status: type[Model]
    short_name: str
    columns: tuple[Column, ...]
    # Whether the operator answers with a status at all. Then a new object starts with
    # observedGeneration -1, so that tools which wait for readiness never mistake "not looked at"
    # for "nothing to say".
    is_reconciled: bool = True


KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        AgentProfile,
        AgentProfileSpec,
        AgentProfileStatus,
        "ap",
        (
            Column("Display", ".spec.displayName", description="Name to show to people"),
            Column("Command", ".spec.command[0]", description="Program that is run"),
            Column("Protocol", ".spec.protocol"),
            Column(
                "Resume",
                ".spec.supportsSessionResume",
                "boolean",
                "Whether conversations may be resumed; empty means yes",
            ),
            Column("Image", ".spec.image", wide=True),
            Column("Permissions", ".spec.permissionPolicy", wide=True),
            _AGE,
        ),
        is_reconciled=False,
    ),
    Kind(
        Task,
        TaskSpec,
        TaskStatus,
        "tk",
        (
            Column("State", ".status.state"),
            Column("Sessions", ".status.sessions.total", "integer"),
            Column("Running", ".status.sessions.running", "integer", wide=True),
            Column("Waiting", ".status.sessions.waitingForInput", "integer", wide=True),
            Column("Error", ".status.sessions.error", "integer", wide=True),
            Column("Title", ".spec.title"),
            _AGE,
        ),
    ),
    Kind(
        TaskSession,
        TaskSessionSpec,
        TaskSessionStatus,
        "ts",
        (
            Column("Task", ".spec.taskRef.name"),
            Column("Agent", ".spec.agentProfileRef.name", description="The AgentProfile"),
            Column("State", ".status.state"),
            Column("Executor", ".status.executorStatus", description="State of the executor"),
            Column("Resumable", ".status.isResumable", "boolean"),
            Column("Needs-Resume", ".status.needsResume", "boolean"),
            _REASON,
            Column("Node", ".status.nodeName", wide=True),
            Column("Epoch", ".status.epoch", "integer", wide=True),
            Column("Agent-Version", ".status.capabilities.agent.version", wide=True),
            _AGE,
        ),
    ),
    Kind(
        Executor,
        ExecutorSpec,
        ExecutorStatus,
        "exr",
        (
            Column("Runtime", ".spec.runtime"),
            Column("State", ".status.state"),
            Column("Session", ".status.sessionRef.name", description="The session that is bound"),
            _REASON,
            Column("URL", ".status.agentctlURL", description="Address of agentctl", wide=True),
            Column("Node", ".status.nodeName", wide=True),
            Column("Drain", ".spec.drain", "boolean", wide=True),
            _AGE,
        ),
    ),
)


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    name = kind.resource.kind
    plural = group.PLURALS[name]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "kandev-operator"},
        },
        "spec": {
            "group": group.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": plural,
                "singular": name.lower(),
                "shortNames": [kind.short_name],
                "categories": [group.CATEGORY],
            },
            "versions": [
                {
                    "name": group.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.dump() for column in kind.columns],
                    "schema": {"openAPIV3Schema": _root(kind)},
                }
            ],
        },
    }


def _root(kind: Kind) -> dict[str, Any]:
    status = status_schema(kind.status)
    if kind.is_reconciled:
        status = {**status, "default": {"observedGeneration": -1}}
    return {
        "description": kind.resource.__doc__,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "kind": {"description": f"Always {kind.resource.kind}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": spec_schema(kind.spec),
            "status": status,
        },
    }


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: whoever reads a definition should not have to look elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write shared parts out each time."""
        return True


def render(kind: Kind) -> str:
    """The definition as the text of its file."""
    body = yaml.dump(definition(kind), Dumper=_Dumper, sort_keys=False, width=100)
    return f"{HEADER}{body}"


def files() -> dict[str, str]:
    """Every file of the folder `crds/`, by name."""
    return {f"{group.PLURALS[kind.resource.kind]}.yaml": render(kind) for kind in KINDS}


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or say how those in the folder differ. The only part that touches disk."""
    parser = argparse.ArgumentParser(prog="python -m kandev_operator.api.crd", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FOLDER", help="write the definitions")
    what.add_argument("--check", type=Path, metavar="FOLDER", help="fail where a file differs")
    chosen = parser.parse_args(arguments)
    if chosen.write:
        chosen.write.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            (chosen.write / name).write_text(text, encoding="utf-8")
        return 0
    found = {path.name: path.read_text("utf-8") for path in sorted(chosen.check.glob("*.yaml"))}
    differing = differences(found)
    sys.stdout.write(differing)
    return 1 if differing else 0


def differences(found: dict[str, str]) -> str:
    """How the files of a folder differ from what the models say; empty where they do not."""
    wanted = files()
    parts: list[str] = []
    for name in sorted(found.keys() | wanted.keys()):
        parts += difflib.unified_diff(
            found.get(name, "").splitlines(keepends=True),
            wanted.get(name, "").splitlines(keepends=True),
            f"committed/{name}",
            f"generated/{name}",
        )
    return "".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
