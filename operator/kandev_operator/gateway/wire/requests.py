"""The requests that a client may send, and what each needs in its payload.

`session_id` is a UID. A request about a session may also name `task_id`; a session of another task
is then refused as `session_not_in_task`. `prompt_id`, and `request_id` of whatever makes or wishes
something, are the client's and make a repeated request harmless.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.wire.messages import MAX_PAGE_SIZE, PAGE_SIZE


class Action(StrEnum):
    """Every action of a request."""

    TASK_LIST = "task.list"
    TASK_CREATE = "task.create"
    PROFILE_LIST = "profile.list"
    SESSION_STATUS = "task.session.status"
    SESSION_CREATE = "session.create"
    SESSION_RESUME = "session.resume"
    SESSION_FRESH_START = "session.fresh_start"
    SESSION_STOP = "session.stop"
    """operatingMode Suspended."""
    SESSION_SUBSCRIBE = "session.subscribe"
    SESSION_UNSUBSCRIBE = "session.unsubscribe"
    MESSAGE_LIST = "message.list"
    SESSION_PROMPT = "session.prompt"
    AGENT_CANCEL = "agent.cancel"
    PERMISSION_LIST = "permission.list"
    PERMISSION_RESPOND = "permission.respond"
    SHELL_SUBSCRIBE = "shell.subscribe"
    SHELL_UNSUBSCRIBE = "shell.unsubscribe"
    SHELL_INPUT = "shell.input"
    SHELL_RESIZE = "shell.resize"
    FILE_TREE = "file.tree"
    FILE_READ = "file.read"
    FILE_WRITE = "file.write"
    FILE_SEARCH = "file.search"
    GIT_STATUS = "git.status"
    GIT_DIFF = "git.diff"
    GIT_LOG = "git.log"
    PING = "ping"


Uid = Annotated[str, Field(min_length=1, max_length=64)]
Namespace = Annotated[str, Field(min_length=1, max_length=63)]
Name = Annotated[str, Field(min_length=1, max_length=63)]
ClientId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]
Words = Annotated[str, Field(min_length=1, max_length=500_000)]


class Listing(Wire):
    """`task.list`, `profile.list`: of one namespace, or of all that the caller may read."""

    namespace: Namespace | None = None


class TaskCreate(Wire):
    """`task.create` → TaskView."""

    request_id: ClientId
    namespace: Namespace
    title: Annotated[str, Field(min_length=1, max_length=200)]
    description: Annotated[str | None, Field(max_length=65536)] = None


class OfSession(Wire):
    """`task.session.status` → SessionView; `session.unsubscribe`, `.stop`, `permission.list`."""

    session_id: Uid
    task_id: Uid | None = None


class SessionCreate(Wire):
    """`session.create` → SessionView. One of executor_name and template; neither: the default."""

    request_id: ClientId
    namespace: Namespace
    task_name: Name
    agent_profile_name: Name
    prompt: Annotated[Words | None, Field(repr=False)] = None
    executor_name: Name | None = None
    template: dict[str, Any] | None = None
    branch: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    resume_policy: Literal["Auto", "OnRequest", "Never"] = "Auto"


class SessionWish(OfSession):
    """`session.resume`, `session.fresh_start`: `request_id` becomes the wish's annotation."""

    request_id: ClientId


class Subscribe(OfSession):
    """`session.subscribe` → SessionView; then what follows `cursor`; without: all of it."""

    cursor: Annotated[str | None, Field(max_length=200)] = None


class MessageList(OfSession):
    """`message.list` → MessagePage: the newest, or what is before a place."""

    before: Annotated[str | None, Field(max_length=200)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = PAGE_SIZE


class Prompt(OfSession):
    """`session.prompt` → {prompt_id, fate, position}. The same id again sends nothing."""

    prompt_id: ClientId
    text: Annotated[Words, Field(repr=False)]


class Cancel(OfSession):
    """`agent.cancel` → {turn_id, fate}."""

    prompt_id: ClientId | None = None


class PermissionRespond(OfSession):
    """`permission.respond`: choose an option, or refuse by leaving it out."""

    permission_id: Annotated[str, Field(min_length=1, max_length=300)]
    option_id: Annotated[str | None, Field(max_length=300)] = None


class ShellSubscribe(OfSession):
    """`shell.subscribe` → {shell_id, instance_id, cursor, cols, rows}; then `shell.output`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] = "main"
    cols: Annotated[int, Field(ge=1, le=1000)] = 80
    rows: Annotated[int, Field(ge=1, le=1000)] = 24
    instance_id: Annotated[str | None, Field(max_length=200)] = None
    shell_id: Annotated[str | None, Field(max_length=200)] = None
    cursor: Annotated[int, Field(ge=0)] = 0
    """With `instance_id` and `shell_id`: the bytes that were already had."""


class OfShell(OfSession):
    """`shell.unsubscribe`."""

    shell_id: Annotated[str, Field(min_length=1, max_length=200)]


class ShellInput(OfShell):
    """`shell.input`: bytes as base64."""

    data: Annotated[str, Field(max_length=350_000, repr=False)]


class ShellResize(OfShell):
    """`shell.resize`."""

    cols: Annotated[int, Field(ge=1, le=1000)]
    rows: Annotated[int, Field(ge=1, le=1000)]


Path = Annotated[str, Field(max_length=4096)]


class FileTree(OfSession):
    """`file.tree` → the contract's own answer."""

    path: Path = ""
    after: Annotated[str | None, Field(max_length=4096)] = None


class FileRead(OfSession):
    """`file.read` → {path, etag, size, encoding: utf-8 | base64, content}; large files by HTTP."""

    path: Path


class FileWrite(OfSession):
    """`file.write` → the entry; `etag` of what is replaced, none for a new file."""

    path: Path
    etag: Annotated[str | None, Field(max_length=200)] = None
    encoding: Literal["utf-8", "base64"] = "utf-8"
    content: Annotated[str, Field(max_length=700_000, repr=False)]


class FileSearch(OfSession):
    """`file.search` → the contract's own answer."""

    query: Annotated[str, Field(min_length=1, max_length=1000)]
    what: Literal["names", "content"] = "names"


class OfRepository(OfSession):
    """`git.status`, `git.diff`, `git.log` → the contract's own answers."""

    repo: Path = ""
    staged: bool = False
    path: Path | None = None
