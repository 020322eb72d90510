"""Metrics: what is counted under which name, and that labels stay few whatever comes in."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kandev_operator.api.reasons import RESUME_REASON
from kandev_operator.api.troubles import Problem, Stuck, Trouble
from kandev_operator.controller.census import Troubled
from kandev_operator.controller.metrics import Levels, Metrics

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[3] / "operator" / "runbooks" / "METRICS.md"
ROW = re.compile(r"^\| `([a-z_]+)` \| (\w+) \| ((?:`\w+`(?:, )?)*|) ?\| (.+) \|$", re.MULTILINE)


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
    metrics.requested("get", "pods", "ok", 0.02)
    metrics.requested("list", "pods", "unavailable", 7)
    metrics.requested("replace_status", "tasksessions", "ok", 0.01)
    metrics.requested("replace_status", "tasksessions", "conflict", 0.01)
    metrics.requested("get", "", "ok", 0)
    took = {"kind": "tasksessions", "verb": "replace_status"}
    assert metrics.value("api_request_seconds_count", **took) == 2
    assert metrics.value("api_request_seconds_sum", kind="pods", verb="list") == 7
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


def test_calls_to_agentctls_are_counted_and_timed() -> None:
    metrics = Metrics()
    metrics.called("status", "ok", 0.02)
    metrics.called("status", "timed_out", 5)
    metrics.called("start", "refused", 0.3)
    assert metrics.value("agentctl_calls_total", call="status", outcome="ok") == 1
    assert metrics.value("agentctl_calls_total", call="status", outcome="timed_out") == 1
    assert metrics.value("agentctl_calls_total", call="start", outcome="refused") == 1
    assert metrics.value("agentctl_call_seconds_sum", call="status") == pytest.approx(5.02)


def test_levels_are_read_when_the_page_is_asked_for() -> None:
    now = Levels()
    metrics = Metrics(lambda: now)
    assert metrics.value("lease_valid") == 0
    now = Levels(
        queue_depth=3,
        queue_oldest_seconds=1.5,
        queue_running=2,
        sessions={("RUNNING", "TurnRunning"): 4, ("ERROR", "AgentExited"): 1},
        executors={("ready", "AgentctlReady"): 5},
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
    assert metrics.value("sessions", state="RUNNING", reason="TurnRunning") == 4
    assert metrics.value("executors", state="ready", reason="AgentctlReady") == 5
    assert metrics.value("watch_age_seconds", kind="TaskSession") == 12
    now = Levels(sessions={("RUNNING", "TurnRunning"): 5})
    assert metrics.value("sessions", state="ERROR", reason="AgentExited") is None


def test_the_lease_has_an_age_only_for_who_holds_it() -> None:
    assert Metrics(Levels).value("lease_renewed_seconds") is None
    assert Metrics(lambda: Levels(lease_renewed_seconds=2.5)).value("lease_renewed_seconds") == 2.5


def test_every_trouble_and_problem_has_a_number_and_its_words() -> None:
    levels = Levels(in_trouble={Trouble.STARTING: 3}, problems=frozenset({Problem.WATCH}))
    metrics = Metrics(lambda: levels)
    for trouble in Trouble:
        count = metrics.value("sessions_in_trouble", trouble=trouble, meaning=trouble.doc)
        assert count == (3 if trouble is Trouble.STARTING else 0)
    for problem in Problem:
        there = metrics.value("problem", problem=problem, meaning=problem.doc)
        assert there == (problem is Problem.WATCH)


def test_a_session_in_trouble_is_told_with_the_words_of_its_reason() -> None:
    told = Stuck(Trouble.FAILED, "ERROR", "OOMKilled", "It needed more memory.", None)
    levels = Levels(troubled=(Troubled(told, 90.0, "team-a", "one"), Troubled(told, 9.0)))
    metrics = Metrics(lambda: levels)
    words = {
        "trouble": "Failed",
        "state": "ERROR",
        "reason": "OOMKilled",
        "meaning": "It needed more memory.",
    }
    name = "session_trouble_seconds"
    assert metrics.value(name, session_namespace="team-a", session="one", **words) == 90
    assert metrics.value(name, session_namespace="", session="", **words) == 9


def test_only_documented_reasons_become_labels() -> None:
    levels = Levels(sessions={("ERROR", "SomethingElse"): 2, ("ERROR", "AnythingElse"): 3})
    metrics = Metrics(lambda: levels)
    assert metrics.value("sessions", state="ERROR", reason="other") == 5
    for reason in RESUME_REASON:
        metrics.resumed("failed", reason)
        assert metrics.value("resumes_total", outcome="failed", reason=reason) == 1


def test_the_page_about_metrics_names_each_with_its_type_labels_and_meaning() -> None:
    told = Stuck(Trouble.FAILED, "ERROR", "OOMKilled", "Words.", None)
    levels = Levels(
        sessions={("ERROR", "OOMKilled"): 1},
        executors={("ready", "Idle"): 1},
        troubled=(Troubled(told, 1.0),),
        watch_age_seconds={"Task": 1.0},
        lease_renewed_seconds=1.0,
    )
    metrics = Metrics(lambda: levels)
    metrics.reconciled("Task", "written", 0)
    metrics.requested("get", "pods", "ok", 0)
    metrics.requested("create", "pods", "ok", 0)
    metrics.called("status", "ok", 0)
    metrics.probed("well")
    metrics.resumed("succeeded", "")
    metrics.drifted("Task")
    served = set()
    for family in text_string_to_metric_families(metrics.page().decode()):
        if family.name.startswith("kandev_operator_"):
            total = family.type == "counter" and not family.name.endswith("_total")
            labels = {name for sample in family.samples for name in sample.labels} - {"le"}
            name = family.name + ("_total" if total else "")
            served.add((name, family.type, frozenset(labels), family.documentation))
    served = {each for each in served if not each[0].endswith("_created_total")}
    rows = ROW.findall(PAGE.read_text("utf-8"))
    documented = {
        (name, type_, frozenset(re.findall(r"\w+", labels)), about)
        for name, type_, labels, about in rows
    }
    assert documented == {each for each in served if not each[0].endswith("_created")}


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
    states = {(f"state{number}", ""): 1 for number in range(100)}
    metrics = Metrics(lambda: Levels(sessions=states))
    for number in range(1_000):
        metrics.probed(f"outcome{number}")
    page = samples(metrics)
    outcomes = [labels for name, labels in page if name == "kandev_operator_probes_total"]
    assert len(outcomes) == 65
    assert metrics.value("probes_total", outcome="other") == 1_000 - 64
    assert metrics.value("sessions", state="other", reason="") == 100 - 64


def test_the_process_is_measured_too() -> None:
    assert b"process_resident_memory_bytes" in Metrics().page()
