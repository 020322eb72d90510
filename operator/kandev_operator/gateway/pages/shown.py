"""What the pages need of the rest of the gateway: views of what a person may read."""

from typing import Protocol

from kandev_operator.gateway.ports import Person
from kandev_operator.gateway.wire.messages import MessagePage
from kandev_operator.gateway.wire.views import SessionView, TaskView


class Shown(Protocol):
    """Everything here is already cut down to what this person may read."""

    async def tasks(self, person: Person) -> tuple[tuple[TaskView, ...], tuple[SessionView, ...]]:
        """Tasks and their sessions. Raises RightsUnknown."""

    async def session(self, person: Person, uid: str) -> SessionView | None:
        """None: it does not exist, or may not be read. Raises RightsUnknown."""

    async def newest(self, uid: str, limit: int) -> MessagePage:
        """The newest messages. Raises HistoryUnavailable."""
