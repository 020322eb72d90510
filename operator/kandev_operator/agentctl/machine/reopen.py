"""From what the journal kept to a state: what a new agentctl may still believe of the old one.

The processes are gone. A prompt that was being handed over has an unknown fate, a turn that was
under way is interrupted, an operation that ran has no known outcome; queued prompts still wait.
A process that nobody asked to end counts as `exited`, so the caller brings the agent back.
A process that lives elsewhere outlives agentctl: `rejoin` goes on with it, in the same turn.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from kandev_operator.agentctl.machine import offers
from kandev_operator.agentctl.machine.draft import Draft, forget_decided
from kandev_operator.agentctl.machine.effects import End, StoreExecution, StoreTurn
from kandev_operator.agentctl.machine.operations import STUCK_GRACE
from kandev_operator.agentctl.machine.state import UNPROBED, Prompt, State, Token
from kandev_operator.agentctl.machine.step import Outcome
from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    AgentStatus,
    Capabilities,
    EndedTurn,
    Exit,
    Failure,
    FailureCode,
    Operation,
    OperationState,
    Turn,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a journal holds beside its events."""

    session_id: str
    term: int = 0
    epoch: int = 0
    operations: tuple[Operation, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    token: Token | None = None
    previous_tokens: tuple[str, ...] = field(default=(), repr=False)
    execution_id: str | None = None
    execution_ended: str | None = None
    """`asked` or `unasked`; None while it lived when the journal was last written."""
    turn: Turn | None = None
    last_turn: EndedTurn | None = None
    turns_completed: int = 0
    capabilities: Capabilities | None = None
    unresolved: tuple[tuple[str, str], ...] = ()
    """(permission, turn) of every request of this execution that nobody was told the end of."""


@dataclass(frozen=True, slots=True)
class Living:
    """A process that outlived agentctl."""

    execution_id: str
    token: str | None = field(repr=False)
    """The conversation that is open in it."""
    profile_hash: str
    policy: PermissionPolicy
    answer: dict[str, Any] = field(default_factory=dict, repr=False)
    """What the agent offers in it, in the form of its answer to session/new."""
    ending: bool = False
    """It was being ended."""
    permission_timeout: float | None = None


def outlived(kept: Kept, living: Living | None) -> bool:
    """Whether the journal, too, says that this process was alive when it was last written."""
    if living is None or kept.execution_ended is not None:
        return False
    return kept.execution_id == living.execution_id


def rejoin(kept: Kept, living: Living, *, term: int, at: str, numbered: int) -> Outcome:
    """The process goes on, and its turn with it. `numbered`: no id of it has a higher number.

    One that was being started or stopped is ended: what it came to is not known, and nobody is to
    find a process later that status said was gone.
    """
    turn = kept.turn
    last = turn or kept.last_turn
    prompts = forget_decided(kept.prompts)
    fates = {p.prompt_id: p.fate for p in prompts}
    goes_on = _goes_on(kept, living)
    status = AgentStatus.RUNNING if turn else AgentStatus.IDLE
    state = State(
        session_id=kept.session_id,
        term=max(term, kept.term),
        epoch=kept.epoch,
        status=status if goes_on else AgentStatus.STOPPING,
        running_hash=living.profile_hash,
        running_policy=living.policy,
        running_permission_timeout=living.permission_timeout,
        # Whoever made the token, or took it last, is this very process.
        running_profile_uid=kept.token.profile if goes_on and kept.token else None,
        execution_id=living.execution_id,
        silent=True,
        capabilities=kept.capabilities or UNPROBED,
        operations=kept.operations,
        opened_token=living.token if goes_on else None,
        conversation=offers.of_answer(living.answer),
        token=kept.token,
        previous_tokens=kept.previous_tokens,
        prompts=prompts,
        turn=turn.model_copy(update={"awaiting_permission": False}) if turn else None,
        turn_arrived=turn is not None and fates.get(turn.prompt_id) is not PromptFate.SENDING,
        last_turn=kept.last_turn,
        turns_completed=kept.turns_completed,
        turns_begun=_number_of(last, living.execution_id),
        permissions_asked=numbered,
        messages_begun=numbered,
    )
    draft = Draft(state, at)
    _close_permissions(draft, kept, "asked_again" if goes_on else "agent_gone")
    for operation in kept.operations:
        if operation.state is OperationState.RUNNING and operation.kind != "stop":
            _close_operation(draft, operation)
    if not goes_on:
        draft.acts.append(End(living.execution_id, STUCK_GRACE))
    return Outcome(draft.state, tuple(draft.stores), tuple(draft.acts), None)


def _goes_on(kept: Kept, living: Living) -> bool:
    if living.ending or kept.token is None or kept.token.value != living.token:
        return False
    running = [o.kind for o in kept.operations if o.state is OperationState.RUNNING]
    return not {"start", "stop"} & set(running)


def _close_permissions(draft: Draft, kept: Kept, by: str) -> None:
    """Who reads the stream must not show requests for ever that can be answered no more."""
    for permission_id, turn_id in kept.unresolved:
        told = {"permission_id": permission_id, "turn_id": turn_id or None}
        told |= {"outcome": "cancelled", "option_id": None, "by": by}
        draft.emit(EventKind.PERMISSION_RESOLVED, told)


def _number_of(turn: Turn | EndedTurn | None, execution_id: str) -> int:
    """How many turns the execution has begun, by the id of its newest one."""
    number = turn.turn_id.removeprefix(f"{execution_id}-t") if turn else ""
    return int(number) if number.isdecimal() else 0


def reopen(kept: Kept, *, term: int, at: str) -> Outcome:
    """Conclude what became of everything that was under way."""
    cut_off = kept.execution_id is not None and kept.execution_ended is None
    unasked = cut_off or kept.execution_ended == "unasked"
    state = State(
        session_id=kept.session_id,
        term=max(term, kept.term),
        epoch=kept.epoch,
        status=AgentStatus.EXITED if unasked else AgentStatus.NONE,
        execution_id=kept.execution_id,
        exit=Exit(at=at) if unasked else None,
        capabilities=kept.capabilities or UNPROBED,
        operations=kept.operations,
        token=kept.token,
        previous_tokens=kept.previous_tokens,
        prompts=forget_decided(kept.prompts),
        last_turn=kept.last_turn,
        turns_completed=kept.turns_completed,
    )
    draft = Draft(state, at)
    _close_permissions(draft, kept, "agent_gone")
    if cut_off and kept.execution_id is not None:
        draft.stores.append(StoreExecution(kept.execution_id, "unasked"))
        draft.emit(
            EventKind.AGENT, {"status": AgentStatus.EXITED.value, "exit": {"at": at, "code": None}}
        )
    for operation in kept.operations:
        if operation.state is OperationState.RUNNING:
            _close_operation(draft, operation)
    for prompt in kept.prompts:
        if prompt.fate is PromptFate.SENDING:
            reason = "agentctl ended while it was being handed over"
            draft.put_prompt(replace(prompt, fate=PromptFate.UNKNOWN, reason=reason))
    if kept.turn is not None:
        _interrupt(draft, kept.turn)
    return Outcome(draft.state, tuple(draft.stores), (), None)


def _close_operation(draft: Draft, operation: Operation) -> None:
    if operation.kind == "stop":  # no process is left, which is what it wanted
        ended = {"state": OperationState.SUCCEEDED, "ended_at": draft.at}
        draft.put_operation(operation.model_copy(update=ended))
        return
    failure = Failure(
        code=FailureCode.INTERRUPTED,
        message="agentctl restarted in the middle; the outcome is not known, nothing runs any more",
    )
    ended = {"state": OperationState.FAILED, "ended_at": draft.at}
    draft.put_operation(operation.model_copy(update={**ended, "failure": failure}))


def _interrupt(draft: Draft, turn: Turn) -> None:
    ended = EndedTurn(
        turn_id=turn.turn_id,
        prompt_id=turn.prompt_id,
        execution_id=turn.execution_id,
        ended_at=draft.at,
        outcome="interrupted",
    )
    draft.set(last_turn=ended)
    draft.stores.append(StoreTurn(None, ended, draft.state.turns_completed))
    draft.emit(EventKind.TURN_ENDED, {"turn": ended.model_dump(mode="json")})
