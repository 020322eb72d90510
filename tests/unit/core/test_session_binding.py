"""On the way to a usable executor: references, choice, binding, readiness (`core.binding`)."""

from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.actions import CreateExecutor
from kandev_operator.core.binding import desired_executor, executor_name
from kandev_operator.core.observed import Answer, Failed, Found, Missing, Probe, Unreadable
from kandev_operator.core.session import decide_session
from unit.core.scenes import after, answer, condition, has, names, plan_of, the, told

pytestmark = pytest.mark.unit

NEW = b.a_session()
READY = Found(b.an_executor(status=b.an_executor_status(holds=None)))


# ---- references -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        pytest.param({"task": Missing()}, "TaskMissing", id="the task is not there yet"),
        pytest.param({"profile": Missing()}, "ProfileMissing", id="the profile is not there yet"),
        pytest.param({"executor": Missing()}, "ExecutorMissing", id="the executor is not there"),
    ],
)
def test_a_missing_reference_is_waited_for_and_then_stalls_and_recovers(
    missing: dict[str, Any], reason: str
) -> None:
    o = b.session_observed(NEW, **missing)
    waiting = decide_session(o, b.NOW)
    assert told(waiting) == ("CREATED", reason)
    assert (answer(waiting, "Reconciling"), has(waiting, "Stalled")) == (("True", reason), False)
    assert waiting.requeue == timedelta(seconds=60)
    assert waiting.status is not None
    assert (waiting.status.error_message, waiting.status.needs_resume) == (None, False)

    still = decide_session(after(o, waiting), b.NOW + timedelta(seconds=59))
    assert still.status is None
    assert still.requeue == timedelta(seconds=1)

    o = after(o, waiting)
    stalled = decide_session(o, b.NOW + timedelta(seconds=60))
    assert told(stalled) == ("ERROR", reason)
    assert (answer(stalled, "Stalled"), has(stalled, "Reconciling")) == (("True", reason), False)

    there = b.session_observed(after(o, stalled).session, executor=READY)
    recovered = decide_session(there, b.NOW + timedelta(seconds=90))
    assert told(recovered) == ("STARTING", "WaitingForExecutor")
    assert not has(recovered, "Stalled")
    assert recovered.status is not None
    assert recovered.status.error_message is None


def test_the_patience_for_a_reference_begins_with_that_wait_and_not_with_an_earlier_one() -> None:
    busy = b.a_condition("Reconciling", "True", "Starting", seconds_ago=900)
    session = b.a_session(status=b.a_status(conditions=b.some_conditions(busy)))
    o = b.session_observed(session, profile=Missing(), report=None)
    first = decide_session(o, b.NOW)
    assert told(first)[1] == "ProfileMissing"
    second = decide_session(after(o, first), b.NOW + timedelta(seconds=30))
    assert second.status is None
    assert second.requeue == timedelta(seconds=30)


def test_a_secret_that_the_profile_names_and_that_is_missing_is_said_at_once() -> None:
    plan = plan_of(NEW, profile=b.a_profile_seen(unresolved="Secret keys has no key token."))
    assert told(plan) == ("ERROR", "SecretMissing")
    assert plan.status is not None
    assert plan.status.error_message == "secret_missing: Secret keys has no key token."


@pytest.mark.parametrize("which", ["task", "profile", "executor"])
def test_a_reference_that_cannot_be_looked_up_changes_nothing(which: str) -> None:
    plan = plan_of(NEW, **{which: Unreadable("API server away")})
    assert (plan.status, plan.actions) == (None, ())
    assert plan.requeue == timedelta(seconds=5)


@pytest.mark.parametrize("which", ["task", "profile", "executor"])
def test_a_reference_that_does_not_fit_this_version_stalls(which: str) -> None:
    plan = plan_of(NEW, **{which: Unreadable("spec.title: too long", lasting=True)})
    assert told(plan) == ("ERROR", "SpecInvalid")
    assert "spec.title: too long" in condition(plan, "Stalled").message


