"""Random histories of an agent elsewhere, and proof that the world notices what would be wrong."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kandev_operator.agentctl.machine import reopen, turns
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.status import AgentStatus
from unit.agentctl import farworld
from unit.agentctl.farworld import FarWorld
from unit.agentctl.test_machine_model import CALM

step_room = import_module("kandev_operator.agentctl.machine.step")  # the name is a function, too
HUNT = settings(CALM, max_examples=200, report_multiple_bugs=False, phases=[Phase.generate])


@pytest.mark.timeout(120)
def test_every_history_of_a_far_process_keeps_the_rules_of_the_house() -> None:
    run_state_machine_as_test(FarWorld, settings=CALM)


def the_turn_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = reopen.rejoin

    def rejoin(kept: Any, *rest: Any, **more: Any) -> Any:
        return real(replace(kept, turn=None), *rest, **more)

    patch.setattr(farworld, "rejoin", rejoin)


def what_was_being_sent_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    real = reopen.rejoin

    def rejoin(kept: Any, *rest: Any, **more: Any) -> Any:
        outcome = real(kept, *rest, **more)
        again = tuple(
            replace(p, fate=PromptFate.QUEUED) if p.fate is PromptFate.SENDING else p
            for p in outcome.state.prompts
        )
        status = AgentStatus.IDLE
        return replace(outcome, state=replace(outcome.state, prompts=again, status=status))

    patch.setattr(farworld, "rejoin", rejoin)


def a_start_under_way_is_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reopen, "_goes_on", lambda kept, living: kept.token is not None)


def silence_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    real = turns.pump

    def pump(draft: Any) -> None:
        draft.set(silent=False)
        real(draft)

    patch.setattr(turns, "pump", pump)


def turns_are_counted_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reopen, "_number_of", lambda turn, execution_id: 0)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    the_turn_is_forgotten,
    what_was_being_sent_is_sent_again,
    a_start_under_way_is_taken_for_done,
    silence_is_not_heard,
    turns_are_counted_anew,
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda m: m.__name__)
def test_the_far_world_notices(mutate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FarWorld, settings=HUNT)
