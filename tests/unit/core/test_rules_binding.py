"""The way to a usable executor: references, choice, binding, readiness."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_probe,
    a_profile_seen,
    a_session,
    a_status,
    a_template,
    a_token_ref,
    an_executor,
    an_executor_status,
    an_intent,
    session_observed,
    uid_of,
)
from kandev_operator.api import group
from kandev_operator.api.executor import ExecutorTemplate, ExecutorTemplateSpec, PodRuntime, Runtime
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.session import TaskSessionStatus
from kandev_operator.core.binding import desired_executor, executor_name
from kandev_operator.core.observed import (
    Answer,
    Failed,
    Found,
    Missing,
    SessionObserved,
    Unreadable,
)
from plans import action, decide, done, said, truth, waits, with_status, written

NEW = a_session()
"""A session that nobody has looked at yet."""

UNBOUND = Found(an_executor(status=an_executor_status(holds=None)))


def unseen(**overrides: Any) -> SessionObserved:
    """A session without status; its executor is there and empty."""
    fields: dict[str, Any] = {
        "executor": UNBOUND,
        "probe": a_probe(answer=Answer.NOT_TRIED, report=None),
    }
    return session_observed(NEW, **{**fields, **overrides})


MISSING = [
    pytest.param({"task": Missing()}, "TaskMissing", id="the task"),
    pytest.param({"profile": Missing()}, "ProfileMissing", id="the profile"),
    pytest.param({"executor": Missing()}, "ExecutorMissing", id="the executor named"),
]


@pytest.mark.parametrize(("missing", "reason"), MISSING)
def test_a_missing_reference_is_waited_for_a_minute(missing: dict[str, Any], reason: str) -> None:
    o = unseen(**missing)
    plan = decide(o)
    assert said(plan) == f"CREATED False/{reason} at work"
    assert (waits(plan), done(plan)) == (60, "")
    later = with_status(o, plan.status)
    still = decide(later, NOW + timedelta(seconds=59))
    assert (still.status, waits(still)) == (None, 1)


@pytest.mark.parametrize(("missing", "reason"), MISSING)
def test_after_a_minute_it_stalls_and_it_recovers(missing: dict[str, Any], reason: str) -> None:
    o = unseen(**missing)
    o = with_status(o, decide(o).status)
    plan = decide(o, NOW + timedelta(seconds=60))
    assert said(plan) == f"ERROR False/{reason} stalled"
    assert "does not exist in namespace team" in written(plan).error_message
    o = with_status(o, plan.status)
    assert decide(o, NOW + timedelta(days=1)).status is None
    there = replace(unseen(), session=o.session)
    recovered = decide(there, NOW + timedelta(days=1))
    assert said(recovered) == "STARTING False/WaitingForExecutor at work"
    assert written(recovered).error_message is None


def test_each_reference_has_a_patience_of_its_own() -> None:
    o = unseen(task=Missing(), profile=Missing())
    o = with_status(o, decide(o).status)
    plan = decide(replace(o, task=unseen().task), NOW + timedelta(seconds=59))
    assert said(plan) == "CREATED False/ProfileMissing at work"
    assert waits(plan) == 60


@pytest.mark.parametrize(
    ("overrides", "expected", "again"),
    [
        pytest.param(
            {"profile": a_profile_seen(unresolved="Secret keys has no key k.")},
            "ERROR False/SecretMissing stalled",
            5,
            id="a Secret of the profile is missing, and nobody rings when it is made",
        ),
        pytest.param(
            {"profile": Unreadable("command: wanted", lasting=True)},
            "ERROR False/SpecInvalid stalled",
            None,
            id="a profile that this version cannot read",
        ),
        pytest.param(
            {"task": Unreadable("title: wanted", lasting=True)},
            "ERROR False/SpecInvalid stalled",
            None,
            id="a task that this version cannot read",
        ),
        pytest.param(
            {"executor": Unreadable("runtime: wanted", lasting=True)},
            "ERROR False/SpecInvalid stalled",
            None,
            id="an executor that this version cannot read",
        ),
    ],
)
def test_what_a_person_must_mend(
    overrides: dict[str, Any], expected: str, again: float | None
) -> None:
    plan = decide(unseen(**overrides))
    assert (said(plan), waits(plan), done(plan)) == (expected, again, "")


@pytest.mark.parametrize("name", ["task", "profile", "executor"])
def test_a_failed_look_up_concludes_nothing(name: str) -> None:
    plan = decide(unseen(**{name: Unreadable("the API server is away")}))
    assert (plan.status, plan.actions, waits(plan)) == (None, (), 5)


@pytest.mark.parametrize("name", ["task", "profile"])
def test_a_live_agent_is_not_touched_for_a_missing_reference(name: str) -> None:
    session = a_session(status=a_status(resume_token_ref=a_token_ref()))
    missing: dict[str, Any] = {name: Missing()}
    plan = decide(session_observed(session, **missing))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/AgentReady", "")


def test_a_session_that_is_being_deleted_is_left_alone() -> None:
    plan = decide(unseen(task=Missing()))
    assert plan.status is not None
    gone = a_session(deleting=True, status=a_status())
    plan = decide(session_observed(gone))
    assert (plan.status, plan.actions, plan.requeue) == (None, (), None)


# ---- choosing an executor ---------------------------------------------------------------


def test_the_named_executor_is_pointed_at_and_the_first_intent_is_written_with_it() -> None:
    plan = decide(unseen())
    status = written(plan)
    assert said(plan) == "STARTING False/WaitingForExecutor at work"
    assert status.executor_ref == ObjectRef(name="ex-a", uid=uid_of("ex-a"))
    assert (status.intent.kind, status.epoch, status.attempt) == ("Start", 1, 1)
    assert status.intent.operation_id == "uid-s-a-1"
    assert (done(plan), status.is_agent_running) == ("", False)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(a_status(executor_ref=None, intent=an_intent()), id="an intent is under way"),
        pytest.param(
            a_status(executor_ref=None, resume_token_ref=a_token_ref()), id="a token is kept"
        ),
    ],
)
def test_a_session_with_a_past_gets_no_start_by_the_way(status: TaskSessionStatus) -> None:
    plan = decide(session_observed(a_session(status=status), executor=UNBOUND))
    assert written(plan).intent == status.intent
    assert written(plan).epoch == 1


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        pytest.param(
            an_executor(status=an_executor_status(holds="s-b")),
            "CREATED False/ExecutorBusy at work",
            id="one that holds another session: it is pointed at all the same",
        ),
        pytest.param(
            an_executor(deleting=True, status=an_executor_status(holds=None)),
            "CREATED False/ExecutorStarting at work",
            id="one that is being deleted: the next of this name is waited for",
        ),
    ],
)
def test_an_executor_that_cannot_take_it_in_yet(executor: Any, expected: str) -> None:
    plan = decide(unseen(executor=Found(executor)))
    assert said(plan) == expected
    assert written(plan).intent is None


def test_a_busy_executor_is_queued_for_and_one_that_is_ending_is_not() -> None:
    busy = decide(unseen(executor=Found(an_executor(status=an_executor_status(holds="s-b")))))
    assert written(busy).executor_ref is not None
    assert truth(busy, "ExecutorReady") == "False/ExecutorBusy"
    ending = decide(unseen(executor=Found(an_executor(deleting=True))))
    assert written(ending).executor_ref is None


def test_an_executor_made_anew_under_its_name_is_pointed_at_by_its_new_uid() -> None:
    newer = an_executor(uid="uid-2", status=an_executor_status(holds=None))
    plan = decide(session_observed(executor=Found(newer)))
    assert written(plan).executor_ref.uid == "uid-2"


def test_an_executor_named_by_a_template_is_made() -> None:
    session = a_session(template=a_template())
    plan = decide(session_observed(session, executor=Missing()))
    assert (plan.status, done(plan)) == (None, "CreateExecutor")
    made = action(plan, "CreateExecutor").manifest
    assert made == desired_executor(session).manifest()
    assert made["metadata"]["name"] == executor_name(session)
    assert made["metadata"]["labels"] == {group.LABEL_SESSION_UID: session.metadata.uid}
    assert made["metadata"]["finalizers"] == [group.FINALIZER]
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (session.metadata.uid, True)


def test_an_executor_of_pods_has_no_finalizer() -> None:
    template = ExecutorTemplate(spec=ExecutorTemplateSpec(runtime=Runtime.POD, pod=PodRuntime()))
    assert desired_executor(a_session(template=template)).metadata.finalizers == ()


def test_two_sessions_of_one_name_make_executors_of_two_names() -> None:
    first, second = (a_session(template=a_template(), uid=uid) for uid in ("uid-1", "uid-2"))
    assert executor_name(first) != executor_name(second)


@pytest.mark.parametrize(
    ("fatal", "expected", "again"),
    [
        pytest.param(True, "ERROR False/InvalidTemplate stalled", 30, id="refused for good"),
        pytest.param(False, "ERROR False/InvalidTemplate at work", 30, id="refused for now"),
    ],
)
def test_an_executor_that_could_not_be_made(fatal: bool, expected: str, again: float) -> None:
    failed = Failed("CreateExecutor", "InvalidTemplate", "no such field", fatal)
    session = a_session(template=a_template())
    plan = decide(session_observed(session, executor=Missing(), failed=failed, report=None))
    assert (said(plan), waits(plan), done(plan)) == (expected, again, "")
    assert written(plan).error_message == "invalid_template: no such field"
