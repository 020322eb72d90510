"""From what the journal kept to a state: what a new agentctl may still believe of the old one.

The processes are gone. A prompt that was being handed over has an unknown fate, a turn that was
under way is interrupted, an operation that ran has no known outcome; queued prompts still wait.
A process that nobody asked to end counts as `exited`, so the caller brings the agent back.
"""

from dataclasses import dataclass, field, replace

from kandev_operator.agentctl.machine.draft import Draft, forget_decided
from kandev_operator.agentctl.machine.effects import StoreExecution, StoreTurn
from kandev_operator.agentctl.machine.state import UNPROBED, Prompt, State, Token
from kandev_operator.agentctl.machine.step import Outcome
from kandev_operator.contract.agent import PromptFate
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
