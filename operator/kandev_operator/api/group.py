"""The group's names: everything a string must agree on between cluster, operator and user.

Kinds and plurals, labels, annotations, the finalizer, and how the objects that the operator
makes are called. A name that stands here is a promise: it is stored in clusters, in Git and in
the fingers of users.

`made_name` is the one place where names of made objects come from. It is a function of its
arguments alone, so any leader that repeats an interrupted pass meets the object it made before,
and a new owner with an old name never meets the objects of its predecessor.
"""

import hashlib
import re
from types import MappingProxyType
from typing import Final

GROUP: Final = "kandev.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "kandev"

AGENT_PROFILE: Final = "AgentProfile"
TASK: Final = "Task"
TASK_SESSION: Final = "TaskSession"
EXECUTOR: Final = "Executor"

POD: Final = "Pod"
"""Not ours, but watched: the pods of executors."""

PLURALS: Final = MappingProxyType(
    {
        AGENT_PROFILE: "agentprofiles",
        TASK: "tasks",
        TASK_SESSION: "tasksessions",
        EXECUTOR: "executors",
    }
)

# Labels on everything the operator makes. Values are UIDs: names come again, UIDs do not.
LABEL_SESSION_UID: Final = f"{GROUP}/session-uid"
LABEL_TASK_UID: Final = f"{GROUP}/task-uid"
LABEL_EXECUTOR_UID: Final = f"{GROUP}/executor-uid"

# Wishes. One counts when its value differs from the one that status says was handled last.
ANNOTATION_RESUME_REQUESTED: Final = f"{GROUP}/resume-requested"
ANNOTATION_FRESH_START_REQUESTED: Final = f"{GROUP}/fresh-start-requested"
ANNOTATION_CONFIRMED_DEAD: Final = f"{GROUP}/confirmed-dead"
ANNOTATION_ROTATE_REQUESTED: Final = f"{GROUP}/rotate-requested"
"""On the Secret with the operator's signing key."""

# On the pods that the operator makes: which agentctl is meant, and a hash of what the pod was made
# from, which tells whether a newer template would make another one.
ANNOTATION_INSTANCE_ID: Final = f"{GROUP}/instance-id"
ANNOTATION_POD_SHAPE: Final = f"{GROUP}/pod-shape"

FINALIZER: Final = f"{GROUP}/cleanup"

# The container of an executor's pod in which agentctl and the agent run.
AGENT_CONTAINER: Final = "agent"

# Labels or annotations by which a GitOps tool says that an object is its own.
GIT_MARKS: Final = (
    "argocd.argoproj.io/tracking-id",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
)

NAME_LIMIT: Final = 63
_HASH_LENGTH: Final = 10


def made_name(base: str, owner_uid: str, suffix: str = "") -> str:
    """Name an object made for the owner with this UID: a DNS label of at most 63 characters.

    `base` is for people (usually the owner's name) and is cut where it is too long; the hash of
    the UID is what makes the name unique. `suffix` tells several objects of one owner apart and
    is kept whole.
    """
    tail = hashlib.sha256(owner_uid.encode()).hexdigest()[:_HASH_LENGTH]
    if suffix:
        tail = f"{_label(suffix)}-{tail}"
    room = NAME_LIMIT - len(tail) - 1
    if room < 1:
        raise ValueError(f"the suffix {suffix!r} leaves no room for a name")
    head = _label(base)[:room].rstrip("-")
    return f"{head or 'x'}-{tail}"


def _label(text: str) -> str:
    """Turn an object's name, where dots are allowed, into what a DNS label may hold."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
