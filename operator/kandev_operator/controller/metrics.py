"""What the operator counts about itself, and the page on which it says so.

Two sorts. Events are counted where they happen (`reconciled`, `wrote`, `probed`, …). Levels are
read when somebody asks (`Levels`, from one callable), so that a level is never stale and a state
that no session is in any more leaves no number behind.

No UID and no text of a user or an agent becomes a label. Labels are words, and each may have so
many of them: what is no word, or one word too many, is counted as `other`; a reason is one of the
documented ones, or `other`. Names of sessions in trouble are the one exception, and few: see
`census`. What each metric means stands in `operator/runbooks/METRICS.md`, and a test compares.
"""

import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kandev_operator import __version__
from kandev_operator.api.reasons import RESUME_REASON
from kandev_operator.api.troubles import Problem, Trouble
from kandev_operator.controller.census import Standing, Troubled

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"

_PREFIX: Final = "kandev_operator"
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_WORDS_PER_LABEL: Final = 64
_READING_VERBS: Final = frozenset({"get", "list", "watch"})
# A pass without a write takes milliseconds; an action may take two seconds.
_CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_PASS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Levels:
    """How things stand at one instant."""

    queue_depth: int = 0
    queue_oldest_seconds: float = 0.0
    queue_running: int = 0
    sessions: Mapping[Standing, int] = field(default_factory=dict)
    executors: Mapping[Standing, int] = field(default_factory=dict)
    troubled: Sequence[Troubled] = ()
    in_trouble: Mapping[Trouble, int] = field(default_factory=dict)
    """All sessions in trouble, also those that are not named."""
    problems: frozenset[Problem] = frozenset()
    """What keeps this process from being ready."""
    lease_valid: bool = False
    term: int = 0
    watch_age_seconds: Mapping[str, float] = field(default_factory=dict)
    """By kind: how long ago its watch last told of anything."""
    lease_renewed_seconds: float | None = None
    """How long ago the Lease was last written, by the process that holds it."""
    oldest_verification_seconds: float = 0.0
    """How long ago the session that was not looked at for the longest time was looked at."""
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
        self._request_seconds = Histogram(
            f"{_PREFIX}_api_request_seconds",
            "How long a request to the API server took.",
            ["kind", "verb"],
            buckets=_CALL_SECONDS,
            registry=self._registry,
        )
        self._calls = self._counter("agentctl_calls", "Calls to agentctls.", "call", "outcome")
        self._call_seconds = Histogram(
            f"{_PREFIX}_agentctl_call_seconds",
            "How long a call to an agentctl took; for the event stream, until it was open.",
            ["call"],
            buckets=_CALL_SECONDS,
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
        Gauge(
            f"{_PREFIX}_build_info",
            "Always 1; the labels say what runs.",
            ["version", "python"],
            registry=self._registry,
        ).labels(__version__, platform.python_version()).set(1)
        self._registry.register(_LevelsCollector(levels, self._word))

    def reconciled(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a pass: what it was about, what it came to, how long it took."""
        kind = self._word("kind", kind)
        self._reconciles.labels(kind, self._word("outcome", outcome)).inc()
        self._seconds.labels(kind).observe(seconds)

    def requested(self, verb: str, plural: str, outcome: str, seconds: float) -> None:
        """Count a request to the API server, in the form that the client reports it."""
        counter = self._reads if verb in _READING_VERBS else self._writes
        kind, verb = self._word("plural", plural or "none"), self._word("verb", verb)
        counter.labels(kind, verb, self._word("request outcome", outcome)).inc()
        self._request_seconds.labels(kind, verb).observe(seconds)

    def called(self, call: str, outcome: str, seconds: float) -> None:
        """Count a call to an agentctl, in the form that the client reports it."""
        call = self._word("call", call)
        self._calls.labels(call, self._word("call outcome", outcome)).inc()
        self._call_seconds.labels(call).observe(seconds)

    def probed(self, outcome: str) -> None:
        """Count a probe of an agentctl."""
        self._probes.labels(self._word("probe", outcome)).inc()

    def resumed(self, outcome: str, reason: str) -> None:
        """Count a resume that ended; the reason is empty where it ended well."""
        self._resumes.labels(self._word("resume", outcome), documented(reason)).inc()

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


def documented(reason: str) -> str:
    """The reason, if it is a documented one or none; else `other`."""
    return reason if not reason or reason in RESUME_REASON else OTHER


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
        for name, about, level in _singles(now):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", about, value=level)
        yield self._standings("sessions", "TaskSessions by state and reason.", now.sessions)
        yield self._standings("executors", "Executors by state and reason.", now.executors)
        yield _troubles(now.troubled)
        counts = _family("sessions_in_trouble", "TaskSessions by trouble.", "trouble", "meaning")
        for trouble in Trouble:
            counts.add_metric([trouble, trouble.doc], now.in_trouble.get(trouble, 0))
        yield counts
        problems = _family(
            "problem", "1 where this keeps the operator from being ready.", "problem", "meaning"
        )
        for problem in Problem:
            problems.add_metric([problem, problem.doc], float(problem in now.problems))
        yield problems
        ages = _family(
            "watch_age_seconds", "How long ago the watch of a kind last told of anything.", "kind"
        )
        for kind, seconds in now.watch_age_seconds.items():
            ages.add_metric([self._word("watched kind", kind)], seconds)
        yield ages

    def _standings(
        self, name: str, about: str, levels: Mapping[Standing, int]
    ) -> GaugeMetricFamily:
        family = _family(name, about, "state", "reason")
        sums: dict[Standing, int] = {}
        for (state, reason), level in levels.items():
            words = (self._word(f"{name} state", state), documented(reason))
            sums[words] = sums.get(words, 0) + level
        for words, level in sums.items():
            family.add_metric(words, level)
        return family


def _singles(now: Levels) -> Iterable[tuple[str, str, float]]:
    """The levels that have no labels; one that is not known has no number."""
    yield "queue_depth", "Keys that wait for a worker.", now.queue_depth
    yield (
        "queue_oldest_seconds",
        "For how long the longest waiting key has waited.",
        now.queue_oldest_seconds,
    )
    yield "queue_running", "Keys that are worked on.", now.queue_running
    yield "lease_valid", "1 while this process may act, else 0.", float(now.lease_valid)
    if now.lease_renewed_seconds is not None:
        yield (
            "lease_renewed_seconds",
            "How long ago this process, which holds the Lease, last wrote it.",
            now.lease_renewed_seconds,
        )
    yield "term", "The leader's term, of the Lease this process last held.", now.term
    yield (
        "verification_oldest_seconds",
        "How long ago the session that waited longest for a look had its last one.",
        now.oldest_verification_seconds,
    )
    yield (
        "sessions_verified",
        "Sessions that this process has looked at, their agentctls asked.",
        now.sessions_verified,
    )


def _troubles(troubled: Sequence[Troubled]) -> GaugeMetricFamily:
    labels = ("trouble", "state", "reason", "meaning", "session_namespace", "session")
    family = _family(
        "session_trouble_seconds",
        "For how long a session has been in trouble; the rest beyond those named is without name.",
        *labels,
    )
    for each in troubled:
        told = each.stuck
        words = [told.trouble, told.state, documented(told.reason), told.meaning]
        family.add_metric([*words, each.namespace, each.name], each.seconds)
    return family


def _family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", about, labels=labels)
