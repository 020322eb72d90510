"""What pages are rendered from, taken from the desk as the socket's actions take it.

The same rights are asked in the same way, and a refusal that means "not known" stays apart from
one that means "not there".
"""

from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.clients import resources
from kandev_operator.clients.resources import Resource
from kandev_operator.gateway import views
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.ports import Person, RightsUnknown
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.wire.envelope import ErrorCode
from kandev_operator.gateway.wire.messages import MessagePage
from kandev_operator.gateway.wire.views import SessionView, TaskView


class PageViews:
    """`pages.shown.Shown` over the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def tasks(self, person: Person) -> tuple[tuple[TaskView, ...], tuple[SessionView, ...]]:
        """Of every namespace that may be read. Raises RightsUnknown."""
        desk = self._desk
        tasks = [
            views.task_view(each)
            for namespace in await self._readable(person, resources.TASKS)
            for each in desk.cache.all(Task, namespace)
        ]
        sessions = [
            desk.view(each)
            for namespace in await self._readable(person, resources.TASK_SESSIONS)
            for each in desk.cache.all(TaskSession, namespace)
        ]
        return tuple(tasks), tuple(sessions)

    async def session(self, person: Person, uid: str) -> SessionView | None:
        """None where it is not there, or may not be read. Raises RightsUnknown."""
        try:
            return self._desk.view(await self._desk.session(person, uid))
        except Refusal as refusal:
            if refusal.body.code == ErrorCode.NOT_FOUND:
                return None
            raise RightsUnknown from None

    async def newest(self, uid: str, limit: int) -> MessagePage:
        """The newest messages. Raises HistoryUnavailable."""
        return await self._desk.conversations.newest(uid, None, limit)

    async def _readable(self, person: Person, resource: Resource) -> list[str]:
        try:
            return await self._desk.readable(person, resource, None)
        except Refusal:
            raise RightsUnknown from None
