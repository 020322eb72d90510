"""The calls about files and git, as part of the table of all calls (`routes`)."""

from typing import Final

from pydantic import BaseModel

from kandev_operator.contract import files, git, paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.route import OF_A_BODY, Parameter, Route

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
        also=201,
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
    Route(
        "get",
        paths.FILES_SEARCH,
        "Find files by name, or lines by what is in them.",
        Scope.FILES,
        answer=files.SearchAnswer,
        codes=_PLACE,
        query=(
            Parameter(
                "query",
                "what to look for",
                {"type": "string", "minLength": 1, "maxLength": 1000},
                required=True,
            ),
            Parameter("in", "where", {"type": "string", "enum": ["names", "content"]}),
            _PATH,
            _LIMIT,
            Parameter("case", "capitals matter", {"type": "boolean"}),
            _IGNORED,
        ),
    ),
    Route(
        "get",
        paths.FILES_WATCH,
        "Changes as they come, coalesced: server-sent events.",
        Scope.FILES,
        media="text/event-stream",
        answer=files.WatchChanged,
        codes=_PLACE,
        query=(_PATH, _IGNORED),
    ),
)
_OF_GIT: Final = (
    *_PLACE,
    Code.GIT_MISSING,
    Code.NOT_A_REPOSITORY,
    Code.GIT_FAILED,
    Code.GIT_TIMEOUT,
    Code.GIT_LOCKED,
    Code.GIT_CONFIG_UNSAFE,
    Code.GIT_REF_NOT_FOUND,
    Code.TOO_LARGE,
    Code.DISK_FULL,
)
_OF_A_CHANGE: Final = (
    *_OF_GIT,
    Code.GIT_UNRESOLVED,
    Code.GIT_WOULD_LOSE,
    Code.GIT_REF_EXISTS,
    Code.GIT_HEAD_MOVED,
    Code.GIT_IDENTITY_MISSING,
    Code.GIT_NOTHING_TO_COMMIT,
)
_OF_A_REMOTE: Final = (
    *_OF_A_CHANGE,
    Code.GIT_DIVERGED,
    Code.GIT_NO_UPSTREAM,
    Code.GIT_AUTH_FAILED,
    Code.GIT_UNREACHABLE,
)
_REPO: Final = Parameter("repo", "folder of the repository", {"type": "string"})
_INSIDE: Final = Parameter("path", "relative to the repository", {"type": "string"})


def _reads(path: str, words: str, answer: type[BaseModel], *query: Parameter) -> Route:
    return Route(
        "get", path, words, Scope.FILES, answer=answer, codes=_OF_GIT, query=(_REPO, *query)
    )


def _changes(
    path: str,
    words: str,
    body: type[BaseModel],
    answer: type[BaseModel],
    codes: tuple[Code, ...] = _OF_A_CHANGE,
    status: int = 200,
) -> Route:
    return Route("post", path, words, Scope.FILES, body, status=status, answer=answer, codes=codes)


GIT: Final = (
    _reads(
        paths.GIT_STATUS,
        "What differs in a repository.",
        git.GitStatus,
        _LIMIT,
        Parameter("untracked", "how far", {"type": "string", "enum": ["all", "normal", "no"]}),
    ),
    _reads(
        paths.GIT_DIFF,
        "What differs, with patches.",
        git.GitDiff,
        _INSIDE,
        Parameter("staged", "index instead of work tree", {"type": "boolean"}),
        Parameter("base", "a commit to compare with", {"type": "string"}),
        Parameter("context", "lines around a change", {"type": "integer", "minimum": 0}),
        Parameter("max_bytes", "patch text at most", {"type": "integer", "minimum": 1}),
    ),
    _reads(
        paths.GIT_LOG,
        "Commits, newest first.",
        git.GitLog,
        Parameter("ref", "where to begin", {"type": "string"}),
        _INSIDE,
        _LIMIT,
        Parameter("after", "the `next` of the page before", {"type": "string"}),
    ),
    _reads(paths.GIT_BRANCHES, "Branches, here and at remotes.", git.Branches),
    _changes(
        paths.GIT_BRANCHES,
        "Make a branch, and go nowhere.",
        git.BranchRequest,
        git.Branch,
        status=201,
    ),
    _changes(paths.GIT_STAGE, "Take changes into the index.", git.StageRequest, git.GitStatus),
    _changes(paths.GIT_UNSTAGE, "Take them out again.", git.StageRequest, git.GitStatus),
    _changes(
        paths.GIT_COMMIT,
        "Commit what is staged.",
        git.CommitRequest,
        git.CommitAnswer,
        status=201,
    ),
    _changes(
        paths.GIT_SWITCH,
        "Check a branch out, if nothing is lost.",
        git.SwitchRequest,
        git.GitStatus,
    ),
    _changes(
        paths.GIT_FETCH,
        "Get what a remote has.",
        git.RemoteRequest,
        git.GitStatus,
        _OF_A_REMOTE,
    ),
    _changes(
        paths.GIT_PULL,
        "Fetch, and go forward or nowhere.",
        git.RemoteRequest,
        git.GitStatus,
        _OF_A_REMOTE,
    ),
    _changes(
        paths.GIT_PUSH,
        "Send a branch; replaces only what is named.",
        git.PushRequest,
        git.GitStatus,
        _OF_A_REMOTE,
    ),
)
WORKSPACE: Final = (*FILES, *GIT)
