"""What the parts of the gateway promise each other, so that none needs to know how another works.

`Conversations` is what sockets and pages read of what was said: from memory while it is new, from
the store when it is old, in order and without a hole either way. `Rights` answers who may do what
to which object. Both are filled in by `recorder` and `rights`, and played in unit tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kandev_operator.clients.resources import Resource
from kandev_operator.contract.events import Event
from kandev_operator.gateway.wire.messages import MessagePage


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stands in a session's journals."""

    journal_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """What follows a place, oldest first, and where the reader stands after it.

    `events` are the journal's own (kinds message, permission_*, turn_*, prompt, gap), at most as
    many as were asked for; `more` says that there are others already.
    """

    events: tuple[Event, ...]
    place: Place | None
    more: bool
    late: bool
    """The store could not be read: what is older than memory will come later."""


class Conversations(Protocol):
    """What was said, for any number of readers; each pulls at its own pace."""

    async def newest(self, session_uid: str, before: str | None, limit: int) -> MessagePage:
        """A page of messages as they stand. Raises HistoryUnavailable."""

    async def after(self, session_uid: str, place: Place | None, limit: int) -> Stretch:
        """What follows a place; None: from the very beginning. Never waits for what comes."""

    def listen(
        self, session_uid: str, wake: Callable[[], None], live: Callable[[Event], None]
    ) -> Callable[[], None]:
        """Call `wake` when there is more after some place, `live` with words not kept yet.

        Both are called on the loop and must not block. Returns what ends it.
        """

    def following(self, session_uid: str) -> bool:
        """Whether agentctl is being heard at this moment."""


class HistoryUnavailable(Exception):
    """The store does not answer."""


class Right(StrEnum):
    """What a person may do to a session; each is checked on its own."""

    READ = "read"
    """get tasksessions"""
    PROMPT = "prompt"
    """create tasksessions/prompt: prompts, cancels, answers to permissions"""
    FILES = "files"
    """create tasksessions/files: files and git"""
    SHELL = "shell"
    """create tasksessions/shell"""
    CHANGE = "change"
    """patch tasksessions: resume, fresh start, stop"""


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, as the cluster knows them."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Rights(Protocol):
    """Who may do what. Unknown is no: raises RightsUnknown when the API server does not answer."""

    async def may(self, person: Person, right: Right, namespace: str, name: str) -> bool:
        """Whether this session may be read, prompted, …"""

    async def may_list(self, person: Person, resource: Resource, namespace: str | None) -> bool:
        """Whether all objects of a kind may be listed there; None: everywhere."""

    async def may_create(self, person: Person, resource: Resource, namespace: str) -> bool:
        """Whether an object of a kind may be made there."""


class RightsUnknown(Exception):
    """The API server did not answer; nothing is known of the caller's rights."""
