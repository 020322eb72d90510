"""The machine by example: the moves, the dropped late events, the words of each refusal."""

from dataclasses import replace
from typing import Any

import pytest

from kandev_operator.agentctl.machine import State, step
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.permissions import ALLOW, DENY, choice
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.status import (
    AgentStatus,
    Exit,
    FailureCode,
    OperationState,
)
from unit.agentctl.play import AT, FAILURE, HELLO, Play

# ---- prompts and turns -----------------------------------------------------------------


def test_a_prompt_is_stored_as_sending_before_it_is_sent() -> None:
    play = Play().open()
    play.prompt()
    stored = [s.prompt.fate for s in play.stores if isinstance(s, fx.StorePrompt)]
    assert stored == [PromptFate.QUEUED, PromptFate.SENDING]
    assert [type(a) for a in play.acts] == [fx.SendPrompt]
    assert all(s.durable for s in play.stores if isinstance(s, fx.StorePrompt))


@pytest.mark.parametrize(
    ("kind", "arrived"),
    [
        ("agent_message_chunk", True),
        ("agent_thought_chunk", True),
        ("tool_call", True),
        ("plan", True),
        ("user_message_chunk", True),
        ("available_commands_update", False),
        ("current_mode_update", False),
        ("usage_update", False),
    ],
)
def test_which_updates_show_that_a_prompt_arrived(kind: str, arrived: bool) -> None:
    play = Play().open()
    play.prompt()
    play.says("w", kind)
    expected = PromptFate.DELIVERED if arrived else PromptFate.SENDING
    assert play.fate() is expected


@pytest.mark.parametrize("arrived", [True, False])
def test_the_fate_of_a_prompt_when_the_agent_dies(arrived: bool) -> None:
    play = Play().open()
    play.prompt()
    play.prompt("p2")
    if arrived:
        play.says("Half an ")
    play.on(ev.Exited(AT, "x1", Exit(at=AT, signal="SIGKILL")))
    assert play.fate() is (PromptFate.DELIVERED if arrived else PromptFate.UNKNOWN)
    assert play.fate("p2") is PromptFate.QUEUED
    assert play.state.last_turn is not None
    assert play.state.last_turn.outcome == "interrupted"
    assert play.state.status is AgentStatus.EXITED


def test_B008_the_end_of_an_older_turn_or_process_is_dropped() -> None:
    play = Play().open()
    play.prompt()
    assert play.state.turn is not None
    old = play.state.turn.turn_id
    play.on(ev.CancelAsked(AT))
    play.on(ev.TimerFired(AT, ev.Timer.CANCEL_GRACE, old))
    assert play.state.last_turn is not None
    assert play.state.last_turn.outcome == "cancelled"
    play.prompt("p2")
    live = play.state
    play.on(ev.TurnAnswered(AT, "x1", old, "end_turn"))
    play.on(ev.TurnFailed(AT, "x1", old, FAILURE))
    play.on(ev.TurnAnswered(AT, "x0", live.turn.turn_id if live.turn else "", "end_turn"))
    assert play.state == live


def test_a_cancel_that_the_agent_honours_needs_no_timer() -> None:
    play = Play().open()
    play.prompt()
    assert play.state.turn is not None
    turn_id = play.state.turn.turn_id
    reply = play.on(ev.CancelAsked(AT))
    assert reply == fx.CancelReply(turn_id)
    assert play.acts == (fx.CancelTurn("x1", "t1"), fx.Arm(ev.Timer.CANCEL_GRACE, turn_id))
    play.on(ev.CancelAsked(AT))
    assert play.acts == (), "asked once"
    play.on(ev.TurnAnswered(AT, "x1", turn_id, "cancelled"))
    assert play.state.token is not None
    assert play.state.token.established is False, "a cancelled turn establishes nothing"
    idle = play.state
    play.on(ev.TimerFired(AT, ev.Timer.CANCEL_GRACE, turn_id))
    assert play.state == idle


def test_a_prompt_for_nobody_is_refused() -> None:
    assert Play(State()).prompt().code == "no_agent"
    assert Play().prompt().code == "agent_not_running"
    assert Play().configured().initialized().prompt().code == "agent_not_running"
    play = Play().configured()
    play.start()
    assert play.prompt().position == 0
    assert play.prompt("p2").position == 1


