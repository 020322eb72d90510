"""What agentctl's answer, or its silence, means for its executor."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_report,
    a_session,
    a_status,
    ago,
    an_executor,
    an_executor_status,
    executor_observed,
    some_capabilities,
    some_conditions,
)
from kandev_operator.api.executor import ExecutorStatus
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import probes
from kandev_operator.core.observed import Answer, ExecutorObserved, FailureSeen, Found
from kandev_operator.core.probes import Limits
from plans import condition, decide_on, done, said, truth, waits, with_executor_status, written

LIMITS = Limits(start=timedelta(seconds=600), grace=timedelta(seconds=60))
NEVER = an_executor_status(boot_id=None, agentctl="Unknown", started_at=rfc3339(ago(100)))


def looked(probe: Any, status: ExecutorStatus | None = None, **o: Any) -> ExecutorObserved:
    """An executor, and how the newest look at its agentctl went."""
    return executor_observed(an_executor(status=status or an_executor_status()), probe=probe, **o)


def silent(since: float = 20, *, answer: Answer = Answer.UNREACHABLE) -> Any:
    """It has not answered well for so many seconds."""
    return a_probe(None, answer=answer, failing_since=ago(since))


def test_a_good_answer_makes_it_ready() -> None:
    plan = decide_on(looked(a_probe()))
    assert (said(plan), done(plan)) == ("ready True/AgentctlReady", "")
    assert truth(plan, "WorkspaceReady") == "True/WorkspaceReady"
    assert written(plan).last_seen_at == rfc3339(ago(5))


# ---- silence ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer.UNREACHABLE, "AgentctlUnreachable"), (Answer.UNHEALTHY, "AgentctlUnhealthy")],
)
def test_an_answer_that_was_lost_is_waited_for_within_the_grace_time(
    answer: Answer, reason: str
) -> None:
    plan = decide_on(looked(silent(20, answer=answer)))
    assert (said(plan), waits(plan)) == (f"starting Unknown/{reason} at work", 40)
    assert (written(plan).error_message, written(plan).boot_id) == (None, "boot-1")
    assert truth(plan, "Bound") == "True/Bound"
    over = decide_on(looked(silent(60, answer=answer)))
    assert said(over) == f"error False/{reason} at work"
    assert written(over).error_message.endswith("connection refused")


def test_a_restarted_operator_neither_forgets_failures_nor_forgives_them() -> None:
    """Since when it fails stands in the condition too."""
    written_down = some_conditions(
        a_condition("AgentctlReady", "Unknown", "AgentctlUnreachable", seconds_ago=59)
    )
    status = an_executor_status(conditions=written_down)
    assert waits(decide_on(looked(silent(0), status))) == 1
    assert said(decide_on(looked(silent(0), status), NOW + timedelta(seconds=1))).startswith(
        "error"
    )


def test_the_grace_time_is_the_sessions_own() -> None:
    session = Found(a_session(status=a_status(), lifecycle={"unreachable_grace_seconds": 10}))
    assert said(decide_on(looked(silent(10), bound=session))).startswith("error")
    assert said(decide_on(looked(silent(9), bound=session))).startswith("starting")


def test_B034_an_agentctl_that_never_answered_has_the_start_time_and_no_longer() -> None:
    o = looked(silent(9999), NEVER)
    starting = decide_on(o)
    assert (said(starting), waits(starting)) == ("starting Unknown/Starting at work", 500)
    over = decide_on(o, NOW + timedelta(seconds=500))
    assert said(over) == "error False/AgentctlUnreachable at work"
    message = written(over).error_message
    for word in ("never reachable", "http://127.0.0.1:8700", "600 s", "connection refused"):
        assert word in message
    assert written(over).last_seen_at is None


def test_B034_the_start_time_is_the_sessions_own() -> None:
    session = Found(a_session(status=a_status(), lifecycle={"start_timeout_seconds": 100}))
    assert said(decide_on(looked(silent(), NEVER, bound=session))).startswith("error")


def test_an_error_of_agentctl_is_over_when_it_answers() -> None:
    o = looked(silent(9999))
    o = with_executor_status(o, decide_on(o).status)
    assert o.executor.status.state == "error"
    plan = decide_on(replace(o, probe=a_probe()))
    assert said(plan) == "ready True/AgentctlReady"
    assert written(plan).error_message is None


# ---- the newest words of a failure ------------------------------------------------------

REFUSED, NO_CERTIFICATE = "connection refused", "certificate verify failed"


def failing(message: str, steady_for: float | None, answer: Answer = Answer.UNREACHABLE) -> Any:
    steady = None if steady_for is None else ago(steady_for)
    return a_probe(None, answer=answer, message=message, failing_since=ago(50), steady_since=steady)


def begun(status: ExecutorStatus = NEVER) -> ExecutorObserved:
    """An executor whose status tells already that it has not answered."""
    o = looked(failing("", None), status)
    return with_executor_status(o, decide_on(o).status)


def test_a_failure_that_lasts_is_told_while_there_is_still_time() -> None:
    o = begun()
    once = decide_on(replace(o, probe=failing(REFUSED, None)))
    assert (once.status, waits(once)) == (None, 500), "it may be over with the next look"
    twice = decide_on(replace(o, probe=failing(REFUSED, 4)))
    assert (twice.status, waits(twice)) == (None, 6)
    lasting = decide_on(replace(o, probe=failing(REFUSED, 10)))
    assert said(lasting) == "starting Unknown/Starting at work"
    assert REFUSED in condition(lasting, "AgentctlReady").message
    assert written(lasting).error_message is None
    told = with_executor_status(replace(o, probe=failing(REFUSED, 10)), lasting.status)
    assert decide_on(told).status is None


def test_words_that_change_with_every_look_cost_no_write() -> None:
    o = begun()
    for message in (REFUSED, NO_CERTIFICATE) * 3:
        assert decide_on(replace(o, probe=failing(message, None))).status is None


def test_the_newest_words_take_the_place_of_the_earlier() -> None:
    o = replace(begun(), probe=failing(REFUSED, 20))
    o = with_executor_status(o, decide_on(o).status)
    later = decide_on(replace(o, probe=failing(NO_CERTIFICATE, 10)))
    assert NO_CERTIFICATE in condition(later, "AgentctlReady").message
    assert REFUSED not in condition(later, "AgentctlReady").message


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(an_executor_status(), Answer.UNREACHABLE, id="lost, within the grace time"),
        pytest.param(NEVER, Answer.INCOMPATIBLE, id="an error already"),
    ],
)
def test_other_words_ride_wherever_it_fails(status: ExecutorStatus, answer: Answer) -> None:
    o = looked(failing(REFUSED, None, answer), status)
    o = with_executor_status(o, decide_on(o).status)
    assert decide_on(replace(o, probe=failing(NO_CERTIFICATE, 9, answer))).status is None
    lasting = decide_on(replace(o, probe=failing(NO_CERTIFICATE, 10, answer)))
    assert NO_CERTIFICATE in condition(lasting, "AgentctlReady").message


def test_news_is_not_held_up_by_words_that_may_pass() -> None:
    o = begun()
    refused = decide_on(replace(o, probe=failing("who are you", None, Answer.UNAUTHENTICATED)))
    assert said(refused) == "error False/AuthenticationFailed at work"
    assert said(decide_on(replace(o, probe=a_probe()))) == "ready True/AgentctlReady"


# ---- answers that name their reason -----------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer.FOREIGN, "ForeignAgentctl"),
        (Answer.UNAUTHENTICATED, "AuthenticationFailed"),
        (Answer.CLOCK_SKEW, "ClockSkew"),
        (Answer.INCOMPATIBLE, "ContractMismatch"),
    ],
)
@pytest.mark.parametrize("status", [an_executor_status(), NEVER], ids=["before", "never"])
def test_a_named_refusal_is_an_error_at_once(
    answer: Answer, reason: str, status: ExecutorStatus
) -> None:
    plan = decide_on(looked(a_probe(None, answer=answer, failing_since=NOW), status))
    assert (said(plan), done(plan)) == (f"error False/{reason} at work", "")
    assert truth(plan, "AgentctlReady") == f"False/{reason}"


def test_every_answer_means_something() -> None:
    executor = an_executor(status=an_executor_status())
    for answer in Answer:
        report = a_report() if answer is Answer.WELL else None
        health = probes.judge(executor, a_probe(report, answer=answer), LIMITS, NOW)
        assert (health is None) == (answer is Answer.NOT_TRIED)


def test_a_report_of_another_instance_is_foreign_and_nothing_of_it_is_kept() -> None:
    plan = decide_on(looked(a_probe(a_report(instance_id="uid-ex-a-9", boot_id="boot-9"))))
    assert said(plan) == "error False/ForeignAgentctl at work"
    assert (written(plan).instance_id, written(plan).boot_id) == ("uid-ex-a-1", "boot-1")


def test_an_agentctl_that_restarted_in_place_is_the_same_one() -> None:
    plan = decide_on(looked(a_probe(a_report(boot_id="boot-2"))))
    assert said(plan) == "ready True/AgentctlReady"
    assert written(plan).boot_id == "boot-2"


# ---- what the agent can do, and the files -----------------------------------------------


def test_capabilities_are_kept_while_their_session_is_in() -> None:
    o = looked(a_probe())
    plan = decide_on(o)
    assert truth(plan, "CapabilitiesKnown") == "True/Probed"
    assert written(plan).supports_session_resume is True
    unasked = a_report(capabilities=some_capabilities(resume=None, probed_at=None))
    later = decide_on(replace(with_executor_status(o, plan.status), probe=a_probe(unasked)))
    assert later.status is None, "not being answered just now is no news"


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(
            a_report(capabilities=some_capabilities(resume=None, probed_at=None)),
            "Unknown/NotAsked",
            id="nobody was asked yet",
        ),
        pytest.param(a_report(session="s-b"), "Unknown/NotAsked", id="another session's agent"),
        pytest.param(
            a_report(
                capabilities=some_capabilities(
                    resume=None, failure=FailureSeen("command_not_found", "no such file")
                )
            ),
            "False/CommandNotFound",
            id="it could not be asked",
        ),
        pytest.param(
            a_report(
                capabilities=some_capabilities(
                    resume=None, failure=FailureSeen("workspace_in_use", "someone is there")
                )
            ),
            "False/InitializeFailed",
            id="it could not be asked, for a reason that is not its own",
        ),
    ],
)
def test_whether_the_capabilities_are_known(report: Any, expected: str) -> None:
    plan = decide_on(looked(a_probe(report)))
    assert truth(plan, "CapabilitiesKnown") == expected
    assert said(plan) == "ready True/AgentctlReady", "it never touches agentctl's own readiness"


def test_a_later_probe_of_the_same_answer_is_no_reason_for_a_write() -> None:
    o = looked(a_probe())
    o = with_executor_status(o, decide_on(o).status)
    again = a_report(capabilities=some_capabilities(probed_at=rfc3339(NOW)))
    assert decide_on(replace(o, probe=a_probe(again, last_seen=NOW))).status is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("ok", "True/WorkspaceReady"),
        ("absent", "True/WorkspaceReady"),
        ("unreadable", "False/JournalUnreadable"),
        ("full", "False/JournalFull"),
    ],
)
def test_how_the_journal_is(state: str, expected: str) -> None:
    plan = decide_on(looked(a_probe(a_report(journal_state=state, journal_message="so it is"))))
    assert truth(plan, "WorkspaceReady") == expected
    assert said(plan) == "ready True/AgentctlReady"


def test_B053_the_generation_that_was_judged_is_named_on_failure_too() -> None:
    executor = an_executor(generation=7, status=an_executor_status())
    plan = decide_on(executor_observed(executor, probe=silent(9999)))
    assert {each.observed_generation for each in written(plan).conditions} == {7}
    assert written(plan).observed_generation == 7


def test_an_event_tells_of_an_error_once() -> None:
    o = looked(a_probe(None, answer=Answer.CLOCK_SKEW, failing_since=NOW))
    plan = decide_on(o)
    [notice] = plan.notices
    assert (notice.reason, notice.warning) == ("ClockSkew", True)
    assert notice.message.startswith("clock_skew: ")
    after = with_executor_status(o, plan.status)
    generation = after.executor.metadata.replacing(generation=2)
    again = decide_on(replace(after, executor=after.executor.replacing(metadata=generation)))
    assert (written(again).state, again.notices) == ("error", ())
    assert decide_on(replace(after, probe=a_probe())).notices == ()
