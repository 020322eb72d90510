"""One step: which handler takes which event, and the two guards that come before all of them.

Events of an execution that is not the present one are dropped here, in one place, so no handler
can be fooled by a late one. Term and epoch are compared here too: lower than the highest seen is
refused, higher is stored before anything else is done.
"""

from dataclasses import dataclass
from typing import assert_never

from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine import (
    lifecycle,
    operations,
    permissions,
    settings,
    turns,
    updates,
)
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import (
    Act,
    AnswerPermission,
    Done,
    Refused,
    Reply,
    Store,
    StoreFence,
)
from kandev_operator.agentctl.machine.state import State
from kandev_operator.contract.errors import Code

OfItsLife = (
    ev.Initialized
    | ev.InitializeFailed
    | ev.Opened
    | ev.OpenFailed
    | ev.StreamBroken
    | ev.Silenced
    | ev.Rejoined
    | ev.Exited
)
OfItsTurns = (
    ev.UpdateCame
    | ev.FaultSeen
    | ev.TerminalEnded
    | ev.TurnAnswered
    | ev.TurnFailed
    | ev.SettingAnswered
    | ev.SettingFailed
    | ev.PermissionAsked
    | ev.PermissionWithdrawn
)
OfAnExecution = OfItsLife | OfItsTurns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step came to. `state` counts only once every one of `stores` is kept."""

    state: State
    stores: tuple[Store, ...]
    acts: tuple[Act, ...]
    reply: Reply | None


def step(state: State, event: ev.Event) -> Outcome:
    """Take one event. Pure: the same arguments always give the same outcome."""
    draft = Draft(state, event.at)
    reply: Reply | None
    if isinstance(event, OfAnExecution):
        reply = None
        if event.execution_id == state.execution_id:
            _of_an_execution(draft, event)
        elif isinstance(event, ev.PermissionAsked):
            # Whoever asks waits for an answer, even a ghost.
            draft.acts.append(AnswerPermission(event.execution_id, event.key, None))
    else:
        reply = _of_agentctl(draft, event)
    return Outcome(draft.state, tuple(draft.stores), tuple(draft.acts), reply)


def _of_an_execution(draft: Draft, event: OfAnExecution) -> None:
    if isinstance(event, OfItsTurns):
        _of_its_turns(draft, event)
    else:
        _of_its_life(draft, event)


def _of_its_turns(draft: Draft, event: OfItsTurns) -> None:
    match event:
        case ev.UpdateCame():
            updates.came(draft, event)
        case ev.FaultSeen():
            updates.fault(draft, event)
        case ev.TerminalEnded():
            updates.terminal(draft, event)
        case ev.TurnAnswered():
            turns.answered(draft, event)
        case ev.TurnFailed():
            turns.failed(draft, event)
        case ev.SettingAnswered():
            settings.answered(draft, event)
        case ev.SettingFailed():
            settings.failed(draft, event)
        case ev.PermissionAsked():
            turns.arrived(draft)
            permissions.asked(draft, event)
        case ev.PermissionWithdrawn():
            permissions.withdrawn(draft, event)
        case _:
            assert_never(event)


def _of_its_life(draft: Draft, event: OfItsLife) -> None:
    match event:
        case ev.Initialized():
            lifecycle.initialized(draft, event)
        case ev.InitializeFailed():
            lifecycle.initialize_failed(draft, event)
        case ev.Opened():
            lifecycle.opened(draft, event)
        case ev.OpenFailed():
            lifecycle.open_failed(draft, event)
        case ev.StreamBroken():
            lifecycle.stream_broken(draft, event)
        case ev.Silenced():
            draft.set(silent=True)
        case ev.Rejoined():
            draft.set(silent=False)
            turns.pump(draft)
        case ev.Exited():
            lifecycle.exited(draft, event)
        case _:
            assert_never(event)


_OfAgentctl = (
    ev.FenceSeen
    | ev.Configured
    | ev.StartAsked
    | ev.StopAsked
    | ev.PromptAsked
    | ev.CancelAsked
    | ev.SettingAsked
    | ev.PermissionChosen
    | ev.TimerFired
    | ev.ShutDown
)


def _of_agentctl(draft: Draft, event: _OfAgentctl) -> Reply | None:
    match event:
        case ev.FenceSeen():
            return fence(draft, event)
        case ev.Configured():
            return lifecycle.configured(draft, event)
        case ev.StartAsked():
            return operations.start(draft, event)
        case ev.StopAsked():
            return operations.stop(draft, event)
        case ev.PromptAsked():
            return turns.ask(draft, event)
        case ev.CancelAsked():
            return turns.cancel(draft, event)
        case ev.SettingAsked():
            return settings.ask(draft, event)
        case ev.PermissionChosen():
            return permissions.chosen(draft, event)
        case ev.TimerFired():
            lifecycle.timer_fired(draft, event)
            return None
        case ev.ShutDown():
            return lifecycle.shut_down(draft, event)
        case _:
            assert_never(event)


def fence(draft: Draft, event: ev.FenceSeen) -> Reply:
    """Refuse a caller of an older term or epoch; remember a newer one before it acts."""
    state = draft.state
    term = state.term if event.term is None else event.term
    epoch = state.epoch if event.epoch is None else event.epoch
    if term < state.term or epoch < state.epoch:
        highest = {"term": state.term, "epoch": state.epoch}
        return Refused(Code.STALE_EPOCH, "a newer term or epoch was seen", highest)
    if (term, epoch) != (state.term, state.epoch):
        draft.set(term=term, epoch=epoch)
        draft.stores.append(StoreFence(term, epoch))
    return Done()
