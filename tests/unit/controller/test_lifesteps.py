"""Which step of a session's life two statuses show, and which they do not."""

from typing import Any

from kandev_operator.api.executorstatus import ExecutorStatus
from kandev_operator.api.session import TaskSessionStatus
from kandev_operator.controller.lifesteps import Step, of_executor, of_session

ASKED = "2026-01-01T00:00:00Z"
THERE = "2026-01-01T00:00:07Z"


def condition(type_: str, truth: str, reason: str = "Any", since: str = THERE) -> dict[str, str]:
    return {"type": type_, "status": truth, "reason": reason, "lastTransitionTime": since}


def session(*conditions: dict[str, str], intent: str | None = None, **status: Any) -> Any:
    asked = {"intent": {"operationId": "o", "kind": intent, "at": ASKED}} if intent else {}
    return TaskSessionStatus.model_validate({**asked, **status, "conditions": list(conditions)})


def executor(*conditions: dict[str, str], **status: Any) -> ExecutorStatus:
    return ExecutorStatus.model_validate({**status, "conditions": list(conditions)})


def test_an_executor_that_answers_is_a_step_of_the_attempt() -> None:
    before = session(condition("ExecutorReady", "False"), intent="Start")
    after = session(condition("ExecutorReady", "True"), intent="Start")
    assert list(of_session(before, after)) == [Step("executor ready", ASKED)]


def test_an_executor_that_was_lost_and_is_back_counts_since_it_was_lost() -> None:
    before = session(condition("ExecutorReady", "False", since=THERE))
    after = session(condition("ExecutorReady", "True"))
    assert list(of_session(before, after)) == [Step("executor ready", THERE)]


def test_an_agent_that_comes_ends_its_own_step_and_the_whole() -> None:
    ready = condition("ExecutorReady", "True")
    before = session(ready, intent="Resume", state="STARTING")
    after = session(ready, isAgentRunning=True, state="WAITING_FOR_INPUT")
    assert list(of_session(before, after)) == [
        Step("agent ready", THERE),
        Step("resume", ASKED, is_whole=True),
    ]


def test_a_failure_has_its_reason() -> None:
    before = session(condition("ExecutorReady", "True"), intent="Resume", state="STARTING")
    after = session(
        condition("ExecutorReady", "True"),
        condition("Ready", "False", "SessionNotFound"),
        state="ERROR",
    )
    assert [(step.name, step.failure) for step in of_session(before, after)] == [
        ("agent ready", "SessionNotFound"),
        ("resume", "SessionNotFound"),
    ]


def test_an_executor_that_fails_ends_the_whole_alone() -> None:
    before = session(condition("ExecutorReady", "False"), intent="FreshStart", state="STARTING")
    failed = condition("Ready", "False", "OOMKilled")
    after = session(condition("ExecutorReady", "False"), failed, state="ERROR")
    assert list(of_session(before, after)) == [Step("fresh start", ASKED, "OOMKilled", True)]


def test_a_turn_is_a_step_and_says_when_it_was_cut_off() -> None:
    before = session(turn={"promptId": "p", "startedAt": ASKED}, isAgentRunning=True)
    ended = session(isAgentRunning=True)
    cut = session(interruptedTurn={"promptId": "p", "at": THERE})
    assert list(of_session(before, ended)) == [Step("turn", ASKED)]
    assert list(of_session(before, cut)) == [Step("turn", ASKED, "Interrupted")]
    assert list(of_session(before, before)) == []


def test_what_only_goes_on_is_no_step() -> None:
    idle = session(condition("ExecutorReady", "True"), isAgentRunning=True)
    assert list(of_session(idle, idle)) == []
    failed = session(condition("Ready", "False", "ResumeFailed"), state="ERROR")
    assert list(of_session(failed, failed)) == []


def test_a_pod_and_its_agentctl_are_steps_of_the_executor() -> None:
    bound = condition("Bound", "True", "Bound", ASKED)
    waiting = executor(bound, condition("AgentctlReady", "False"))
    pod = {"name": "p", "uid": "u"}
    made = executor(bound, condition("AgentctlReady", "False"), podRef=pod, startedAt=THERE)
    there = executor(bound, condition("AgentctlReady", "True"), podRef=pod, startedAt=THERE)
    assert list(of_executor(waiting, made)) == [Step("pod made", ASKED)]
    assert list(of_executor(made, there)) == [Step("agentctl ready", THERE)]
    assert list(of_executor(there, there)) == []