def test_the_queue_is_bounded_by_number_and_size() -> None:
    play = Play().configured()
    play.start()
    for n in range(3):
        play.on(ev.PromptAsked(AT, f"big{n}", HELLO, 10 * 1024 * 1024))
    refused = play.on(ev.PromptAsked(AT, "one more", HELLO, 10 * 1024 * 1024))
    assert refused.code == "too_large"
    for n in range(997):
        play.prompt(f"p{n}")
    assert play.prompt("p998").code == "too_large"
    assert len(play.state.queue) == 1000


# ---- starts and tokens -----------------------------------------------------------------


def test_B010_a_fresh_start_retires_the_token_with_the_operation() -> None:
    play = Play().open()
    play.prompt()
    play.start(operation="o2", epoch=2)
    assert play.state.token is None
    kinds = [type(s) for s in play.stores]
    assert kinds.index(fx.StoreOperation) < kinds.index(fx.StoreToken)
    assert fx.End in {type(a) for a in play.acts}
    play.on(ev.Opened(AT, "x1", "o1", "session/new", "t1"))
    assert play.state.token is None, "a late word of the old process brings nothing back"
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    assert play.acts[0] == fx.Launch("x-o2")
    play.on(ev.Opened(AT, "x1", "o2", "session/new", "t1"))
    assert play.state.token is None


def test_a_start_waits_until_the_old_process_is_gone() -> None:
    play = Play().open()
    play.start(operation="o2", epoch=1)
    assert play.state.status is AgentStatus.STOPPING
    assert not any(isinstance(a, fx.Launch) for a in play.acts)
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    assert play.state.status is AgentStatus.INITIALIZING
    assert play.state.execution_id == "x-o2"


@pytest.mark.parametrize("initialized", [False, True])
def test_a_start_has_one_limit_for_all_of_its_steps(initialized: bool) -> None:
    play = Play().configured()
    play.start()
    assert play.acts == (fx.Arm(ev.Timer.START, "o1", 9.0),)
    if initialized:
        play.initialized()
    play.on(ev.TimerFired(AT, ev.Timer.START, "o1"))
    failure = play.state.operations[-1].failure
    assert failure is not None
    assert failure.code == FailureCode.TIMED_OUT
    assert play.state.status is AgentStatus.STOPPING
    over = play.state
    play.on(ev.TimerFired(AT, ev.Timer.START, "o1"))
    assert play.state == over


def test_the_limit_of_a_start_that_succeeded_is_void() -> None:
    play = Play().open()
    play.on(ev.TimerFired(AT, ev.Timer.START, "o1"))
    assert play.state.status is AgentStatus.IDLE


def test_no_room_means_that_nothing_happened() -> None:
    play = Play().open()
    before = play.state
    step(before, ev.PromptAsked(AT, "p1", HELLO))
    assert play.state is before
    assert before.prompts == ()


@pytest.mark.parametrize(
    ("current", "wished", "told", "established", "replaced"),
    [
        ("t1", "t1", "t1", False, False),  # promised stays promised
        ("t1", "t1", "t9", False, True),  # B043
        (None, "t5", "t5", True, False),  # it came back from another life
        ("t1", "t5", "t5", True, False),
    ],
)
def test_what_a_resume_makes_of_the_token(
    current: str | None, wished: str, told: str, established: bool, replaced: bool
) -> None:
    play = Play().open()
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    if current is None:
        play.state = replace(play.state, token=None)
    play.start("resume", "o2", token=wished)
    play.initialized("x-o2")
    play.on(ev.Opened(AT, "x-o2", "o2", "session/load", told))
    token = play.state.token
    assert token is not None
    assert (token.value, token.established) == (told, established)
    assert play.state.operations[-1].token_replaced is replaced


def test_a_failed_resume_ends_the_process_and_keeps_the_token() -> None:
    play = Play().open()
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    token = play.state.token
    play.start("resume", "o2", token="t1")
    play.initialized("x-o2")
    play.on(ev.OpenFailed(AT, "x-o2", "o2", FAILURE))
    assert play.state.operations[-1].state is OperationState.FAILED
    assert play.state.status is AgentStatus.STOPPING
    play.on(ev.Exited(AT, "x-o2", Exit(at=AT, code=0)))
    assert play.state.status is AgentStatus.NONE
    assert play.state.token == token


