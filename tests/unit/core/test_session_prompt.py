"""The first prompt: sent once, by its id, to an agent that lives (`core.agentrules`)."""

from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.api.session import FirstPromptStatus, PromptSpec
from kandev_operator.core.actions import SendFirstPrompt
from kandev_operator.core.observed import Found, Missing, Unreadable
from unit.core.scenes import answer, names, plan_of, the, told

pytestmark = pytest.mark.unit

LIVE = ["idle", "running"]


def with_prompt(report: Any, known: FirstPromptStatus | None = None, **observed: Any) -> Any:
    session = b.a_session(prompt="go on", status=b.a_status(first_prompt=known))
    return plan_of(session, report=report, **{"first_prompt": Found("go on"), **observed})


@pytest.mark.parametrize("phase", LIVE)
def test_the_first_prompt_is_sent_to_a_live_agent(phase: str) -> None:
    plan = with_prompt(b.a_report(phase))
    assert the(plan, SendFirstPrompt) == SendFirstPrompt("first", "go on")
    assert plan.requeue == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("prompts", "known"),
    [
        ((("first", "queued"),), None),
        ((("first", "sending"),), None),
        ((("first", "delivered"),), None),
        ((("first", "unknown"),), None),
        ((), FirstPromptStatus(id="first", fate="accepted")),
        ((), FirstPromptStatus(id="first", fate="unknown")),
    ],
    ids=["queued", "being sent", "delivered", "unknown", "known to status", "lost once"],
)
def test_B050_the_first_prompt_is_never_sent_again(
    prompts: tuple[tuple[str, str], ...], known: FirstPromptStatus | None
) -> None:
    assert names(with_prompt(b.a_report(prompts=prompts), known)) == []


@pytest.mark.parametrize(
    ("fate", "said"),
    [("queued", "accepted"), ("sending", "accepted"), ("delivered", "delivered")],
)
def test_the_fate_of_the_first_prompt_is_told(fate: str, said: str) -> None:
    plan = with_prompt(b.a_report(prompts=(("first", fate),)))
    assert plan.status is not None
    assert plan.status.first_prompt == FirstPromptStatus(id="first", fate=said)


def test_a_first_prompt_whose_source_is_missing_is_said_and_waited_for() -> None:
    plan = with_prompt(b.a_report(), first_prompt=Missing())
    assert told(plan) == ("WAITING_FOR_INPUT", "PromptMissing")
    assert answer(plan, "Stalled") == ("True", "PromptMissing")
    assert answer(plan, "AgentReady") == ("True", "AgentReady")
    assert plan.requeue == timedelta(seconds=5)


def test_a_first_prompt_that_cannot_be_read_just_now_is_looked_at_again_soon() -> None:
    plan = with_prompt(b.a_report(), first_prompt=Unreadable("timeout"))
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentReady")
    assert (names(plan), plan.requeue) == ([], timedelta(seconds=30))


def test_another_prompt_id_is_another_prompt() -> None:
    known = FirstPromptStatus(id="first", fate="delivered")
    session = b.a_session(
        prompt=PromptSpec(text="again", id="second"), status=b.a_status(first_prompt=known)
    )
    plan = plan_of(session, first_prompt=Found("again"))
    assert the(plan, SendFirstPrompt).prompt_id == "second"


@pytest.mark.parametrize("phase", ["none", "initialized", "opening", "exited"])
def test_no_prompt_goes_to_an_agent_that_is_not_there(phase: str) -> None:
    assert "SendFirstPrompt" not in names(with_prompt(b.a_report(phase)))
