"""Flux and Argo CD say of an object what is so: their own code, over every status that is written.

The statuses are those of `core`: of observations likely and not, and of the worlds in which
everything dies, hides and comes late. Each is judged by kstatus and by our health check in Lua.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.stateful import run_state_machine_as_test

from builders import NOW, a_meta, a_profile, a_session, an_executor
from cluster.interface import Cluster
from kandev_operator.api.conditions import get, is_true
from kandev_operator.core import executorstatus, status
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.session import decide_session
from kandev_operator.core.task import decide_task
from stage.sessions import Body
from stage.verdicts import HEALTH, Verdict, ask
from strategies import executors_observed, ladders_observed, sessions_observed, tasks_observed
from unit.core.docker import test_docker_world
from unit.core.pods import test_pod_world
from unit.core.test_world_machine import WorldMachine, play

pytestmark = pytest.mark.timeout(600)
"""The worlds take most of a minute of the processor's time, and a machine may have other work."""
SAME = {"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded"}
CALM_EXECUTORS = ("ready", "stopped")


def many(examples: int) -> settings:
    """Always the same observations."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class Written:
    """All statuses that were rendered, each once, as the API server would hand them out."""

    def __init__(self) -> None:
        self.bodies: dict[object, Body] = {}
        self.told: dict[object, Any] = {}

    def add(self, about: Any, new: Any) -> None:
        # Neither tool reads anything else, so nothing else makes two of one.
        rows = tuple(
            (each.type, each.status, each.reason, bool(each.message)) for each in new.conditions
        )
        fields = (new.observed_generation, about.metadata.generation, new.state)
        known = (getattr(new, name, None) for name in ("is_agent_running", "needs_resume"))
        key = (about.kind, *fields, *known, rows)
        if key in self.bodies:
            return
        meta = {"name": "it", "namespace": "team", "generation": about.metadata.generation}
        self.told[key] = new
        self.bodies[key] = {
            "apiVersion": "kandev.dev/v1alpha1",
            "kind": about.kind,
            "metadata": meta,
            "spec": {},
            "status": new.dump(),
        }

    def judged(self) -> Iterator[tuple[Body, Any, Verdict]]:
        verdicts = ask(self.bodies.values())
        yield from zip(self.bodies.values(), self.told.values(), verdicts, strict=True)


def recording(written: Written, patch: pytest.MonkeyPatch) -> None:
    """Keep every status that the worlds' decisions render."""

    def wrap(render: Callable[..., Any], about: str) -> Callable[..., Any]:
        def rendered(o: Any, *more: Any) -> Any:
            new = render(o, *more)
            written.add(getattr(o, about), new)
            return new

        return rendered

    patch.setattr(status, "render", wrap(status.render, "session"))
    patch.setattr(executorstatus, "render", wrap(executorstatus.render, "executor"))


@pytest.fixture(scope="module")
def written() -> Written:
    """Every status of thousands of observations and of the property tests' worlds."""
    kept = Written()

    def keep(about: Any, plan: Any) -> None:
        if plan.status is not None:
            kept.add(about, plan.status)

    @many(1200)
    @given(sessions_observed() | ladders_observed())
    def of_sessions(o: Any) -> None:
        keep(o.session, decide_session(o, NOW))

    @many(1200)
    @given(executors_observed())
    def of_executors(o: Any) -> None:
        keep(o.executor, decide_executor(o, NOW))

    @many(30)
    @given(tasks_observed())
    def of_tasks(o: Any) -> None:
        keep(o[0], decide_task(*o, NOW))

    of_sessions(), of_executors(), of_tasks()
    with pytest.MonkeyPatch.context() as patch:
        recording(kept, patch)
        run_state_machine_as_test(WorldMachine, settings=play(12, 30))
        run_state_machine_as_test(test_pod_world.PodWorld, settings=test_pod_world.play(15))
        docker = settings(test_docker_world.PLAY, max_examples=15)
        run_state_machine_as_test(test_docker_world.DockerWorld, settings=docker)
    return kept


