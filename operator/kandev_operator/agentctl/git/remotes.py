"""Fetch, pull and push: with remotes that are configured, forward only, and nothing kept.

The remote is named, never a URL of the caller's. Where a credential comes along, the repository's
own configuration must not say where it would travel. Programs at the other end of a path on this
machine (a remote that is a folder) run only if the caller wants hooks.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kandev_operator.agentctl.git import credentials, guard
from kandev_operator.agentctl.git.environment import REMOTE_PROTOCOLS
from kandev_operator.agentctl.git.reading import branch_of, commit_of
from kandev_operator.agentctl.git.repository import Options, Repository
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import Credential, PushRequest, RemoteRequest

SECONDS: Final = 300.0
DEFAULT_REMOTE: Final = "origin"


async def fetch(repository: Repository, wanted: RemoteRequest) -> None:
    """Get what the remote has; raises Refusal."""
    remote = await _remote(repository, wanted.remote, await branch_of(repository))
    await _fetch(repository, remote, wanted.credential)


async def pull(repository: Repository, wanted: RemoteRequest) -> None:
    """Fetch, then go forward to the upstream, or be refused; raises Refusal."""
    branch = await branch_of(repository)
    if branch is None:
        raise Refusal(Code.GIT_NO_UPSTREAM, "HEAD is on no branch")
    remote = await _remote(repository, wanted.remote, branch)
    await _fetch(repository, remote, wanted.credential)
    upstream = await repository.tried(
        "rev-parse", "--symbolic-full-name", "--verify", "--quiet", f"{branch}@{{upstream}}"
    )
    target = upstream.out.decode("utf-8", "replace").strip()
    if upstream.code or not target.startswith(f"refs/remotes/{remote}/"):
        raise Refusal(Code.GIT_NO_UPSTREAM, "the branch has no upstream at that remote")
    await repository.git(
        *("merge", "--ff-only", "--quiet", "--no-verify-signatures", "--no-autostash", target),
        options=Options(writes=True, seconds=SECONDS),
    )


async def push(repository: Repository, wanted: PushRequest) -> None:
    """Send a branch to the branch of the same name; raises Refusal."""
    branch = wanted.branch or await branch_of(repository)
    if branch is None:
        raise Refusal(Code.GIT_NO_UPSTREAM, "HEAD is on no branch: name one")
    await commit_of(repository, f"refs/heads/{branch}")
    remote = await _remote(repository, wanted.remote, branch)
    ref = f"refs/heads/{branch}"
    args = ["push", "--quiet", "--porcelain", "--no-recurse-submodules", "--no-follow-tags"]
    args.append("--receive-pack=git-receive-pack")
    if wanted.set_upstream:
        args.append("--set-upstream")
    if wanted.replaces is not None:
        args.append(f"--force-with-lease={ref}:{wanted.replaces}")
    if not wanted.run_hooks:
        args.append("--no-verify")
    url = await _url(repository, remote, push=True)
    async with _outward(repository, url, wanted.credential, hooks=wanted.run_hooks) as options:
        done = await repository.tried(*args, "--", remote, f"{ref}:{ref}", options=options)
    if done.code:
        raise repository.refusal(done.err + b"\n" + done.out)


async def _fetch(repository: Repository, remote: str, credential: Credential | None) -> None:
    url = await _url(repository, remote, push=False)
    async with _outward(repository, url, credential, hooks=False, reads=True) as options:
        await repository.git(
            *("fetch", "--quiet", "--no-recurse-submodules", "--no-auto-maintenance"),
            *("--upload-pack=git-upload-pack", "--no-prune", "--", remote),
            options=options,
        )


@asynccontextmanager
async def _outward(
    repository: Repository,
    url: str,
    credential: Credential | None,
    *,
    hooks: bool,
    reads: bool = False,
) -> AsyncIterator[Options]:
    """The options of a call that goes out."""
    protocols = REMOTE_PROTOCOLS + (":file" if reads or hooks else "")
    found = repository.configuration
    if credential is None:
        settings = guard.helpers(found)
        yield Options(
            writes=True, hooks=hooks, protocols=protocols, settings=settings, seconds=SECONDS
        )
        return
    if keys := guard.redirects(found):
        words = "the repository's own configuration says where the credential would travel"
        raise Refusal(Code.GIT_CONFIG_UNSAFE, words, keys=list(keys))
    place = credentials.check(url, credential)
    repository.keep_secret(credential.password)
    with credentials.handed(place, credential) as handed:
        yield Options(
            writes=True,
            hooks=hooks,
            protocols=protocols,
            settings=handed.settings,
            pass_fds=handed.pass_fds,
            seconds=SECONDS,
        )


async def _remote(repository: Repository, name: str | None, branch: str | None) -> str:
    """A remote that is configured; raises Refusal."""
    known = (await repository.git("remote")).decode("utf-8", "replace").split("\n")
    if name is None and branch is not None:
        done = await repository.tried("config", "--get", f"branch.{branch}.remote")
        told = done.out.decode("utf-8", "replace").strip()
        name = told if told in known else None
    name = name or DEFAULT_REMOTE
    if name not in known:
        raise Refusal(Code.GIT_REF_NOT_FOUND, "there is no remote of that name")
    return name


async def _url(repository: Repository, remote: str, *, push: bool) -> str:
    told = await repository.git("remote", "get-url", *(("--push",) if push else ()), "--", remote)
    return told.decode("utf-8", "replace").strip()
