"""What the operator counts about itself, and the page on which it says so.

Two sorts. Events are counted where they happen (`reconciled`, `wrote`, `probed`, …). Levels are
read when somebody asks (`Levels`, from one callable), so that a level is never stale and a state
that no session is in any more leaves no number behind.

No name, UID or text of a user or an agent becomes a label. Labels are words, and each may have
so many of them: what is no word, or one word too many, is counted as `other`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"

_PREFIX: Final = "kandev_operator"
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_WORDS_PER_LABEL: Final = 64
_READING_VERBS: Final = frozenset({"get", "list", "watch"})
# A pass without a write takes milliseconds; an action may take two seconds.
_PASS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Levels:
    """How things stand at one instant."""

    queue_depth: int = 0
    queue_oldest_seconds: float = 0.0
    queue_running: int = 0
    sessions: Mapping[str, int] = field(default_factory=dict)
    """Sessions by state."""
    executors: Mapping[str, int] = field(default_factory=dict)
    """Executors by state."""
    lease_valid: bool = False
    term: int = 0
    watch_age_seconds: Mapping[str, float] = field(default_factory=dict)
    """By kind: how long ago its watch last proved to be alive."""
    oldest_verification_seconds: float = 0.0
    """How long ago the object that was not looked at for the longest time was looked at."""
    sessions_verified: int = 0
    """How many sessions this process has looked at, their agentctls asked."""


class Metrics:
    """All metrics of one operator, in a registry of their own."""

    def __init__(self, levels: Callable[[], Levels] = Levels) -> None:
        self._registry = CollectorRegistry()
        self._words: dict[str, set[str]] = {}
        self._reconciles = self._counter("reconciles", "Passes over one object.", "kind", "outcome")
        self._seconds = Histogram(
            f"{_PREFIX}_reconcile_seconds",
            "How long a pass over one object took.",
            ["kind"],
            buckets=_PASS_SECONDS,
            registry=self._registry,
        )
        self._reads = self._counter(
            "api_reads", "Reading requests to the API server.", "kind", "verb", "outcome"
        )
        self._writes = self._counter(
            "api_writes", "Writing requests to the API server.", "kind", "verb", "outcome"
        )
        self._probes = self._counter("probes", "Probes of an agentctl.", "outcome")
        self._resumes = self._counter(
            "resumes", "Resumes that came to an end.", "outcome", "reason"
        )
        self._drift = self._counter(
            "sweep_drift", "Differences between a sweep's list and the cache.", "kind"
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_LevelsCollector(levels, self._word))

    def reconciled(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a pass: what it was about, what it came to, how long it took."""
        kind = self._word("kind", kind)
        self._reconciles.labels(kind, self._word("outcome", outcome)).inc()
        self._seconds.labels(kind).observe(seconds)

    def requested(self, verb: str, plural: str, outcome: str) -> None:
        """Count a request to the API server, in the form that the client reports it."""
        counter = self._reads if verb in _READING_VERBS else self._writes
        counter.labels(
            self._word("plural", plural or "none"),
            self._word("verb", verb),
            self._word("request outcome", outcome),
        ).inc()

    def probed(self, outcome: str) -> None:
        """Count a probe of an agentctl."""
        self._probes.labels(self._word("probe", outcome)).inc()

    def resumed(self, outcome: str, reason: str) -> None:
        """Count a resume that ended; the reason is empty where it ended well."""
        self._resumes.labels(
            self._word("resume", outcome), self._word("reason", reason) if reason else ""
        ).inc()

    def drifted(self, kind: str, objects: int = 1) -> None:
        """Count what a sweep found that the watch had not told."""
        self._drift.labels(self._word("kind", kind)).inc(objects)

    def page(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)

    def value(self, name: str, **labels: str) -> float | None:
        """One number by its name on the page without the prefix, for tests and benchmarks."""
        return self._registry.get_sample_value(f"{_PREFIX}_{name}", labels)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", about, labels, registry=self._registry)

    def _word(self, label: str, text: str) -> str:
        """The text, if it is a word and the label has room for it; else `other`."""
        known = self._words.setdefault(label, set())
        if text in known:
            return text
        if len(known) >= _WORDS_PER_LABEL or not _WORD.fullmatch(text):
            return OTHER
        known.add(text)
        return text


class _LevelsCollector(Collector):
    """Reads the levels whenever the page is asked for."""

    def __init__(self, levels: Callable[[], Levels], word: Callable[[str, str], str]) -> None:
        self._levels = levels
        self._word = word

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Say nothing: registering must not read levels that are not there yet."""
        return []

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the levels once, and spell them out."""
        now = self._levels()
        single: tuple[tuple[str, str, float], ...] = (
            ("queue_depth", "Keys that wait for a worker.", now.queue_depth),
            (
                "queue_oldest_seconds",
                "For how long the longest waiting key has waited.",
                now.queue_oldest_seconds,
            ),
            ("queue_running", "Keys that are worked on.", now.queue_running),
            ("lease_valid", "1 while this process may act, else 0.", float(now.lease_valid)),
            ("term", "The leader's term, of the Lease this process last held.", now.term),
            (
                "verification_oldest_seconds",
                "How long ago the object that waited longest for a pass had its last one.",
                now.oldest_verification_seconds,
            ),
            (
                "sessions_verified",
                "Sessions that this process has looked at, their agentctls asked.",
                now.sessions_verified,
            ),
        )
        for name, about, level in single:
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", about, value=level)
        yield self._by("sessions", "TaskSessions by state.", "state", now.sessions)
        yield self._by("executors", "Executors by state.", "state", now.executors)
        yield self._by(
            "watch_age_seconds",
            "How long ago the watch of a kind last proved to be alive.",
            "kind",
            now.watch_age_seconds,
        )

    def _by(
        self, name: str, about: str, label: str, levels: Mapping[str, float]
    ) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"{_PREFIX}_{name}", about, labels=[label])
        sums: dict[str, float] = {}
        for text, level in levels.items():
            word = self._word(f"{name} {label}", text)
            sums[word] = sums.get(word, 0.0) + level
        for word, level in sums.items():
            family.add_metric([word], level)
        return family
