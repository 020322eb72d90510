"""TaskSession: one conversation with one agent, and how it is to be kept alive.

This module holds the whole object; `sessionspec` holds what a user writes, `sessionstatus` what
the operator found. The names of both are given on here, so that a reader of a session imports
one module.
"""

from typing import ClassVar

from pydantic import Field

from kandev_operator.api import group
from kandev_operator.api.meta import Resource
from kandev_operator.api.sessionspec import (
    ExecutorChoice,
    LifecycleOptions,
    OperatingMode,
    PromptSource,
    PromptSpec,
    ResumeFailure,
    ResumeOptions,
    ResumePolicy,
    TaskSessionSpec,
    WorkspacePolicy,
    WorkspaceSpec,
    WorktreeSpec,
)
from kandev_operator.api.sessionstatus import (
    FirstPromptStatus,
    Intent,
    IntentKind,
    InterruptedTurn,
    PinnedProfile,
    ResumeTokenRef,
    SessionState,
    TaskSessionStatus,
    Turn,
    WorkspaceRef,
)

__all__ = [
    "ExecutorChoice",
    "FirstPromptStatus",
    "Intent",
    "IntentKind",
    "InterruptedTurn",
    "LifecycleOptions",
    "OperatingMode",
    "PinnedProfile",
    "PromptSource",
    "PromptSpec",
    "ResumeFailure",
    "ResumeOptions",
    "ResumePolicy",
    "ResumeTokenRef",
    "SessionState",
    "TaskSession",
    "TaskSessionSpec",
    "TaskSessionStatus",
    "Turn",
    "WorkspacePolicy",
    "WorkspaceRef",
    "WorkspaceSpec",
    "WorktreeSpec",
]


class TaskSession(Resource):
    """One conversation with one agent: where it runs, and how it is kept alive."""

    kind: ClassVar[str] = group.TASK_SESSION

    spec: TaskSessionSpec
    status: TaskSessionStatus = Field(default_factory=TaskSessionStatus)
