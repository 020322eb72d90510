"""The pod that an executor should have: a function of what the cluster stores, and of nothing else.

An init container from the agentctl image puts agentctl, one self-contained folder, into a volume
that the pod's containers share; a second one, in the agent's own image, clones what the task names
and is not there yet. The agent's container runs agentctl from that volume, so any image with the
agent in it will do. A restart in place repeats none of these steps. By default the pod passes Pod
Security `restricted`, and no service account's token is in it. The user's overlay comes last.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.core.observed import Platform
from kandev_operator.core.pods import claim, layout, overlay

Body = dict[str, Any]

GRACE_SECONDS: Final = 60
"""For a turn to settle, and for what escaped from the agent to be found and ended."""
CREDENTIALS_MODE: Final = 0o440
SMALL: Final = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything that a pod is made from."""

    executor: Executor
    session: TaskSession
    task: Task
    profile: AgentProfile
    platform: Platform


@dataclass(frozen=True, slots=True)
class Conflict:
    """The template cannot be what an executor's pod is made from; in words for its owner."""

    message: str


def pod_name(executor: Executor, instance_id: str) -> str:
    """The name of this instance's pod. The number keeps it from meeting one that has not gone."""
    number = instance_id.rpartition("-")[2]
    return group.made_name(executor.metadata.name, executor.metadata.uid, number)


def desired_pod(
    wanted: Wanted, instance_id: str, dead_boot_id: str | None = None
) -> Body | Conflict:
    """The whole pod. `dead_boot_id`: an agentctl on the same workspace that is surely dead."""
    template = wanted.executor.spec.pod.template if wanted.executor.spec.pod else None
    if template is not None and (why := overlay.conflict(template)) is not None:
        return Conflict(f"spec.pod.template: {why}.")
    pod = overlay.merged(_base(wanted), template)
    agent = next(each for each in pod["spec"]["containers"] if each["name"] == layout.AGENT)
    if "image" not in agent:
        return Conflict(
            f"Neither AgentProfile {wanted.profile.metadata.name} nor container "
            f"{layout.AGENT} of spec.pod.template names an image."
        )
    _in_the_agents_image(pod, agent)
    _restrict(pod)
    agent = next(each for each in pod["spec"]["containers"] if each["name"] == layout.AGENT)
    shape = hashlib.sha256(json.dumps(pod, sort_keys=True).encode()).hexdigest()[:16]
    pod["metadata"]["name"] = pod_name(wanted.executor, instance_id)
    notes = {group.ANNOTATION_INSTANCE_ID: instance_id, group.ANNOTATION_POD_SHAPE: shape}
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **notes}
    agent["env"] = [*agent["env"], {"name": "KANDEV_INSTANCE_ID", "value": instance_id}]
    if dead_boot_id is not None:
        agent["env"] = [*agent["env"], {"name": "KANDEV_DEAD_BOOT_ID", "value": dead_boot_id}]
    return pod


def shape_of(pod: Body) -> str:
    """The hash of what this pod was made from."""
    shape: str = pod["metadata"]["annotations"][group.ANNOTATION_POD_SHAPE]
    return shape


def _base(wanted: Wanted) -> Body:
    executor, session = wanted.executor, wanted.session
    labels = {
        "app.kubernetes.io/managed-by": "kandev-operator",
        group.LABEL_EXECUTOR_UID: executor.metadata.uid,
        group.LABEL_SESSION_UID: session.metadata.uid,
        group.LABEL_TASK_UID: wanted.task.metadata.uid,
    }
    inits = [_install(wanted)]
    if wanted.task.spec.repositories:
        inits.append(_prepare(wanted))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": executor.metadata.namespace,
            "labels": labels,
            "ownerReferences": [executor.owner_reference().dump()],
        },
        "spec": {
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": _pod_security(wanted.platform),
            "initContainers": inits,
            "containers": [_agent(wanted)],
            "volumes": _volumes(wanted),
        },
    }


def _pod_security(platform: Platform) -> Body:
    own: Body = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if platform.user is None:
        return own
    group_too = {"runAsGroup": platform.user, "fsGroup": platform.user}
    # Large workspaces: the ownership is only looked at again where the root's is wrong.
    return {
        **own,
        "runAsUser": platform.user,
        **group_too,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def _security(*, read_only: bool) -> Body:
    own: Body = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {**own, "readOnlyRootFilesystem": True} if read_only else own


def _mount(volume: str, path: str, *, read_only: bool = False) -> Body:
    own: Body = {"name": volume, "mountPath": path}
    return {**own, "readOnly": True} if read_only else own


def _install(wanted: Wanted) -> Body:
    """Puts agentctl into the shared volume, and makes the workspace's folders."""
    container: Body = {
        "name": layout.INSTALL,
        "image": wanted.platform.agentctl_image,
        "args": ["install", layout.INSTALL_TARGET, f"--workspace={layout.WORKTREE}"],
        "resources": SMALL,
        "securityContext": _security(read_only=True),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            _mount(layout.VOLUME_PROGRAM, layout.INSTALL_TARGET),
            _mount(layout.VOLUME_WORKSPACE, layout.WORKSPACE),
            _mount(layout.VOLUME_TMP, layout.TMP),
        ],
    }
    if wanted.platform.image_pull_policy is not None:
        container["imagePullPolicy"] = wanted.platform.image_pull_policy
    return container


