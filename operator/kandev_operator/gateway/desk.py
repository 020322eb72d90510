"""What an action needs at hand, and the first question of each: may this person see the session?

A session that may not be read is the same as one that is not there, in every answer. What may be
read but not done is told as `forbidden`, with the right that is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kandev_operator.api.session import TaskSession
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource
from kandev_operator.gateway import views
from kandev_operator.gateway.cache import KINDS, Cache
from kandev_operator.gateway.lines import Lines
from kandev_operator.gateway.ports import Conversations, Person, Right, Rights, RightsUnknown
from kandev_operator.gateway.refusals import Refusal, missing
from kandev_operator.gateway.wire.envelope import ErrorCode
from kandev_operator.gateway.wire.views import SessionView

_NEEDS = {
    Right.READ: ("get", "tasksessions"),
    Right.PROMPT: ("create", "tasksessions/prompt"),
    Right.FILES: ("create", "tasksessions/files"),
    Right.SHELL: ("create", "tasksessions/shell"),
    Right.CHANGE: ("patch", "tasksessions"),
}


class Past(Protocol):
    """Sessions whose objects are gone, and whose conversations are kept."""

    async def place_of(self, session_uid: str) -> tuple[str, str] | None:
        """Namespace and name that it had. Raises HistoryUnavailable."""


@dataclass(frozen=True)
class Desk:
    """Everything that actions reach for."""

    kube: Kube
    cache: Cache
    lines: Lines
    rights: Rights
    conversations: Conversations
    past: Past
    now: Callable[[], str]
    template: Mapping[str, Any] | None = None
    """The executor template for sessions that name neither an executor nor a template."""

    async def session(
        self, person: Person, uid: str, right: Right = Right.READ, task_id: str | None = None
    ) -> TaskSession:
        """The session, where this person may do that to it. Raises Refusal."""
        session = self.cache.get(TaskSession, uid)
        if session is None:
            raise missing()
        namespace, name = session.metadata.namespace, session.metadata.name
        if not await self.may(person, Right.READ, namespace, name):
            raise missing()
        if task_id is not None:
            task = self.cache.task_of(session)
            if task is None or task.metadata.uid != task_id:
                words = f"session {name} does not belong to that task"
                raise Refusal(ErrorCode.SESSION_NOT_IN_TASK, words)
        if right is not Right.READ and not await self.may(person, right, namespace, name):
            verb, resource = _NEEDS[right]
            words = f"you may not {verb} {resource} in namespace {namespace}"
            raise Refusal(ErrorCode.FORBIDDEN, words, verb=verb, resource=resource)
        return session

    async def may(self, person: Person, right: Right, namespace: str, name: str) -> bool:
        """Ask for one right. Raises Refusal when nobody can say."""
        try:
            return await self.rights.may(person, right, namespace, name)
        except RightsUnknown:
            raise unknown_rights() from None

    async def may_create(self, person: Person, resource: Resource, namespace: str) -> None:
        """Raises Refusal unless this person may make such an object there."""
        try:
            allowed = await self.rights.may_create(person, resource, namespace)
        except RightsUnknown:
            raise unknown_rights() from None
        if not allowed:
            words = f"you may not create {resource.plural} in namespace {namespace}"
            raise Refusal(ErrorCode.FORBIDDEN, words, verb="create", resource=resource.plural)

    async def readable(self, person: Person, resource: Resource, wanted: str | None) -> list[str]:
        """Of the namespaces seen (or the one wanted), those whose objects may be listed."""
        try:
            if wanted is not None:
                allowed = await self.rights.may_list(person, resource, wanted)
                return [wanted] if allowed else []
            seen = sorted(self.namespaces())
            if await self.rights.may_list(person, resource, None):
                return seen
            return [each for each in seen if await self.rights.may_list(person, resource, each)]
        except RightsUnknown:
            raise unknown_rights() from None

    def namespaces(self) -> frozenset[str]:
        """Where anything of ours was seen."""
        return frozenset[str]().union(*(self.cache.namespaces(kind) for kind in KINDS))

    def view(self, session: TaskSession) -> SessionView:
        """A session as it is shown."""
        return views.session_view(
            session,
            self.cache.executor_of(session),
            self.cache.task_of(session),
            self.cache.profile_of(session),
            stale=self.cache.stale,
        )


def unknown_rights() -> Refusal:
    """Nobody can say what this person may do."""
    return Refusal(ErrorCode.UNREACHABLE, "the API server does not answer who may do what")