def test_both_tools_say_the_same_and_every_verdict_is_met(written: Written) -> None:
    met: Counter[str] = Counter()
    for body, _, said in written.judged():
        assert said.argo == SAME[said.kstatus], body
        assert said.message, "Argo CD shows why"
        met[f"{body['kind']} {said.kstatus}"] += 1
    kinds = ("TaskSession", "Executor")
    assert {f"{kind} {word}" for kind in kinds for word in SAME} <= met.keys(), met
    assert met["Task Current"] > 0


def test_no_status_of_a_session_lies(written: Written) -> None:
    """Suspended is Current, dead is Failed, working is InProgress."""
    for body, now, said in written.judged():
        if body["kind"] != "TaskSession":
            continue
        if is_true(now.conditions, "Suspended") or is_true(now.conditions, "Finished"):
            assert said.kstatus == "Current", body
        elif now.state == "ERROR":
            due = now.next_attempt_at is not None or is_true(now.conditions, "Reconciling")
            assert said.kstatus == ("InProgress" if due else "Failed"), body
        elif now.needs_resume and not is_true(now.conditions, "Reconciling"):
            assert said.kstatus == "Failed", f"nobody but a person brings it back: {body}"
        elif now.state in ("RUNNING", "WAITING_FOR_INPUT") and now.is_agent_running:
            assert said.kstatus != "Failed" or not is_true(now.conditions, "Ready"), body
        if said.kstatus == "Current":
            assert now.state != "ERROR"
            assert is_true(now.conditions, "Ready"), body


def test_no_status_of_an_executor_lies(written: Written) -> None:
    for body, now, said in written.judged():
        if body["kind"] != "Executor":
            continue
        if now.state == "error":
            due = is_true(now.conditions, "Reconciling")
            assert said.kstatus == ("InProgress" if due else "Failed"), body
        if said.kstatus == "Current":
            assert now.state in CALM_EXECUTORS, body
        if now.state == "starting":
            assert said.kstatus == "InProgress", body


def test_nothing_is_in_progress_that_nobody_works_on(written: Written) -> None:
    """InProgress is said of what is being worked on, and of nothing else."""
    for body, now, said in written.judged():
        working = get(now.conditions, "Reconciling") is not None
        assert (said.kstatus == "InProgress") == working, body


def test_what_the_operator_has_not_seen_yet_is_in_progress() -> None:
    """A new object, and one whose spec is newer than what status speaks of."""
    bodies = []
    for about in (a_session(), an_executor()):
        fresh = {"observedGeneration": -1}
        ready = {"type": "Ready", "status": "True", "reason": "AgentReady", "message": ""}
        stale = {"observedGeneration": 1, "conditions": [ready]}
        for generation, status_ in ((1, fresh), (2, stale)):
            meta = {"name": "it", "generation": generation}
            bodies.append(
                {
                    "apiVersion": "kandev.dev/v1alpha1",
                    "kind": about.kind,
                    "metadata": meta,
                    "status": status_,
                }
            )
    assert {(each.kstatus, each.argo) for each in ask(bodies)} == {("InProgress", "Progressing")}


def test_a_profile_without_a_status_is_current() -> None:
    profile = a_profile()
    body = {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": profile.kind,
        "metadata": {"name": "it", "generation": a_meta("it").generation},
        "spec": {},
    }
    assert [(each.kstatus, each.argo) for each in ask([body])] == [("Current", "Healthy")]


def test_argo_cd_is_given_the_checks_beside_what_it_has(
    control_plane: Cluster, namespace: str
) -> None:
    """As the file says: a patch, which leaves other settings alone."""
    control_plane.kubectl(
        "-n", namespace, "create", "configmap", "argocd-cm", "--from-literal=url=https://argo"
    )
    control_plane.kubectl(
        "patch", "configmap", "argocd-cm", "-n", namespace, "--patch-file", str(HEALTH)
    )
    shown = control_plane.kubectl("-n", namespace, "get", "configmap", "argocd-cm", "-o", "json")
    data = json.loads(shown)["data"]
    assert data.pop("url") == "https://argo"
    assert data == yaml.safe_load(HEALTH.read_text())["data"]
