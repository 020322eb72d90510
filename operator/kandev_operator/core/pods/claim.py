"""A session's claim: what it is called, what it is when the operator makes it, what it holds.

The workspace follows the session. Its claim is made before an executor is bound, once; it stays
over suspension, lost pods and failed sessions, and goes only by policy, through its owner
reference: the garbage collector checks the UID, the operator never deletes a claim.
"""

import json
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.session import TaskSession
from kandev_operator.api.sessionspec import AccessMode
from kandev_operator.api.task import Task
from kandev_operator.core.pods import layout

ONE_POD: Final = AccessMode.READ_WRITE_ONCE_POD.value
ONE_NODE: Final = AccessMode.READ_WRITE_ONCE.value


def claim_name(session: TaskSession) -> str:
    """The claim that holds the session's files: adopted by name, or named after the session."""
    adopted = session.spec.workspace.claim_name
    return adopted or group.made_name(session.metadata.name, session.metadata.uid, "files")


def is_adopted(session: TaskSession) -> bool:
    """Somebody else made the claim, and the operator leaves it alone."""
    return session.spec.workspace.claim_name is not None


def desired_claim(
    session: TaskSession, task_uid: str | None, default_size: str, *, one_pod: bool
) -> dict[str, Any]:
    """The claim to be made. `one_pod`: the driver can keep every second pod away."""
    wanted, meta = session.spec.workspace, session.metadata
    labels = {group.LABEL_SESSION_UID: meta.uid}
    if task_uid is not None:
        labels[group.LABEL_TASK_UID] = task_uid
    metadata: dict[str, Any] = {
        "name": claim_name(session),
        "namespace": meta.namespace,
        "labels": labels,
    }
    if not wanted.is_retained:
        metadata["ownerReferences"] = [session.owner_reference(controller=False).dump()]
    modes = [mode.value for mode in wanted.access_modes] or [ONE_POD if one_pod else ONE_NODE]
    spec: dict[str, Any] = {
        "accessModes": modes,
        "resources": {"requests": {"storage": str(wanted.size or default_size)}},
    }
    if wanted.storage_class_name is not None:
        spec["storageClassName"] = wanted.storage_class_name
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def branch_of(session: TaskSession) -> str:
    """The branch that the session works on."""
    return session.spec.worktree.branch or f"kandev/{session.metadata.name}"


def clone_plan(session: TaskSession, task: Task) -> str:
    """What the step that prepares the worktree is told, as JSON: a function of specs alone, so
    that the same step may be done again at every new pod."""
    worktree = session.spec.worktree
    repositories = [
        {
            "name": each.name,
            "url": each.url,
            "path": each.path or each.name,
            "ref": worktree.base_ref or each.ref,
            "branch": branch_of(session),
            "credentials": f"{layout.CREDENTIALS}/{each.name}"
            if each.credentials_secret_ref is not None
            else None,
        }
        for each in task.spec.repositories
    ]
    return json.dumps(repositories, sort_keys=True)
