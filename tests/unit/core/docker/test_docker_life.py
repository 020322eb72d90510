"""What follows for an executor in a container: made, kept, started again, and cleared away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_probe,
    a_profile,
    a_session,
    a_status,
    ago,
)
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.containerseen import ImageSeen, Step
from kandev_operator.core.docker.desired import shape_of
from kandev_operator.core.observed import (
    Failed,
    Found,
    Platform,
)
from plans import (
    action,
    condition,
    decide_on,
    done,
    said,
    truth,
    waits,
    with_executor_status,
    written,
)
from unit.core.docker.containers import (
    AGENTCTL,
    FILES,
    IMAGE,
    IMAGES,
    INSTALLED,
    NEW,
    NOT_TRIED,
    UP,
    a_container,
    a_docker_status,
    instance,
    seen,
    talked,
)

# ---- making one ---------------------------------------------------------------------------


def test_agentctl_is_brought_first_then_the_agent_is_started() -> None:
    o = seen(status=NEW, probe=NOT_TRIED)
    first = decide_on(o)
    install = action(first, "RunContainer").container
    assert (done(first), said(first)) == ("RunContainer", "starting Unknown/Starting at work")
    assert install.config["Image"] == AGENTCTL
    assert written(first).instance_id == instance(1)
    pinned = with_executor_status(o, written(first))
    busy = replace(pinned.docker, containers=Found((a_container(Step.INSTALL),)))
    assert done(decide_on(replace(pinned, docker=busy))) == ""
    ended = replace(pinned.docker, containers=Found((INSTALLED,)))
    second = decide_on(replace(pinned, docker=ended))
    agent = action(second, "RunContainer").container
    assert (agent.config["Image"], agent.instance_id) == (IMAGE, instance(1))


def test_whoever_takes_over_meets_the_container_that_was_begun() -> None:
    """Made and never started, or started and not yet written down: no second one."""
    o = seen(INSTALLED, status=NEW, probe=NOT_TRIED)
    wanted = action(decide_on(o), "RunContainer").container
    made = a_container(state="created", shape=shape_of(wanted))
    begun = decide_on(replace(o, docker=replace(o.docker, containers=Found((INSTALLED, made)))))
    assert action(begun, "RunContainer").container == wanted
    up = decide_on(seen(INSTALLED, UP, status=NEW, probe=NOT_TRIED))
    assert "RunContainer" not in done(up)
    assert written(up).container_id == "agent-1"
    assert written(up).agentctl_url == "http://127.0.0.1:49153"


def test_an_image_that_is_not_there_is_pulled() -> None:
    images = (IMAGES[0], (IMAGE, ImageSeen()))
    o = seen(status=NEW, images=images)
    plan = decide_on(o)
    assert (done(plan), action(plan, "PullImage").name) == ("PullImage", IMAGE)
    pulling = (IMAGES[0], (IMAGE, ImageSeen(pulling=True)))
    o = with_executor_status(o, written(plan))
    assert done(decide_on(replace(o, docker=replace(o.docker, images=pulling)))) == ""
    refused = (IMAGES[0], (IMAGE, ImageSeen(failure="no such host", failed_at=NOW)))
    o = replace(o, docker=replace(o.docker, images=refused))
    failed = decide_on(o)
    assert (said(failed), done(failed)) == ("error False/ImagePullFailed at work", "")
    assert "no such host" in written(failed).error_message
    o = with_executor_status(o, written(failed))
    due = NOW + timedelta(seconds=waits(failed) or 0)
    assert done(decide_on(o, due - timedelta(seconds=1))) == ""
    assert done(decide_on(o, due)) == "PullImage", "tried again after a while"


def test_an_agentctl_image_that_may_not_be_pulled_is_named() -> None:
    images = ((AGENTCTL, ImageSeen()), IMAGES[1])
    plan = decide_on(seen(status=NEW, images=images, platform=Platform(image_pull_policy="Never")))
    assert (said(plan), done(plan)) == ("error False/ImagePullFailed at work", "")
    assert "--agentctl-pull-policy" in written(plan).error_message


def test_without_an_image_it_is_refused_in_words() -> None:
    plan = decide_on(seen(status=NEW, profile=Found(a_profile())))
    assert (said(plan), done(plan)) == ("error False/InvalidTemplate stalled", "")
    assert "names an image" in written(plan).error_message


def test_a_step_that_failed_is_told_and_tried_again_after_a_while() -> None:
    broken = a_container(Step.INSTALL, state="exited", exit_code=1, words="no space left")
    o = seen(broken, status=a_docker_status(boot_id=None, container_id=None))
    failed = decide_on(o)
    assert (said(failed), done(failed)) == ("error False/InitFailed at work", "")
    assert "no space left" in written(failed).error_message
    o = with_executor_status(o, written(failed))
    due = NOW + timedelta(seconds=waits(failed) or 0)
    assert done(decide_on(o, due - timedelta(seconds=1))) == ""
    assert action(decide_on(o, due), "RemoveContainer").container_id == "install-1"


def test_what_the_engine_refuses_is_told_in_its_words() -> None:
    no = Failed("RunContainer", "InvalidTemplate", "no such network: agents", fatal=False)
    plan = decide_on(seen(INSTALLED, status=NEW, failed=no))
    assert said(plan) == "error False/InvalidTemplate at work"
    assert "no such network" in written(plan).error_message


def test_files_that_are_gone_are_never_replaced_behind_the_sessions_back() -> None:
    plan = decide_on(seen(volumes=()))
    assert (said(plan), done(plan)) == ("error False/WorkspaceMissing at work", "")
    wishes = {"kandev.dev/fresh-start-requested": "1"}
    again = decide_on(seen(volumes=(), session=talked(annotations=wishes)))
    assert done(again) == "RunContainer", "who asks for a fresh start wants new ones"
    silent = a_session(status=a_status())
    assert done(decide_on(seen(volumes=(), status=NEW, session=silent))) == "RunContainer"


# ---- one that is there --------------------------------------------------------------------


def test_one_that_answers_is_ready_and_what_came_before_it_is_cleared_away() -> None:
    plan = decide_on(seen(INSTALLED, UP))
    assert (said(plan), done(plan)) == ("ready True/AgentctlReady", "RemoveContainer")
    assert action(plan, "RemoveContainer").container_id == "install-1"
    status = written(plan)
    assert (status.container_id, status.node_name) == ("agent-1", "engine-1")
    assert status.worktree.path == "/workspace/worktree"


def test_a_second_one_beside_it_is_there_by_mistake() -> None:
    plan = decide_on(seen(a_container(number=1), a_container(number=2), status=a_docker_status(2)))
    assert action(plan, "RemoveContainer").container_id == "agent-1"


@pytest.mark.parametrize(
    ("published", "by_address", "expected"),
    [
        (((8700, 49153),), False, "http://127.0.0.1:49153"),
        (((8700, 49153),), True, "http://172.17.0.2:8700"),
        (((9000, 49153),), False, "http://172.17.0.2:8700"),
        ((), False, "http://172.17.0.2:8700"),
    ],
)
def test_where_it_is_asked(published: Any, by_address: bool, expected: str) -> None:
    o = seen(
        a_container(published=published),
        status=a_docker_status(agentctl_url=None),
        platform=Platform(docker_by_address=by_address),
    )
    assert written(decide_on(o)).agentctl_url == expected


@pytest.mark.parametrize("policy", ["Auto", "OnRequest"])
def test_one_that_stopped_is_started_again_in_place(policy: str) -> None:
    """Shell and files come back whatever the policy; the agent's own rules decide about it."""
    stopped = a_container(state="exited", exit_code=137)
    o = seen(stopped, probe=a_probe(None), session=talked(policy=policy))
    plan = decide_on(o)
    assert action(plan, "StartContainer").container_id == "agent-1"
    status = written(plan)
    assert said(plan) == "starting False/ContainerExited at work"
    assert (status.instance_id, status.container_id) == (instance(1), "agent-1")
    assert (status.boot_id, status.agentctl_url) == (None, None)