def _prepare(wanted: Wanted) -> Body:
    """Clones what is not there yet; in the agent's image, because git is there."""
    secret = [each for each in wanted.task.spec.repositories if each.credentials_secret_ref]
    return {
        "name": layout.PREPARE,
        "command": [*layout.AGENTCTL, "prepare"],
        "args": [
            f"--workspace={layout.WORKTREE}",
            f"--plan={claim.clone_plan(wanted.session, wanted.task)}",
        ],
        "env": _plain_env(),
        "resources": {},
        "securityContext": _security(read_only=False),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            _mount(layout.VOLUME_PROGRAM, layout.PROGRAM, read_only=True),
            _mount(layout.VOLUME_WORKSPACE, layout.WORKSPACE),
            _mount(layout.VOLUME_TMP, layout.TMP),
            *(
                _mount(_credentials(number), f"{layout.CREDENTIALS}/{each.name}", read_only=True)
                for number, each in enumerate(secret)
            ),
        ],
    }


def _credentials(number: int) -> str:
    return f"kandev-credentials-{number}"


def _plain_env() -> list[Body]:
    pairs = {
        "TMPDIR": layout.TMP,
        "XDG_CACHE_HOME": layout.CACHE,
        "GIT_CONFIG_SYSTEM": layout.GIT_CONFIG,
    }
    return [{"name": name, "value": value} for name, value in pairs.items()]


def _agent(wanted: Wanted) -> Body:
    profile = wanted.profile.spec
    probe = {"httpGet": {"path": "/health", "port": "agentctl"}}
    container: Body = {
        "name": layout.AGENT,
        "command": [*layout.AGENTCTL, "run"],
        "args": [
            f"--state={layout.STATE}",
            f"--workspace={layout.WORKTREE}",
            f"--audience={wanted.executor.metadata.uid}",
            f"--jwks={layout.JWKS}",
            "--host=0.0.0.0",
            f"--port={layout.PORT}",
        ],
        "workingDir": layout.WORKSPACE,
        "ports": [{"name": "agentctl", "containerPort": layout.PORT}],
        "env": [*_plain_env(), *_profile_env(wanted.profile)],
        "resources": profile.resources.dump() if profile.resources else {},
        "securityContext": _security(read_only=False),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "readinessProbe": {**probe, "periodSeconds": 2, "timeoutSeconds": 2},
        # A restart kills the turn: only an agentctl that is dead beyond doubt is restarted.
        "livenessProbe": {
            **probe,
            "initialDelaySeconds": 60,
            "periodSeconds": 30,
            "timeoutSeconds": 20,
            "failureThreshold": 10,
        },
        "volumeMounts": [
            _mount(layout.VOLUME_PROGRAM, layout.PROGRAM, read_only=True),
            _mount(layout.VOLUME_WORKSPACE, layout.WORKSPACE),
            _mount(layout.VOLUME_KEYS, layout.KEYS, read_only=True),
            _mount(layout.VOLUME_TMP, layout.TMP),
            _mount(layout.VOLUME_CACHE, layout.CACHE),
        ],
    }
    if profile.image is not None:
        container["image"] = profile.image
    return container


def _profile_env(profile: AgentProfile) -> list[Body]:
    """The profile's variables, Secrets as references. Which are missing is the session's to say:
    a workspace must come up without them."""
    out: list[Body] = []
    for variable in profile.spec.env:
        ref = variable.secret_key_ref
        if variable.name.startswith(overlay.OWN_VARIABLES):
            continue  # agentctl hands it to the agent; it is not to be started by it
        if ref is None:
            out.append({"name": variable.name, "value": variable.value or ""})
            continue
        source = {"name": ref.name, "key": ref.key, "optional": True}
        out.append({"name": variable.name, "valueFrom": {"secretKeyRef": source}})
    return out


def _volumes(wanted: Wanted) -> list[Body]:
    secrets = [
        each.credentials_secret_ref
        for each in wanted.task.spec.repositories
        if each.credentials_secret_ref is not None
    ]
    return [
        {
            "name": layout.VOLUME_WORKSPACE,
            "persistentVolumeClaim": {"claimName": claim.claim_name(wanted.session)},
        },
        {"name": layout.VOLUME_PROGRAM, "emptyDir": {}},
        {"name": layout.VOLUME_KEYS, "configMap": {"name": layout.KEYS_CONFIG_MAP}},
        {"name": layout.VOLUME_TMP, "emptyDir": {}},
        {"name": layout.VOLUME_CACHE, "emptyDir": {}},
        *(
            {
                "name": _credentials(number),
                "secret": {"secretName": ref.name, "defaultMode": CREDENTIALS_MODE},
            }
            for number, ref in enumerate(secrets)
        ),
    ]


def _restrict(pod: Body) -> None:
    """Containers that a user adds pass Pod Security `restricted` as well, unless they say no."""
    for kind in ("initContainers", "containers"):
        pod["spec"][kind] = [
            {**each, "securityContext": {**_security(read_only=False), **theirs}}
            for each in pod["spec"][kind]
            for theirs in [each.get("securityContext") or {}]
        ]


def _in_the_agents_image(pod: Body, agent: Body) -> None:
    """The step that clones runs in the agent's image, under the agent's limits."""
    for init in pod["spec"]["initContainers"]:
        if init["name"] == layout.PREPARE:
            init["image"] = agent["image"]
            init["resources"] = agent.get("resources", {})
            if "imagePullPolicy" in agent:
                init["imagePullPolicy"] = agent["imagePullPolicy"]
