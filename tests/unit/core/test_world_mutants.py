"""Each promise of the world is proven to be watched: a deliberate fault breaks it, and is caught.

A mutant changes one decision of `core`; the same machine that finds nothing wrong with the real
one must meet `Broken` with that promise's name. A promise that no mutant can break is not checked.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from invariants import Broken
from kandev_operator.api.conditions import FALSE
from kandev_operator.core import (
    agentrules,
    binding,
    executor,
    executorstatus,
    ladder,
    occupancy,
    resuming,
    session,
    sessionconditions,
    status,
)
from kandev_operator.core.actions import DeleteExecutor, SendFirstPrompt, StartProcess, StopProcess
from kandev_operator.core.observed import Found, Missing
from kandev_operator.core.verdict import Plan
from unit.core.test_world_machine import WorldMachine, play

pytestmark = [pytest.mark.unit, pytest.mark.timeout(300)]

HUNT = play(200, 30)
Patch = pytest.MonkeyPatch


def without(patch: Patch, *rules: Callable[..., Any]) -> None:
    """The sessions' rules without these."""
    kept = tuple(each for each in session.SESSION_RULES if each not in rules)
    patch.setattr(session, "SESSION_RULES", kept)


def binding_is_not_waited_for(patch: Patch) -> None:
    patch.setattr(binding, "is_bound", lambda o: binding.executor_of(o) is not None)
    without(patch, agentrules.workspace_taken)  # the second net


def a_second_process_is_started_beside_a_live_agent(patch: Patch) -> None:
    real = executor._asked

    def asked(o: Any, now: Any) -> Any:
        life, report = real(o, now), o.probe.report
        if isinstance(o.process, Missing) or report is None or not report.is_live:
            return life
        second = StartProcess(f"{o.process.value.instance_id}0")
        return dataclasses.replace(life, actions=(second,))

    patch.setattr(executor, "_asked", asked)


def an_operation_gets_another_name_each_time(patch: Patch) -> None:
    real = resuming._start
    patch.setattr(
        resuming, "_start", lambda o, name, token: real(o, f"{name}-{o.probe.last_seen}", token)
    )


def a_live_agent_is_resumed(patch: Patch) -> None:
    without(patch, agentrules.attached)


def history_is_overlooked(patch: Patch) -> None:
    patch.setattr(ladder, "had_turn", lambda o: False)
    patch.setattr(ladder, "has_conversation", lambda o: False)


def the_first_prompt_is_another_one_in_each_epoch(patch: Patch) -> None:
    def first_prompt(o: Any) -> SendFirstPrompt | None:
        prompt, epoch = o.session.spec.prompt, o.session.status.epoch or 0
        name = f"first-{epoch}" if epoch > 1 else "first"
        if prompt is None or o.report.fate(name) is not None:
            return None
        return SendFirstPrompt(name, "begin")

    patch.setattr(agentrules, "_first_prompt", first_prompt)


def the_first_prompt_is_forgotten(patch: Patch) -> None:
    patch.setattr(agentrules, "_first_prompt", lambda o: None)


def a_failed_look_up_is_taken_for_gone(patch: Patch) -> None:
    real = executor._ending

    def ending(o: Any, now: Any) -> Any:
        deleting = o.executor.metadata.is_deleting
        if not deleting and occupancy.is_made(o.executor) and not isinstance(o.owner, Found):
            return Plan(actions=(DeleteExecutor(),))
        return real(o, now)

    patch.setattr(executor, "_ending", ending)


def a_failed_session_loses_its_agentctl(patch: Patch) -> None:
    real = executor._asked

    def asked(o: Any, now: Any) -> Any:
        life, session = real(o, now), o.bound.value if isinstance(o.bound, Found) else None
        if session is None or session.status.state != "ERROR" or isinstance(o.process, Missing):
            return life
        return dataclasses.replace(life, actions=(StopProcess(),))

    patch.setattr(executor, "_asked", asked)


def everybody_is_let_go(patch: Patch) -> None:
    patch.setattr(occupancy, "_points_elsewhere", lambda o, session: True)


def every_status_is_news(patch: Patch) -> None:
    patch.setattr(status, "differs", lambda old, new: True)
    patch.setattr(executorstatus, "differs", lambda old, new: True)


def a_dead_agent_is_called_alive(patch: Patch) -> None:
    real = resuming._left_alone

    def left_alone(o: Any, **changes: None) -> Any:
        return dataclasses.replace(real(o, **changes), agent_running=True)

    patch.setattr(resuming, "_left_alone", left_alone)


def the_token_is_told(patch: Patch) -> None:
    real = ladder.resumability

    def resumability(o: Any, *, not_found: bool) -> Any:
        token, answer = ladder.known_token(o), real(o, not_found=not_found)
        said = answer.message + (token.value if token else "")
        return dataclasses.replace(answer, message=said)

    patch.setattr(ladder, "resumability", resumability)


def a_reason_is_made_up(patch: Patch) -> None:
    patch.setattr(sessionconditions, "_suspended", lambda verdict: (FALSE, "Whatever", ""))


def errors_are_kept_quiet(patch: Patch) -> None:
    patch.setattr(status, "_error_message", lambda verdict, state: None)


def unknown_is_taken_for_dead(patch: Patch) -> None:
    patch.setattr(status, "_needs_resume", lambda *_: True)


MUTANTS = {
    binding_is_not_waited_for: "one_executor_per_session",
    a_second_process_is_started_beside_a_live_agent: "one_agent_per_session",
    an_operation_gets_another_name_each_time: "one_opening_per_intent",
    a_live_agent_is_resumed: "one_agent_per_session|eventual_truth|no_flapping",
    history_is_overlooked: "token_is_never_replaced",
    the_first_prompt_is_another_one_in_each_epoch: "no_prompt_twice",
    the_first_prompt_is_forgotten: "no_prompt_lost",
    a_failed_look_up_is_taken_for_gone: "unknown_deletes_nothing",
    a_failed_session_loses_its_agentctl: "workspace_is_never_lost",
    everybody_is_let_go: "others_never_change",
    every_status_is_news: "no_flapping",
    a_dead_agent_is_called_alive: "eventual_truth",
    the_token_is_told: "secrets",
    a_reason_is_made_up: "conditions",
    errors_are_kept_quiet: "errors",
    unknown_is_taken_for_dead: "unknown",
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_the_world_notices(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken) as caught:
        run_state_machine_as_test(WorldMachine, settings=HUNT)
    assert caught.value.name in MUTANTS[mutate].split("|"), str(caught.value)
