"""The containers that an executor should have: functions of what the cluster stores, as for pods.

Three, one after the other: `install`, from the agentctl image, puts agentctl into a volume of the
executor's own; `prepare`, in the agent's image, clones what the task names; `agent` runs agentctl,
and with it the agent. They share the session's files, a volume that outlives them all or a folder
that the template names. No Secret is in a container's description: the engine shows that to
everybody who may ask it. Values that the agent needs reach it through agentctl.
"""

import hashlib
import json
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.agent import Resources
from kandev_operator.api.executor import Executor, LocalDockerRuntime
from kandev_operator.api.profile import AgentProfile
from kandev_operator.core.actions import ContainerWanted
from kandev_operator.core.containerseen import (
    LABEL_INSTANCE_ID,
    LABEL_POLICY,
    LABEL_ROLE,
    LABEL_SESSION_NAME,
    LABEL_SHAPE,
    LABEL_STEP,
    Role,
    Step,
)
from kandev_operator.core.docker import quantities
from kandev_operator.core.pods import claim, layout
from kandev_operator.core.pods.desired import Wanted
from kandev_operator.core.pods.overlay import OWN_VARIABLES

Body = dict[str, Any]

STOP_SECONDS: Final = 25
"""For a turn to settle, and for what escaped from the agent to be found and ended."""
_LOGS: Final = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}
_MANAGED: Final = ("app.kubernetes.io/managed-by", "kandev-operator")


def runtime_of(executor: Executor) -> LocalDockerRuntime:
    """The block of the spec."""
    docker = executor.spec.local_docker
    assert docker is not None, "only runtime LocalDocker has containers"
    return docker


def image_of(wanted: Wanted) -> str | None:
    """The image with the agent in it; None where nobody names one."""
    return runtime_of(wanted.executor).image or wanted.profile.spec.image


def port_of(executor: Executor) -> int:
    """Where agentctl listens in the container."""
    return runtime_of(executor).port or layout.PORT


def files_name(session_name: str, session_uid: str) -> str:
    """The volume with a session's files: it follows the session, not the executor."""
    return group.made_name(session_name, session_uid, "files")


def steps(wanted: Wanted) -> tuple[Step, ...]:
    """What has to run before the agent, and the agent."""
    prepare = (Step.PREPARE,) if wanted.task.spec.repositories else ()
    return (Step.INSTALL, *prepare, Step.AGENT)


def desired(wanted: Wanted, step: Step, instance_id: str, agentctl_id: str) -> ContainerWanted:
    """A container of this instance, with the agentctl of the image that has this ID."""
    config = _CONFIGS[step](wanted)
    config["HostConfig"] = {**_host(wanted), **config.get("HostConfig", {})}
    program = _program_name(wanted.executor, agentctl_id)
    config["HostConfig"]["Mounts"] = [
        _files_mount(wanted),
        {
            "Type": "volume",
            "Source": program,
            "Target": layout.INSTALL_TARGET if step is Step.INSTALL else layout.PROGRAM,
            "ReadOnly": step is not Step.INSTALL,
        },
    ]
    user = wanted.platform.user
    if user is not None:
        config["User"] = f"{user}:{user}"
    labels = {**_labels(wanted), LABEL_STEP: step.value, LABEL_INSTANCE_ID: instance_id}
    shape = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
    config["Labels"] = {**labels, LABEL_SHAPE: shape}
    config["Env"] = [*config.get("Env", []), f"KANDEV_INSTANCE_ID={instance_id}"]
    number = instance_id.rpartition("-")[2]
    suffix = number if step is Step.AGENT else f"{step.value}-{number}"
    meta = wanted.executor.metadata
    return ContainerWanted(
        name=group.made_name(meta.name, meta.uid, suffix),
        instance_id=instance_id,
        config=config,
        volumes=_volumes(wanted, program),
        folders=_folders(wanted, step),
        user=user,
        keys_at=layout.JWKS if step is Step.AGENT else "",
        credentials=_credentials(wanted) if step is Step.PREPARE else (),
    )


def shape_of(container: ContainerWanted) -> str:
    """The hash of what this container was made from."""
    shape: str = container.config["Labels"][LABEL_SHAPE]
    return shape


def _labels(wanted: Wanted) -> dict[str, str]:
    key, value = _MANAGED
    return {
        key: value,
        group.LABEL_EXECUTOR_UID: wanted.executor.metadata.uid,
        group.LABEL_SESSION_UID: wanted.session.metadata.uid,
        group.LABEL_TASK_UID: wanted.task.metadata.uid,
    }


def _program_name(executor: Executor, agentctl_id: str) -> str:
    """The volume with agentctl; another one for each agentctl image."""
    which = hashlib.sha256(agentctl_id.encode()).hexdigest()[:6]
    return group.made_name(executor.metadata.name, executor.metadata.uid, f"agentctl-{which}")


