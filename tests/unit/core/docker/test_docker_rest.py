"""How an executor in a container comes to rest and to its end, and one that was given."""

from dataclasses import replace

import pytest

from builders import (
    a_condition,
    a_probe,
    a_report,
    a_session,
    a_status,
)
from kandev_operator.api.executor import LocalDockerRuntime
from kandev_operator.core.containerseen import VolumeSeen
from plans import (
    action,
    decide_on,
    done,
    said,
    truth,
    waits,
    written,
)
from unit.core.docker.containers import (
    FILES,
    NEW,
    NOT_TRIED,
    PROGRAM,
    UP,
    a_container,
    a_docker_status,
    seen,
)

# ---- rest and end -------------------------------------------------------------------------


def test_a_session_that_lets_go_leaves_when_its_container_is_gone() -> None:
    resting = a_session(
        status=a_status(
            executor_ref=None, conditions=(a_condition("Suspended", "True", "Requested"),)
        )
    )
    o = seen(UP, session=resting, made=True, probe=a_probe(None))
    going = decide_on(o)
    assert action(going, "RemoveContainer").container_id == "agent-1"
    assert written(going).session_ref is not None
    silent = decide_on(seen(answers=False, session=resting, made=True, probe=a_probe(None)))
    assert (done(silent), silent.status is None or silent.status.session_ref is not None) == (
        "",
        True,
    )
    gone = decide_on(replace(seen(session=resting, made=True, probe=NOT_TRIED), claimant=None))
    assert (said(gone), written(gone).session_ref) == ("stopped True/Idle", None)
    assert (written(gone).container_id, written(gone).agentctl_url) == (None, None)


def test_an_executor_at_rest_keeps_the_files_and_nothing_else() -> None:
    idle = seen(status=a_docker_status(session_ref=None), volumes=(FILES, PROGRAM), probe=NOT_TRIED)
    plan = decide_on(replace(idle, claimant=None))
    assert action(plan, "RemoveVolume").name == PROGRAM.name
    assert done(plan) == "RemoveVolume"


@pytest.mark.parametrize(
    ("volume", "goes"),
    [
        pytest.param(replace(FILES, is_orphan=True), True, id="its session is gone"),
        pytest.param(FILES, False, id="its session is there, or cannot be read"),
        pytest.param(
            replace(FILES, is_orphan=True, policy="Retain"), False, id="it is to be retained"
        ),
    ],
)
def test_files_go_with_their_session_by_its_policy(volume: VolumeSeen, goes: bool) -> None:
    deleted = decide_on(seen(volumes=(volume,), meta={"deleting": True}))
    expected = "RemoveVolume SetFinalizer" if goes else "SetFinalizer"
    assert (done(deleted), action(deleted, "SetFinalizer").present) == (expected, False)


def test_an_executor_does_not_go_before_its_containers() -> None:
    there = decide_on(seen(UP, meta={"deleting": True}))
    assert (done(there), waits(there)) == ("RemoveContainer", 1)
    silent = decide_on(seen(answers=False, meta={"deleting": True}))
    assert (done(silent), waits(silent)) == ("", 5)
    never_began = decide_on(seen(answers=False, status=NEW, meta={"deleting": True}))
    assert done(never_began) == "SetFinalizer"


# ---- a container of somebody else's -------------------------------------------------------

GIVEN = LocalDockerRuntime(container_id="mine")
THEIRS = a_container(executor_uid="", session_uid="", instance_id="", name="mine")


def test_a_given_container_is_pinned_by_its_first_answer() -> None:
    status = a_docker_status(instance_id=None, container_id=None, boot_id=None)
    plan = decide_on(
        seen(THEIRS, block=GIVEN, status=status, probe=a_probe(a_report(instance_id="its-own")))
    )
    assert (said(plan), done(plan)) == ("ready True/AgentctlReady", "")
    assert (written(plan).instance_id, written(plan).container_id) == ("its-own", "agent-1")


def test_a_given_container_is_started_and_never_made_or_removed() -> None:
    stopped = replace(THEIRS, state="exited")
    assert done(decide_on(seen(stopped, block=GIVEN, probe=a_probe(None)))) == "StartContainer"
    gone = decide_on(seen(block=GIVEN, probe=a_probe(None)))
    assert (said(gone), done(gone)) == ("error False/ContainerMissing at work", "")
    silent = decide_on(seen(block=GIVEN, answers=False, probe=a_probe(None)))
    assert truth(silent, "AgentctlReady") == "Unknown/DockerUnavailable"
    deleted = decide_on(
        seen(THEIRS, block=GIVEN, meta={"deleting": True}, probe=a_probe(a_report("none")))
    )
    assert done(deleted) == "SetFinalizer"
