"""The prompt queue and the turns: one prompt at a time to the agent, in order, none twice.

A prompt is accepted once it is stored. It becomes `sending` in the same transaction that begins
its turn, before a byte of it is written; from then on it is never sent again. The first sign of
the turn (an update of it, a permission request, its answer) makes it `delivered`. A turn ends by
its own answer alone, known by turn id and execution, or with the process.
"""

from dataclasses import replace
from typing import Any, Literal

from kandev_operator.agentctl.machine import (
    contents,
    messages,
    offers,
    permissions,
    sameness,
    tokens,
)
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import (
    Arm,
    CancelReply,
    CancelTurn,
    PromptReply,
    Refused,
    Reply,
    SendPrompt,
    StoreTurn,
)
from kandev_operator.agentctl.machine.events import (
    CancelAsked,
    PromptAsked,
    Timer,
    TurnAnswered,
    TurnFailed,
)
from kandev_operator.agentctl.machine.state import MAX_QUEUE, MAX_QUEUE_BYTES, Prompt, State
from kandev_operator.agentctl.machine.tables import OPEN, Cause
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import AgentStatus, EndedTurn, Failure, Turn

Outcome = Literal["completed", "cancelled", "interrupted", "failed"]


def ask(draft: Draft, event: PromptAsked) -> Reply:
    """Accept a prompt, or repeat what became of it."""
    state = draft.state
    digest = sameness.of(event)
    for known in state.prompts:
        if known.prompt_id == event.prompt_id:
            refused = sameness.conflict(known.digest, digest)
            return refused or PromptReply(known, _position(state, known))
    if state.session_id is None:
        return Refused(Code.NO_AGENT, "no session is served here yet")
    if refused := contents.malformed(event.content):
        return refused
    if kind := contents.untaken(event.content, state.capabilities):
        details = {"offers": contents.offers(state.capabilities)}
        return Refused(Code.NOT_OFFERED, f"the agent takes no {kind} in a prompt", details)
    if not _someone_comes(state):
        return Refused(Code.AGENT_NOT_RUNNING, "no conversation is open and none is being opened")
    waiting = sum(p.size for p in state.queue)
    if len(state.queue) >= MAX_QUEUE or waiting + event.size > MAX_QUEUE_BYTES:
        return Refused(Code.TOO_LARGE, "as many prompts wait already as can be kept")
    prompt = Prompt(
        event.prompt_id,
        PromptFate.QUEUED,
        event.at,
        event.content,
        size=event.size,
        digest=digest,
    )
    draft.put_prompt(prompt)
    accepted = PromptReply(prompt, _position(draft.state, prompt))
    pump(draft)
    return accepted


def drop_queue(draft: Draft, reason: str) -> None:
    """Nobody will come for the prompts that wait: none of them was ever handed over."""
    for prompt in draft.state.queue:
        draft.put_prompt(replace(prompt, fate=PromptFate.NOT_DELIVERED, reason=reason))


def _someone_comes(state: State) -> bool:
    """The agent is there, or on its way, or died unasked and will be brought back."""
    if state.shutting_down:
        return False
    return state.status in OPEN or state.wish is not None or state.status is AgentStatus.EXITED


def _position(state: State, prompt: Prompt) -> int:
    if prompt.fate is not PromptFate.QUEUED:
        return 0
    waiting = [p.prompt_id for p in state.queue]
    under_way = sum(p.fate is PromptFate.SENDING for p in state.prompts) or state.turn is not None
    return waiting.index(prompt.prompt_id) + int(under_way)


def pump(draft: Draft) -> None:
    """Hand the next prompt to an idle agent."""
    _drop_untaken(draft)
    state = draft.state
    if state.status is not AgentStatus.IDLE or not state.queue or state.wish is not None:
        return
    if state.execution_id is None or state.opened_token is None or state.shutting_down:
        return
    if state.silent:
        return
    prompt = state.queue[0]
    turn = Turn(
        turn_id=f"{state.execution_id}-t{state.turns_begun + 1}",
        prompt_id=prompt.prompt_id,
        execution_id=state.execution_id,
        started_at=draft.at,
    )
    draft.put_prompt(replace(prompt, fate=PromptFate.SENDING))
    draft.set(
        turn=turn,
        turn_arrived=False,
        turn_cancelled=False,
        turns_begun=state.turns_begun + 1,
        calls=(),
    )
    draft.stores.append(StoreTurn(turn, None, state.turns_completed))
    draft.emit(EventKind.TURN_STARTED, {"turn": turn.model_dump(mode="json")})
    messages.record_prompt(draft, prompt.prompt_id, prompt.content)
    draft.move(Cause.PROMPT_SENT)
    draft.acts.append(
        SendPrompt(
            turn.execution_id, turn.turn_id, prompt.prompt_id, state.opened_token, prompt.content
        )
    )


def _drop_untaken(draft: Draft) -> None:
    """Prompts at the head of the queue that this agent cannot take: it never sees them."""
    state = draft.state
    if state.status is not AgentStatus.IDLE:
        return
    for prompt in state.queue:
        kind = contents.untaken(prompt.content, state.capabilities)
        if kind is None:
            return
        reason = f"the agent takes no {kind} in a prompt"
        draft.put_prompt(replace(prompt, fate=PromptFate.NOT_DELIVERED, reason=reason))


