"""Objects as a user would apply them, and waiting for what their status says.

`Namespace` applies profiles, tasks and sessions in one namespace of a cluster and reads them
back; `wait` polls status until a predicate holds, and a failure shows the whole status with the
operator's log. Nothing here computes what status should be.
"""

import copy
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.interface import Cluster

AGENT = Path(__file__).resolve().parents[1] / "fakes" / "acp_agent.py"
Body = dict[str, Any]


class Namespace:
    """One namespace with a folder for worktrees, as its user sees it."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        root: Path,
        tail: Callable[[], str] = lambda: "",
        kubeconfig: Path | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.root = root
        self.tail = tail
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(
            "-n", self.name, *arguments, stdin=stdin, kubeconfig=self.kubeconfig
        )

    def apply(self, *bodies: Body) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def get(self, kind: str, name: str) -> Body:
        body: Body = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return body

    def items(self, kind: str) -> list[Body]:
        found: list[Body] = json.loads(self.kubectl("get", kind, "-o", "json"))["items"]
        return found

    def status(self, name: str) -> Body:
        found: Body = self.get("tasksession", name).get("status") or {}
        return found

    def annotate(self, name: str, key: str, value: str) -> None:
        self.kubectl("annotate", "--overwrite", "tasksession", name, f"kandev.dev/{key}={value}")

    def patch(self, kind: str, name: str, patch: Body) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def worktree(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def executor_of(self, session: str) -> Body:
        """The executor that a session points at."""
        return self.get("executor", self.status(session)["executorRef"]["name"])

    def wait(
        self,
        name: str,
        holds: Callable[[Body], Any],
        what: str,
        *,
        kind: str = "tasksession",
        seconds: float = 60,
    ) -> Body:
        """Poll an object until its status is as wanted; the status then."""
        end = time.monotonic() + seconds
        status: Body = {}
        while time.monotonic() < end:
            status = self.get(kind, name).get("status") or {}
            if holds(status):
                return status
            time.sleep(0.1)
        shown = json.dumps(status, indent=1)
        raise AssertionError(
            f"{kind} {name} did not become {what} in {seconds} s.\n{shown}\n"
            f"--- operator ---\n{self.tail()}"
        )

    def wait_state(self, name: str, state: str, seconds: float = 60) -> Body:
        return self.wait(name, lambda s: s.get("state") == state, state, seconds=seconds)

    def wait_idle(self, name: str, seconds: float = 60) -> Body:
        """The agent runs and waits for a prompt."""

        def idle(status: Body) -> bool:
            waiting = status.get("state") == "WAITING_FOR_INPUT"
            return waiting and status.get("isAgentRunning") is True

        return self.wait(name, idle, "idle with a live agent", seconds=seconds)


def profile(
    name: str = "fake",
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **spec: Any,
) -> Body:
    """An AgentProfile; the scripted agent unless a command is given."""
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "AgentProfile",
        "metadata": {"name": name},
        "spec": {
            "command": list(command) or fake_agent(),
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            **spec,
        },
    }


def fake_agent(*options: str) -> list[str]:
    """The command line of the scripted agent."""
    return [sys.executable, str(AGENT), *options]


def task(name: str = "t1", **spec: Any) -> Body:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name},
        "spec": {"title": f"Task {name}", **spec},
    }


def session(
    name: str,
    worktree: Path | None = None,
    *,
    task: str = "t1",
    profile: str = "fake",
    executor: Body | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Body:
    """A TaskSession; with a template for a local executor unless `executor` says otherwise."""
    if executor is None:
        local = {"runtime": "LocalStandalone", "localStandalone": {"worktreePath": str(worktree)}}
        executor = {"template": {"spec": local}}
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "taskRef": {"name": task},
            "agentProfileRef": {"name": profile},
            "executor": copy.deepcopy(executor),
            **spec,
        },
    }


def condition(status: Body, type_: str) -> Body:
    """A condition by its type; an empty one where it is absent."""
    found = [each for each in status.get("conditions") or [] if each["type"] == type_]
    assert len(found) <= 1, f"{type_} stands {len(found)} times in the list"
    return found[0] if found else {}
