"""How an executor's container comes to be: images, then one step after the other, then the agent.

Each pass takes one step and looks at what has become of the last, so that an operator that dies in
between goes on where it was. A step that fails is told in its own words and tried again after a
wait; what a person must mend (no image named, a network that is not allowed) is said at once.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api.conditions import FALSE
from kandev_operator.api.executor import ExecutorState
from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    PodScheduledReason,
    WorkspaceReadyReason,
)
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.core import comeback, executorstatus, lifecycle
from kandev_operator.core.actions import Action, PullImage, RemoveContainer, RunContainer
from kandev_operator.core.containerseen import DockerContainer, Step
from kandev_operator.core.docker import rest
from kandev_operator.core.docker.desired import (
    desired,
    files_name,
    image_of,
    runtime_of,
    shape_of,
    steps,
)
from kandev_operator.core.executorstatus import Life
from kandev_operator.core.observed import ExecutorObserved, Found
from kandev_operator.core.pods.desired import Wanted
from kandev_operator.core.probes import Health

SOON: Final = timedelta(seconds=0.5)
_FAILED: Final = {
    Step.INSTALL: AgentctlReadyReason.INIT_FAILED,
    Step.PREPARE: WorkspaceReadyReason.CLONE_FAILED,
}


def make(o: ExecutorObserved, session: TaskSession, instance: str, now: datetime) -> Life:
    """The next step towards a container of this instance, or why there can be none now."""
    wanted = wanted_of(o, session)
    if wanted is None:
        said = "The container is made when the session's Task and AgentProfile are there."
        return Life(ExecutorState.STARTING, executorstatus.unknown(said), requeue=rest.LOOK_AGAIN)
    image = image_of(wanted)
    if image is None:
        return _stalled(
            f"Neither AgentProfile {wanted.profile.metadata.name} nor spec.localDocker names an "
            "image."
        )
    if (files := _files_are_gone(o, session)) is not None:
        return Life(ExecutorState.ERROR, files, fields=rest.NO_ADDRESS, requeue=rest.LOOK_AGAIN)
    fields = {**rest.NO_CONTAINER, **_begun(o, instance, now)}
    if o.failed is not None and o.failed.action == RunContainer.__name__:
        return _refused(o, fields, now)
    if (waiting := comeback.still_waiting(o, None, now)) is not None:
        return replace(waiting, fields={**rest.NO_CONTAINER, **waiting.fields})
    for name in (wanted.platform.agentctl_image, image):
        if not o.docker.image(name).id:
            return _pulled(o, name, fields, now)
    return _stepped(o, wanted, instance, fields, now)


def wanted_of(o: ExecutorObserved, session: TaskSession) -> Wanted | None:
    """Everything that a container is made from; None while some of it is not there."""
    docker = o.docker
    if not (isinstance(docker.task, Found) and isinstance(docker.profile, Found)):
        return None
    return Wanted(o.executor, session, docker.task.value, docker.profile.value, docker.platform)


def is_of_another_shape(o: ExecutorObserved, session: TaskSession, agent: DockerContainer) -> bool:
    """A container that has not run yet follows its template."""
    wanted = wanted_of(o, session)
    if wanted is None or image_of(wanted) is None:
        return False
    agentctl = o.docker.image(wanted.platform.agentctl_image).id
    if not agentctl:
        return False
    return shape_of(desired(wanted, Step.AGENT, agent.instance_id, agentctl)) != agent.shape


def _begun(o: ExecutorObserved, instance: str, now: datetime) -> dict[str, Any]:
    status = o.executor.status
    same = status.instance_id == instance and status.started_at is not None
    waited = status.next_attempt_at is not None
    begun = status.started_at if same and not waited else rfc3339(now)
    attempt = status.attempt or 1
    return {"instance_id": instance, "started_at": begun, "attempt": attempt}


def _files_are_gone(o: ExecutorObserved, session: TaskSession) -> Health | None:
    """A volume with a conversation on it is never replaced by an empty one behind the session's
    back; only who asks for a fresh start wants that."""
    meta, token = session.metadata, session.status.resume_token_ref
    folder = runtime_of(o.executor).workspace_path
    if folder is not None or token is None or not token.established:
        return None
    name = files_name(meta.name, meta.uid)
    if lifecycle.fresh_start_wished(session) or any(v.name == name for v in o.docker.volumes):
        return None
    said = f"The Docker volume {name} with the session's files does not exist any more."
    return Health(FALSE, WorkspaceReadyReason.WORKSPACE_MISSING, said, is_error=True)


def _pulled(o: ExecutorObserved, name: str, fields: dict[str, Any], now: datetime) -> Life:
    """The image is not there yet."""
    seen, platform = o.docker.image(name), o.docker.platform
    never = name == platform.agentctl_image and platform.image_pull_policy == "Never"
    if seen.pulling:
        waits = executorstatus.unknown(f"Image {name} is being pulled.")
        return Life(ExecutorState.STARTING, waits, (), fields, requeue=rest.LOOK_AGAIN)
    began = moment(fields["started_at"])
    fresh = seen.failed_at is not None and seen.failed_at >= began
    if never or (seen.failure and fresh):
        words = seen.failure or "the operator's --agentctl-pull-policy is Never"
        said = f"Image {name} is not there and cannot be pulled: {words}"
        why = Health(FALSE, AgentctlReadyReason.IMAGE_PULL_FAILED, said)
        failed = comeback.wait(o, why, (o.executor.status.attempt or 1) + 1, now)
        return replace(failed, fields={**fields, **failed.fields})
    begins = executorstatus.unknown(f"Image {name} is being pulled.")
    pull = (PullImage(name),)
    return Life(ExecutorState.STARTING, begins, pull, fields, requeue=rest.LOOK_AGAIN)


def _stepped(
    o: ExecutorObserved, wanted: Wanted, instance: str, fields: dict[str, Any], now: datetime
) -> Life:
    agentctl = o.docker.image(wanted.platform.agentctl_image).id
    for step in steps(wanted):
        seen = o.docker.of(instance, step)
        if seen is not None and seen.is_over and seen.exit_code == 0:
            continue
        if seen is not None and seen.is_over:
            return _step_failed(o, step, seen, fields, now)
        said = executorstatus.unknown(_WORDS[step])
        actions: tuple[Action, ...] = ()
        if seen is None or not seen.is_up:
            actions = (RunContainer(desired(wanted, step, instance, agentctl)),)
        return Life(ExecutorState.STARTING, said, actions, fields, requeue=SOON)
    raise AssertionError("the agent's own container is not made here once it is there")


_WORDS: Final = {
    Step.INSTALL: "agentctl is being brought to the Docker engine.",
    Step.PREPARE: "The task's repositories are being cloned.",
    Step.AGENT: "The container is being started.",
}


def _step_failed(
    o: ExecutorObserved, step: Step, seen: DockerContainer, fields: dict[str, Any], now: datetime
) -> Life:
    said = f"The step {step.value} ended with code {seen.exit_code}. {seen.words}".strip()
    why = Health(FALSE, _FAILED[step], said)
    if (waiting := comeback.still_waiting(o, why, now)) is not None:
        return replace(waiting, fields={**fields, **waiting.fields})
    if o.executor.status.next_attempt_at is None:
        waits = comeback.wait(o, why, (o.executor.status.attempt or 1) + 1, now)
        return replace(waits, fields={**fields, **waits.fields})
    again = executorstatus.unknown(f"The step {step.value} is tried again.")
    return Life(ExecutorState.STARTING, again, (RemoveContainer(seen.id),), fields, requeue=SOON)


def _refused(o: ExecutorObserved, fields: dict[str, Any], now: datetime) -> Life:
    """The engine's own no."""
    assert o.failed is not None, "something was refused"
    if o.failed.fatal:
        return _stalled(o.failed.message)
    why = Health(FALSE, o.failed.reason, o.failed.message)
    waits = comeback.wait(o, why, (o.executor.status.attempt or 1) + 1, now)
    return replace(waits, fields={**fields, **waits.fields})


def _stalled(message: str) -> Life:
    health = Health(FALSE, PodScheduledReason.INVALID_TEMPLATE, message, is_error=True)
    return Life(ExecutorState.ERROR, health, fields=rest.NO_ADDRESS, stalled=True)