def test_an_unreadable_executor_is_never_called_missing() -> None:
    session = b.a_session(executor="ex-a", status=b.a_status())
    plan = plan_of(session, executor=Unreadable("timeout"), probe=Probe())
    assert plan.status is None


def test_a_live_agent_is_not_touched_because_its_profile_vanished() -> None:
    plan = plan_of(profile=Missing())
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentReady")
    assert names(plan) == []


# ---- choice -----------------------------------------------------------------------------


def test_a_template_is_made_into_an_executor_that_belongs_to_the_session() -> None:
    session = b.a_session(template=b.a_template())
    plan = plan_of(session, executor=Missing())
    manifest = the(plan, CreateExecutor).manifest
    assert plan.status is None
    assert manifest["metadata"]["name"] == executor_name(session)
    assert manifest["metadata"]["ownerReferences"][0]["uid"] == session.metadata.uid
    assert manifest["metadata"]["finalizers"] == ["kandev.dev/cleanup"]
    assert manifest["metadata"]["labels"]["kandev.dev/session-uid"] == session.metadata.uid


def test_B037_the_executor_of_a_session_has_one_name_whoever_makes_it() -> None:
    session = b.a_session(template=b.a_template())
    assert desired_executor(session) == desired_executor(b.a_session(template=b.a_template()))
    other = b.a_session(template=b.a_template(), uid="uid-other")
    assert executor_name(other) != executor_name(session)


def test_a_refused_executor_is_said_with_the_api_servers_words() -> None:
    failed = Failed("CreateExecutor", "InvalidTemplate", "spec.runtime: bad", fatal=True)
    session = b.a_session(template=b.a_template())
    plan = plan_of(session, executor=Missing(), failed=failed)
    assert told(plan) == ("ERROR", "InvalidTemplate")
    assert has(plan, "Stalled")
    assert answer(plan, "ExecutorReady") == ("False", "InvalidTemplate")


def test_a_full_quota_is_tried_again() -> None:
    failed = Failed("CreateExecutor", "QuotaExceeded", "no room", fatal=False)
    session = b.a_session(template=b.a_template())
    plan = plan_of(session, executor=Missing(), failed=failed)
    assert told(plan) == ("ERROR", "QuotaExceeded")
    assert answer(plan, "Reconciling") == ("True", "Retrying")
    assert plan.status is not None
    assert plan.status.next_attempt_at == rfc3339(b.NOW + timedelta(seconds=30))


def test_the_first_write_points_at_the_executor_and_holds_the_first_intent() -> None:
    plan = plan_of(NEW, executor=READY)
    status = plan.status
    assert status is not None
    assert told(plan) == ("STARTING", "WaitingForExecutor")
    assert status.executor_ref == ObjectRef(name="ex-a", uid=b.uid_of("ex-a"))
    assert status.intent is not None
    assert (status.intent.kind, status.intent.operation_id) == ("Start", "uid-s-a-1")
    assert (status.epoch, status.attempt, status.resume_reason) == (1, 1, "executor_not_ready")
    assert names(plan) == []


def test_a_session_that_has_a_token_does_not_decide_to_start_before_it_can_ask() -> None:
    session = b.a_session(status=b.a_status(executor_ref=None, resume_token_ref=b.a_token_ref()))
    plan = plan_of(session, executor=READY)
    assert plan.status is not None
    assert plan.status.intent is None


def test_an_executor_made_again_under_its_name_is_pointed_at_anew() -> None:
    again = b.an_executor(uid="uid-new", status=b.an_executor_status(holds=None))
    plan = plan_of(b.a_session(status=b.a_status()), executor=Found(again), probe=Probe())
    assert plan.status is not None
    assert plan.status.executor_ref == ObjectRef(name="ex-a", uid="uid-new")


