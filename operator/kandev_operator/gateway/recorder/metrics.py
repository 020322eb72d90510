"""What the recorder counts. No name, UID or text of a user or an agent becomes a label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_PREFIX: Final = "kandev_gateway"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class Levels:
    """How things stand at one instant."""

    followed: int = 0
    unkept: int = 0
    unkept_bytes: int = 0
    torn: int = 0
    oldest_seconds: float = 0.0
    is_down: bool = False


class RecorderMetrics:
    """All metrics of one recorder, in the gateway's registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._stored = self._counter("events_stored", "Events that the store has taken.")
        self._batches = self._counter("store_batches", "Batches written.", "outcome")
        self._seconds = Histogram(
            f"{_PREFIX}_store_batch_seconds",
            "How long a batch took.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._shed = self._counter(
            "events_shed", "Events that memory let go of unkept; they are read again."
        )
        self._ended = self._counter(
            "event_streams_ended", "Streams of agentctls that ended, and why.", "reason"
        )
        self._forgotten = self._counter("events_forgotten", "Events that retention removed.")

    def watch(self, levels: Callable[[], Levels]) -> None:
        """Read these when somebody asks."""
        self._gauge("sessions_followed", "Agentctls being heard.", lambda: levels().followed)
        self._gauge("events_unkept", "Events only in memory.", lambda: levels().unkept)
        self._gauge("events_unkept_bytes", "About what they take.", lambda: levels().unkept_bytes)
        self._gauge("sessions_torn", "Sessions to be read again.", lambda: levels().torn)
        self._gauge(
            "store_lag_seconds",
            "For how long the oldest event in memory has been waiting for the store.",
            lambda: levels().oldest_seconds,
        )
        self._gauge("store_up", "Whether the store takes events.", lambda: not levels().is_down)

    def wrote(self, events: int, seconds: float) -> None:
        """A batch is in the store."""
        self._stored.inc(events)
        self._batches.labels("ok").inc()
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """A batch is not."""
        self._batches.labels("failed").inc()

    def shed(self, events: int) -> None:
        """Memory was full and the store away."""
        self._shed.inc(events)

    def connection_ended(self, reason: str) -> None:
        """A stream ended; `reason` is the name of a class of ours."""
        self._ended.labels(reason).inc()

    def forgot(self, events: int) -> None:
        """Retention removed these."""
        self._forgotten.inc(events)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, read: Callable[[], float]) -> None:
        Gauge(f"{_PREFIX}_{name}", words, registry=self.registry).set_function(read)
