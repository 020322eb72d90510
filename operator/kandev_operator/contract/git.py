"""Git in the workspace: GET/POST `/api/v1/git/…`, scope `files`, with or without an agent.

`repo` names the folder of a repository in the workspace (a `contract.files` path; "" is the
workspace). Its `.git` must be in that very folder: a repository around the workspace is not one of
the caller's. Every path in these bodies is relative to that folder, spelled as in `contract.files`.

MUST, for an implementation:

- run nothing that the repository's own configuration names (hooks, filters, fsmonitor, textconv,
  external diffs, helpers, `ext::` remotes), but hooks where the call says `run_hooks`;
- never reset, clean, discard, prune, amend, rebase or force: no call here does. `pull` only goes
  forward, `switch` only if nothing is lost, `push` replaces remote commits only with
  `replaces` naming the very commit that is replaced;
- put a credential on no disk, no command line, no log and no answer, and give it to no other host
  than the one named beside it;
- end every git process in time, with all its children, when the caller leaves, too;
- say what was cut and why: `truncated`, `omitted`, `next`; totals count what was cut as well;
- answer refusals with git's own words in `message`, secrets hidden.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from kandev_operator.contract.files import WirePath
from kandev_operator.contract.wire import Wire

MAX_STATUS_ENTRIES: Final = 5000
STATUS_ENTRIES: Final = 1000
MAX_DIFF_FILES: Final = 1000
MAX_DIFF_BYTES: Final = 1024 * 1024
"""Patch text of one answer; `max_bytes` may ask for less."""
MAX_PATCH_BYTES: Final = 256 * 1024
"""Patch text of one file."""
MAX_LOG: Final = 200
MAX_BRANCHES: Final = 500
MAX_MESSAGE_CHARS: Final = 64 * 1024
MAX_PATHS: Final = 10_000

REF: Final = r"^[^-\x00-\x20~^:?*\[\\\x7f][^\x00-\x20~^:?*\[\\\x7f]*$"
REVISION: Final = r"^[^-\x00-\x20\x7f][^\x00-\x20\x7f]*$"
"""Neither can be taken for an option."""
RefName = Annotated[str, Field(min_length=1, max_length=255, pattern=REF)]
Revision = Annotated[str, Field(min_length=1, max_length=255, pattern=REVISION)]
CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Paths = Annotated[tuple[WirePath, ...], Field(max_length=MAX_PATHS)]


class Change(StrEnum):
    """What happened to a path, between two of: HEAD, index, work tree."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    COPIED = "copied"
    TYPE_CHANGED = "type_changed"
    UNTRACKED = "untracked"
    UNMERGED = "unmerged"


class InProgress(StrEnum):
    """What was begun in the repository and not ended."""

    MERGE = "merge"
    REBASE = "rebase"
    CHERRY_PICK = "cherry_pick"
    REVERT = "revert"
    BISECT = "bisect"


class StatusEntry(Wire):
    """One path that differs."""

    path: str
    old_path: str | None = None
    """Where it was, if it was renamed or copied."""
    index: Change | None = None
    """HEAD to index: staged."""
    worktree: Change | None = None
    """Index to work tree: not staged."""
    submodule: bool = False


class StatusCounts(Wire):
    """How many paths differ, those that were cut counted in."""

    staged: int = 0
    unstaged: int = 0
    untracked: int = 0
    unmerged: int = 0


class GitStatus(Wire):
    """GET `/api/v1/git/status?repo=&limit=&untracked=all|normal|no`.

    Changes inside submodules are not looked at; ask with the submodule as `repo`.
    """

    repo: str
    head: str | None = None
    """Commit id; None before the first commit."""
    branch: str | None = None
    """None when HEAD is detached."""
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    shallow: bool = False
    in_progress: InProgress | None = None
    counts: StatusCounts
    total: int
    entries: tuple[StatusEntry, ...]
    truncated: Literal["limit", "time"] | None = None


class FileDiff(Wire):
    """What changed in one file."""

    path: str
    old_path: str | None = None
    change: Change
    binary: bool = False
    submodule: bool = False
    additions: int | None = None
    deletions: int | None = None
    """Lines; None for a binary file."""
    patch: str | None = None
    """Unified diff; bytes that are not UTF-8 are shown as U+FFFD."""
    lossy: bool = False
    """Such bytes were there: the patch cannot be applied."""
    omitted: Literal["binary", "unmerged", "file_limit", "limit", "time"] | None = None
    """Why there is no patch, or not all of it."""