def test_one_that_stops_again_and_again_has_to_wait() -> None:
    stopped = a_container(state="exited", exit_code=3, words="no such file")
    status = a_docker_status(started_at=rfc3339(ago(5)), attempt=2)
    plan = decide_on(seen(stopped, status=status, probe=a_probe(None)))
    assert (said(plan), done(plan)) == ("error False/ContainerExited at work", "")
    assert "ended with code 3. no such file" in written(plan).error_message


def test_one_that_took_too_much_memory_says_so() -> None:
    killed = a_container(state="exited", exit_code=137, oom_killed=True)
    assert truth(decide_on(seen(killed)), "AgentctlReady") == "False/OOMKilled"


# ---- one that is gone, and an engine that is silent ---------------------------------------


def test_one_that_is_gone_is_made_anew_on_the_same_files() -> None:
    plan = decide_on(seen(probe=a_probe(None)))
    assert (done(plan), said(plan)) == (
        "RunContainer",
        "starting False/ContainerMissing at work",
    )
    made = action(plan, "RunContainer").container
    assert made.instance_id == instance(2)
    sources = {each["Source"] for each in made.config["HostConfig"]["Mounts"]}
    assert FILES.name in sources
    status = written(plan)
    assert (status.instance_id, status.container_id, status.boot_id) == (instance(2), None, None)


