"""Everything that an explanation is made of, at one instant, and small questions about it.

The session is there; its executor, task and profile are there as far as they exist and may be
read. Nothing here is decided: conditions are the operator's word, limits are the spec's, and the
only arithmetic is a condition's moment plus a limit. Time is an argument.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kandev_operator.api import conditions, group
from kandev_operator.api.conditions import Condition
from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.api.timestamps import moment
from kandev_operator.cli.commands import OPERATOR_NAMESPACE
from kandev_operator.cli.leader import EVERYWHERE, Leader, Leads, NobodyLeads

WISHES: Final = (
    group.ANNOTATION_RESUME_REQUESTED,
    group.ANNOTATION_FRESH_START_REQUESTED,
    group.ANNOTATION_CONFIRMED_DEAD,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A session and what belongs to it, as read a moment ago."""

    session: TaskSession
    executor: Executor | None
    task: Task | None
    profile: AgentProfile | None
    now: datetime
    leader: Leader | None = None
    """Whether an operator leads; None: not looked for."""

    def condition(self, type_: str) -> Condition | None:
        """The session's condition of this type."""
        return conditions.get(self.session.status.conditions, type_)

    def holds(self, type_: str) -> bool:
        """Whether that condition is there and True."""
        return conditions.is_true(self.session.status.conditions, type_)

    def executors(self, type_: str) -> Condition | None:
        """The executor's condition of this type."""
        if self.executor is None:
            return None
        return conditions.get(self.executor.status.conditions, type_)

    @property
    def is_left(self) -> bool:
        """No operator leads: status stands as the last one left it."""
        return isinstance(self.leader, NobodyLeads)

    @property
    def is_unseen(self) -> bool:
        """No operator has written anything about this session yet."""
        return not self.session.status.conditions

    @property
    def is_outdated(self) -> bool:
        """The status is about an earlier spec."""
        observed, wanted = self.session.status.observed_generation, self.session.metadata.generation
        return observed is not None and wanted is not None and observed < wanted

    @property
    def is_in_git(self) -> bool:
        """A GitOps tool put its mark on the session."""
        meta = self.session.metadata
        return any(mark in meta.labels or mark in meta.annotations for mark in group.GIT_MARKS)

    @property
    def reason(self) -> str:
        """The one reason that explains the session best."""
        for resting in ("Finished", "Suspended"):
            found = self.condition(resting)
            if found is not None and found.is_true:
                return found.reason
        ready, agent = self.condition("Ready"), self.condition("AgentReady")
        if ready is None:
            return "Pending"
        if agent is not None and agent.reason == "AwaitingPermission":
            return agent.reason
        return ready.reason

    @property
    def operator_namespace(self) -> str:
        """Where the operator lives, as far as its Lease tells, or would by default."""
        if isinstance(self.leader, Leads | NobodyLeads) and self.leader.namespace != EVERYWHERE:
            return self.leader.namespace
        return OPERATOR_NAMESPACE

    @property
    def executor_name(self) -> str | None:
        """The executor that is, or will be, the session's."""
        if self.executor is not None:
            return self.executor.metadata.name
        ref = self.session.status.executor_ref or self.session.spec.executor.ref
        return ref.name if ref else None

    def pending(self, annotation: str) -> bool:
        """A wish that the status does not echo yet."""
        status = self.session.status
        echoed = {
            group.ANNOTATION_RESUME_REQUESTED: status.last_handled_resume_request,
            group.ANNOTATION_FRESH_START_REQUESTED: status.last_handled_fresh_start_request,
            group.ANNOTATION_CONFIRMED_DEAD: status.last_handled_confirmed_dead,
        }
        value = self.session.metadata.annotations.get(annotation)
        return value is not None and value != echoed[annotation]


def read_moment(text: str | None) -> datetime | None:
    """A moment of a status; None where there is none, or none that can be read."""
    try:
        return moment(text) if text else None
    except ValueError:
        return None


def after(text: str | None, seconds: int | None) -> datetime | None:
    """The moment that lies so many seconds after another; None where either is not known."""
    start = read_moment(text)
    if start is None or seconds is None:
        return None
    return start + timedelta(seconds=seconds)
