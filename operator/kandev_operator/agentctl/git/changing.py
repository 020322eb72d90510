"""Changing the index, making commits and branches, switching: nothing here can lose work.

Staging touches the index alone. A commit is made of what is staged, and of nothing but that. A
switch is git's own, which refuses to overwrite what is not committed; commits on no branch are
looked for before, since git would leave them behind with a word of advice.
"""

from typing import Final

from kandev_operator.agentctl.beneath import Names
from kandev_operator.agentctl.git.reading import branch_of, commit_of, is_unborn
from kandev_operator.agentctl.git.repository import WRITES, Options, Repository
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import CommitAnswer, CommitRequest, Person

COMMIT_SECONDS: Final = 120.0
"""Hooks may run, if the caller wants them."""
SWITCH_SECONDS: Final = 120.0
EVERYTHING: Final = b"."


async def stage(repository: Repository, paths: tuple[Names, ...]) -> None:
    """Take paths into the index as they are in the work tree; none: everything."""
    await repository.git(
        *("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"),
        options=WRITES,
        stdin=_listed(paths),
    )


async def unstage(repository: Repository, paths: tuple[Names, ...]) -> None:
    """Put the index of paths back to HEAD; the work tree stays. Refused for conflicts."""
    named = _listed(paths)
    if await _has_conflicts(repository, paths):
        words = "a conflict lies in these paths: unstaging would lose its sides"
        raise Refusal(Code.GIT_UNRESOLVED, words)
    await repository.git(
        *("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul"),
        options=WRITES,
        stdin=named,
    )


async def commit(repository: Repository, wanted: CommitRequest) -> CommitAnswer:
    """Commit what is staged; raises Refusal."""
    head = None if await is_unborn(repository) else await commit_of(repository, "HEAD")
    if wanted.expected_head is not None and wanted.expected_head != (head or "none"):
        words = "HEAD is another commit than the caller expects"
        raise Refusal(Code.GIT_HEAD_MOVED, words, head=head)
    args = ["commit", "--quiet", "--file=-", "--cleanup=whitespace", "--no-gpg-sign", "--no-edit"]
    if wanted.allow_empty:
        args.append("--allow-empty")
    if not wanted.run_hooks:
        args.append("--no-verify")
    options = Options(
        writes=True, hooks=wanted.run_hooks, extra=_signed(wanted.author), seconds=COMMIT_SECONDS
    )
    await repository.git(*args, options=options, stdin=wanted.message.encode())
    made = await commit_of(repository, "HEAD")
    return CommitAnswer(repo=repository.wire, head=made, branch=await branch_of(repository))


async def make_branch(repository: Repository, name: str, start: str) -> None:
    """Make a branch and go nowhere; raises Refusal."""
    await _check_name(repository, name)
    start = await commit_of(repository, start)
    await repository.git("branch", "--no-track", "--", name, start, options=WRITES)


async def switch(repository: Repository, branch: str) -> None:
    """Check a branch out, if nothing is lost; raises Refusal."""
    await _check_name(repository, branch)
    await commit_of(repository, f"refs/heads/{branch}")
    if await branch_of(repository) is None and not await is_unborn(repository):
        kept = await repository.git(
            *("for-each-ref", "--contains=HEAD", "--count=1", "--format=%(refname)"),
        )
        if not kept.strip():
            words = "HEAD has commits that are on no branch: make one for them first"
            raise Refusal(Code.GIT_WOULD_LOSE, words)
    options = Options(writes=True, seconds=SWITCH_SECONDS)
    await repository.git(
        *("switch", "--quiet", "--no-guess", "--no-recurse-submodules", branch), options=options
    )


async def _check_name(repository: Repository, name: str) -> None:
    done = await repository.tried("check-ref-format", "--branch", name)
    if done.code or done.out.decode("utf-8", "replace").strip() != name:
        raise Refusal(Code.INVALID_REQUEST, "git does not take that for a branch's name")


async def _has_conflicts(repository: Repository, paths: tuple[Names, ...]) -> bool:
    done = await repository.git("ls-files", "--unmerged", "-z")
    unmerged = [record.partition(b"\t")[2] for record in done.split(b"\0") if record]
    if not paths:
        return bool(unmerged)
    named = [b"/".join(names) for names in paths]
    return any(
        path == name or path.startswith(name + b"/") or not name
        for path in unmerged
        for name in named
    )


def _listed(paths: tuple[Names, ...]) -> bytes:
    return b"".join((b"/".join(names) or EVERYTHING) + b"\0" for names in paths or ((),))


def _signed(person: Person | None) -> dict[str, str]:
    if person is None:
        return {}
    return {
        "GIT_AUTHOR_NAME": person.name,
        "GIT_AUTHOR_EMAIL": person.email,
        "GIT_COMMITTER_NAME": person.name,
        "GIT_COMMITTER_EMAIL": person.email,
    }
