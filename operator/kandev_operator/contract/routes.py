"""Every call of contract v1 over HTTP, as a table: scope, bodies, answer, refusals.

`openapi` makes a document of it, and tests compare it with what is served. What a body holds is
said by the models; a call that is added here is documented, checked and fuzzed from then on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from kandev_operator.contract import files, git, paths, shell
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
from kandev_operator.contract.status import Capabilities, Health, Operation, StatusReport

OF_EVERY_CALL: Final = (
    Code.UNAUTHORIZED,
    Code.CLOCK_SKEW,
    Code.FORBIDDEN_SCOPE,
    Code.INVALID_REQUEST,
    Code.STALE_EPOCH,
    Code.SESSION_CONFLICT,
)
OF_A_BODY: Final = (Code.TOO_LARGE,)
OF_THE_JOURNAL: Final = (Code.JOURNAL_UNAVAILABLE, Code.JOURNAL_FULL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; a path's parameters are read off the path."""

    name: str
    words: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the contract."""

    method: str
    path: str
    words: str
    scope: Scope | None = None
    """None: open to all."""
    body: type[BaseModel] | None = None
    raw: bool = False
    """The body is bytes."""
    optional: bool = False
    """It may be left out."""
    status: int = 200
    also: int | None = None
    """Another status of a good answer, with the same body."""
    answer: type[BaseModel] | None = None
    listed: bool = False
    """The answer is a list of it."""
    media: str = "application/json"
    codes: tuple[Code, ...] = ()
    """Refusals beside those of every call."""
    query: tuple[Parameter, ...] = ()


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
    Route("get", paths.STATUS, "Everything there is to know.", Scope.READ, answer=StatusReport),
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

_PLACE: Final = (
    Code.OUTSIDE_WORKSPACE,
    Code.FILE_NOT_FOUND,
    Code.NOT_A_FILE,
    Code.NOT_A_FOLDER,
    Code.FILE_DENIED,
    Code.FILE_FAILED,
    Code.BUSY,
)
_CHANGE: Final = (
    *_PLACE,
    *OF_A_BODY,
    Code.FILE_EXISTS,
    Code.FOLDER_NOT_EMPTY,
    Code.PRECONDITION_REQUIRED,
    Code.PRECONDITION_FAILED,
    Code.DISK_FULL,
)
_PATH: Final = Parameter("path", "relative to the workspace", {"type": "string"})
_LIMIT: Final = Parameter("limit", "entries in one answer", {"type": "integer", "minimum": 1})
_IGNORED: Final = Parameter("ignored", "with what git ignores", {"type": "boolean"})
FILES: Final = (
    Route(
        "get",
        paths.FILES_TREE,
        "What is in a folder.",
        Scope.FILES,
        answer=files.TreePage,
        codes=_PLACE,
        query=(
            _PATH,
            Parameter("depth", "levels", {"type": "integer", "minimum": 1}),
            _LIMIT,
            Parameter("after", "the page before ended here", {"type": "string"}),
            _IGNORED,
        ),
    ),
    Route(
        "get",
        paths.FILES_CONTENT,
        "A file's content, whole or a range of it.",
        Scope.FILES,
        media="application/octet-stream",
        codes=(*_PLACE, Code.RANGE_NOT_SATISFIABLE, Code.TOO_LARGE),
        query=(_PATH,),
    ),
    Route(
        "put",
        paths.FILES_CONTENT,
        "Replace a file's content as a whole; needs a precondition.",
        Scope.FILES,
        raw=True,
        answer=files.WriteAnswer,
        codes=_CHANGE,
        query=(_PATH, Parameter("mode", "permission bits", {"type": "string"})),
    ),
    Route(
        "get",
        paths.FILES_ENTRY,
        "What one path is.",
        Scope.FILES,
        answer=files.Entry,
        codes=_PLACE,
        query=(_PATH,),
    ),
    Route(
        "delete",
        paths.FILES_ENTRY,
        "Remove a file or a folder.",
        Scope.FILES,
        status=204,
        codes=_CHANGE,
        query=(_PATH, Parameter("recursive", "with all in it", {"type": "boolean"})),
    ),
    Route(
        "post",
        paths.FILES_FOLDERS,
        "Make a folder.",
        Scope.FILES,
        files.MakeFolder,
        status=201,
        answer=files.Entry,
        codes=_CHANGE,
    ),
    Route(
        "post",
        paths.FILES_RENAME,
        "Give a file or folder another name.",
        Scope.FILES,
        files.Rename,
        answer=files.Entry,
        codes=_CHANGE,
    ),
)
GIT: Final = (
    Route(
        "get",
        paths.GIT_STATUS,
        "What differs in a repository.",
        Scope.FILES,
        answer=git.GitStatus,
        codes=(
            *_PLACE,
            Code.GIT_MISSING,
            Code.NOT_A_REPOSITORY,
            Code.GIT_FAILED,
            Code.GIT_TIMEOUT,
            Code.GIT_LOCKED,
            Code.GIT_CONFIG_UNSAFE,
        ),
        query=(
            Parameter("repo", "folder of the repository", {"type": "string"}),
            _LIMIT,
            Parameter("untracked", "how far", {"type": "string", "enum": ["all", "normal", "no"]}),
        ),
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
ROUTES: Final[tuple[Route, ...]] = (*CORE, *CONVERSATION, *FILES, *GIT, *SHELL)
