"""Agentctl on the operator's own machine: where it may work, starting it, finding it, ending it.

An agentctl is started detached and owned by nobody: it outlives the operator, killed or stopped,
and is found again by its state folder, where it writes who and where it is. What is written there
is believed only as far as a living process with that pid and birth bears it out, and only on the
loopback. It gets a small environment of its own: nothing of the operator's goes down to agents.

Failures are values, with agentctl's own words; they end up in a condition.
"""

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

import kandev_operator
from kandev_operator.clients.errors import bounded
from kandev_operator.clients.processes import Handle, birth_of, carrying, instances

MODULE: Final = "kandev_operator.agentctl"
STATE_MARK: Final = "KANDEV_STATE"
"""Everything that is started below a state folder carries this in its environment."""
_RESERVED: Final = ".kandev"
_INHERITED: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
_START_SECONDS: Final = 30.0
_KILL_SECONDS: Final = 5.0
_MAX_RUN_FILE: Final = 64 * 1024


class WorktreeFault(StrEnum):
    """Why a folder cannot be an executor's worktree."""

    NAMESPACE_NOT_ALLOWED = "namespace_not_allowed"
    OUTSIDE_ROOT = "outside_root"
    RESERVED = "reserved"
    MISSING = "missing"
    NOT_A_DIRECTORY = "not_a_directory"
    NOT_WRITABLE = "not_writable"


@dataclass(frozen=True)
class WorktreeProblem:
    """A folder that cannot be used, and one sentence for people."""

    fault: WorktreeFault
    message: str


