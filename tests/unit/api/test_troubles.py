"""In which way is a session stuck: each way, the first that holds, and what is no trouble."""

from typing import Any

import pytest

from kandev_operator.api.troubles import Trouble, state_and_reason, stuck

LATER = "2026-01-01T00:05:00Z"


def session(
    ready: str | None, reason: str = "", conditions: tuple[Any, ...] = (), **status: Any
) -> dict[str, Any]:
    told = [{"type": kind, "status": truth, "reason": why} for kind, truth, why in conditions]
    if ready is not None:
        told.append(
            {"type": "Ready", "status": ready, "reason": reason, "lastTransitionTime": LATER}
        )
    return {
        "metadata": {"name": "one", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {**status, "conditions": told},
    }


WAYS = {
    Trouble.UNSEEN: session(None, observedGeneration=-1),
    Trouble.CLOCK_SKEW: session("Unknown", "ClockSkew", state="RUNNING"),
    Trouble.TOKEN_REFUSED: session("False", "AuthenticationFailed", state="ERROR"),
    Trouble.AGENTCTL_UNREACHABLE: session("Unknown", "AgentctlUnreachable", state="RUNNING"),
    Trouble.CAPABILITY_UNKNOWN: session("False", "CapabilityUnknown", state="STARTING"),
    Trouble.EXECUTOR_BUSY: session("False", "ExecutorBusy", state="CREATED"),
    Trouble.EXECUTOR_FAILED: session("False", "OOMKilled", state="ERROR", executorStatus="error"),
    Trouble.FAILED: session("False", "ResumeFailed", state="ERROR", executorStatus="ready"),
    Trouble.NEEDS_RESUME: session(
        "False", "AgentNotRunning", state="WAITING_FOR_INPUT", needsResume=True
    ),
    Trouble.STARTING: session("False", "ExecutorStarting", state="STARTING"),
    Trouble.AWAITING_PERMISSION: session(
        "True",
        "TurnRunning",
        state="RUNNING",
        turn={"awaitingPermission": True, "startedAt": "2026-01-01T00:03:00Z"},
    ),
}


@pytest.mark.parametrize("trouble", Trouble)
def test_every_way_to_be_stuck_is_told(trouble: Trouble) -> None:
    told = stuck(WAYS[trouble])
    assert told is not None
    assert told.trouble is trouble
    assert told.meaning.endswith(".")


@pytest.mark.parametrize(
    "calm",
    [
        session("True", "AgentReady", state="WAITING_FOR_INPUT"),
        session("True", "TurnRunning", state="RUNNING", turn={"startedAt": LATER}),
        session("True", "Suspended", state="WAITING_FOR_INPUT", needsResume=False),
        session("True", "Finished", state="COMPLETED"),
    ],
    ids=lambda each: str(each["status"]["state"]),
)
def test_what_is_as_it_should_be_is_no_trouble(calm: dict[str, Any]) -> None:
    assert stuck(calm) is None


def test_what_is_being_deleted_is_no_trouble() -> None:
    body = session("False", "ResumeFailed", state="ERROR")
    body["metadata"]["deletionTimestamp"] = LATER
    assert stuck(body) is None


def test_the_time_counts_since_it_is_not_ready() -> None:
    told = stuck(WAYS[Trouble.FAILED])
    assert told is not None
    assert told.since == LATER


def test_the_time_of_a_permission_counts_since_the_turn_began() -> None:
    told = stuck(WAYS[Trouble.AWAITING_PERMISSION])
    assert told is not None
    assert (told.reason, told.since) == ("AwaitingPermission", "2026-01-01T00:03:00Z")
    assert told.meaning == "The turn waits for somebody's permission."


def test_an_unseen_session_counts_since_it_was_made() -> None:
    told = stuck(WAYS[Trouble.UNSEEN])
    assert told is not None
    assert told.since == "2026-01-01T00:00:00Z"
    assert told.meaning == Trouble.UNSEEN.doc


def test_stalled_is_a_failure_whatever_the_state() -> None:
    body = session(
        "False", "ProfileMissing", (("Stalled", "True", "ProfileMissing"),), state="CREATED"
    )
    told = stuck(body)
    assert told is not None
    assert told.trouble is Trouble.FAILED


def test_an_executor_that_explains_the_error_has_failed_though_it_is_not_bound() -> None:
    unbound = session(
        "False", "NotAllowed", (("ExecutorReady", "False", "NotAllowed"),), state="ERROR"
    )
    missing = session(
        "False", "ProfileMissing", (("ExecutorReady", "False", "NotBound"),), state="ERROR"
    )
    told = [stuck(unbound), stuck(missing)]
    assert [each.trouble for each in told if each] == [Trouble.EXECUTOR_FAILED, Trouble.FAILED]


def test_who_waits_for_a_persons_resume_has_not_failed() -> None:
    waits = (("Stalled", "True", "AgentNotRunning"),)
    body = session("False", "AgentNotRunning", waits, state="WAITING_FOR_INPUT", needsResume=True)
    told = stuck(body)
    assert told is not None
    assert told.trouble is Trouble.NEEDS_RESUME


def test_a_word_with_two_homes_is_explained_by_the_condition_that_gives_it() -> None:
    others = (("AgentReady", "False", "StartTimedOut"),)
    told = stuck(session("False", "StartTimedOut", others, state="ERROR"))
    assert told is not None
    assert told.meaning.startswith("Starting stood still")


def test_an_unknown_reason_is_explained_by_the_trouble() -> None:
    told = stuck(session("False", "FromTheFuture", state="ERROR"))
    assert told is not None
    assert told.meaning == Trouble.FAILED.doc


def test_an_object_without_status_stands_nowhere() -> None:
    assert state_and_reason({"metadata": {}}) == ("", "")


def test_alert_and_page_are_named_after_the_trouble() -> None:
    assert Trouble.NEEDS_RESUME.alert == "KandevNeedsResume"
    assert Trouble.NEEDS_RESUME.runbook == "operator/runbooks/needs-resume.md"