def test_the_exit_of_a_starting_agent_is_the_outcome_of_its_start() -> None:
    play = Play().configured()
    play.start()
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=3, stderr_tail="no key\n")))
    failure = play.state.operations[-1].failure
    assert failure is not None
    assert failure.code == FailureCode.AGENT_EXITED
    assert failure.message == "the agent ended with code 3: no key"
    assert play.state.capabilities.failure == failure


def test_a_failed_probe_keeps_what_the_same_configuration_answered_before() -> None:
    play = Play().open()
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    play.start(operation="o2")
    play.on(ev.InitializeFailed(AT, "x-o2", FAILURE))
    assert play.state.capabilities.load_session is True
    assert play.state.capabilities.failure == FAILURE


def test_an_unused_probe_is_ended_and_a_used_one_is_not() -> None:
    play = Play().configured().initialized()
    assert play.acts == (fx.Arm(ev.Timer.PROBE_IDLE, "x1"),)
    idle = Play(play.state)
    idle.on(ev.TimerFired(AT, ev.Timer.PROBE_IDLE, "x1"))
    assert idle.state.status is AgentStatus.STOPPING
    play.start()
    play.on(ev.TimerFired(AT, ev.Timer.PROBE_IDLE, "x1"))
    assert play.state.status is AgentStatus.OPENING


def test_shutting_down_takes_no_new_work() -> None:
    play = Play().open()
    play.on(ev.ShutDown(AT, 1.0))
    assert play.acts == (fx.End("x1", 1.0),)
    assert play.start(operation="o2").code == "workspace_in_use"
    assert play.prompt().code == "agent_not_running"
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    assert play.state.status is AgentStatus.NONE
    stored = [s for s in play.stores if isinstance(s, fx.StoreExecution)]
    assert stored == [fx.StoreExecution("x1", "asked")]


@pytest.mark.parametrize(
    ("asked_before", "stop_reason", "outcome"),
    [
        (False, "cancelled", "interrupted"),
        (False, "end_turn", "completed"),
        (True, "cancelled", "cancelled"),
    ],
)
def test_b023_a_turn_that_ends_because_agentctl_does_was_cancelled_by_nobody(
    asked_before: bool, stop_reason: str, outcome: str
) -> None:
    play = Play().open()
    play.prompt()
    assert play.state.turn is not None
    turn_id = play.state.turn.turn_id
    if asked_before:
        play.on(ev.CancelAsked(AT))
    play.on(ev.ShutDown(AT, 1.0))
    play.on(ev.TurnAnswered(AT, "x1", turn_id, stop_reason))
    assert play.state.last_turn is not None
    assert play.state.last_turn.outcome == outcome


# ---- permissions -----------------------------------------------------------------------

OFFERED = (("a", "Always", "allow_always"), ("o", "Once", "allow_once"), ("n", "No", "reject_once"))
ODD = (("x", "Perhaps", "shrug"),)


@pytest.mark.parametrize(
    ("options", "kinds", "expected"),
    [(OFFERED, ALLOW, "o"), (OFFERED, DENY, "n"), (ODD, ALLOW, None), ((), DENY, None)],
)
def test_which_option_is_meant(options: Any, kinds: Any, expected: str | None) -> None:
    assert choice(options, kinds) == expected


@pytest.mark.parametrize(
    ("policy", "answer"),
    [(PermissionPolicy.ALLOW_ALL, "o"), (PermissionPolicy.DENY_ALL, "n")],
)
def test_policies_answer_at_once(policy: PermissionPolicy, answer: str) -> None:
    play = Play().open(policy=policy)
    play.prompt()
    play.on(ev.PermissionAsked(AT, "x1", "k", "Run", None, OFFERED))
    assert play.acts == (fx.AnswerPermission("x1", "k", answer),)
    assert play.state.permissions == ()


def test_too_many_open_requests_are_refused_and_stray_ones_cancelled() -> None:
    play = Play().open()
    play.on(ev.PermissionAsked(AT, "x1", "stray", "Run", None, OFFERED))
    assert play.acts == (fx.AnswerPermission("x1", "stray", None),)
    play.prompt()
    for n in range(40):
        play.on(ev.PermissionAsked(AT, "x1", f"k{n}", "Run", None, OFFERED))
    assert len(play.state.permissions) == 32
    assert play.acts == (fx.AnswerPermission("x1", "k39", "n"),)
