"""A session's status in words: a table over many statuses, and laws that hold for all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.reasons import RESUME_REASON, SESSION_CONDITIONS
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.api.troubles import Trouble
from kandev_operator.cli.explain import explain, meaning
from unit.cli.bodies import (
    NOON,
    Json,
    a_session,
    an_executor,
    condition,
    executor_body,
    session_body,
)
from unit.cli.statuses import CASES, Case, at, text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_person_is_told(case: Case) -> None:
    told = case.told()
    for words in case.says:
        assert words in told, told
    for words in case.silent:
        assert words not in told, told


def test_nobody_has_looked_yet() -> None:
    body = session_body([], None) | {"status": {"observedGeneration": -1}}
    body["metadata"]["creationTimestamp"] = at(minutes=5)
    told = text(explain(TaskSession.from_body(body), None, None, None, NOON))
    assert "has not been looked at by any operator yet. It was made 5 minutes ago." in told
    assert "no operator runs that serves this namespace" in told
    assert "kubectl get lease kandev-operator -n kandev-system" in told


def test_being_deleted() -> None:
    body = session_body()
    body["metadata"]["deletionTimestamp"] = at(seconds=1)
    told = text(explain(TaskSession.from_body(body), None, None, None, NOON))
    assert "is being deleted" in told
    assert "kandev prompt" not in told


def test_a_status_of_an_earlier_spec_and_wishes_that_wait() -> None:
    body = session_body()
    body["metadata"] |= {
        "generation": 4,
        "annotations": {
            "kandev.dev/resume-requested": "new",
            "kandev.dev/fresh-start-requested": "new",
            "kandev.dev/confirmed-dead": "pod",
        },
    }
    told = text(explain(TaskSession.from_body(body), None, None, None, NOON))
    assert "newest spec yet (generation 4, the status is about 1)" in told
    assert "A resume was asked for, and it has not dealt with that yet." in told
    assert "A fresh start was asked for" in told
    assert "A pod was confirmed dead" in told
    body["status"] |= {
        "lastHandledResumeRequest": "new",
        "lastHandledFreshStartRequest": "new",
        "lastHandledConfirmedDead": "pod",
    }
    told = text(explain(TaskSession.from_body(body), None, None, None, NOON))
    assert "has not dealt" not in told


def test_git_owns_it() -> None:
    body = session_body([condition("Finished", "True", "Completed", "", at(minutes=1))])
    body["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "x"}
    body["spec"]["lifecycle"] = {"ttlSecondsAfterFinished": 60}
    assert "ignored for objects of Git" in text(
        explain(TaskSession.from_body(body), None, None, None, NOON)
    )
    body["status"]["conditions"] = [condition("Ready", "False", "SpecInvalid")]
    assert "Git owns this session" in text(
        explain(TaskSession.from_body(body), None, None, None, NOON)
    )


def test_a_closed_task_and_a_profile_that_forbids() -> None:
    task = Task.from_body(
        {"metadata": {"name": "work"}, "spec": {"title": "t", "closed": "Completed"}}
    )
    profile = AgentProfile.from_body(
        {
            "metadata": {"name": "claude"},
            "spec": {"command": ["claude"], "supportsSessionResume": False},
        }
    )
    told = text(explain(a_session(), an_executor(), task, profile, NOON))
    assert "finishes the session, because its task is closed" in told
    assert "AgentProfile claude forbids resuming." in told


def test_a_trouble_is_told_in_the_words_of_its_alert() -> None:
    body = session_body(
        [condition("Ready", "False", "AgentNotRunning", "", at(minutes=2))],
        isAgentRunning=False,
        needsResume=True,
    )
    told = text(explain(TaskSession.from_body(body), None, None, None, NOON))
    words = f"{Trouble.NEEDS_RESUME.doc} See {Trouble.NEEDS_RESUME.runbook}."
    assert f"trouble: {words}" in told
    assert "trouble:" not in text(explain(a_session(), an_executor(), None, None, NOON))


def test_meanings_prefer_the_condition_that_gives_them() -> None:
    assert meaning("Ready", "Stopping") != meaning("Ready", "AgentReady")
    assert meaning("ExecutorReady", "StartTimedOut") == "It did not answer within the start time."
    assert meaning("AgentReady", "StartTimedOut").startswith("Starting stood still")


moments = st.sampled_from([at(days=1), at(seconds=1), at(seconds=-30), None, "not a moment"])
some_conditions = st.dictionaries(
    st.sampled_from([*SESSION_CONDITIONS, "Later"]),
    st.tuples(
        st.sampled_from(["True", "False", "Unknown"]),
        st.sampled_from([*RESUME_REASON, "Later"]),
        moments,
    ),
)
maybe = st.sampled_from([True, False, None])
statuses = st.fixed_dictionaries(
    {},
    optional={
        "isAgentRunning": maybe,
        "isResumable": maybe,
        "needsResume": maybe,
        "state": st.sampled_from(["ERROR", "RUNNING", "LATER"]),
        "nextAttemptAt": moments,
        "startedAt": moments,
        "attempt": st.integers(0, 5),
        "turn": st.fixed_dictionaries({"startedAt": moments}),
        "interruptedTurn": st.fixed_dictionaries({"at": moments}),
        "intent": st.fixed_dictionaries(
            {"operationId": st.just("o"), "kind": st.just("Later"), "at": st.just(at(hours=1))}
        ),
        "executorRef": st.none(),
    },
)
specs = st.fixed_dictionaries(
    {
        "operatingMode": st.sampled_from(["Running", "WorkspaceOnly", "Suspended", "Finished"]),
        "resume": st.fixed_dictionaries(
            {"policy": st.sampled_from(["Auto", "OnRequest", "Never"])}
        ),
        "lifecycle": st.sampled_from([{}, {"idleTimeoutSeconds": 60, "maxDurationSeconds": 60}]),
    }
)


@given(some_conditions, statuses, specs, st.booleans(), st.booleans())
def test_whatever_the_status_every_question_is_answered(
    rows: dict[str, tuple[str, str, Any]],
    status: Json,
    spec: Json,
    with_executor: bool,
    deleting: bool,
) -> None:
    conditions = [
        condition(type_, truth, reason, "said", since)
        for type_, (truth, reason, since) in rows.items()
    ]
    body = session_body(conditions, spec, **status)
    if deleting:
        body["metadata"]["deletionTimestamp"] = at(seconds=1)
    executor = Executor.from_body(executor_body("http://x")) if with_executor else None
    told = explain(TaskSession.from_body(body), executor, None, None, NOON)
    assert told.headline.endswith(".")
    assert told.outlook
    assert told.steps
    assert all(step.command is None or "{ns}" not in step.command for step in told.steps)
    reasons = [cause.reason for cause in told.causes]
    assert len(reasons) == len(set(reasons))
    assert told == explain(TaskSession.from_body(body), executor, None, None, NOON)
