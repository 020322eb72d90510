"""Every alert, evaluated by Prometheus' own engine: it fires when it should, and not before.

A story is what a Prometheus scrapes, every half minute. The page of metrics and the texts of the
rules are compared in the unit ring; here is only what they come to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from kandev_operator.api.troubles import Problem, Trouble
from promql.engine import Alert, Engine, Series

RULES: Final = Path(__file__).parents[3] / "helm" / "kandev-operator" / "files" / "alerts.yaml"
LONG: Final = 400
"""So many scrapes are played at most: more than three hours."""


def series(name: str, values: str, instance: str = "a", **labels: str) -> Series:
    """One series of an operator's, as a Prometheus stores it."""
    own = {"job": "kandev", "namespace": "kandev-system", "instance": instance, **labels}
    inside = ",".join(f'{key}="{text}"' for key, text in own.items())
    return f"kandev_operator_{name}{{{inside}}}", values


def trouble(kind: str, values: str = f"0+30x{LONG}", instance: str = "a", **more: str) -> Series:
    """A session that is in trouble, for half a minute longer with each scrape."""
    labels = {
        "trouble": kind,
        "state": "ERROR",
        "reason": "OOMKilled",
        "meaning": "It needed more memory than it may have.",
        "session_namespace": "team-a",
        "session": "one",
    } | more
    return series("session_trouble_seconds", values, instance, **labels)


ALIVE: Final = (
    series("lease_valid", f"1+0x{LONG}"),
    series("lease_valid", f"0+0x{LONG}", "b"),
    series("queue_oldest_seconds", f"0.1+0x{LONG}"),
    series("verification_oldest_seconds", f"300+0x{LONG}"),
    series("agentctl_calls_total", f"0+50x{LONG}", call="status", outcome="ok"),
    series("agentctl_calls_total", f"0+1x{LONG}", call="status", outcome="unreachable"),
    series("api_writes_total", f"0+5x{LONG}", kind="leases", verb="replace", outcome="ok"),
    series("api_writes_total", f"0+1x{LONG}", kind="pods", verb="create", outcome="invalid"),
    series(
        "api_writes_total",
        f"0+9x{LONG}",
        kind="tasksessions",
        verb="replace_status",
        outcome="conflict",
    ),
    series("reconciles_total", f"0+20x{LONG}", kind="TaskSession", outcome="written"),
    series("resumes_total", f"0+3x{LONG}", outcome="succeeded", reason=""),
    *(series("problem", f"0+0x{LONG}", problem=each, meaning=each.doc) for each in Problem),
)
"""Two replicas at work, with all that is usual: conflicts, a bad template, a lost agentctl."""


@dataclass(frozen=True)
class Story:
    """What is scraped beside, or in place of, what is usual; and when the alert is there."""

    alert: str
    scraped: Sequence[Series]
    silent: str
    fires: str
    instead: bool = False
    """Nothing else is scraped."""


def session_story(kind: Trouble, silent: str, fires: str) -> Story:
    return Story(kind.alert, [trouble(kind)], silent, fires)


def problem_story(kind: Problem, silent: str, fires: str) -> Story:
    there = series("problem", f"0 0 1+0x{LONG}", "b", problem=kind, meaning=kind.doc)
    return Story(f"Kandev{kind}Problem", [there], silent, fires)


def failing(kind: str, outcome: str, verb: str = "create") -> Series:
    return series("api_writes_total", f"0+2x{LONG}", "b", kind=kind, verb=verb, outcome=outcome)


STORIES: Final = (
    session_story(Trouble.UNSEEN, "2m", "4m"),
    session_story(Trouble.CLOCK_SKEW, "1m", "3m"),
    session_story(Trouble.TOKEN_REFUSED, "2m", "4m"),
    session_story(Trouble.AGENTCTL_UNREACHABLE, "5m", "7m"),
    session_story(Trouble.CAPABILITY_UNKNOWN, "5m", "7m"),
    session_story(Trouble.EXECUTOR_BUSY, "1h", "1h2m"),
    session_story(Trouble.EXECUTOR_FAILED, "5m", "7m"),
    session_story(Trouble.FAILED, "5m", "7m"),
    session_story(Trouble.NEEDS_RESUME, "15m", "17m"),
    session_story(Trouble.STARTING, "15m", "17m"),
    session_story(Trouble.AWAITING_PERMISSION, "29m", "31m"),
    Story("KandevOperatorGone", [("up{job='kandev'}", "0+0x40")], "4m", "6m", instead=True),
    Story("KandevNobodyLeads", [series("lease_valid", "1 1 0+0x40")], "1m", "3m", instead=True),
    Story("KandevTwoLead", [series("lease_valid", "1+0x40", "c")], "30s", "2m"),
    problem_story(Problem.SCHEMA, "2m30s", "4m"),
    problem_story(Problem.KEY, "2m30s", "4m"),
    problem_story(Problem.RIGHTS, "1m30s", "4m"),
    problem_story(Problem.RIGHTS, "2m30s", "4m"),
    problem_story(Problem.LISTS, "5m30s", "7m"),
    problem_story(Problem.WATCH, "2m30s", "4m"),
    problem_story(Problem.LEASE, "1m30s", "3m"),
    Story("KandevWritesFail", [failing("pods", "unavailable")], "1m", "6m"),
    Story("KandevWritesFail", [failing("tasksessions", "invalid", "replace_status")], "1m", "6m"),
    Story("KandevQueueOld", [series("queue_oldest_seconds", "30+10x40", "b")], "1m30s", "5m"),
    Story(
        "KandevVerificationOld",
        [series("verification_oldest_seconds", f"0+30x{LONG}", "b")],
        "34m",
        "37m",
    ),
    Story(
        "KandevAgentctlCallsFail",
        [series("agentctl_calls_total", f"0+90x{LONG}", "b", call="status", outcome="timed_out")],
        "9m",
        "12m",
    ),
    Story(
        "KandevResumesFail",
        [series("resumes_total", f"0+1x8 8+0x{LONG}", "b", outcome="failed", reason="OOMKilled")],
        "1m",
        "8m",
    ),
    Story(
        "KandevPassesFail",
        [series("reconciles_total", f"0+1x{LONG}", "b", kind="Task", outcome="error")],
        "2m",
        "7m",
    ),
)