def test_one_that_is_being_removed_is_waited_for() -> None:
    """Its end is on its way, and is not yet there: the next one is another instance."""
    plan = decide_on(seen(a_container(state="removing"), probe=a_probe(None)))
    assert (done(plan), written(plan).container_id) == ("", "agent-1")


@pytest.mark.parametrize("state", ["created", "exited"])
def test_one_that_has_not_run_follows_its_template(state: str) -> None:
    """A network that does not exist, a command that cannot be run: what was made stays made."""
    other = a_container(state=state, exit_code=1, shape="of before")
    o = seen(other, status=a_docker_status(boot_id=None, attempt=7), probe=NOT_TRIED)
    plan = decide_on(o)
    assert action(plan, "RemoveContainer").container_id == "agent-1"
    assert (written(plan).instance_id, written(plan).attempt) == (instance(2), 1)
    ran = a_container(state="exited", exit_code=1, shape="of before")
    assert done(decide_on(seen(ran))) == "StartContainer", "one that has run is left as it is"


def test_one_that_nobody_wants_back_stays_away() -> None:
    plan = decide_on(seen(probe=a_probe(None), session=talked(policy="OnRequest")))
    assert (done(plan), said(plan)) == ("", "stopped False/ContainerMissing stalled")


def test_a_silent_engine_says_nothing_about_its_containers() -> None:
    o = seen(answers=False, probe=a_probe(None))
    plan = decide_on(o)
    assert (done(plan), written(plan).state) == ("", "ready")
    assert truth(plan, "AgentctlReady") == "Unknown/DockerUnavailable"
    assert "connection refused" in condition(plan, "AgentctlReady").message
    assert written(plan).container_id == "agent-1"
    long_after = decide_on(o, NOW + timedelta(days=2))
    assert written(long_after).state == "ready", "it is never an error, however long it lasts"


def test_an_agentctl_that_answers_is_well_though_its_engine_is_silent() -> None:
    plan = decide_on(seen(answers=False))
    assert truth(plan, "AgentctlReady") == "True/AgentctlReady"


def test_what_was_known_stays_while_nobody_has_asked() -> None:
    o = seen(answers=False, probe=NOT_TRIED)
    plan = decide_on(o)
    assert done(plan) == ""
    assert plan.status is None or plan.status.state == "ready"


def test_another_engine_cannot_say_that_a_container_is_gone() -> None:
    plan = decide_on(seen(engine_id="engine-2", probe=a_probe(None)))
    assert (done(plan), truth(plan, "AgentctlReady")) == ("", "Unknown/DockerUnavailable")
    assert "Another Docker engine" in condition(plan, "AgentctlReady").message
