"""A small world of containers that fail in every order, and what must hold in it whatever happens.

One executor with its session; a Docker engine that falls silent while its containers live and die;
an operator that dies between acting and writing. The promises: no two agents on one workspace by
our doing, nothing is concluded or done while the engine is silent, a container that runs for its
session is never removed, files are never removed under a session, and in the end it works again.
Each is proven by a mutant that breaks it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from builders import NOW, a_condition, a_probe, a_report, a_session, a_status, a_token_ref
from kandev_operator.api.executor import ExecutorStatus
from kandev_operator.api.session import TaskSession
from kandev_operator.core import occupancy
from kandev_operator.core.actions import (
    Action,
    RemoveContainer,
    RemoveVolume,
    RunContainer,
    StartContainer,
)
from kandev_operator.core.containerseen import DockerContainer, Step
from kandev_operator.core.docker import life, making, rest
from kandev_operator.core.docker.desired import shape_of
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import ExecutorObserved, Found
from unit.core.docker.containers import FILES, NEW, NOT_TRIED, a_container, seen

PASSES = 60


class Broken(AssertionError):
    """A promise was broken; the first word says which."""


class DockerWorld(RuleBasedStateMachine):
    """The world."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.containers: list[DockerContainer] = []
        self.answers = True
        self.rests = False
        self.listens = False
        self.boots = 0
        self.files = True
        self.status: ExecutorStatus = NEW
        self.numbers = 0

    # ---- what happens to containers ------------------------------------------------------

    def up(self, step: str = Step.AGENT) -> list[DockerContainer]:
        return [each for each in self.containers if each.step == step and each.is_up]

    def change(self, old: DockerContainer, **changes: Any) -> None:
        self.containers = [
            replace(each, **changes) if each.id == old.id else each for each in self.containers
        ]

    @rule(code=st.sampled_from([0, 0, 0, 1]))
    def a_step_ends(self, code: int) -> None:
        for each in self.up(Step.INSTALL):
            self.change(each, state="exited", exit_code=code)

    @rule()
    def agentctl_listens(self) -> None:
        if self.up() and not self.listens:
            self.listens = True
            self.boots += 1

    @rule(code=st.sampled_from([1, 137]))
    def is_killed(self, code: int) -> None:
        for each in self.up():
            self.change(each, state="exited", exit_code=code)
        self.listens = False

    @rule()
    def is_removed(self) -> None:
        self.containers = [each for each in self.containers if each.step != Step.AGENT]
        self.listens = False

    @rule()
    def the_engine_falls_silent_or_comes_back(self) -> None:
        self.answers = not self.answers

    @rule()
    def the_session_rests_or_wakes(self) -> None:
        self.rests = not self.rests

    @rule(seconds=st.sampled_from([1, 30, 90, 400]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # ---- the operator --------------------------------------------------------------------

    def session(self) -> TaskSession:
        if not self.rests:
            return a_session(status=a_status(resume_token_ref=a_token_ref()))
        suspended = (a_condition("Suspended", "True", "Requested"),)
        status = a_status(executor_ref=None, conditions=suspended, resume_token_ref=a_token_ref())
        return a_session(status=status)

    def observed(self) -> ExecutorObserved:
        session = self.session()
        probe = a_probe(None) if self.up() or self.status.agentctl_url else NOT_TRIED
        if self.listens and self.up():
            report = a_report(
                "idle" if not self.rests else "none",
                instance_id=self.up()[0].instance_id,
                boot_id=f"boot-{self.boots}",
            )
            probe = a_probe(report)
        o = seen(
            *self.containers,
            status=self.status,
            session=session,
            made=True,
            answers=self.answers,
            volumes=(FILES,) if self.files else (),
            probe=probe,
        )
        return replace(o, claimant=None if self.rests else session)

    @rule(dies=st.sampled_from([False, False, True]))
    def operate(self, dies: bool = False) -> None:
        """One pass; an operator that dies has acted and written nothing."""
        o = self.observed()
        plan = decide_executor(o, self.now)
        for action in plan.actions:
            self.act(action)
        if plan.status is not None and not dies:
            self.judge(o, plan.status)
            self.status = plan.status

    @rule()
    def all_goes_well_for_a_while(self) -> None:
        for _ in range(4):
            self.a_step_ends(0)
            self.agentctl_listens()
            self.operate()

    def judge(self, o: ExecutorObserved, new: ExecutorStatus) -> None:
        if not self.answers and new.container_id != o.executor.status.container_id:
            raise Broken("silence_proves_nothing: a container was forgotten or found")
        if not self.answers and o.executor.status.state == "ready" and new.state == "error":
            raise Broken("silence_proves_nothing: a ready executor is in error")
        if new.session_ref is None and o.executor.status.session_ref is not None and self.up():
            raise Broken("nobody_leaves_a_running_agent")

    def act(self, action: Action) -> None:
        if not self.answers and not type(action).__name__.startswith(("SetFinalizer", "Stop")):
            raise Broken(f"nothing_in_silence: {type(action).__name__}")
        match action:
            case RunContainer(container=wanted):
                step = wanted.config["Labels"]["kandev.dev/step"]
                if step == Step.AGENT and self.up():
                    raise Broken("one_writer: an agent's container beside one that runs")
                self.made(wanted.name, step, wanted.instance_id, shape_of(wanted))
            case StartContainer(container_id=known):
                if any(each.id != known for each in self.up()):
                    raise Broken("one_writer: a second one is started")
                for each in [each for each in self.containers if each.id == known]:
                    self.change(each, state="running")
            case RemoveContainer(container_id=known):
                wanted_now = self.status.instance_id if not self.rests else None
                for each in self.up():
                    if each.id == known and each.instance_id == wanted_now:
                        raise Broken("a_container_in_use_stays")
                self.containers = [each for each in self.containers if each.id != known]
            case RemoveVolume(name=name):
                if name == FILES.name:
                    raise Broken("files_stay")
            case _:
                pass

    def made(self, name: str, step: str, instance_id: str, shape: str) -> None:
        known = [each for each in self.containers if each.name == name]
        if known:
            self.change(known[0], state="running")
            return
        self.numbers += 1
        fresh = a_container(
            Step(step), id=f"c-{self.numbers}", name=name, instance_id=instance_id, shape=shape
        )
        self.containers.append(fresh)

    # ---- in the end ----------------------------------------------------------------------

    @precondition(lambda self: not self.rests)
    @rule()
    def it_works_again(self) -> None:
        """With everything mended, passes and time are all it takes."""
        self.answers = True
        for _ in range(PASSES):
            self.a_step_ends(0)
            self.agentctl_listens()
            self.operate()
            if self.status.state == "ready" and len(self.containers) == 1:
                return
            self.now += timedelta(seconds=20)
        raise Broken(f"it_works_again: {self.status}\n{self.containers}")


PLAY = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def test_the_world_of_containers_keeps_its_promises() -> None:
    run_state_machine_as_test(DockerWorld, settings=PLAY)


def _silence_is_absence(o: ExecutorObserved, why: str, now: Any) -> Any:
    empty = replace(o.docker, containers=Found(()))
    held = occupancy.occupancy(o, now)
    return life.life(replace(o, docker=empty), held, now)


def _always_another(o: ExecutorObserved, *more: Any) -> Any:
    empty = replace(o.docker, containers=Found(()))
    return _MAKE(replace(o, docker=empty), *more)


def _everything_else_goes(o: ExecutorObserved, current: str) -> Any:
    return tuple(RemoveContainer(each.id) for each in o.docker.present)


def _nothing_lingers(o: ExecutorObserved, now: Any) -> bool:
    return False


def _all_volumes(o: ExecutorObserved, *, programs: bool) -> Any:
    return tuple(RemoveVolume(each.name) for each in o.docker.volumes)


_MAKE = making.make
_MUTANTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "silence is absence": (life, "_engine_silent", _silence_is_absence, "silence|nothing_in_sil"),
    "it never looks what is there": (making, "make", _always_another, "it_works_again|one_writer"),
    "it tidies too much": (rest, "tidy", _everything_else_goes, "a_container_in_use_stays"),
    "it lets go too soon": (occupancy, "_lingers", _nothing_lingers, "nobody_leaves"),
    "it removes the files": (rest, "volumes", _all_volumes, "files_stay"),
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_the_world_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, mutant, promise = _MUTANTS[name]
    monkeypatch.setattr(module, function, mutant)
    with pytest.raises(Broken, match=promise):
        run_state_machine_as_test(DockerWorld, settings=PLAY)