def test_an_executor_that_is_being_deleted_is_not_chosen() -> None:
    going = b.an_executor(deleting=True, status=b.an_executor_status(holds=None))
    plan = plan_of(NEW, executor=Found(going))
    assert told(plan) == ("CREATED", "ExecutorStarting")
    assert plan.status is not None
    assert plan.status.executor_ref is None


# ---- binding ----------------------------------------------------------------------------


def test_nothing_is_done_before_both_point_at_each_other() -> None:
    plan = plan_of(b.a_session(status=b.a_status(state="ERROR")), executor=READY, report=None)
    assert told(plan) == ("STARTING", "WaitingForExecutor")
    assert answer(plan, "ExecutorReady") == ("False", "NotBound")
    assert names(plan) == []


@pytest.mark.parametrize("pointed", [True, False], ids=["it waited before", "it comes new"])
def test_the_second_session_of_an_executor_waits_its_turn(pointed: bool) -> None:
    status = b.a_status(state="CREATED") if pointed else None
    held = b.an_executor(status=b.an_executor_status(holds="s-b"))
    plan = plan_of(b.a_session(status=status), executor=Found(held), report=None)
    assert told(plan) == ("CREATED", "ExecutorBusy")
    assert answer(plan, "ExecutorReady") == ("False", "ExecutorBusy")
    assert "s-b" in condition(plan, "Ready").message
    assert plan.status is not None
    assert plan.status.executor_ref is not None
    assert names(plan) == []


def test_a_drained_executor_takes_nobody_in_and_says_so() -> None:
    drained = b.an_executor(spec={"drain": True}, status=b.an_executor_status(holds=None))
    plan = plan_of(b.a_session(status=b.a_status()), executor=Found(drained), report=None)
    assert told(plan) == ("ERROR", "ExecutorDraining")
    assert has(plan, "Stalled")


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(b.an_executor(status=b.an_executor_status(holds="s-b")), id="taken"),
        pytest.param(
            b.an_executor(spec={"drain": True}, status=b.an_executor_status(holds=None)),
            id="drained",
        ),
    ],
)
def test_an_agent_whose_place_was_given_away_by_a_restored_api_server_is_stopped(
    executor: Any,
) -> None:
    plan = plan_of(executor=Found(executor))
    assert names(plan) == ["StopAgent"]
    assert plan.status is not None
    assert plan.status.is_agent_running is True


# ---- readiness --------------------------------------------------------------------------


def executor_with(**status: Any) -> Found[Any]:
    return Found(b.an_executor(status=b.an_executor_status(**status)))


def test_an_executor_on_its_way_makes_a_new_session_starting() -> None:
    plan = plan_of(
        b.a_session(status=b.a_status(state="CREATED", started_at=None)),
        executor=executor_with(agentctl="Unknown"),
        probe=Probe(),
    )
    assert told(plan) == ("STARTING", "Starting")
    assert answer(plan, "AgentReady") == ("Unknown", "AgentUnknown")
    assert plan.status is not None
    assert (plan.status.is_agent_running, plan.status.needs_resume) == (None, False)
    assert plan.status.resume_reason == "executor_not_ready"


@pytest.mark.parametrize("state", ["RUNNING", "WAITING_FOR_INPUT"])
def test_an_answer_lost_within_the_grace_time_leaves_the_session_as_it_is(state: str) -> None:
    lost = executor_with(agentctl="Unknown", reason="AgentctlUnreachable")
    status = b.a_status(state=state, agent_execution_id="exec-1", resume_token_ref=b.a_token_ref())
    plan = plan_of(b.a_session(status=status), executor=lost, report=None)
    assert told(plan) == (state, "AgentctlUnreachable")
    assert condition(plan, "Ready").status == "Unknown"
    assert plan.status is not None
    assert (plan.status.is_agent_running, plan.status.needs_resume) == (None, False)
    assert plan.status.agent_execution_id == "exec-1"
    assert names(plan) == []


