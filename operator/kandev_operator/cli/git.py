"""`kubectl kandev git status|diff|log`: a look at the workspace's repository, agent or not.

What was cut is said beside the answer, so that nobody takes a part for the whole.
"""

from typing import Final, assert_never

from kandev_operator.cli import rooms
from kandev_operator.cli.commands import GitDiff, GitLog, GitStatus, OfGit
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode
from kandev_operator.cli.files import LONGEST_NAME, fault_of, line_to, wire_path
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.screen import ERROR, GOOD, STRONG, WARNING
from kandev_operator.clients import errors
from kandev_operator.clients.workspace import Workspace
from kandev_operator.contract import git as contract
from kandev_operator.contract.git import Change
from kandev_operator.contract.status import Room

SHORT: Final = 10
LETTER: Final = {
    Change.ADDED: "A",
    Change.MODIFIED: "M",
    Change.DELETED: "D",
    Change.RENAMED: "R",
    Change.COPIED: "C",
    Change.TYPE_CHANGED: "T",
    Change.UNTRACKED: "?",
    Change.UNMERGED: "U",
}


async def git(desk: Desk, asked: OfGit) -> ExitCode:
    """Carry one of them out."""
    line = await line_to(desk, asked.session)
    workspace = Workspace(line.client)
    repo = wire_path(asked.repo)
    try:
        await line.client.health()  # nobody else at that address is told or believed anything
        await rooms.require(line, Room.GIT)
        match asked:
            case GitStatus():
                _show_status(desk, await workspace.status(repo), as_json=asked.as_json)
            case GitDiff():
                path = wire_path(asked.path)
                found = await workspace.diff(repo, path, staged=asked.staged, base=asked.base)
                _show_diff(desk, found)
            case GitLog():
                path = wire_path(asked.path)
                _show_log(desk, await workspace.log(repo, path, ref=asked.ref, limit=asked.limit))
            case _:
                assert_never(asked)
    except errors.AgentctlError as error:
        raise fault_of(line, error) from error
    return ExitCode.OK


def _show_status(desk: Desk, found: contract.GitStatus, *, as_json: bool) -> None:
    screen = desk.screen
    if as_json:
        screen.say(found.model_dump_json())
        return
    where = one_line(found.branch) if found.branch else "no branch"
    head = found.head[:SHORT] if found.head else "no commit yet"
    screen.parts((where, STRONG), (f" at {head}{_beside_upstream(found)}", ""))
    if found.in_progress is not None:
        screen.say(f"a {found.in_progress.value.replace('_', '-')} is under way", WARNING)
    for entry in found.entries:
        staged = LETTER[entry.index] if entry.index else " "
        changed = LETTER[entry.worktree] if entry.worktree else " "
        old = f"{one_line(entry.old_path, LONGEST_NAME)} -> " if entry.old_path else ""
        name = f" {old}{one_line(entry.path, LONGEST_NAME)}"
        screen.parts((staged, GOOD), (changed, ERROR), (name, ""))
    if not found.total:
        screen.say("nothing differs")
    if found.truncated is not None:
        screen.note(f"{len(found.entries)} of {found.total} paths are shown")


def _beside_upstream(found: contract.GitStatus) -> str:
    if found.upstream is None:
        return ""
    if found.ahead is None or found.behind is None:
        return f", upstream {one_line(found.upstream)} is not there"
    return f", {found.ahead} ahead and {found.behind} behind {one_line(found.upstream)}"


def _show_diff(desk: Desk, found: contract.GitDiff) -> None:
    for file in found.files:
        if file.patch is not None:
            desk.screen.stream(file.patch)
        if file.omitted is not None:
            desk.screen.end_line()
            name = one_line(file.path, LONGEST_NAME)
            desk.screen.say(f"{name}: {file.change.value}, {_OMITTED[file.omitted]}", WARNING)
    desk.screen.end_line()
    if found.truncated is not None:
        desk.screen.note(f"this is not all: {found.total} files differ; name a path")


_OMITTED: Final = {
    "binary": "binary",
    "unmerged": "in conflict",
    "file_limit": "too long to be shown whole",
    "limit": "left out",
    "time": "left out, for it took too long",
}


def _show_log(desk: Desk, found: contract.GitLog) -> None:
    for commit in found.commits:
        what = f" {commit.authored_at[:10]} {one_line(commit.author_name, 40)}: "
        desk.screen.parts((commit.id[:SHORT], STRONG), (what, ""), (one_line(commit.subject), ""))
    if found.next is not None:
        desk.screen.note("there are more: --limit")