def arrived(draft: Draft) -> None:
    """The agent showed that it has the prompt of the live turn."""
    state = draft.state
    if state.turn is None or state.turn_arrived:
        return
    draft.set(turn_arrived=True)
    prompt = _prompt_of(state, state.turn)
    if prompt is not None and prompt.fate is PromptFate.SENDING:
        draft.put_prompt(replace(prompt, fate=PromptFate.DELIVERED))


def _prompt_of(state: State, turn: Turn) -> Prompt | None:
    return next((p for p in state.prompts if p.prompt_id == turn.prompt_id), None)


def _is_live(state: State, execution_id: str, turn_id: str) -> bool:
    turn = state.turn
    return turn is not None and (turn.execution_id, turn.turn_id) == (execution_id, turn_id)


def answered(draft: Draft, event: TurnAnswered) -> None:
    """The live turn's own answer. One of an older turn or process is dropped."""
    if not _is_live(draft.state, event.execution_id, event.turn_id):
        return
    arrived(draft)
    if event.stop_reason == "cancelled":
        over(draft, "cancelled", stop_reason=event.stop_reason, usage=event.usage)
    else:
        # The token of this very process: an answer cannot establish somebody else's.
        tokens.establish(draft, draft.state.opened_token)
        over(draft, "completed", stop_reason=event.stop_reason, usage=event.usage)
    _go_on(draft)


def failed(draft: Draft, event: TurnFailed) -> None:
    """The agent answered the live turn with an error, or it never got the prompt."""
    if not _is_live(draft.state, event.execution_id, event.turn_id):
        return
    if event.answered:
        arrived(draft)
    cancelled = draft.state.turn_cancelled and event.answered
    over(draft, "cancelled" if cancelled else "failed", failure=event.failure)
    _go_on(draft)


def _go_on(draft: Draft) -> None:
    if draft.state.status is AgentStatus.RUNNING:
        draft.move(Cause.TURN_OVER)
        pump(draft)


def over(
    draft: Draft,
    outcome: Outcome,
    *,
    stop_reason: str | None = None,
    failure: Failure | None = None,
    usage: dict[str, Any] | None = None,
) -> None:
    """End the live turn, if there is one, with everything that belongs to it."""
    turn = draft.state.turn
    if turn is None:
        return
    if outcome == "cancelled" and draft.state.turn_cut:
        outcome = "interrupted"
    messages.flush(draft)
    permissions.close_all(draft, "turn_over")
    ended = EndedTurn(
        turn_id=turn.turn_id,
        prompt_id=turn.prompt_id,
        execution_id=turn.execution_id,
        ended_at=draft.at,
        outcome=outcome,
        stop_reason=stop_reason[:200] if stop_reason else None,
        failure=failure,
        usage=offers.turn_usage(usage),
    )
    prompt = _prompt_of(draft.state, turn)
    if prompt is not None and prompt.fate is PromptFate.SENDING:
        reason = failure.code if failure else f"turn {outcome} before any sign of arrival"
        draft.put_prompt(replace(prompt, fate=PromptFate.UNKNOWN, reason=reason))
    completed = draft.state.turns_completed + (outcome == "completed")
    draft.set(turn=None, last_turn=ended, turns_completed=completed, calls=())
    draft.stores.append(StoreTurn(None, ended, completed))
    draft.emit(EventKind.TURN_ENDED, {"turn": ended.model_dump(mode="json")})


def cancel(draft: Draft, event: CancelAsked) -> Reply:
    """Ask the agent to stop the live turn; its end is still the agent's own answer."""
    if event.prompt_id is not None:
        return _cancel_prompt(draft, event.prompt_id)
    return _cancel_turn(draft)


def _cancel_prompt(draft: Draft, prompt_id: str) -> Reply:
    """Cancel one prompt, wherever it is: in the queue, in its turn, or past all cancelling."""
    state = draft.state
    known = next((p for p in state.prompts if p.prompt_id == prompt_id), None)
    if known is None:
        return Refused(Code.UNKNOWN_PROMPT, "no such prompt was accepted")
    if state.turn is not None and state.turn.prompt_id == prompt_id:
        reply = _cancel_turn(draft)
        return replace(reply, fate=known.fate) if isinstance(reply, CancelReply) else reply
    if known.fate is PromptFate.QUEUED:
        known = replace(known, fate=PromptFate.NOT_DELIVERED, reason="cancelled while it waited")
        draft.put_prompt(known)
    return CancelReply(None, known.fate)


def _cancel_turn(draft: Draft) -> Reply:
    state = draft.state
    if state.status not in OPEN:
        return Refused(Code.AGENT_NOT_RUNNING, "no conversation is open")
    if state.turn is None or state.opened_token is None:
        return CancelReply(None)
    if not state.turn_cancelled:
        draft.set(turn_cancelled=True)
        draft.acts.append(CancelTurn(state.turn.execution_id, state.opened_token))
        # The protocol wants every open request answered as cancelled.
        permissions.close_all(draft, "cancelled")
        draft.acts.append(Arm(Timer.CANCEL_GRACE, state.turn.turn_id))
    return CancelReply(state.turn.turn_id)


def cancel_unanswered(draft: Draft, turn_id: str) -> None:
    """The agent sits out a cancel: the turn is called over, its late answer will be dropped."""
    turn = draft.state.turn
    if turn is None or turn.turn_id != turn_id or not draft.state.turn_cancelled:
        return
    over(draft, "cancelled", stop_reason="cancelled")
    _go_on(draft)
