"""Actions on a conversation: read it, prompt, cancel, answer what the agent asks.

A prompt goes to agentctl with the client's own id and is never kept here: what was not accepted is
refused, and the page keeps the draft. Whether a turn may begin is agentctl's to say; the two cases
that status knows already, a session that starts and an agent that does not run, are told first, in
the words of status.
"""

from typing import Any

from kandev_operator.api.session import TaskSession
from kandev_operator.clients import errors
from kandev_operator.contract.agent import PermissionAnswer, PromptRequest
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.ports import HistoryUnavailable, Person, Right
from kandev_operator.gateway.refusals import Refusal, missing, of_agentctl
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.envelope import ErrorCode
from kandev_operator.gateway.wire.notices import PermissionNotice, PermissionOption

Answer = dict[str, Any]


async def message_list(desk: Desk, person: Person, request: asked.MessageList) -> Answer:
    """A page of messages, of sessions that are no more, too."""
    if desk.cache.get(TaskSession, request.session_id) is not None:
        await desk.session(person, request.session_id, task_id=request.task_id)
    else:
        await _may_read_past(desk, person, request.session_id)
    try:
        page = await desk.conversations.newest(request.session_id, request.before, request.limit)
    except HistoryUnavailable:
        raise _no_history() from None
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, "before is no place in a conversation") from None
    return page.model_dump(exclude_none=True)


async def _may_read_past(desk: Desk, person: Person, session_uid: str) -> None:
    try:
        place = await desk.past.place_of(session_uid)
    except HistoryUnavailable:
        raise _no_history() from None
    if place is None or not await desk.may(person, Right.READ, *place):
        raise missing()


async def prompt(desk: Desk, person: Person, request: asked.Prompt) -> Answer:
    """Hand in a prompt."""
    session = await desk.session(person, request.session_id, Right.PROMPT, request.task_id)
    _refuse_unless_ready(session)
    client = await desk.lines.client(session)
    content = ({"type": "text", "text": request.text},)
    handed = PromptRequest(
        session_id=session.metadata.uid, prompt_id=request.prompt_id, content=content
    )
    try:
        answer = await client.prompt(handed)
    except errors.AgentctlError as error:
        raise of_agentctl(error) from None
    return answer.model_dump(mode="json")


def _refuse_unless_ready(session: TaskSession) -> None:
    status = session.status
    if status.is_agent_running:
        return
    if status.state == "STARTING":
        words = "the session is starting: keep your words, and send them when it is ready"
        raise Refusal(ErrorCode.AGENT_NOT_READY, words, resume_reason=status.resume_reason)
    if status.is_agent_running is False:
        words = status.error_message or "no agent runs for this session"
        raise Refusal(
            ErrorCode.AGENT_NOT_RUNNING,
            words,
            resume_reason=status.resume_reason,
            is_resumable=status.is_resumable,
            needs_resume=status.needs_resume,
        )


async def cancel(desk: Desk, person: Person, request: asked.Cancel) -> Answer:
    """Cut off the turn under way, or withdraw one prompt."""
    session = await desk.session(person, request.session_id, Right.PROMPT, request.task_id)
    client = await desk.lines.client(session)
    try:
        if request.prompt_id is not None:
            taken = await client.cancel_prompt(request.prompt_id)
            return taken.model_dump(mode="json", exclude_none=True)
        await client.cancel(session.metadata.uid)
    except errors.AgentctlError as error:
        raise of_agentctl(error) from None
    return {}


async def permission_list(desk: Desk, person: Person, request: asked.OfSession) -> Answer:
    """What the agent asks and nobody has answered."""
    session = await desk.session(person, request.session_id, task_id=request.task_id)
    client = await desk.lines.client(session)
    try:
        found = await client.permissions()
    except errors.AgentctlError as error:
        raise of_agentctl(error) from None
    task = desk.cache.task_of(session)
    notices = [
        PermissionNotice(
            session_id=session.metadata.uid,
            task_id=task.metadata.uid if task else "",
            permission_id=each.permission_id,
            turn_id=each.turn_id,
            title=each.title,
            tool_kind=each.tool_kind,
            options=tuple(PermissionOption(**option.model_dump()) for option in each.options),
            requested_at=each.requested_at,
        )
        for each in found
    ]
    return {"permissions": [each.model_dump(exclude_none=True) for each in notices]}


async def permission_respond(
    desk: Desk, person: Person, request: asked.PermissionRespond
) -> Answer:
    """Answer one of the agent's questions."""
    session = await desk.session(person, request.session_id, Right.PROMPT, request.task_id)
    client = await desk.lines.client(session)
    chosen = PermissionAnswer(option_id=request.option_id)
    try:
        await client.answer_permission(request.permission_id, chosen)
    except errors.AgentctlError as error:
        raise of_agentctl(error) from None
    return {"permission_id": request.permission_id}


def _no_history() -> Refusal:
    words = "the store of messages does not answer; what is live goes on"
    return Refusal(ErrorCode.HISTORY_UNAVAILABLE, words)
