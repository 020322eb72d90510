"""Metrics: what is counted under which name, and that labels stay few whatever comes in."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kandev_operator.controller.metrics import Levels, Metrics

pytestmark = pytest.mark.unit


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The page, read back as Prometheus would."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }


def test_passes_are_counted_and_timed() -> None:
    metrics = Metrics()
    metrics.reconciled("TaskSession", "done", 0.02)
    metrics.reconciled("TaskSession", "done", 0.3)
    metrics.reconciled("Executor", "failed", 0.001)
    assert metrics.value("reconciles_total", kind="TaskSession", outcome="done") == 2
    assert metrics.value("reconciles_total", kind="Executor", outcome="failed") == 1
    assert metrics.value("reconcile_seconds_count", kind="TaskSession") == 2
    assert metrics.value("reconcile_seconds_sum", kind="TaskSession") == pytest.approx(0.32)
    assert metrics.value("reconcile_seconds_bucket", kind="TaskSession", le="0.025") == 1


def test_requests_are_told_apart_by_whether_they_write() -> None:
    metrics = Metrics()
    metrics.requested("get", "pods", "ok")
    metrics.requested("list", "pods", "unavailable")
    metrics.requested("replace_status", "tasksessions", "ok")
    metrics.requested("replace_status", "tasksessions", "conflict")
    metrics.requested("get", "", "ok")
    assert metrics.value("api_reads_total", kind="pods", verb="get", outcome="ok") == 1
    assert metrics.value("api_reads_total", kind="pods", verb="list", outcome="unavailable") == 1
    assert metrics.value("api_reads_total", kind="none", verb="get", outcome="ok") == 1
    for outcome in ("ok", "conflict"):
        count = metrics.value(
            "api_writes_total", kind="tasksessions", verb="replace_status", outcome=outcome
        )
        assert count == 1


def test_probes_resumes_and_drift_are_counted() -> None:
    metrics = Metrics()
    metrics.probed("well")
    metrics.resumed("succeeded", "")
    metrics.resumed("failed", "SessionNotFound")
    metrics.drifted("Executor", 3)
    assert metrics.value("probes_total", outcome="well") == 1
    assert metrics.value("resumes_total", outcome="succeeded", reason="") == 1
    assert metrics.value("resumes_total", outcome="failed", reason="SessionNotFound") == 1
    assert metrics.value("sweep_drift_total", kind="Executor") == 3


def test_levels_are_read_when_the_page_is_asked_for() -> None:
    now = Levels()
    metrics = Metrics(lambda: now)
    assert metrics.value("lease_valid") == 0
    now = Levels(
        queue_depth=3,
        queue_oldest_seconds=1.5,
        queue_running=2,
        sessions={"RUNNING": 4, "ERROR": 1},
        executors={"ready": 5},
        lease_valid=True,
        term=7,
        watch_age_seconds={"TaskSession": 12.0},
        oldest_verification_seconds=90.0,
    )
    page = samples(metrics)
    no_labels: frozenset[tuple[str, str]] = frozenset()
    assert page["kandev_operator_queue_depth", no_labels] == 3
    assert page["kandev_operator_queue_oldest_seconds", no_labels] == 1.5
    assert page["kandev_operator_queue_running", no_labels] == 2
    assert page["kandev_operator_lease_valid", no_labels] == 1
    assert page["kandev_operator_term", no_labels] == 7
    assert page["kandev_operator_verification_oldest_seconds", no_labels] == 90
    assert metrics.value("sessions", state="RUNNING") == 4
    assert metrics.value("executors", state="ready") == 5
    assert metrics.value("watch_age_seconds", kind="TaskSession") == 12
    now = Levels(sessions={"RUNNING": 5})
    assert metrics.value("sessions", state="ERROR") is None


def test_registering_reads_no_levels() -> None:
    def too_early() -> Levels:
        raise AssertionError("nothing is there yet")

    Metrics(too_early)


def test_two_operators_in_one_process_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.probed("well")
    assert other.value("probes_total", outcome="well") is None


def test_what_is_no_word_becomes_other() -> None:
    metrics = Metrics()
    for text in ("my-session", "4f1c2d3e", "x" * 41, "a b", 'a"b\n', "", "tür"):
        metrics.reconciled("TaskSession", text, 0)
    assert metrics.value("reconciles_total", kind="TaskSession", outcome="other") == 7


def test_a_label_has_room_for_so_many_words() -> None:
    metrics = Metrics(lambda: Levels(sessions={f"state{number}": 1 for number in range(100)}))
    for number in range(1_000):
        metrics.resumed("failed", f"reason{number}")
    page = samples(metrics)
    reasons = [labels for name, labels in page if name == "kandev_operator_resumes_total"]
    assert len(reasons) == 65
    assert metrics.value("resumes_total", outcome="failed", reason="other") == 1_000 - 64
    assert metrics.value("sessions", state="other") == 100 - 64


def test_the_process_is_measured_too() -> None:
    assert b"process_resident_memory_bytes" in Metrics().page()
