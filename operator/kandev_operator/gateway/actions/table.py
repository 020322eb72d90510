"""Every action that needs nothing but a question: its payload and its function.

The same table serves the socket and the HTTP API, and makes the OpenAPI document. What needs an
open socket (subscriptions, shells) stands in `socket`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.actions import objects, talk, workspace
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.ports import Person
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.envelope import ErrorCode
from kandev_operator.gateway.wire.requests import Action

Run = Callable[[Desk, Person, Any], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One action: what it takes, and what does it."""

    payload: type[Wire]
    run: Run


TABLE: Final[Mapping[Action, Entry]] = MappingProxyType(
    {
        Action.TASK_LIST: Entry(asked.Listing, objects.task_list),
        Action.TASK_CREATE: Entry(asked.TaskCreate, objects.task_create),
        Action.PROFILE_LIST: Entry(asked.Listing, objects.profile_list),
        Action.SESSION_STATUS: Entry(asked.OfSession, objects.session_status),
        Action.SESSION_CREATE: Entry(asked.SessionCreate, objects.session_create),
        Action.SESSION_RESUME: Entry(asked.SessionWish, objects.session_resume),
        Action.SESSION_FRESH_START: Entry(asked.SessionWish, objects.session_fresh_start),
        Action.SESSION_STOP: Entry(asked.OfSession, objects.session_stop),
        Action.MESSAGE_LIST: Entry(asked.MessageList, talk.message_list),
        Action.SESSION_PROMPT: Entry(asked.Prompt, talk.prompt),
        Action.AGENT_CANCEL: Entry(asked.Cancel, talk.cancel),
        Action.PERMISSION_LIST: Entry(asked.OfSession, talk.permission_list),
        Action.PERMISSION_RESPOND: Entry(asked.PermissionRespond, talk.permission_respond),
        Action.FILE_TREE: Entry(asked.FileTree, workspace.file_tree),
        Action.FILE_READ: Entry(asked.FileRead, workspace.file_read),
        Action.FILE_WRITE: Entry(asked.FileWrite, workspace.file_write),
        Action.FILE_SEARCH: Entry(asked.FileSearch, workspace.file_search),
        Action.GIT_STATUS: Entry(asked.OfRepository, workspace.git_status),
        Action.GIT_DIFF: Entry(asked.OfRepository, workspace.git_diff),
        Action.GIT_LOG: Entry(asked.OfRepository, workspace.git_log),
    }
)


def parse(model: type[Wire], payload: Mapping[str, Any]) -> Any:
    """The payload as its model. Raises Refusal that names the fields, never their values."""
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = [
        {"field": ".".join(str(part) for part in each["loc"]), "problem": each["msg"]}
        for each in found[:20]
    ]
    words = "the payload does not fit: " + ", ".join(each["field"] for each in faults)
    raise Refusal(ErrorCode.INVALID_REQUEST, words, fields=faults)


async def perform(
    desk: Desk, person: Person, action: str, payload: Mapping[str, Any]
) -> dict[str, Any]:
    """Do one action. Raises Refusal."""
    try:
        entry = TABLE[Action(action)]
    except (ValueError, KeyError):
        known = ", ".join(sorted(TABLE))
        words = f"there is no action {action[:100]!r} here"
        raise Refusal(ErrorCode.UNKNOWN_ACTION, words, actions=known) from None
    return await entry.run(desk, person, parse(entry.payload, payload))
