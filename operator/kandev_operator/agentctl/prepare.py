"""`kandev-agentctl prepare`: clone what a session's task names into its workspace, once.

Run before the agent's container starts, at every new pod, so every step looks before it acts: a
clone that is there is left as it is, whatever branch it is on and whatever lies in it, for that is
the session's work. A clone is made beside its place and moved there whole, so that one that was cut
off is never taken for one that is there. A branch that exists, here or at the remote, is preferred
to a new one. Git's own words are shown, with credentials taken out.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

CLONE_SECONDS: Final = 3600
_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+@")
_LONGEST: Final = 1500


class PrepareFailed(Exception):
    """A repository cannot be had; the text says which and why, in git's words."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of the plan."""

    name: str
    url: str
    path: str
    ref: str | None
    branch: str
    credentials: Path | None

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Self:
        """Raises PrepareFailed for a path that leads out of the workspace."""
        path = PurePosixPath(told["path"])
        if path.is_absolute() or ".." in path.parts or str(path) in ("", "."):
            raise PrepareFailed(f"repository {told['name']}: path {path} is not in the workspace")
        folder = told.get("credentials")
        return cls(
            name=told["name"],
            url=told["url"],
            path=str(path),
            ref=told.get("ref"),
            branch=told["branch"],
            credentials=Path(folder) if folder else None,
        )


def prepare(workspace: Path, plan: Sequence[Mapping[str, Any]]) -> None:
    """Make what is missing. Raises PrepareFailed."""
    workspace.mkdir(parents=True, exist_ok=True)
    for told in plan:
        repository = Repository.read(told)
        place = workspace / repository.path
        if (place / ".git").exists():
            continue
        if place.exists() and any(place.iterdir()):
            raise PrepareFailed(
                f"repository {repository.name}: folder {repository.path} is there and is no clone"
            )
        _clone(repository, place)


def _clone(repository: Repository, place: Path) -> None:
    part = place.with_name(f".{place.name}.cloning")
    shutil.rmtree(part, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with _access(repository) as env:
        _git(repository, env, "clone", "--", repository.url, str(part))
        inside = ("-C", str(part))
        if _has(env, *inside, "rev-parse", "--verify", f"refs/remotes/origin/{repository.branch}"):
            track = ("--track", f"origin/{repository.branch}")
            _git(repository, env, *inside, "checkout", "-B", repository.branch, *track)
        elif _has(env, *inside, "rev-parse", "--verify", "HEAD") or repository.ref is not None:
            start = _start(repository, env, inside)
            _git(repository, env, *inside, "checkout", "--no-track", "-b", repository.branch, start)
        else:  # an empty repository: the branch is born with its first commit
            _git(repository, env, *inside, "checkout", "--orphan", repository.branch)
    if place.exists():
        place.rmdir()
    part.rename(place)


def _start(repository: Repository, env: Mapping[str, str], inside: Sequence[str]) -> str:
    """Where a new branch begins: the named branch at the remote, a tag or commit, or its HEAD."""
    if repository.ref is None:
        return "HEAD"
    remote = f"refs/remotes/origin/{repository.ref}"
    return remote if _has(env, *inside, "rev-parse", "--verify", remote) else repository.ref


def _has(env: Mapping[str, str], *arguments: str) -> bool:
    done = subprocess.run(
        ["git", *arguments], env=env, capture_output=True, stdin=subprocess.DEVNULL
    )
    return done.returncode == 0


def _git(repository: Repository, env: Mapping[str, str], *arguments: str) -> None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=CLONE_SECONDS,
        )
    except FileNotFoundError:
        said = "there is no git in the agent's image"
        raise PrepareFailed(f"repository {repository.name}: {said}") from None
    except subprocess.TimeoutExpired:
        said = f"git did not end within {CLONE_SECONDS} s"
        raise PrepareFailed(f"repository {repository.name}: {said}") from None
    if done.returncode == 0:
        return
    words = " ".join(done.stderr.decode("utf-8", "replace").split())
    words = _IN_URL.sub("", words)
    for secret in _secrets(repository):
        words = words.replace(secret, "[redacted]")
    raise PrepareFailed(f"repository {repository.name}: {words[-_LONGEST:]}")


def _secrets(repository: Repository) -> list[str]:
    found = [_read(repository, "password"), _read(repository, "username")]
    return [each for each in found if each]


def _read(repository: Repository, key: str) -> str:
    if repository.credentials is None:
        return ""
    try:
        return (repository.credentials / key).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@contextlib.contextmanager
def _access(repository: Repository) -> Iterator[dict[str, str]]:
    """git's environment: it asks nobody, and finds the repository's own credentials, if any."""
    with tempfile.TemporaryDirectory(prefix="kandev-git-") as folder:
        home = Path(folder)
        env = {
            **os.environ,
            "HOME": str(home),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": _ssh(repository, home),
        }
        if _read(repository, "password"):
            ask = home / "ask"
            source = repository.credentials
            ask.write_text(
                '#!/bin/sh\ncase "$1" in\n'
                f"[Uu]sername*) cat '{source}/username' 2>/dev/null || echo git ;;\n"
                f"*) cat '{source}/password' ;;\nesac\n"
            )
            ask.chmod(stat.S_IRWXU)
            env["GIT_ASKPASS"] = str(ask)
        yield env


def _ssh(repository: Repository, home: Path) -> str:
    options = ["-o BatchMode=yes"]
    key = _read(repository, "ssh-privatekey")
    if key:
        own = home / "key"
        own.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        own.write_text(key + "\n")
        options.append(f"-i {own} -o IdentitiesOnly=yes")
    hosts = repository.credentials / "known_hosts" if repository.credentials else None
    if hosts is not None and hosts.exists():
        options.append(f"-o UserKnownHostsFile={hosts}")
    elif key:
        options.append(f"-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={home}/hosts")
    return " ".join(["ssh", *options])
