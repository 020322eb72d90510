"""The second fence: owner.json, for when a lock proves nothing (network file systems).

The owner renews a heartbeat in it. A new agentctl that finds a stranger's file watches it for two
periods; while it moves, no journal is opened and no agent started. Where the lock is trusted, which
it is on a local file system of the same running kernel, holding it proves that the old owner is
dead: no watching then.
An owner that finds somebody else's name in its file has lost the workspace, and ends its agent.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kandev_operator.agentctl.filesystems import is_network
from kandev_operator.agentctl.statedir import overwrite_json, read_json, write_json
from kandev_operator.contract.status import Failure, FailureCode

NAME: Final = "owner.json"


def kernel() -> str:
    """The id of this boot of the machine's kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class StillOwned(Exception):
    """Another agentctl is at work on the state folder."""


def wait_for_silence(state: Path, period: float, dead: str | None) -> str | None:
    """Before anything in the folder is opened: the boot id of an owner that is surely dead.

    That is `dead`, or a stranger whose heartbeat has stood still for two periods. Raises
    StillOwned while it moves: where a lock proves nothing, two would write one journal.
    """
    path = state / NAME
    before = read_json(path)
    if not Ownership(state, "", period, dead).needs_watching(before):
        return dead
    time.sleep(2 * period)
    after = read_json(path)
    if (after.get("boot_id"), after.get("heartbeat")) != (
        before.get("boot_id"),
        before.get("heartbeat"),
    ):
        raise StillOwned
    return str(before.get("boot_id"))


class Ownership:
    """This process's claim on the state folder."""

    def __init__(self, state: Path, boot_id: str, period: float, dead: str | None = None) -> None:
        """`dead`: the boot id of an earlier owner that is dead for certain."""
        self._path = state / NAME
        self._boot_id, self._period, self._dead = boot_id, period, dead
        self._kernel = kernel()
        self._beat = 0
        self._decided = asyncio.Event()
        self._trusted = not is_network(state)
        self.stranger: str | None = None
        """Who else owns the folder, as far as is known."""

    async def may_launch(self) -> Failure | None:
        """Wait until it is known whether somebody else owns the folder; the reason if so."""
        await self._decided.wait()
        if self.stranger is None:
            return None
        message = "another agentctl still owns this workspace"
        return Failure(code=FailureCode.WORKSPACE_IN_USE, message=message)

    def needs_watching(self, found: dict[str, Any]) -> bool:
        """Whether the file's last writer may be alive, for all that is known here."""
        if not found or found.get("released") or found.get("boot_id") == self._boot_id:
            return False
        if self._dead is not None and found.get("boot_id") == self._dead:
            return False
        return not (self._trusted and self._kernel and found.get("kernel") == self._kernel)

    async def keep(self, term: Callable[[], int], lost: Callable[[], None]) -> None:
        """Settle who owns the folder, then renew the heartbeat for ever."""
        await self._watch()
        while True:
            found = read_json(self._path)
            owner = found.get("boot_id")
            if self._beat and owner not in (None, self._boot_id):
                self.stranger = str(owner)
                lost()
                return
            self._beat += 1
            self._write(term())
            self._decided.set()
            await asyncio.sleep(self._period)

    async def _watch(self) -> None:
        while self.needs_watching(before := read_json(self._path)):
            await asyncio.sleep(2 * self._period)
            after = read_json(self._path)
            if after.get("heartbeat") == before.get("heartbeat"):
                break
            self.stranger = str(after.get("boot_id"))
            self._decided.set()
        self.stranger = None

    def release(self, term: int) -> None:
        """A clean end: nobody needs to watch."""
        if self._beat and self.stranger is None:
            self._write(term, released=True)

    def _write(self, term: int, *, released: bool = False) -> None:
        content: dict[str, Any] = {
            "boot_id": self._boot_id,
            "pid": os.getpid(),
            "term": term,
            "heartbeat": self._beat,
            "kernel": self._kernel,
        }
        content |= {"released": True} if released else {}
        try:
            write_json(self._path, content, sync=False)
        except OSError:
            # A heartbeat that stands still says that we are dead: a full disk must not say so.
            with contextlib.suppress(OSError):
                overwrite_json(self._path, content)
