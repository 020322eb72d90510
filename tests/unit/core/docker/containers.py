"""What the Docker engine has, and executors in its containers, with overrides by keyword."""

from typing import Any

from builders import (
    a_condition,
    a_probe,
    a_profile,
    a_report,
    a_session,
    a_status,
    a_task,
    a_token_ref,
    ago,
    an_executor,
    executor_observed,
    ref_to,
    some_conditions,
    uid_of,
)
from kandev_operator.api.executor import ExecutorStatus, LocalDockerRuntime, Runtime
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.containerseen import DockerContainer, ImageSeen, Step, VolumeSeen
from kandev_operator.core.docker.desired import files_name
from kandev_operator.core.observed import (
    Answer,
    DockerSeen,
    ExecutorObserved,
    Failed,
    Found,
    Missing,
    Platform,
    Unreadable,
)

IMAGE = "agents.example.com/claude:1"
AGENTCTL = "kandev-agentctl"
IMAGES = ((AGENTCTL, ImageSeen(id="sha256:a")), (IMAGE, ImageSeen(id="sha256:b")))
FILES = VolumeSeen(files_name("s-a", uid_of("s-a")), session_uid=uid_of("s-a"), session_name="s-a")
PROGRAM = VolumeSeen("ex-a-agentctl", role="program")
NOT_TRIED = a_probe(None, answer=Answer.NOT_TRIED)


def instance(number: int) -> str:
    return f"{uid_of('ex-a')}-{number}"


def a_container(step: Step = Step.AGENT, number: int = 1, **overrides: Any) -> DockerContainer:
    fields: dict[str, Any] = {
        "id": f"{step.value}-{number}",
        "name": f"ex-a-{step.value}-{number}",
        "step": step.value,
        "executor_uid": uid_of("ex-a"),
        "session_uid": uid_of("s-a"),
        "instance_id": instance(number),
        "address": "172.17.0.2",
        "published": ((8700, 49153),),
    }
    return DockerContainer(**{**fields, **overrides})


UP = a_container()
INSTALLED = a_container(Step.INSTALL, state="exited")


def a_docker_status(number: int = 1, **overrides: Any) -> ExecutorStatus:
    """Of an executor whose container of this number answered a while ago."""
    fields: dict[str, Any] = {
        "observed_generation": 1,
        "state": "ready",
        "session_ref": ref_to("s-a"),
        "instance_id": instance(number),
        "boot_id": "boot-1",
        "container_id": f"agent-{number}",
        "node_name": "engine-1",
        "agentctl_url": "http://127.0.0.1:49153",
        "started_at": rfc3339(ago(600)),
        "attempt": 1,
        "conditions": some_conditions(
            a_condition("AgentctlReady", "True", "AgentctlReady"),
            a_condition("Ready", "True", "AgentctlReady"),
        ),
    }
    return ExecutorStatus(**{**fields, **overrides})


NEW = ExecutorStatus(session_ref=ref_to("s-a"), conditions=some_conditions())


def talked(**more: Any) -> TaskSession:
    """A session with a conversation."""
    return a_session(status=a_status(resume_token_ref=a_token_ref()), **more)


def seen(
    *containers: DockerContainer,
    status: ExecutorStatus | None = None,
    session: TaskSession | None = None,
    made: bool = False,
    block: LocalDockerRuntime | None = None,
    spec: dict[str, Any] | None = None,
    answers: bool = True,
    probe: Any = None,
    failed: Failed | None = None,
    meta: dict[str, Any] | None = None,
    **view: Any,
) -> ExecutorObserved:
    session = session or talked()
    fields: dict[str, Any] = {
        "containers": Found(containers) if answers else Unreadable("connection refused"),
        "engine_id": "engine-1",
        "volumes": (FILES,),
        "images": IMAGES,
        "task": Found(a_task()),
        "profile": Found(a_profile(image=IMAGE)),
        "platform": Platform(),
    }
    return executor_observed(
        an_executor(
            runtime=Runtime.LOCAL_DOCKER,
            status=status if status is not None else a_docker_status(),
            made_for=session if made else None,
            spec={"local_docker": block or LocalDockerRuntime(), **(spec or {})},
            **(meta or {}),
        ),
        probe=probe or a_probe(a_report()),
        process=Missing(),
        problem=None,
        claimant=session,
        owner=Found(session) if made else Unreadable("made by nobody"),
        bound=Found(session),
        docker=DockerSeen(**{**fields, **view}),
        failed=failed,
    )