class GitDiff(Wire):
    """GET `/api/v1/git/diff?repo=&path=&staged=false&base=&context=3&max_bytes=`.

    Work tree against index; with `staged` index against HEAD; with `base` work tree (or, with
    `staged`, index) against that commit. Untracked files are not in it.
    """

    repo: str
    files: tuple[FileDiff, ...]
    total: int
    truncated: Literal["files", "limit", "time"] | None = None


class Commit(Wire):
    """One commit."""

    id: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    authored_at: str
    committer_name: str
    committer_email: str
    committed_at: str
    subject: str
    body: str = ""
    body_truncated: bool = False


class GitLog(Wire):
    """GET `/api/v1/git/log?repo=&ref=HEAD&path=&limit=50&after=`; `next` is the next `after`."""

    repo: str
    commits: tuple[Commit, ...]
    next: str | None = None


class Branch(Wire):
    """A branch, of this repository or as it was last seen at a remote."""

    name: str
    remote: bool = False
    head: str
    current: bool = False
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    upstream_gone: bool = False
    committed_at: str = ""


class Branches(Wire):
    """GET `/api/v1/git/branches?repo=`: newest commit first."""

    repo: str
    branches: tuple[Branch, ...]
    truncated: bool = False


class StageRequest(Wire):
    """POST `/api/v1/git/stage` and `/unstage`: paths or all; answer `GitStatus`.

    Staging a path that was deleted stages the deletion. The work tree is never changed.
    """

    repo: WirePath = ""
    paths: Paths = ()
    all: bool = False


class Person(Wire):
    """Who wrote a commit."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^<>\x00-\x1f\x7f]+$")]
    email: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^<>\s\x00-\x1f\x7f]+$")]


class CommitRequest(Wire):
    """POST `/api/v1/git/commit`: what is staged; answer 201 `CommitAnswer`.

    With `expected_head` (a commit id, or "none" before the first commit) the same call twice never
    makes two commits: the second is refused with `git_head_moved`.
    """

    repo: WirePath = ""
    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARS, repr=False)]
    author: Person | None = None
    """Author and committer; what git is configured with where it is absent."""
    expected_head: CommitId | Literal["none"] | None = None
    allow_empty: bool = False
    run_hooks: bool = False


class CommitAnswer(Wire):
    """The commit made."""

    repo: str
    head: str
    branch: str | None = None


class BranchRequest(Wire):
    """POST `/api/v1/git/branches`: make a branch, and go nowhere; answer 201 `Branch`."""

    repo: WirePath = ""
    name: RefName
    start: Revision = "HEAD"


class SwitchRequest(Wire):
    """POST `/api/v1/git/switch`: check a branch out; answer `GitStatus`.

    Refused with `git_would_lose` where a change that is not committed would be overwritten, or
    where commits made on no branch would be left behind.
    """

    repo: WirePath = ""
    branch: RefName


class Credential(Wire):
    """What the remote wants to see, for this call alone; over HTTPS (HTTP on loopback only)."""

    host: Annotated[str, Field(min_length=1, max_length=260, pattern=r"^[A-Za-z0-9.:\[\]-]+$")]
    """Host, with port if the URL has one; given to no other."""
    username: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    password: Annotated[
        str, Field(min_length=1, max_length=8192, repr=False, pattern=r"^[^\x00-\x1f\x7f]+$")
    ]


class RemoteRequest(Wire):
    """POST `/api/v1/git/fetch` and `/pull`: answer `GitStatus`.

    `pull` fetches and then only goes forward, or is refused with `git_diverged`.
    """

    repo: WirePath = ""
    remote: RefName | None = None
    """The upstream's remote where it is absent, else `origin`."""
    credential: Annotated[Credential | None, Field(repr=False)] = None


class PushRequest(RemoteRequest):
    """POST `/api/v1/git/push`: the current branch, or `branch`; answer `GitStatus`."""

    branch: RefName | None = None
    set_upstream: bool = False
    replaces: CommitId | None = None
    """The remote branch's commit that may be replaced (a force with lease)."""
    run_hooks: bool = False
    """Also needed for a remote that is a folder of this machine: its hooks would run here."""
