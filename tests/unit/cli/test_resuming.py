"""`kubectl kandev resume` and `fresh-start`: the wish, and every outcome."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kandev_operator.cli import leader
from kandev_operator.cli.commands import Command, FreshStart, Resume
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, OutOfTime, Refusal
from unit.cli.bodies import NAME, Json, condition, lease, session_body
from unit.cli.stage import Stage

RESUME = "kandev.dev/resume-requested"
FRESH = "kandev.dev/fresh-start-requested"
GONE: Json = {"isAgentRunning": False, "needsResume": True, "resumeReason": "agent_not_running"}


def gone(stage: Stage, **more: Any) -> None:
    rows = [condition("Ready", "False", "AgentNotRunning", "The agent is not running.")]
    stage.api.put("tasksessions", session_body(rows, **{**GONE, **more}))


def then(stage: Stage, *statuses: Json) -> None:
    """What the operator writes after the wish: each status is seen for two looks."""
    left = [status for status in statuses for _ in range(2)]

    def look(found: Json) -> None:
        status = left.pop(0) if len(left) > 1 else left[0]
        wishes = found["metadata"].get("annotations", {})
        if status.pop("handled", True):
            found["status"]["lastHandledResumeRequest"] = wishes.get(RESUME)
            found["status"]["lastHandledFreshStartRequest"] = wishes.get(FRESH)
            status["handled"] = True
        else:
            status["handled"] = False
        found["status"] |= {key: value for key, value in status.items() if key != "handled"}

    real = stage.desk.cluster.session

    async def session(name: str) -> Any:
        if stage.api.patches:
            look(stage.api.session)
        return await real(name)

    stage.desk.cluster.session = session  # type: ignore[method-assign]


STARTING: Json = {
    "state": "STARTING",
    "conditions": [
        condition("Ready", "False", "Resuming", "The conversation is being resumed."),
        condition("Reconciling", "True", "Resuming"),
    ],
}
RUNS: Json = {
    "state": "WAITING_FOR_INPUT",
    "isAgentRunning": True,
    "conditions": [condition("Ready", "True", "AgentReady", "The agent is idle.")],
}
RETRYING: Json = {
    "state": "ERROR",
    "isAgentRunning": False,
    "errorMessage": "resume_failed: no credit",
    "nextAttemptAt": "2999-01-01T00:00:00Z",
    "conditions": [
        condition("Ready", "False", "ResumeFailed", "no credit"),
        condition("Reconciling", "True", "Retrying"),
    ],
}


def stalled(reason: str) -> Json:
    return {
        "state": "ERROR",
        "isAgentRunning": False,
        "errorMessage": f"word: {reason} it is",
        "conditions": [condition("Ready", "False", reason), condition("Stalled", "True", reason)],
    }


async def test_a_resume_that_succeeds(stage: Stage) -> None:
    gone(stage)
    then(stage, {"handled": False}, STARTING, RUNS)
    assert await stage.play(Resume(NAME)) == ExitCode.OK
    assert "The agent runs. The agent is idle." in stage.said
    assert "The conversation is being resumed." in stage.noted
    [patch] = stage.api.patches
    assert patch["metadata"]["uid"] == "session-uid"
    assert set(patch["metadata"]["annotations"]) == {RESUME}


async def test_the_value_is_a_new_one_each_time(stage: Stage) -> None:
    gone(stage)
    for _ in range(2):
        await stage.play(Resume(NAME, wait=False))
    values = [patch["metadata"]["annotations"][RESUME] for patch in stage.api.patches]
    assert len(set(values)) == 2
    assert "Asked for a resume" in stage.said


async def test_an_agent_that_runs_is_left_alone(stage: Stage) -> None:
    assert await stage.play(Resume(NAME)) == ExitCode.OK
    assert stage.api.patches == []


async def test_what_was_true_before_the_echo_is_no_answer(stage: Stage) -> None:
    gone(stage)
    then(stage, stalled("MaxAttempts") | {"handled": False}, STARTING, RUNS)
    assert await stage.play(Resume(NAME)) == ExitCode.OK


async def test_attempts_that_fail_are_told_and_the_next_is_awaited(stage: Stage) -> None:
    gone(stage)
    then(stage, RETRYING, STARTING, RUNS)
    assert await stage.play(Resume(NAME)) == ExitCode.OK
    assert "resume_failed: no credit It is tried again in" in stage.noted


FAILURES = [
    ("MaxAttempts", ExitCode.FAILED),
    ("AuthenticationRequired", ExitCode.FAILED),
    ("NotResumable", ExitCode.REFUSED),
    ("MissingResumeToken", ExitCode.REFUSED),
    ("SessionNotFound", ExitCode.REFUSED),
]


@pytest.mark.parametrize(("reason", "code"), FAILURES)
async def test_a_resume_that_fails(stage: Stage, reason: str, code: ExitCode) -> None:
    gone(stage)
    then(stage, STARTING, stalled(reason))
    fault = await stage.refused(Resume(NAME))
    assert fault.code == code
    assert f"{reason} it is" in fault.message
    assert fault.hints


async def test_history_lost_and_turns_cut_off_are_said(stage: Stage) -> None:
    gone(stage)
    lost = condition("Resumable", "True", "HistoryLost", "the earlier history is lost")
    rows = [*RUNS["conditions"], lost]
    then(stage, RUNS | {"conditions": rows, "interruptedTurn": {"promptId": "p"}})
    await stage.play(Resume(NAME))
    assert "the earlier history is lost" in stage.noted
    assert "is not repeated" in stage.noted


async def test_no_operator_hears_it(stage: Stage) -> None:
    gone(stage)
    fault = await stage.refused(Resume(NAME, timeout=0.1))
    assert isinstance(fault, OutOfTime)
    assert "no operator has dealt with the wish" in fault.message
    assert any("kubectl get lease" in hint for hint in fault.hints)


async def test_an_agent_that_nobody_watches_is_not_said_to_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_SLACK_SECONDS", 0.0)
    stage.api.put("leases", lease(timedelta(minutes=12)), "kandev-system")
    fault = await stage.refused(Resume(NAME))
    assert isinstance(fault, Refusal)
    assert "No operator runs" in fault.message


async def test_no_operator_runs_that_could_hear_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_SLACK_SECONDS", 0.0)
    stage.api.put("leases", lease(timedelta(minutes=12)), "kandev-system")
    stage.desk = replace(stage.desk, heard=0.0)
    gone(stage)
    fault = await stage.refused(Resume(NAME, timeout=3))
    assert isinstance(fault, OutOfTime)
    assert "No operator runs" in stage.noted
    assert any("No operator runs" in hint for hint in fault.hints)


async def test_the_time_is_over_in_the_middle(stage: Stage) -> None:
    gone(stage)
    then(stage, STARTING)
    fault = await stage.refused(Resume(NAME, timeout=0.2))
    assert isinstance(fault, OutOfTime)
    assert "still at it" in fault.message


async def test_a_cluster_that_is_away_for_a_moment(stage: Stage) -> None:
    gone(stage)
    stage.api.on_patch = lambda _found: setattr(stage.api, "broken", True)
    fault = await stage.refused(Resume(NAME, timeout=0.2))
    assert isinstance(fault, OutOfTime)
    assert "gives no answer" in stage.noted


async def test_another_session_of_the_same_name(stage: Stage) -> None:
    gone(stage)
    stage.api.on_patch = lambda _found: stage.api.put(
        "tasksessions", session_body() | {"metadata": {"name": NAME, "uid": "another"}}
    )
    assert "made again" in (await stage.refused(Resume(NAME))).message


CANNOT = [
    (session_body(spec={"operatingMode": "Suspended"}), "operatingMode"),
    (session_body([condition("Finished", "True", "Completed")]), "for good"),
    (session_body([]), "recorded, not done"),
]


@pytest.mark.parametrize(("body", "words"), CANNOT, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("command", [Resume(NAME), FreshStart(NAME, yes=True)], ids=repr)
async def test_what_would_be_ignored_is_refused(
    stage: Stage, body: Json, words: str, command: Command
) -> None:
    stage.api.put("tasksessions", body)
    fault = await stage.refused(command)
    assert isinstance(fault, Refusal)
    assert words in fault.message
    assert stage.api.patches == []


async def test_a_fresh_start_wants_to_be_meant(stage: Stage) -> None:
    fault = await stage.refused(FreshStart(NAME))
    assert isinstance(fault, Misuse)
    assert fault.hints == (f"kubectl kandev fresh-start {NAME} --yes -n team-a",)
    assert stage.api.patches == []


async def test_a_fresh_start(stage: Stage) -> None:
    then(stage, STARTING, RUNS)
    assert await stage.play(FreshStart(NAME, yes=True)) == ExitCode.OK
    assert set(stage.api.patches[0]["metadata"]["annotations"]) == {FRESH}


@pytest.mark.parametrize(("answer", "done"), [(NAME, True), ("yes", False), (None, False)])
async def test_a_fresh_start_asks(stage: Stage, answer: str | None, done: bool) -> None:
    stage.api.session["status"]["turn"] = {"promptId": "p"}
    then(stage, RUNS)

    stage.attend(answer)
    if done:
        assert await stage.play(FreshStart(NAME)) == ExitCode.OK
    else:
        assert type(await stage.refused(FreshStart(NAME))) is Fault
    assert bool(stage.api.patches) is done
    assert "lost: the agent's memory" in stage.noted
    assert "lost: the turn that is under way" in stage.noted
    assert "kept: the workspace" in stage.noted