def _files_mount(wanted: Wanted) -> Body:
    folder = runtime_of(wanted.executor).workspace_path
    meta = wanted.session.metadata
    source = folder or files_name(meta.name, meta.uid)
    return {
        "Type": "bind" if folder else "volume",
        "Source": source,
        "Target": layout.WORKSPACE,
    }


def _volumes(wanted: Wanted, program: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    executor, meta = wanted.executor.metadata.uid, wanted.session.metadata
    ours = (_MANAGED, (group.LABEL_EXECUTOR_UID, executor))
    made: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    made.append((program, (*ours, (LABEL_ROLE, Role.PROGRAM.value))))
    if runtime_of(wanted.executor).workspace_path is None:
        policy = "Retain" if wanted.session.spec.workspace.is_retained else "Delete"
        labels = (
            *ours,
            (group.LABEL_SESSION_UID, meta.uid),
            (LABEL_SESSION_NAME, meta.name),
            (LABEL_ROLE, Role.FILES.value),
            (LABEL_POLICY, policy),
        )
        made.append((files_name(meta.name, meta.uid), labels))
    return tuple(made)


def _folders(wanted: Wanted, step: Step) -> tuple[str, ...]:
    """New volumes are root's; a folder that the template names is left as it is."""
    if step is not Step.INSTALL:
        return (layout.CACHE,)
    bind = runtime_of(wanted.executor).workspace_path is not None
    return (layout.INSTALL_TARGET,) if bind else (layout.INSTALL_TARGET, layout.WORKSPACE)


def _credentials(wanted: Wanted) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{layout.CREDENTIALS}/{each.name}", each.credentials_secret_ref.name)
        for each in wanted.task.spec.repositories
        if each.credentials_secret_ref is not None
    )


def _host(wanted: Wanted) -> Body:
    host: Body = {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        # Only the operator starts one: it counts the attempts, and knows who may.
        "RestartPolicy": {"Name": "no"},
        "LogConfig": _LOGS,
    }
    network = runtime_of(wanted.executor).network
    return {**host, "NetworkMode": network} if network else host


def _install(wanted: Wanted) -> Body:
    return {
        "Image": wanted.platform.agentctl_image,
        "Cmd": ["install", layout.INSTALL_TARGET, f"--workspace={layout.WORKTREE}"],
        "HostConfig": {"NetworkMode": "none"},
    }


def _prepare(wanted: Wanted) -> Body:
    plan = claim.clone_plan(wanted.session, wanted.task)
    return {
        "Image": image_of(wanted),
        "Entrypoint": list(layout.AGENTCTL),
        "Cmd": ["prepare", f"--workspace={layout.WORKTREE}", f"--plan={plan}"],
        "WorkingDir": layout.WORKSPACE,
        "Env": _plain_env(),
    }


def _agent(wanted: Wanted) -> Body:
    port = port_of(wanted.executor)
    ports: Body = {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    host = {} if wanted.platform.docker_by_address else {"PortBindings": ports}
    return {
        "Image": image_of(wanted),
        "Entrypoint": list(layout.AGENTCTL),
        "Cmd": [
            "run",
            f"--state={layout.STATE}",
            f"--workspace={layout.WORKTREE}",
            f"--audience={wanted.executor.metadata.uid}",
            f"--jwks={layout.JWKS}",
            "--host=0.0.0.0",
            f"--port={port}",
        ],
        "WorkingDir": layout.WORKSPACE,
        "Env": [*_plain_env(), *_profile_env(wanted.profile)],
        "ExposedPorts": {f"{port}/tcp": {}},
        "StopTimeout": STOP_SECONDS,
        "HostConfig": {**host, **_limits(wanted.profile.spec.resources)},
    }


def _plain_env() -> list[str]:
    return [
        f"TMPDIR={layout.TMP}",
        f"XDG_CACHE_HOME={layout.CACHE}",
        f"GIT_CONFIG_SYSTEM={layout.GIT_CONFIG}",
    ]


def _profile_env(profile: AgentProfile) -> list[str]:
    """The profile's plain variables, for shells; the agent gets all of them by another way."""
    return [
        f"{each.name}={each.value or ''}"
        for each in profile.spec.env
        if each.secret_key_ref is None and not each.name.startswith(OWN_VARIABLES)
    ]


def _limits(resources: Resources | None) -> Body:
    """Limits that a container can have; what else a profile asks for is for schedulers."""
    limits = resources.limits if resources is not None else {}
    found: Body = {}
    if (memory := quantities.whole(limits.get("memory"))) is not None:
        found |= {"Memory": memory, "MemorySwap": memory}
    if (cpus := quantities.nano(limits.get("cpu"))) is not None:
        found["NanoCpus"] = cpus
    return found


_CONFIGS: Final = {Step.INSTALL: _install, Step.PREPARE: _prepare, Step.AGENT: _agent}
