"""How the recorder behaves; the defaults suit thousands of sessions."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from kandev_operator.contract.events import Event
from kandev_operator.contract.status import StatusReport
from kandev_operator.gateway.recorder.tail import Bounds


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long conversations are kept. None: for ever, or however much it is."""

    days: float | None = 90.0
    """After the session was finished or deleted, whichever came first."""
    session_bytes: int | None = 256 * 1024 * 1024
    """Of one session's events; the oldest go first."""
    every_seconds: float = 600.0
    """Between two looks."""


_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Bounds and patience, in seconds."""

    bounds: Bounds = _BOUNDS
    memory_bytes: int = 256 * 1024 * 1024
    """Of what all sessions together may hold unkept."""
    keeping: Keeping = Keeping()
    gather: float = 0.05
    """How long events are gathered before they are written together."""
    batch_events: int = 1_000
    batch_bytes: int = 2 * 1024 * 1024
    room_patience: float = 2.0
    """A full session waits for the store so long, and then goes on without it."""
    connecting: int = 100
    """Agentctls that are called at once."""
    catching_up: int = 8
    """Of those, how many are read from far behind."""
    catch_up_seconds: float = 30.0
    """Whoever needs longer lets others begin, too."""
    near: int = 200
    """So many events behind is not far."""
    first_pause: float = 0.2
    longest_pause: float = 10.0


class Agent(Protocol):
    """What is needed of an agentctl; `clients.agentctl.AgentctlClient` is one."""

    async def status(self, *, with_token: bool = True) -> StatusReport:
        """Raises ClientError."""

    def events(
        self, after: str | None = None, kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Event, None]:
        """Raises ClientError."""


Dial = Callable[[], Awaitable[Agent]]
"""The way to a session's agentctl, found anew; raises ClientError or NotFollowable."""


class NotFollowable(Exception):
    """Nobody serves the session at present."""