def test_B034_an_executor_in_error_makes_the_session_error_with_its_words_and_keeps_the_token() -> (
    None
):
    broken = executor_with(
        agentctl="False",
        error_message="agentctl_unreachable: never reachable at http://x within 60 s.",
    )
    status = b.a_status(resume_token_ref=b.a_token_ref())
    plan = plan_of(b.a_session(status=status), executor=broken, report=None)
    assert told(plan) == ("ERROR", "AgentctlUnreachable")
    assert plan.status is not None
    assert plan.status.error_message == (
        "agentctl_unreachable: never reachable at http://x within 60 s."
    )
    assert plan.status.resume_token_ref == b.a_token_ref()
    assert answer(plan, "Reconciling") == ("True", "Retrying")
    assert answer(plan, "Resumable") == ("Unknown", "CapabilityUnknown")
    assert answer(plan, "ExecutorReady") == ("False", "AgentctlUnreachable")


def test_a_stalled_executor_stalls_its_session_and_a_retrying_one_says_when() -> None:
    stalled = b.some_conditions(
        b.a_condition("AgentctlReady", "False", "NotAllowed"),
        b.a_condition("Ready", "False", "NotAllowed"),
        b.a_condition("Stalled", "True", "NotAllowed"),
    )
    plan = plan_of(executor=executor_with(agentctl="False", conditions=stalled), report=None)
    assert answer(plan, "Stalled") == ("True", "NotAllowed")
    due = rfc3339(b.NOW + timedelta(seconds=40))
    plan = plan_of(executor=executor_with(agentctl="False", next_attempt_at=due), report=None)
    assert plan.status is not None
    assert plan.status.next_attempt_at == due


def test_an_executor_that_may_not_run_here_is_not_waited_for() -> None:
    refused = executor_with(agentctl="False", holds=None, reason="NotAllowed")
    plan = plan_of(executor=refused, report=None)
    assert told(plan) == ("ERROR", "NotAllowed")


def test_B035_a_new_operator_that_has_not_looked_yet_leaves_everything_as_it_stands() -> None:
    session = b.a_session(status=b.a_status(state="RUNNING", is_agent_running=True))
    plan = plan_of(session, probe=Probe(answer=Answer.NOT_TRIED))
    assert (plan.status, plan.actions) == (None, ())


def test_a_look_that_failed_just_now_waits_for_what_the_executors_pass_makes_of_it() -> None:
    plan = plan_of(b.a_session(status=b.a_status(state="RUNNING")), report=None)
    assert (plan.status, plan.actions) == (None, ())


# ---- leaving ----------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["none", "exited", "initialized", "opening"])
def test_nothing_is_begun_in_an_executor_that_is_drained(phase: str) -> None:
    drained = b.an_executor(spec={"drain": True}, status=b.an_executor_status())
    session = b.a_session(status=b.a_status(intent=b.an_intent()))
    plan = plan_of(session, executor=Found(drained), report=b.a_report(phase))
    assert told(plan) == ("ERROR", "ExecutorDraining")
    assert names(plan) == []


def test_nothing_is_begun_in_an_executor_that_is_being_deleted() -> None:
    going = b.an_executor(deleting=True, status=b.an_executor_status())
    plan = plan_of(executor=Found(going), report=b.a_report("exited"))
    assert told(plan) == ("STARTING", "ExecutorStarting")
    assert names(plan) == []


def test_the_agent_that_lives_in_a_drained_executor_is_only_attached_to() -> None:
    drained = b.an_executor(spec={"drain": True}, status=b.an_executor_status())
    plan = plan_of(executor=Found(drained))
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentReady")


def test_a_fresh_start_waits_until_the_executor_is_used_again() -> None:
    drained = b.an_executor(spec={"drain": True}, status=b.an_executor_status())
    session = b.a_session(
        status=b.a_status(), annotations={"kandev.dev/fresh-start-requested": "1"}
    )
    plan = plan_of(session, executor=Found(drained))
    assert plan.status is not None
    assert plan.status.intent is None
    assert plan.status.last_handled_fresh_start_request is None
