"""A small world of pods that fail in every order, and what must hold in it whatever happens.

One executor with its session; pods whose containers live and die apart from what their objects
say; a node that falls silent; an operator that dies between acting and writing. The promises are
those that concern pods: nothing runs twice by our doing, no proof is made up, nothing is asked of
a pod that cannot answer, and nobody at rest keeps a pod. Each is proven by a mutant that breaks it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_profile,
    a_report,
    a_session,
    a_status,
    a_task,
    a_token_ref,
    an_executor,
    executor_observed,
    some_conditions,
    uid_of,
)
from kandev_operator.api.executor import Executor, PodRuntime, Runtime
from kandev_operator.api.session import TaskSession
from kandev_operator.core import occupancy
from kandev_operator.core.actions import CreatePod, DeletePod, StopAgent
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import (
    ExecutorObserved,
    Found,
    Missing,
    PodsSeen,
    Unreadable,
)
from kandev_operator.core.pods import death, life
from kandev_operator.core.podseen import ClaimSeen, ContainerSeen, Ended, NodeSeen, PodSeen

AGENT = "agent"


class Broken(AssertionError):
    """A promise was broken; the first word says which."""


@dataclass
class Real:
    """A pod as it truly is, and as its object says."""

    number: int
    instance: str
    made: datetime
    told_dead_boot: str | None
    lives: bool = False
    has_run: bool = False
    object_gone: bool = False
    told: ContainerSeen = field(default_factory=lambda: ContainerSeen(AGENT, state="waiting"))
    phase: str = "Pending"
    deletion: datetime | None = None

    @property
    def uid(self) -> str:
        return f"uid-pod-{self.number}"

    @property
    def boot(self) -> str:
        return f"boot-{self.number}"

    def seen(self) -> PodSeen:
        return PodSeen(
            name=f"pod-{self.instance}",
            uid=self.uid,
            instance_id=self.instance,
            executor_uid=uid_of("ex-a"),
            session_uid=uid_of("s-a"),
            created=self.made,
            deletion=self.deletion,
            phase=self.phase,
            node="node-1",
            address="10.0.0.7",
            scheduled=True,
            scheduled_at=self.made,
            containers=(self.told,),
            is_gone=self.object_gone,
        )


class PodWorld(RuleBasedStateMachine):
    """The world; `shared` says whether other machines may write the workspace."""

    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.pods: list[Real] = []
        self.node_ready = True
        self.rests = False
        self.executor: Executor = an_executor(runtime=Runtime.POD, spec={"pod": PodRuntime()})
        self.made: list[str] = []
        self.operate()

    # ---- what happens to pods ------------------------------------------------------------

    def current(self) -> Real | None:
        there = [pod for pod in self.pods if not pod.object_gone and pod.phase != "Failed"]
        return there[-1] if there else None

    @rule()
    def comes_up(self) -> None:
        pod = self.current()
        if pod is None or pod.deletion or pod.lives or not self.node_ready:
            return
        pod.lives = pod.has_run = True
        pod.phase = "Running"
        pod.told = ContainerSeen(AGENT, state="running", since=self.now)

    @rule()
    def is_evicted(self) -> None:
        pod = self.current()
        if pod is None or not self.node_ready:
            return
        pod.lives, pod.phase = False, "Failed"
        if pod.has_run:
            pod.told = ContainerSeen(AGENT, state="terminated", ended=Ended(137, at=self.now))

    @rule()
    def is_deleted(self) -> None:
        pod = self.current()
        if pod is not None and pod.deletion is None:
            pod.deletion = self.now + timedelta(seconds=60)

    @rule()
    def is_force_deleted(self) -> None:
        pod = self.current()
        if pod is not None:
            pod.object_gone = True  # whatever its container does

    @rule()
    def the_kubelet_ends_what_is_deleted(self) -> None:
        if not self.node_ready:
            return
        for pod in self.pods:
            if pod.object_gone:
                pod.lives = False
            elif pod.deletion is not None:
                pod.lives = False
                if pod.has_run:
                    pod.told = ContainerSeen(AGENT, state="terminated", ended=Ended(0, at=self.now))
                pod.object_gone = True

    @rule(ready=st.booleans())
    def the_node(self, ready: bool) -> None:
        self.node_ready = ready

    @rule(rests=st.booleans())
    def the_session(self, rests: bool) -> None:
        self.rests = rests

    @rule(seconds=st.sampled_from((1, 30, 130)))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # ---- the operator --------------------------------------------------------------------

    @rule()
    def operate(self) -> None:
        self._pass(writes=True)

    @rule()
    def the_operator_dies_before_it_writes(self) -> None:
        self._pass(writes=False)

    @precondition(lambda self: self.rests and self.node_ready)
    @rule()
    def all_is_settled(self) -> None:
        """A session at rest, a node that works, and time: then there is no pod."""
        for _ in range(8):
            self._pass(writes=True)
            self.the_kubelet_ends_what_is_deleted()
            self.now += timedelta(seconds=20)
        left = [pod.instance for pod in self.pods if pod.seen().is_live]
        if left:
            raise Broken(f"rest: a session at rest keeps the pods {left}")

    def _pass(self, *, writes: bool) -> None:
        o = self.observed()
        plan = decide_executor(o, self.now)
        for action in plan.actions:
            match action:
                case CreatePod(manifest=manifest):
                    self._create(o, manifest)
                case DeletePod(uid=uid):
                    for pod in self.pods:
                        if pod.uid == uid and pod.deletion is None and not pod.object_gone:
                            pod.deletion = self.now + timedelta(seconds=60)
                            if pod.phase == "Failed":
                                pod.object_gone = True
                case StopAgent():
                    pass  # its agent ends, its agentctl goes on
                case _:
                    pass
        if writes and plan.status is not None:
            self.executor = self.executor.replacing(status=plan.status)

    def _create(self, o: ExecutorObserved, manifest: dict[str, Any]) -> None:
        instance = manifest["metadata"]["annotations"]["kandev.dev/instance-id"]
        same = [pod for pod in self.pods if pod.instance == instance]
        if any(not pod.object_gone for pod in same):
            return  # AlreadyExists: it is taken over
        if any(pod.has_run for pod in same):
            raise Broken(f"number: {instance} is made again after it had run")
        env = {each["name"]: each.get("value") for each in _agent(manifest)["env"]}
        dead = env.get("KANDEV_DEAD_BOOT_ID")
        living = {pod.boot for pod in self.pods if pod.lives}
        if dead in living:
            raise Broken(f"proof: {dead} is called dead and lives")
        if self.shared and living and not self.node_ready:
            raise Broken("fence: an agent may live on a silent node, on files that both can write")
        self.pods.append(Real(len(self.made) + 1, instance, self.now, dead))
        self.made.append(instance)

    def session(self) -> TaskSession:
        rows = [a_condition("Ready", "False"), a_condition("Suspended", str(self.rests))]
        bound = {} if not self.rests else {"executor_ref": None}
        status = a_status(
            resume_token_ref=a_token_ref(), conditions=some_conditions(*rows), **bound
        )
        return a_session(status=status)

    def observed(self) -> ExecutorObserved:
        session, status = self.session(), self.executor.status
        asked = next((p for p in self.pods if p.lives and p.instance == status.instance_id), None)
        answers = asked is not None and asked.seen().can_be_asked and self.node_ready
        report = a_report("none", boot_id=asked.boot) if asked is not None else None
        mode = "ReadWriteMany" if self.shared else "ReadWriteOnce"
        pods = tuple(pod.seen() for pod in self.pods)
        return executor_observed(
            self.executor,
            probe=a_probe(replace(report, instance_id=status.instance_id))
            if answers and report is not None
            else a_probe(None),
            process=Missing(),
            problem=None,
            claimant=None if self.rests else session,
            owner=Unreadable("made by nobody"),
            bound=Found(session) if status.session_ref is not None else Unreadable("nobody"),
            pods=PodsSeen(
                pods=pods,
                node=Found(NodeSeen(True if self.node_ready else None)),
                claim=Found(ClaimSeen("files", "uid-claim", "Bound", (mode,))),
                task=Found(a_task()),
                profile=Found(a_profile(image="agents.example.com/a:1")),
            ),
        )

    # ---- what must hold ------------------------------------------------------------------

    @invariant()
    def one_pod_at_most_is_wanted(self) -> None:
        wanted = [pod.instance for pod in self.pods if pod.seen().is_live]
        if len(wanted) > 1:
            raise Broken(f"one: the pods {wanted} are wanted at once")

    @invariant()
    def only_what_can_answer_is_asked(self) -> None:
        plan = decide_executor(self.observed(), self.now)
        status = plan.status or self.executor.status
        pod = next((p for p in reversed(self.pods) if p.instance == status.instance_id), None)
        able = pod is not None and not pod.object_gone and pod.deletion is None
        able = able and pod is not None and pod.told.state == "running"
        if status.agentctl_url is not None and not able:
            raise Broken("asked: status names an address where nobody can answer")


def _agent(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in manifest["spec"]["containers"] if each["name"] == AGENT
    )
    return found


class SharedPodWorld(PodWorld):
    """Where other machines may write the same workspace."""

    shared = True


def play(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("world", [PodWorld, SharedPodWorld])
def test_the_world_of_pods_keeps_its_promises(world: type[PodWorld]) -> None:
    run_state_machine_as_test(world, settings=play(60))


def _always(answer: object) -> Callable[..., object]:
    return lambda *_args, **_more: answer


Story = Callable[[PodWorld], None]


def ends_unseen(world: PodWorld) -> None:
    """A pod is force-deleted while its container lives on."""
    world.comes_up()
    world.operate()
    world.operate()
    world.is_force_deleted()
    world.operate()


def ends_unseen_on_a_silent_node(world: PodWorld) -> None:
    world.comes_up()
    world.operate()
    world.operate()
    world.the_node(False)
    world.is_force_deleted()
    world.operate()


def waits_for_its_container(world: PodWorld) -> None:
    world.time_passes(30)
    world.operate()
    world.only_what_can_answer_is_asked()


def goes_to_rest(world: PodWorld) -> None:
    world.comes_up()
    world.operate()
    world.the_session(True)
    world.all_is_settled()


MUTANTS: dict[str, tuple[type[PodWorld], Story, object, str, object]] = {
    "proof": (PodWorld, ends_unseen, death, "has_ended", _always(True)),
    "fence": (
        SharedPodWorld,
        ends_unseen_on_a_silent_node,
        death,
        "must_wait",
        _always(False),
    ),
    "number": (
        PodWorld,
        ends_unseen,
        life,
        "next_instance",
        _always(f"{uid_of('ex-a')}-1"),
    ),
    "asked": (PodWorld, waits_for_its_container, PodSeen, "can_be_asked", True),
    "rest": (PodWorld, goes_to_rest, occupancy, "_removals", _always(())),
}


@pytest.mark.parametrize("promise", MUTANTS)
def test_each_story_ends_well(promise: str) -> None:
    world, story, *_ = MUTANTS[promise]
    story(world())


@pytest.mark.parametrize("promise", MUTANTS)
def test_the_world_of_pods_notices(promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, story, room, name, mutant = MUTANTS[promise]
    monkeypatch.setattr(room, name, mutant)
    with pytest.raises(Broken, match=promise):
        story(world())
