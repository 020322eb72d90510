"""Counting from the cache: how objects stand, and which sessions in trouble are named."""

from datetime import UTC, datetime
from typing import Any

from kandev_operator.api.troubles import Trouble
from kandev_operator.controller.census import named, standings, troubled

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def session(name: str, minute: int, reason: str = "AgentExited") -> dict[str, Any]:
    since = f"2026-01-01T00:{minute:02}:00Z"
    ready = {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": since}
    return {
        "metadata": {"namespace": "team-a", "name": name},
        "status": {"state": "ERROR", "conditions": [ready]},
    }


def test_objects_are_counted_by_state_and_reason() -> None:
    bodies = [session("a", 1), session("b", 2), session("c", 3, "OOMKilled"), {"metadata": {}}]
    assert standings(bodies) == {
        ("ERROR", "AgentExited"): 2,
        ("ERROR", "OOMKilled"): 1,
        ("unknown", ""): 1,
    }


def test_the_longest_in_trouble_come_first() -> None:
    found = troubled([session("a", 50), session("b", 10), session("c", 30)], NOW)
    assert [(each.name, each.seconds) for each in found] == [("b", 3000), ("c", 1800), ("a", 600)]


def test_the_rest_is_told_without_names_and_with_the_longest_time() -> None:
    bodies = [session(f"s{minute:02}", minute) for minute in range(10)]
    bodies += [session("oom", 20, "OOMKilled")]
    told = named(troubled(bodies, NOW), 2)
    assert [each.name for each in told] == ["s00", "s01", "", ""]
    assert [(each.stuck.reason, each.seconds) for each in told[2:]] == [
        ("AgentExited", 3480),
        ("OOMKilled", 2400),
    ]


def test_no_number_of_sessions_makes_more_series_than_names_and_reasons() -> None:
    bodies = [session(f"s{number}", number % 60) for number in range(1_000)]
    assert len(named(troubled(bodies, NOW), 50)) == 51


def test_nobody_need_be_named() -> None:
    told = named(troubled([session("a", 1), session("b", 2)], NOW), 0)
    assert [(each.stuck.trouble, each.namespace, each.name) for each in told] == [
        (Trouble.FAILED, "", "")
    ]


def test_a_moment_that_cannot_be_read_or_lies_ahead_counts_nothing() -> None:
    ahead, broken = session("ahead", 0), session("broken", 0)
    ahead["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-02T00:00:00Z"
    broken["status"]["conditions"][0]["lastTransitionTime"] = "yesterday"
    assert {each.seconds for each in troubled([ahead, broken], NOW)} == {0.0}