@dataclass(frozen=True)
class LocalProcess:
    """A living agentctl, as its run.json names it."""

    state: Path
    pid: int
    birth: int
    host: str
    port: int
    instance_id: str
    boot_id: str

    @property
    def url(self) -> str:
        """Where it listens; always on the loopback."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @classmethod
    def read(cls, state: Path) -> Self | None:
        """What run.json says, if it says it in full; whether it lives is not asked here."""
        try:
            with open(state / "run.json", "rb") as file:
                told = json.loads(file.read(_MAX_RUN_FILE))
            written = cls(
                state=state,
                pid=_positive(told["pid"]),
                birth=_positive(told["birth"]),
                host=_loopback(told["host"]),
                port=_positive(told["port"]),
                instance_id=str(told["instance_id"]),
                boot_id=str(told["boot_id"]),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return written if written.port < 65536 else None


@dataclass(frozen=True)
class StartFailure:
    """An agentctl did not come up. `said` is the end of what it wrote about it."""

    message: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.said}" if self.said else self.message


class LocalHost:
    """This machine. `roots` names the namespaces that may use it, each with its folder."""

    def __init__(
        self,
        roots: Mapping[str, Path],
        python: str = sys.executable,
        *,
        start_seconds: float = _START_SECONDS,
    ) -> None:
        self._roots = dict(roots)
        self._python = python
        self._start_seconds = start_seconds

    def is_allowed(self, namespace: str) -> bool:
        """Whether this namespace may use this machine at all."""
        return namespace in self._roots

    def check_worktree(self, namespace: str, worktree_path: str | Path) -> WorktreeProblem | None:
        """Say what is wrong with a worktree; None when it can be used.

        Places are judged before their content, so that nobody learns what lies elsewhere.
        """
        if namespace not in self._roots:
            words = "local executors are not allowed in this namespace"
            return WorktreeProblem(WorktreeFault.NAMESPACE_NOT_ALLOWED, words)
        root = _real(self._roots[namespace])
        place = _real(worktree_path)
        if root is None or place is None or place == root or not place.is_relative_to(root):
            words = "the worktree is not below the folder that is allowed for its namespace"
            return WorktreeProblem(WorktreeFault.OUTSIDE_ROOT, words)
        if place.is_relative_to(root / _RESERVED):
            words = f"{_RESERVED} holds the state of local executors"
            return WorktreeProblem(WorktreeFault.RESERVED, words)
        if not place.exists():
            return WorktreeProblem(WorktreeFault.MISSING, "the worktree does not exist")
        if not place.is_dir():
            words = "the worktree is not a folder"
            return WorktreeProblem(WorktreeFault.NOT_A_DIRECTORY, words)
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            words = "the operator's user may not write there"
            return WorktreeProblem(WorktreeFault.NOT_WRITABLE, words)
        return None

    def state_folder(self, namespace: str, worktree_path: str | Path) -> Path:
        """Where the agentctl of a worktree keeps what it knows: one for each real folder.

        Raises KeyError for a namespace that `check_worktree` refuses.
        """
        real = os.path.realpath(worktree_path)
        name = sha256(os.fsencode(real)).hexdigest()[:16]
        return Path(os.path.realpath(self._roots[namespace])) / _RESERVED / name

    def find(self, state: Path) -> LocalProcess | None:
        """The agentctl that lives in a state folder, if one does."""
        written = LocalProcess.read(state)
        alive = written is not None and birth_of(written.pid) == written.birth
        return written if alive else None

    def lives(self, namespace: str, worktree_path: str | Path, executor_uid: str) -> bool:
        """Whether this executor's own agentctl lives on its folder."""
        if namespace not in self._roots:
            return bool(instances(f"{executor_uid}-"))
        found = self.find(self.state_folder(namespace, worktree_path))
        return found is not None and found.instance_id.startswith(f"{executor_uid}-")

    async def end_all_of(self, executor_uid: str, grace: float) -> bool:
        """End every agentctl of an executor, whether its run.json names it or not, and what each
        left behind; tells whether nothing lives any more."""
        ended = True
        for pid, birth, state in await asyncio.to_thread(instances, f"{executor_uid}-"):
            nobody = LocalProcess(state, pid, birth, "127.0.0.1", 1, "", "")
            ended = await self.stop(nobody, grace) and ended
        return ended

    def refresh_jwks(self, state: Path, jwks: Mapping[str, Any]) -> Path:
        """Give agentctl the public keys it checks callers by; written only when they differ."""
        path = state / "jwks.json"
        text = json.dumps(jwks, sort_keys=True, indent=2) + "\n"
        with contextlib.suppress(OSError, ValueError):
            if path.read_text() == text:
                return path
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_text(text)
        part.replace(path)
        return path

    async def start(
        self,
        state: Path,
        worktree: str | Path,
        instance_id: str,
        audience: str,
        jwks: Mapping[str, Any],
    ) -> LocalProcess | StartFailure:
        """Start an agentctl, or find the one that this very call has started before."""
        if (running := self.find(state)) is not None:
            return _only(running, instance_id)
        # One that run.json does not name cannot be asked, and keeps the folder locked.
        for pid, birth, _ in await asyncio.to_thread(instances, "", state):
            await self.stop(LocalProcess(state, pid, birth, "127.0.0.1", 1, "", ""), 10.0)
        try:
            command = self._command(state, worktree, jwks)
        except OSError as error:
            return StartFailure(f"the state folder cannot be written ({error.strerror})")
        command += ["--instance-id", instance_id, "--audience", audience]
        failure = await self._launch(command, state)
        # Looked at in any case: another pass may have started it while this one failed to.
        if (running := self.find(state)) is not None:
            return _only(running, instance_id)
        return failure or StartFailure("agentctl started and is gone again", _tail(state))

    async def stop(self, process: LocalProcess, grace: float) -> bool:
        """End an agentctl and all that it left behind; tells whether nothing lives any more.

        TERM first, so that it ends its agent gently; KILL after `grace` seconds.
        """
        handle = Handle.open(process.pid, process.birth)
        if handle is not None:
            try:
                handle.send(signal.SIGTERM)
                if not await handle.ended(grace):
                    handle.send(signal.SIGKILL)
                    await handle.ended(_KILL_SECONDS)
            finally:
                handle.close()
        return await self.sweep(process.state)

    async def sweep(self, state: Path) -> bool:
        """Kill whatever carries this state folder's mark; tells whether nothing is left.

        A process may fork while it is killed, so it is looked at again until none is found.
        """
        entry = f"{STATE_MARK}={state}"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _KILL_SECONDS
        while left := await asyncio.to_thread(carrying, entry):
            if loop.time() >= deadline:
                return False
            for pid in left:
                await _kill(pid)
        return True

    def _command(self, state: Path, worktree: str | Path, jwks: Mapping[str, Any]) -> list[str]:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = self.refresh_jwks(state, jwks)
        # -P: what lies in the current folder is not to be imported.
        command = [self._python, "-P", "-m", MODULE, "run", "--detach", "--host", "127.0.0.1"]
        # An agent files its history under its folder's real path.
        workspace = os.path.realpath(worktree)
        return [*command, "--state", str(state), "--workspace", workspace, "--jwks", str(keys)]

    async def _launch(self, command: list[str], state: Path) -> StartFailure | None:
        """Run the launcher to its end. What it says goes into a file: a pipe would be inherited
        by the agentctl that stays, and then never end."""
        try:
            log = _create(state / "start.log")
        except OSError as error:
            return StartFailure(f"the state folder cannot be written ({error.strerror})")
        try:
            launcher = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(state),
                start_new_session=True,
            )
        except OSError as error:
            return StartFailure(f"python cannot be run ({error.strerror})")
        finally:
            os.close(log)
        finished = False
        try:
            async with asyncio.timeout(self._start_seconds):
                code = await launcher.wait()
            finished = True
        except TimeoutError:
            words = f"agentctl did not come up within {self._start_seconds:g} s"
            return StartFailure(words, _tail(state))
        finally:
            if not finished:
                await asyncio.shield(self._give_up(launcher, state))
        return StartFailure(f"agentctl ended with code {code}", _tail(state)) if code else None

    async def _give_up(self, launcher: asyncio.subprocess.Process, state: Path) -> None:
        """End a launcher that takes too long, with what it may have started already."""
        with contextlib.suppress(ProcessLookupError):
            launcher.kill()
        await launcher.wait()
        await self.sweep(state)


