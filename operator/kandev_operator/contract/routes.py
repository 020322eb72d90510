"""Every call of contract v1 over HTTP, as a table: scope, bodies, answer, refusals.

`openapi` makes a document of it, and tests compare it with what is served. What a body holds is
said by the models; a call that is added here is documented, checked and fuzzed from then on.
"""

from dataclasses import replace
from typing import Final

from kandev_operator.contract import paths, shell
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    CancelAnswer,
    CancelRequest,
    Permission,
    PermissionAnswer,
    PermissionTaken,
    PromptAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.conversation import ConfigRequest, ModeRequest
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import Event
from kandev_operator.contract.route import OF_A_BODY, Parameter, Route
from kandev_operator.contract.status import Capabilities, Health, Operation, StatusReport
from kandev_operator.contract.workspaceroutes import WORKSPACE

OF_EVERY_CALL: Final = (
    Code.UNAUTHORIZED,
    Code.CLOCK_SKEW,
    Code.FORBIDDEN_SCOPE,
    Code.INVALID_REQUEST,
    Code.STALE_EPOCH,
    Code.SESSION_CONFLICT,
)
OF_THE_JOURNAL: Final = (Code.JOURNAL_UNAVAILABLE, Code.JOURNAL_FULL)


_AFTER: Final = Parameter(
    "after",
    "cursor JOURNAL_ID:SEQ; what follows it is replayed",
    {"type": "string", "pattern": r"^.+:[0-9]+$"},
)
_KINDS: Final = Parameter(
    "kinds",
    "state, messages, live, with commas; state and messages where absent",
    {"type": "string", "enum": ["state", "messages", "state,messages", "state,messages,live"]},
)
_AGENT: Final = (Code.NO_AGENT, Code.AGENT_NOT_RUNNING)

CORE: Final = (
    Route("get", paths.HEALTH, "From memory; needs no token.", answer=Health),
    Route("get", paths.METRICS, "Prometheus text; needs no token.", media="text/plain"),
    Route(
        "put",
        paths.AGENT,
        "Which session is served here, and what to run for it.",
        Scope.CONTROL,
        AgentSpec,
        answer=AgentAnswer,
        codes=(*OF_A_BODY, *OF_THE_JOURNAL, Code.NO_AGENT),
    ),
    Route(
        "get",
        paths.CAPABILITIES,
        "What the agent can do, probed by a real initialize.",
        Scope.READ,
        answer=Capabilities,
    ),
    Route(
        "post",
        paths.START,
        "Open a conversation, new or resumed.",
        Scope.CONTROL,
        StartRequest,
        status=202,
        answer=Operation,
        codes=(
            *OF_A_BODY,
            *OF_THE_JOURNAL,
            Code.NO_AGENT,
            Code.OPERATION_CONFLICT,
            Code.ID_REUSED,
            Code.WORKSPACE_IN_USE,
        ),
    ),
    Route(
        "post",
        paths.STOP,
        "End the agent gently; the workspace stays served.",
        Scope.CONTROL,
        StopRequest,
        status=202,
        answer=Operation,
        codes=(*OF_A_BODY, Code.NO_AGENT, Code.ID_REUSED),
    ),
    Route(
        "post",
        paths.PROMPT,
        "Accept a prompt; it goes to the agent in its turn.",
        Scope.PROMPT,
        PromptRequest,
        status=202,
        answer=PromptAnswer,
        codes=(*OF_A_BODY, *OF_THE_JOURNAL, *_AGENT, Code.ID_REUSED, Code.NOT_OFFERED),
    ),
    Route(
        "post",
        paths.CANCEL,
        "Ask the agent to end the live turn, or withdraw one prompt.",
        Scope.PROMPT,
        CancelRequest,
        optional=True,
        status=202,
        answer=CancelAnswer,
        codes=(*OF_A_BODY, *_AGENT, Code.UNKNOWN_PROMPT),
    ),
    Route(
        "get",
        paths.PERMISSIONS,
        "The agent's open permission requests.",
        Scope.READ,
        answer=Permission,
        listed=True,
    ),
    Route(
        "post",
        paths.PERMISSIONS + "/{permission_id}",
        "Answer one: an option, or none to refuse.",
        Scope.PROMPT,
        PermissionAnswer,
        status=202,
        answer=PermissionTaken,
        codes=(*OF_A_BODY, Code.UNKNOWN_PERMISSION, Code.NOT_FOUND),
    ),
    Route(
        "get",
        paths.STATUS,
        "Everything there is to know.",
        Scope.READ,
        answer=StatusReport,
        codes=(Code.UPSTREAM_UNAVAILABLE,),
    ),
    Route(
        "get",
        paths.EVENTS,
        "Server-sent events: replay, then live. `data:` is an Event.",
        Scope.READ,
        answer=Event,
        media="text/event-stream",
        codes=(*OF_THE_JOURNAL, Code.NO_AGENT),
        query=(_AFTER, _KINDS),
    ),
)
_CHOICE: Final[tuple[Code, ...]] = (
    *OF_A_BODY,
    *OF_THE_JOURNAL,
    *_AGENT,
    Code.NOT_OFFERED,
    Code.OPERATION_CONFLICT,
    Code.ID_REUSED,
)
CONVERSATION: Final = (
    Route(
        "post",
        paths.MODE,
        "Choose one of the modes that the agent offers.",
        Scope.PROMPT,
        ModeRequest,
        status=202,
        answer=Operation,
        codes=_CHOICE,
    ),
    Route(
        "post",
        paths.CONFIG,
        "Choose a value of one of the options that the agent offers.",
        Scope.PROMPT,
        ConfigRequest,
        status=202,
        answer=Operation,
        codes=_CHOICE,
    ),
)

_ONE_SHELL: Final = paths.SHELL + "/{shell_id}"
SHELL: Final = (
    Route(
        "get",
        paths.SHELL,
        "The terminals in the workspace.",
        Scope.SHELL,
        answer=shell.ShellList,
    ),
    Route(
        "post",
        paths.SHELL,
        "Make a terminal (201), or find the one of that name (200).",
        Scope.SHELL,
        shell.ShellRequest,
        status=201,
        also=200,
        answer=shell.ShellAnswer,
        codes=(*OF_A_BODY, Code.SHELL_FAILED, Code.TOO_MANY),
    ),
    Route(
        "get",
        _ONE_SHELL,
        "One terminal; as a WebSocket, what it shows and what is typed.",
        Scope.SHELL,
        answer=shell.ShellReport,
        codes=(Code.UNKNOWN_SHELL,),
    ),
    Route(
        "delete",
        _ONE_SHELL,
        "End a terminal and whatever it started.",
        Scope.SHELL,
        answer=shell.ShellReport,
        codes=(Code.UNKNOWN_SHELL,),
    ),
)
_ROOMS: Final = tuple(
    replace(route, codes=(*route.codes, Code.NOT_SERVED)) for route in (*WORKSPACE, *SHELL)
)
"""An agentctl in front of another one has no workspace of its own."""

ROUTES: Final[tuple[Route, ...]] = (*CORE, *CONVERSATION, *_ROOMS)
