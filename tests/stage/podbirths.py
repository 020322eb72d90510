"""Sessions in pods are born, and what that costs: one by template, one by reference, a crowd.

Counted are the writes of the person and of the operator. What the cluster itself does to a pod and
its claim (the scheduler's choice, the kubelet's reports, a volume that is bound) is its business.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from cluster.audit import AuditLog
from stage.nodescene import FILES, SECONDS, NodeScene
from stage.sessions import Body, session
from stage.writes import Written, when_quiet

IN_A_POD = 11
_TROUBLE = re.compile(r"conflict|Traceback| ERROR ", re.IGNORECASE)


def by_template(scene: NodeScene, audit: AuditLog, users: Sequence[str]) -> Written:
    """Apply a session whose executor is made for it; what was written until it is quiet."""
    *beside, born = scene.scripted("template")
    scene.place.apply(*beside)
    return _birth(scene, audit, users, "template", born)


def by_ref(scene: NodeScene, audit: AuditLog, users: Sequence[str]) -> Written:
    """The same on an executor that is there before."""
    *beside, _ = scene.scripted("ref")
    scene.place.apply(*beside, _executor("own"))
    scene.place.wait("own", lambda s: s.get("state") == "stopped", "stopped", kind="executor")
    when_quiet(audit, audit.mark(), [scene.place.name])
    executor = {"ref": {"name": "own"}}
    born = session("ref", task="ref", profile="ref", executor=executor, workspace=FILES)
    return _birth(scene, audit, users, "ref", born)


def crowd(scene: NodeScene, count: int, seconds: float = 3 * SECONDS) -> None:
    """Apply so many sessions at once, and return when all are idle."""
    names = [f"crowd-{number}" for number in range(count)]
    scene.place.apply(*(body for name in names for body in scene.scripted(name)))
    for name in names:
        scene.place.wait_idle(name, seconds)


def troubles(scene: NodeScene) -> list[str]:
    """The lines of the operator's log that tell of conflicts or errors."""
    lines = scene.operator.log.read_text(errors="replace").splitlines()
    return [line for line in lines if _TROUBLE.search(line)]


def _birth(
    scene: NodeScene, audit: AuditLog, users: Sequence[str], name: str, born: Body
) -> Written:
    mark = audit.mark()
    scene.place.apply(born)
    scene.place.wait_idle(name, SECONDS)
    seen = when_quiet(audit, mark, [scene.place.name])
    return replace(seen, objects=tuple(each for each in seen.objects if each.user in users))


def _executor(name: str) -> Body:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": name},
        "spec": {"runtime": "Pod", "pod": {}},
    }