def _only(running: LocalProcess, instance_id: str) -> LocalProcess | StartFailure:
    if running.instance_id == instance_id:
        return running
    return StartFailure(f"another agentctl ({running.instance_id[:128]}) lives in this worktree")


async def _kill(pid: int) -> None:
    birth = birth_of(pid)
    handle = Handle.open(pid, birth) if birth is not None else None
    if handle is None:
        return
    try:
        with contextlib.suppress(PermissionError):
            handle.send(signal.SIGKILL)
            await handle.ended(_KILL_SECONDS)
    finally:
        handle.close()


def _environment(state: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    source = Path(kandev_operator.__file__).parent.parent
    if source.name not in ("site-packages", "dist-packages"):
        # Run from a checkout: the child's Python need not know where that is.
        kept["PYTHONPATH"] = str(source)
    return {**kept, "HOME": str(state), STATE_MARK: str(state)}


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _tail(state: Path) -> str:
    """The end of what the launcher wrote, without blank lines; bounded, from its end."""
    try:
        with open(state / "start.log", "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            text = file.read().decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
    return bounded("\n".join(line for line in text.splitlines() if line.strip())[-1_500:])


def _real(path: str | Path) -> Path | None:
    """The path without symbolic links; None for what cannot be one."""
    try:
        return Path(os.path.realpath(path)) if os.path.isabs(path) else None
    except (OSError, ValueError):
        return None


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError("not a positive number")
    return value


def _loopback(value: Any) -> str:
    if value != "localhost" and not ipaddress.ip_address(value).is_loopback:
        raise ValueError("not on the loopback")
    return str(value)
