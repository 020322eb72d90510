"""Traces: one for each attempt, whoever tells it, with moments as exact as they are known."""

import sys
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kandev_operator.controller.lifesteps import Step
from kandev_operator.controller.tracing import Told, Tracing, TracingMissing, tracing

BEGAN = datetime(2026, 1, 1, 0, 0, 3, 250_000, tzinfo=UTC)
ENDED = datetime(2026, 1, 1, 0, 0, 9, 750_000, tzinfo=UTC)
ASKED = "2026-01-01T00:00:03Z"
WHOLE = Step("resume", ASKED, is_whole=True)
PART = Step("agent ready", ASKED)


def told(*tellings: tuple[str, int, Step, datetime]) -> list[ReadableSpan]:
    """What a receiver gets of one process."""
    exporter = InMemorySpanExporter()
    tracer = Told(exporter, "op-1")
    for uid, epoch, step, now in tellings:
        tracer.tell(uid, epoch, [step], now, {"kandev.session": "one"})
    tracer.close()
    return list(exporter.get_finished_spans())


def seconds(nanoseconds: int | None) -> float:
    assert nanoseconds is not None
    return nanoseconds / 1e9 % 60


def test_the_steps_of_an_attempt_are_one_trace_below_the_whole() -> None:
    part, whole = told(("u", 2, PART, ENDED), ("u", 2, WHOLE, ENDED))
    assert whole.parent is None
    assert part.parent is not None
    assert part.parent.span_id == whole.context.span_id
    assert part.context.trace_id == whole.context.trace_id
    assert part.context.span_id != whole.context.span_id
    assert whole.name == "resume"
    assert dict(whole.attributes or {}) == {"kandev.session": "one", "kandev.epoch": 2}
    assert whole.resource.attributes["service.name"] == "kandev-operator"


def test_another_leader_goes_on_with_the_same_trace() -> None:
    (part,), (whole,) = told(("u", 2, PART, ENDED)), told(("u", 2, WHOLE, ENDED))
    assert part.parent is not None
    assert part.parent.span_id == whole.context.span_id
    assert part.context.trace_id == whole.context.trace_id


def test_attempts_and_sessions_are_traces_apart() -> None:
    spans = told(("u", 2, WHOLE, ENDED), ("u", 3, WHOLE, ENDED), ("v", 2, WHOLE, ENDED))
    assert len({span.context.trace_id for span in spans}) == 3


def test_a_moment_that_this_process_wrote_is_remembered_exactly() -> None:
    exporter = InMemorySpanExporter()
    tracer = Told(exporter, "op-1")
    tracer.tell("u", 2, [], BEGAN, {})
    tracer.tell("u", 2, [WHOLE], ENDED, {})
    tracer.tell("v", 2, [WHOLE], ENDED, {})
    tracer.close()
    known, unknown = exporter.get_finished_spans()
    assert seconds(known.start_time) == pytest.approx(3.25)
    assert seconds(unknown.start_time) == pytest.approx(3.0)
    assert seconds(known.end_time) == pytest.approx(9.75)


def test_no_span_ends_before_it_began() -> None:
    early = BEGAN - timedelta(days=1)
    (ahead, silent, broken) = told(
        ("u", 1, WHOLE, early),
        ("u", 1, Step("turn", None), ENDED),
        ("u", 1, Step("turn", "?"), ENDED),
    )
    for span in (ahead, silent, broken):
        assert span.start_time == span.end_time


def test_a_failure_is_an_error_with_its_reason() -> None:
    (span,) = told(("u", 1, Step("resume", ASKED, "SessionNotFound", True), ENDED))
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "SessionNotFound"


def test_nobody_is_told_by_default() -> None:
    quiet = tracing(None, "op-1")
    assert type(quiet) is Tracing
    quiet.tell("u", 1, [WHOLE], ENDED, {})
    quiet.close()


def test_without_the_extra_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TracingMissing, match=r"kandev-operator\[tracing\]"):
        tracing("http://127.0.0.1:4318/v1/traces", "op-1")
