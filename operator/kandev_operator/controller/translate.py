"""agentctl's words into core's: the only place that knows both, for reading.

agentctl is not trusted: the agent runs with its uid. Texts are cut, moments that cannot be read
are absent, and a resume token is carried in a value whose repr hides it.
"""

from datetime import UTC, datetime
from typing import Final, Literal

from kandev_operator.clients import errors
from kandev_operator.contract import status as wire
from kandev_operator.core.observed import (
    AgentctlReport,
    AgentPhase,
    Answer,
    CapabilitiesSeen,
    FailureSeen,
    OperationSeen,
    TokenSeen,
    TurnSeen,
)

LONGEST_TEXT: Final = 500


def report(told: wire.StatusReport) -> AgentctlReport:
    """The whole status of an agentctl, as decisions read it."""
    session = told.session
    return AgentctlReport(
        instance_id=told.instance_id,
        boot_id=told.boot_id,
        phase=AgentPhase(told.agent.status.value),
        session_uid=session.session_id if session else None,
        session_namespace=session.namespace if session else None,
        session_name=session.name if session else None,
        profile_hash=told.profile_hash,
        workspace_path=cut(told.workspace_path),
        pid=told.pid,
        term=told.term,
        epoch=told.epoch,
        execution_id=told.agent.execution_id,
        exit_text=_exit_text(told.agent.exit),
        exited_at=moment(told.agent.exit.at) if told.agent.exit else None,
        capabilities=_capabilities(told.capabilities),
        token=_token(told.token),
        journal_state=told.journal.state.value,
        journal_message=cut(told.journal.message),
        # What a person chose in the conversation is no business of the operator.
        operations=tuple(
            _operation(each, each.kind)
            for each in told.operations
            if each.kind == "start" or each.kind == "stop"
        ),
        turn=TurnSeen(
            prompt_id=told.turn.prompt_id,
            at=told.turn.started_at,
            awaiting_permission=told.turn.awaiting_permission,
        )
        if told.turn
        else None,
        last_turn=TurnSeen(
            prompt_id=told.last_turn.prompt_id,
            at=told.last_turn.ended_at,
            outcome=told.last_turn.outcome,
        )
        if told.last_turn
        else None,
        turns_completed=told.turns_completed,
        prompts=tuple((each.prompt_id, each.fate.value) for each in told.prompts),
    )


def answer(error: errors.AgentctlError) -> Answer:
    """What a failed look means."""
    match error:
        case errors.Foreign():
            return Answer.FOREIGN
        case errors.Unauthenticated():
            return Answer.CLOCK_SKEW if error.code == "clock_skew" else Answer.UNAUTHENTICATED
        case errors.ContractMismatch():
            return Answer.INCOMPATIBLE
        case errors.Refused() if error.status in (401, 403):
            return Answer.UNAUTHENTICATED
        case errors.Refused():
            return Answer.UNHEALTHY
        case _:
            return Answer.UNREACHABLE


def cut(text: str, limit: int = LONGEST_TEXT) -> str:
    """The text on one line, with an end."""
    plain = " ".join(text.split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def moment(text: str | None) -> datetime | None:
    """A moment of the wire; None for one that cannot be read."""
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def _exit_text(left: wire.Exit | None) -> str:
    if left is None:
        return ""
    if left.signal is None and left.code is None:
        return "The agent's process is gone."
    how = f"signal {left.signal}" if left.signal else f"code {left.code}"
    tail = cut(left.stderr_tail.strip().rpartition("\n")[2], 200)
    said = f": {tail}" if tail else "."
    return f"The agent exited with {how}{said}"


def _capabilities(told: wire.Capabilities) -> CapabilitiesSeen:
    return CapabilitiesSeen(
        supports_session_resume=told.supports_session_resume,
        supports_workspace_only=told.supports_workspace_only,
        agent_name=cut(told.agent.name, 100) if told.agent else None,
        agent_version=cut(told.agent.version, 100) if told.agent else None,
        load_session=told.load_session,
        resume_session=told.resume_session,
        list_sessions=told.list_sessions,
        profile_hash=told.profile_hash,
        probed_at=told.probed_at,
        failure=_failure(told.failure),
    )


def _failure(told: wire.Failure | None) -> FailureSeen | None:
    return FailureSeen(told.code, cut(told.message)) if told else None


def _token(told: wire.TokenReport | None) -> TokenSeen | None:
    if told is None or told.value is None:
        return None
    return TokenSeen(told.value, told.sha256, told.established, told.epoch)


def _operation(told: wire.Operation, kind: Literal["start", "stop"]) -> OperationSeen:
    return OperationSeen(
        operation_id=told.operation_id,
        kind=kind,
        mode=told.mode,
        state=told.state.value,
        ended_at=moment(told.ended_at),
        token_replaced=told.token_replaced,
        failure=_failure(told.failure),
    )
