"""Task: a piece of work, to which any number of sessions belong.

A Task runs nothing. Its status is a summary of its sessions, computed anew each time and never
stuck on an old failure; closing it in the spec finishes its sessions in their status.
"""

from typing import ClassVar

from pydantic import Field

from kandev_operator.api import group
from kandev_operator.api.conditions import Conditions
from kandev_operator.api.markers import list_map
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.refs import NameRef
from kandev_operator.api.words import Word, listed


class TaskState(Word):
    """Where a piece of work stands; the first that holds, in this order."""

    COMPLETED = "COMPLETED", "The task was closed as completed."
    CANCELLED = "CANCELLED", "The task was closed as cancelled."
    IN_PROGRESS = "IN_PROGRESS", "At least one session is starting or in a turn."
    REVIEW = "REVIEW", "A session waits for input, or all sessions came to an end."
    BLOCKED = "BLOCKED", "A session has failed, and none works or waits for input."
    TODO = "TODO", "No session has begun to work yet."


class TaskClosed(Word):
    """How a task was closed."""

    COMPLETED = "Completed", "The work is done."
    CANCELLED = "Cancelled", "The work was given up; turns still running are cut off."


class Repository(Model):
    """A repository that the task works on."""

    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$",
        description="Name of the repository within the task.",
        examples=["backend"],
    )
    url: str = Field(
        min_length=1,
        max_length=2048,
        description="Where to clone it from: anything that `git clone` takes. Credentials do not "
        "belong in it, see credentialsSecretRef.",
        examples=["https://git.example.com/shop/backend.git"],
    )
    ref: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Branch, tag or commit to begin from. When absent, the remote's default "
        "branch.",
        examples=["main"],
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        pattern=r"^[^/]",
        description="Folder of the workspace to clone into, relative to its root. When absent, "
        "the repository's name.",
        examples=["services/backend"],
    )
    credentials_secret_ref: NameRef | None = Field(
        default=None,
        description="Secret with the credentials for `url`: keys `username` and `password` for "
        "https, or `ssh-privatekey` (and `known_hosts`) for ssh.",
    )


class TaskSpec(Model):
    """A piece of work."""

    title: str = Field(
        min_length=1,
        max_length=200,
        description="The work in one line, for lists and pages.",
        examples=["Make the checkout page load in under a second"],
    )
    description: str | None = Field(
        default=None,
        max_length=65536,
        description="The work in as many words as it takes. It is shown to people; an agent sees "
        "only what its session's prompt says.",
    )
    repositories: tuple[Repository, ...] = Field(
        default=(),
        max_length=32,
        description="Repositories that sessions of this task find in their workspaces. With "
        "none, workspaces begin empty.",
        json_schema_extra=list_map(),
    )
    closed: TaskClosed | None = Field(
        default=None,
        description="Closes the task, and with it every session of it. Absent while the task is "
        f"open; removing it opens the task again, but finished sessions stay finished. "
        f"{listed(TaskClosed)}",
    )


class SessionCounts(Model):
    """How many sessions the task has, by their state. A count of zero may be absent."""

    total: int | None = Field(default=None, description="All sessions of the task.")
    created: int | None = Field(default=None, description="Sessions in state CREATED.")
    starting: int | None = Field(default=None, description="Sessions in state STARTING.")
    running: int | None = Field(default=None, description="Sessions in state RUNNING.")
    waiting_for_input: int | None = Field(
        default=None, description="Sessions in state WAITING_FOR_INPUT."
    )
    error: int | None = Field(default=None, description="Sessions in state ERROR.")
    completed: int | None = Field(default=None, description="Sessions in state COMPLETED.")
    cancelled: int | None = Field(default=None, description="Sessions in state CANCELLED.")


class TaskStatus(Model):
    """Where the work stands, as its sessions show it."""

    observed_generation: int | None = Field(
        default=None,
        description="The `metadata.generation` that this status was written for; -1 until the "
        "operator has seen the object.",
    )
    state: str | None = Field(
        default=None,
        description=f"Where the work stands, for people; the first that holds. {listed(TaskState)}",
    )
    sessions: SessionCounts | None = Field(
        default=None,
        description="The task's sessions, counted by state. Recomputed with a short delay.",
    )
    conditions: Conditions = Field(
        default=(),
        description="`Ready`, and while they hold `Reconciling` and `Stalled`.",
        json_schema_extra=list_map("type"),
    )


class Task(Resource):
    """A piece of work for agents: what is to be done, on which repositories."""

    kind: ClassVar[str] = group.TASK

    spec: TaskSpec
    status: TaskStatus = Field(default_factory=TaskStatus)
