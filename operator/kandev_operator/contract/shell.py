"""Terminals in the workspace: their bodies, the frames of their socket, and what agentctl MUST do.

Calls: GET and POST `/api/v1/shell`, GET and DELETE `/api/v1/shell/{id}`, and the WebSocket at
`/api/v1/shell/{id}`, all of scope `shell`. agentctl MUST

- serve them whatever the agent does, also when none was ever configured or none can start;
- answer a POST with a name that runs already with that shell, unchanged, and `created` false;
- give each shell an id that no other agentctl will ever give, so that no keystroke can reach
  another place than the one it was typed for, and say `instance_id` before the first byte;
- send a terminal's bytes as binary frames, from the cursor asked for, each byte once and in order;
  where they are not kept any more, send `gap` and go on after it;
- never let a viewer slow the terminal or another viewer: one that falls behind meets a gap;
- end with a shell everything that it started, whatever group or session that moved to;
- keep what is typed and shown out of the journal, the event stream and the log.

A cursor counts the bytes that the terminal has written since it began. Text frames are JSON, the
models below, told apart by `type`; unknown types and fields of a later minor version are skipped
by a reader. A token is checked at the upgrade; a viewer may stay until the token's `exp` plus the
leeway, and longer if it sends a new one in a `token` frame. It is never part of the URL: browsers
name it in `Sec-WebSocket-Protocol`, beside SUBPROTOCOL, as TOKEN_SUBPROTOCOL followed by the token.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from kandev_operator.contract.wire import Wire

SUBPROTOCOL: Final = "kandev.shell.v1"

MAX_SHELLS: Final = 16
"""Shells of one agentctl, those that have ended and can still be read included."""
MAX_VIEWERS: Final = 32
"""Viewers of one shell."""
MAX_SIDE: Final = 1000
"""Most columns, and most rows."""
MAX_ENV: Final = 64
"""Most variables that a caller may add."""

CLOSE_ENDED: Final = 1000
"""The shell is over; an `exit` frame came before."""
CLOSE_AWAY: Final = 1001
"""agentctl itself ends."""
CLOSE_POLICY: Final = 1008
"""Too many text frames that are no control messages."""
CLOSE_TOKEN: Final = 4401
"""The token's time is over; attach again at the cursor, with a new one."""

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
ShellName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Argument = Annotated[str, Field(max_length=32 * 1024, pattern=r"^[^\x00]*$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class InputPolicy(StrEnum):
    """Whose keystrokes count."""

    ALL = "all"
    """Everybody's, as they come."""
    ONE = "one"
    """The owner's alone: the first who types or takes it, until it is released or taken over."""


class ShellRequest(Wire):
    """POST `/api/v1/shell`. The name is the key: the same again gives the shell that runs."""

    name: ShellName = "main"
    cols: Side = 80
    rows: Side = 24
    command: Annotated[tuple[Argument, ...], Field(max_length=1024)] = ()
    """What to run; the user's own shell where it is empty."""
    env: Annotated[dict[Variable, Argument], Field(max_length=MAX_ENV, repr=False)] = {}
    profile_env: bool = False
    """Also give it the environment of the agent's profile, secrets included."""
    input: InputPolicy = InputPolicy.ALL


class EndReason(StrEnum):
    """Why a shell is over."""

    EXITED = "exited"
    """Its process ended by itself, or somebody killed it."""
    CLOSED = "closed"
    """By DELETE."""
    STOPPED = "stopped"
    """agentctl ended."""
    SESSION_CHANGED = "session_changed"
    """Another session is served here now."""


class ShellExit(Wire):
    """How a shell ended; of code and signal one is set."""

    reason: EndReason
    code: int | None = None
    signal: str | None = None
    at: str


class ShellReport(Wire):
    """One shell."""

    shell_id: str
    name: str
    command: tuple[str, ...]
    cwd: str
    pid: int
    cols: int
    rows: int
    input: InputPolicy
    created_at: str
    viewers: int = 0
    first_cursor: int = 0
    """The oldest byte that is kept."""
    cursor: int = 0
    """How many bytes it has written."""
    exit: ShellExit | None = None
    """Absent while it runs."""


class ShellAnswer(ShellReport):
    """Answer to POST `/api/v1/shell`: 201 where it was made, 200 where it ran already."""

    created: bool


class ShellList(Wire):
    """Answer to GET `/api/v1/shell`, in the order of their making."""

    instance_id: str
    shells: tuple[ShellReport, ...]


# ---- text frames to a viewer ---------------------------------------------------------------


class Attached(Wire):
    """The first frame. The next byte is number `cursor`; the replay ends at `end`."""

    type: Literal["attached"] = "attached"
    instance_id: str
    boot_id: str
    shell_id: str
    viewer_id: int
    cursor: int
    end: int
    cols: int
    rows: int
    input: InputPolicy
    owner: int | None = None
    """Viewer id of who may type, with policy `one`."""


class Gap(Wire):
    """Bytes `start` to `end` (not included) are not kept; the next one is number `end`."""

    type: Literal["gap"] = "gap"
    start: int
    end: int


class Resized(Wire):
    """The terminal has this size now."""

    type: Literal["resized"] = "resized"
    cols: int
    rows: int


class InputOwner(Wire):
    """Who may type has changed."""

    type: Literal["input"] = "input"
    owner: int | None = None


class InputRefused(Wire):
    """So many bytes of this viewer's input did not reach the terminal."""

    type: Literal["input_refused"] = "input_refused"
    reason: Literal["not_owner", "view_only", "full", "ended"]
    size: int


class Alive(Wire):
    """Nothing was sent for a heartbeat's time; three missed ones mean that the line is dead."""

    type: Literal["alive"] = "alive"
    cursor: int


class Ended(Wire):
    """The last frame: every byte was sent, and the shell is over."""

    type: Literal["exit"] = "exit"
    exit: ShellExit


class Complaint(Wire):
    """A text frame made no sense, or its token was refused. `code` is one of the error codes."""

    type: Literal["error"] = "error"
    code: str
    message: str


# ---- text frames from a viewer -------------------------------------------------------------


class Resize(Wire):
    """This viewer's window has this size. The terminal follows the viewer active last."""

    type: Literal["resize"]
    cols: Side
    rows: Side


class TakeInput(Wire):
    """Policy `one`: from now on I type."""

    type: Literal["take_input"]


class ReleaseInput(Wire):
    """Policy `one`: whoever types next does."""

    type: Literal["release_input"]


class NewToken(Wire):
    """A newer token, of the same audience and session, to stay longer."""

    type: Literal["token"]
    token: Annotated[str, Field(max_length=8192, repr=False)]


Control = Annotated[Resize | TakeInput | ReleaseInput | NewToken, Field(discriminator="type")]
Notice = Annotated[
    Attached | Gap | Resized | InputOwner | InputRefused | Alive | Ended | Complaint,
    Field(discriminator="type"),
]
