"""What was asked for: one frozen value for each command, and where it is to be done.

`options` makes these of a command line; the modules that carry a command out take theirs and know
nothing of arguments or variables. Values are checked as far as that needs no cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

OPERATOR_NAMESPACE = "kandev-system"


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster, which namespace, and where the operator keeps its signing key."""

    namespace: str | None = None
    """None: the namespace of the kubeconfig's context."""
    kubeconfig: str | None = None
    context: str | None = None
    operator_namespace: str = OPERATOR_NAMESPACE


@dataclass(frozen=True, slots=True)
class Prompt:
    """Give the agent a prompt, and by default hear its answer out."""

    session: str
    text: str
    """`-`: read it from standard input."""
    prompt_id: str | None = None
    wait: bool = True
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Logs:
    """Show the conversation from the journal."""

    session: str
    follow: bool = False
    since_seq: int = 0
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Resume:
    """Wish for a resume."""

    session: str
    wait: bool = True
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class FreshStart:
    """Wish for a new conversation in the same workspace."""

    session: str
    yes: bool = False
    wait: bool = True
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Permissions:
    """List the open permission requests."""

    session: str
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    """Grant one of them."""

    session: str
    permission_id: str
    option: str | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse one of them."""

    session: str
    permission_id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cut off the turn under way."""

    session: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Open a terminal in the session's workspace, or come back to one."""

    session: str
    name: str = "main"
    words: Sequence[str] = ()
    """What to run, where the shell is new; the user's own shell where it is empty."""
    view_only: bool = False
    detach_keys: bytes = b"\x1dd"
    listing: bool = False
    close: bool = False


@dataclass(frozen=True, slots=True)
class FilesLs:
    """List a folder of the workspace."""

    session: str
    path: str = ""
    depth: int = 1
    everything: bool = False
    """With what git ignores."""
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class FilesGet:
    """Fetch a file of the workspace."""

    session: str
    path: str
    output: str = "-"
    """`-`: standard output."""


@dataclass(frozen=True, slots=True)
class FilesPut:
    """Write a file of the workspace."""

    session: str
    path: str
    source: str = "-"
    """`-`: standard input."""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class GitStatus:
    """Show what differs in the workspace's repository."""

    session: str
    repo: str = ""
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class GitDiff:
    """Show the differences themselves."""

    session: str
    path: str = ""
    repo: str = ""
    staged: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class GitLog:
    """Show the history."""

    session: str
    path: str = ""
    repo: str = ""
    limit: int = 20
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Explain the session's status."""

    session: str


@dataclass(frozen=True, slots=True)
class Jwks:
    """Print the public keys."""


@dataclass(frozen=True, slots=True)
class Export:
    """Write a namespace's objects as a backup."""

    secrets: bool = False
    """Also the Secrets and ConfigMaps that they name."""


OfFiles = FilesLs | FilesGet | FilesPut
OfGit = GitStatus | GitDiff | GitLog
Command = (
    Prompt
    | Logs
    | Resume
    | FreshStart
    | Permissions
    | Allow
    | Deny
    | Cancel
    | Shell
    | OfFiles
    | OfGit
    | Why
    | Jwks
    | Export
)
