"""One session as the recorder has it: its tail, its readers, and the way to its agentctl."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kandev_operator.contract.events import Event, cursor
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.settings import Dial
from kandev_operator.gateway.recorder.tail import Tail
from kandev_operator.gateway.store.sessions import SeenSession


def cursor_of(place: Place | None) -> str | None:
    """A place as agentctl and the page write it."""
    return None if place is None else cursor(place.journal_id, place.seq)


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told that there is more."""

    wake: Callable[[], None]
    live: Callable[[Event], None]


@dataclass(slots=True, eq=False)
class Conversation:
    """`tail` is None until it is known where the store ends, or that it cannot be known."""

    seen: SeenSession
    dial: Dial | None = None
    tail: Tail | None = None
    task: asyncio.Task[None] | None = None
    following: bool = False
    sick: float = 0.0
    """The store takes other sessions' events, and these are tried so many seconds apart."""
    not_before: float = 0.0
    """When a sick one is tried again, on the loop's clock."""
    parted: bool = False
    """agentctl's journal has another event where the newest one was told."""
    lacking: bool = False
    """A reader was told nothing because the store was not there."""
    listeners: list[Listener] = field(default_factory=list)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    """The writer has taken something."""
    attending: asyncio.Timeout | None = None
    """The connection's scope; rescheduled to now, it ends the connection."""

    @property
    def session_uid(self) -> str:
        return self.seen.uid

    def wake(self) -> None:
        """Tell the readers that there is more."""
        for listener in list(self.listeners):
            listener.wake()

    def tell_live(self, event: Event) -> None:
        """Words that are not kept yet."""
        for listener in list(self.listeners):
            listener.live(event)

    def rewind(self) -> None:
        """Read again from where the store ends."""
        if self.attending is not None:
            self.attending.reschedule(asyncio.get_running_loop().time())

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it need be remembered."""
        return (
            self.dial is None
            and self.task is None
            and not self.listeners
            and (self.tail is None or self.tail.unkept == 0 or self.tail.torn)
        )