def firing(alerts: Sequence[Alert]) -> set[str]:
    return {each.name for each in alerts if each.state == "firing"}


@pytest.mark.parametrize("story", STORIES, ids=lambda each: each.alert)
def test_each_alert_fires_when_it_should_and_not_before(promql: Engine, story: Story) -> None:
    usual = () if story.instead else ALIVE
    told = promql.alerts(RULES, [*usual, *story.scraped], [story.silent, story.fires])
    assert story.alert not in firing(told[story.silent])
    assert firing(told[story.fires]) == {story.alert}, "it, and no other"


def test_every_alert_has_its_story() -> None:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == {
        story.alert for story in STORIES
    }


def test_a_calm_day_is_silent(promql: Engine) -> None:
    at = ["1m", "10m", "1h", "3h"]
    assert promql.alerts(RULES, ALIVE, at) == {moment: [] for moment in at}


def only(alerts: Sequence[Alert], name: str) -> Alert:
    found = [each for each in alerts if each.name == name]
    assert len(found) == 1, found
    return found[0]


def test_the_texts_name_the_session_and_say_what_why_says(promql: Engine) -> None:
    told = promql.alerts(RULES, [*ALIVE, trouble(Trouble.EXECUTOR_FAILED)], ["20m"])
    alert = only(told["20m"], Trouble.EXECUTOR_FAILED.alert)
    assert alert.annotations == {
        "summary": f"Session team-a/one: {Trouble.EXECUTOR_FAILED.doc}",
        "description": "It needed more memory than it may have. (OOMKilled) So for 20m 0s. "
        "kubectl kandev why one -n team-a says what can be done.",
        "runbook_url": Trouble.EXECUTOR_FAILED.runbook,
    }


def test_who_is_not_named_is_told_all_the_same(promql: Engine) -> None:
    nameless = trouble(Trouble.FAILED, session="", session_namespace="")
    told = promql.alerts(RULES, [*ALIVE, nameless], ["20m"])
    alert = only(told["20m"], Trouble.FAILED.alert)
    assert alert.annotations["summary"] == f"A session that is not named: {Trouble.FAILED.doc}"
    assert "kubectl get tasksessions -A" in alert.annotations["description"]


def test_two_replicas_that_say_the_same_make_one_alert_and_a_fail_over_none_anew(
    promql: Engine,
) -> None:
    leader = trouble(Trouble.AWAITING_PERMISSION, "0+30x50 stale")
    standby = trouble(Trouble.AWAITING_PERMISSION, f"0+30x{LONG}", "b")
    told = promql.alerts(RULES, [*ALIVE, leader, standby], ["20m", "29m", "32m"])
    assert only(told["20m"], Trouble.AWAITING_PERMISSION.alert).state == "pending"
    assert only(told["29m"], Trouble.AWAITING_PERMISSION.alert).state == "pending"
    assert only(told["32m"], Trouble.AWAITING_PERMISSION.alert).state == "firing"


def test_a_session_that_is_tried_again_and_again_is_in_trouble_all_the_while(
    promql: Engine,
) -> None:
    """State and trouble change every minute; the time since it was ready does not begin anew."""
    starts = " ".join(f"{30 * n}" if n // 2 % 2 else "_" for n in range(LONG))
    fails = " ".join("_" if n // 2 % 2 else f"{30 * n}" for n in range(LONG))
    scraped = [trouble(Trouble.STARTING, starts, state="STARTING"), trouble(Trouble.FAILED, fails)]
    told = promql.alerts(RULES, [*ALIVE, *scraped], ["30m"])
    assert Trouble.FAILED.alert in firing(told["30m"])


def test_what_is_over_is_silent_again(promql: Engine) -> None:
    told = promql.alerts(RULES, [*ALIVE, trouble(Trouble.FAILED, "0+30x40 stale")], ["15m", "25m"])
    assert firing(told["15m"]) == {Trouble.FAILED.alert}
    assert told["25m"] == []


def test_two_releases_are_told_apart(promql: Engine) -> None:
    other = series("lease_valid", "0+0x40", namespace="other-system")
    told = promql.alerts(RULES, [*ALIVE, other], ["3m"])
    assert only(told["3m"], "KandevNobodyLeads").labels["namespace"] == "other-system"
