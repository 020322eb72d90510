"""A session's life as OpenTelemetry traces, for whoever asks for them.

Off unless `--otlp-endpoint` names a receiver, and nothing is sent anywhere else. One attempt (a
start, a resume) is one trace. Its id and its first span's are made from the session's UID and
epoch, so whichever process leads adds its steps to the same trace. Moments in status have whole
seconds; what this process wrote itself, it remembers more exactly.

A span names the session and says reasons. Texts of users and agents, and error messages that may
quote them, are in no span. The packages of the extra `[tracing]` are imported only when asked for.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kandev_operator import __version__
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.controller.lifesteps import Step

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_REMEMBERED: Final = 4_096
_QUEUE: Final = 2_048
_CLOSE_MILLIS: Final = 3_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class TracingMissing(Exception):
    """Traces were asked for, and the extra `[tracing]` is not installed."""


class Tracing:
    """Tells nobody."""

    def tell(
        self,
        uid: str,
        epoch: int,
        steps: Iterable[Step],
        now: datetime,
        about: Mapping[str, str],
    ) -> None:
        """Tell the steps that ended now, in the trace of this session's attempt."""

    def close(self) -> None:
        """Send what waits, for a few seconds at most. Blocks; belongs in a thread."""


class Told(Tracing):
    """Tells a receiver. Sending has a thread and a bounded queue of its own: what does not fit is
    dropped, and no pass waits for it."""

    def __init__(self, exporter: "SpanExporter", identity: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        self._ids = _ids()
        who = {
            "service.name": "kandev-operator",
            "service.version": __version__,
            "service.instance.id": identity,
        }
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource(who),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._sending = BatchSpanProcessor(
            exporter, max_queue_size=_QUEUE, schedule_delay_millis=1_000
        )
        self._provider.add_span_processor(self._sending)
        self._tracer = self._provider.get_tracer("kandev_operator")
        self._exact: OrderedDict[tuple[str, str], datetime] = OrderedDict()

    def tell(
        self,
        uid: str,
        epoch: int,
        steps: Iterable[Step],
        now: datetime,
        about: Mapping[str, str],
    ) -> None:
        """Tell the steps that ended now, in the trace of this session's attempt."""
        for step in steps:
            began = self._moment(uid, step.began, now)
            self._span(step, (uid, epoch), (began, now), {**about, "kandev.epoch": epoch})
        self._exact[uid, rfc3339(now)] = now
        while len(self._exact) > _REMEMBERED:
            self._exact.popitem(last=False)

    def close(self) -> None:
        """Send what waits, for a few seconds at most. Blocks; belongs in a thread."""
        self._provider.force_flush(_CLOSE_MILLIS)
        self._provider.shutdown()

    def _moment(self, uid: str, text: str | None, now: datetime) -> datetime:
        if text is None:
            return now
        try:
            return min(now, self._exact.get((uid, text)) or moment(text))
        except ValueError:
            return now

    def _span(
        self,
        step: Step,
        attempt: tuple[str, int],
        times: tuple[datetime, datetime],
        attributes: Mapping[str, Any],
    ) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context

        name = f"{attempt[0]}/{attempt[1]}"
        trace_id, whole = _number(name, 16), _number(f"{name}/whole", 8)
        context = Context()
        if step.is_whole:
            self._ids.chosen = (trace_id, whole)
        else:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            parent = trace.SpanContext(trace_id, whole, is_remote=True, trace_flags=flags)
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        span = self._tracer.start_span(
            step.name, context, attributes=dict(attributes), start_time=_nanoseconds(times[0])
        )
        self._ids.chosen = None
        if step.failure:
            span.set_status(trace.Status(trace.StatusCode.ERROR, step.failure))
        span.end(_nanoseconds(times[1]))


def tracing(endpoint: str | None, identity: str) -> Tracing:
    """Traces to this address (`…/v1/traces`); to nobody, where there is none.

    Raises TracingMissing where the extra is not installed.
    """
    if endpoint is None:
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        words = "--otlp-endpoint needs the extra [tracing]: pip install 'kandev-operator[tracing]'"
        raise TracingMissing(words) from error
    return Told(OTLPSpanExporter(endpoint=endpoint, timeout=5.0), identity)


def _ids() -> Any:
    """Ids by chance, but for the span that is the whole of an attempt."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        chosen: tuple[int, int] | None = None

        def generate_trace_id(self) -> int:
            return self.chosen[0] if self.chosen else super().generate_trace_id()

        def generate_span_id(self) -> int:
            return self.chosen[1] if self.chosen else super().generate_span_id()

    return Ids()


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND * 1_000
