"""Random histories of the world against the machine, and proof that each check can fail.

A check that no bug can break is worth nothing: every mutant below is a bug that somebody could
write, and the world must notice it.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kandev_operator.agentctl.machine import (
    draft,
    lifecycle,
    operations,
    permissions,
    reopen,
    tables,
    tokens,
    turns,
    updates,
)
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import (
    settings as settings_room,
)
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.status import AgentStatus
from unit.agentctl import house as house_room
from unit.agentctl.world import World

step_room = import_module("kandev_operator.agentctl.machine.step")  # the name is a function, too

CALM = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
HUNT = settings(CALM, max_examples=300, report_multiple_bugs=False, phases=[Phase.generate])


@pytest.mark.timeout(300)
def test_every_history_keeps_the_rules_of_the_house() -> None:
    World.seen = set()
    run_state_machine_as_test(World, settings=CALM)
    acts = {"Launch", "Open", "SendPrompt", "CancelTurn", "AnswerPermission", "End", "Arm"}
    acts |= {"Choose"}
    stores = {"StoreFence", "StoreOperation", "StorePrompt", "StoreToken", "StoreExecution"}
    stores |= {"StoreTurn", "StoreCapabilities", "Append"}
    assert World.seen == acts | stores, "every effect was seen"


Mutate = Callable[[pytest.MonkeyPatch], None]


def anything_goes(before: Any, after: Any) -> None:
    """The table of fates would stop such a bug at once; the world must notice it as well."""


def sent_but_stored_as_queued(patch: pytest.MonkeyPatch) -> None:
    real = draft.Draft.put_prompt

    def put(self: Any, prompt: Any) -> None:
        if prompt.fate is PromptFate.SENDING:
            prompt = replace(prompt, fate=PromptFate.QUEUED)
        real(self, prompt)

    patch.setattr(draft.Draft, "put_prompt", put)
    patch.setattr(tables, "check_fate", anything_goes)


def unknown_prompts_are_sent_again(patch: pytest.MonkeyPatch) -> None:
    real = reopen.Draft.put_prompt

    def put(self: Any, prompt: Any) -> None:
        if prompt.fate is PromptFate.UNKNOWN:
            prompt = replace(prompt, fate=PromptFate.QUEUED)
        real(self, prompt)

    patch.setattr(reopen.Draft, "put_prompt", put)
    patch.setattr(tables, "check_fate", anything_goes)


def the_newest_prompt_goes_first(patch: pytest.MonkeyPatch) -> None:
    queue = property(
        lambda self: tuple(p for p in reversed(self.prompts) if p.fate is PromptFate.QUEUED)
    )
    patch.setattr(house_room.State, "queue", queue)


def a_launch_empties_the_queue(patch: pytest.MonkeyPatch) -> None:
    real = operations.launch

    def launch(d: Any, execution_id: str) -> None:
        d.set(prompts=tuple(p for p in d.state.prompts if p.fate is not PromptFate.QUEUED))
        real(d, execution_id)

    patch.setattr(operations, "launch", launch)


def any_answer_ends_the_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "_is_live", lambda state, x, t: state.turn is not None)


def older_processes_are_listened_to(patch: pytest.MonkeyPatch) -> None:
    real = step_room.step

    def step(state: Any, event: Any) -> Any:
        if hasattr(event, "execution_id") and not hasattr(event, "profile_hash"):
            operation = getattr(event, "mode", None)
            if operation is None and state.execution_id is not None:
                event = replace(event, execution_id=state.execution_id)
        return real(state, event)

    patch.setattr(house_room, "step", step)


def a_start_does_not_wait_for_the_old_process(patch: pytest.MonkeyPatch) -> None:
    real = operations._pursue

    def pursue(d: Any) -> None:
        if d.state.status is AgentStatus.STOPPING:
            d.set(status=AgentStatus.NONE)
        real(d)

    patch.setattr(operations, "_pursue", pursue)


def a_second_start_goes_ahead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operations, "_refusal", lambda state, event: None)


def a_failed_start_forgets_the_token(patch: pytest.MonkeyPatch) -> None:
    real = operations.fail

    def fail(d: Any, failure: Any) -> None:
        if d.state.wish is not None:
            tokens.retire(d, d.state.wish.epoch)
        real(d, failure)

    patch.setattr(operations, "fail", fail)


def a_fresh_start_keeps_the_token(patch: pytest.MonkeyPatch) -> None:
    real = tokens.adopt

    def adopt(d: Any, value: str, *, established: bool, epoch: int) -> None:
        real(d, value, established=established, epoch=epoch - 1)

    patch.setattr(tokens, "adopt", adopt)


def a_new_token_counts_as_established(patch: pytest.MonkeyPatch) -> None:
    real = tokens.adopt

    def adopt(d: Any, value: str, *, established: bool, epoch: int) -> None:
        real(d, value, established=True, epoch=epoch)

    patch.setattr(tokens, "adopt", adopt)


def the_wished_token_is_taken_for_the_answer(patch: pytest.MonkeyPatch) -> None:
    real = operations.start

    def start(d: Any, event: Any) -> Any:
        reply = real(d, event)
        if event.token and isinstance(reply, fx.OperationReply):
            tokens.adopt(d, event.token, established=False, epoch=event.epoch)
        return reply

    patch.setattr(operations, "start", start)


def a_token_is_changed_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    real = tokens._put

    def put(d: Any, token: Any, epoch: int) -> None:
        before = len(d.stores)
        real(d, token, epoch)
        del d.stores[before:]

    patch.setattr(tokens, "_put", put)


def replayed_words_are_shown(patch: pytest.MonkeyPatch) -> None:
    real = updates.came

    def came(d: Any, event: Any) -> None:
        if d.state.status is AgentStatus.OPENING:
            updates.messages.chunk(d, "text", event.update)
            updates.messages.flush(d)
            return
        real(d, event)

    patch.setattr(updates, "came", came)


def permissions_outlive_their_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permissions, "close_all", lambda d, why: None)


def a_permission_is_closed_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permissions, "_answer", lambda d, permission, option_id, by: None)


def an_older_epoch_is_let_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step_room, "fence", lambda d, event: fx.Done())


def a_start_is_forgotten_when_its_process_dies(patch: pytest.MonkeyPatch) -> None:
    real = lifecycle.exited

    def exited(d: Any, event: Any) -> None:
        patch_fail = operations.fail
        try:
            operations.fail = lambda d, failure: d.set(wish=None)
            real(d, event)
        finally:
            operations.fail = patch_fail

    patch.setattr(lifecycle, "exited", exited)


def stops_are_never_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operations, "stops_done", lambda d: None)


def the_queue_stands_still(patch: pytest.MonkeyPatch) -> None:
    def go_on(d: Any) -> None:
        if d.state.status is AgentStatus.RUNNING:
            d.move(turns.Cause.TURN_OVER)

    patch.setattr(turns, "_go_on", go_on)


def a_choice_is_forgotten_when_its_process_dies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings_room, "give_up", lambda d, failure: d.set(setting=None))


def a_second_choice_goes_ahead(patch: pytest.MonkeyPatch) -> None:
    real = settings_room.ask

    def ask(d: Any, event: Any) -> Any:
        if not any(o.operation_id == event.operation_id for o in d.state.operations):
            d.set(setting=None)
        return real(d, event)

    patch.setattr(settings_room, "ask", ask)


def anything_can_be_chosen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings_room, "_request", lambda state, event: ("session/set_mode", {}))


def a_cancelled_prompt_waits_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "_cancel_prompt", lambda d, prompt_id: fx.CancelReply(None, None))


def offers_outlive_their_process(patch: pytest.MonkeyPatch) -> None:
    real = lifecycle.exited

    def exited(d: Any, event: Any) -> None:
        before = d.state.conversation
        real(d, event)
        d.set(conversation=before)

    patch.setattr(lifecycle, "exited", exited)


def a_request_is_dropped_when_its_time_is_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permissions, "unanswered", lambda d, permission_id: d.set(permissions=()))


def any_token_is_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tokens, "foreign", lambda state, value: None)


MUTANTS: list[tuple[Mutate, str]] = [
    (sent_but_stored_as_queued, "stored before sent"),
    (unknown_prompts_are_sent_again, "sent twice"),
    (the_newest_prompt_goes_first, "order is kept"),
    (a_launch_empties_the_queue, "never forgotten|order is kept"),
    (any_answer_ends_the_turn, ""),
    (older_processes_are_listened_to, "this very process|changes nothing"),
    (a_start_does_not_wait_for_the_old_process, "two agents"),
    (a_second_start_goes_ahead, ""),
    (a_failed_start_forgets_the_token, "by a fresh start alone"),
    (a_fresh_start_keeps_the_token, ""),
    (a_new_token_counts_as_established, "established by"),
    (the_wished_token_is_taken_for_the_answer, "only an id that the agent told"),
    (a_token_is_changed_in_memory_only, ""),
    (replayed_words_are_shown, "never shown"),
    (permissions_outlive_their_turn, ""),
    (a_permission_is_closed_without_an_answer, ""),
    (an_older_epoch_is_let_in, ""),
    (a_start_is_forgotten_when_its_process_dies, ""),
    (stops_are_never_done, ""),
    (any_token_is_asked_for, "another agent is not asked for"),
    (a_choice_is_forgotten_when_its_process_dies, ""),
    (a_second_choice_goes_ahead, "one choice at a time"),
    (anything_can_be_chosen, "only what is offered"),
    (a_cancelled_prompt_waits_on, ""),
    (offers_outlive_their_process, "gone with the process"),
    (a_request_is_dropped_when_its_time_is_over, ""),
    (the_queue_stands_still, "comes to rest|fate"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mutate", "words"), MUTANTS, ids=lambda v: getattr(v, "__name__", ""))
def test_the_world_notices(mutate: Mutate, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError, match=words or None):
        run_state_machine_as_test(World, settings=HUNT)
