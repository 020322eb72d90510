"""Watches that no two pods ever run an agent at the same moment, as the machine sees it.

Pods' processes are processes of this machine, in control groups with the pod's UID in their names.
So it is seen whatever the cluster believes: also while a pod that was deleted by force lives on.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_POD = re.compile(r"/pod([0-9a-f-]{36})/")
_EVERY = 0.05


class OneHistory:
    """A context; `pods` are all that were seen with the agent, `crowds` those seen together."""

    def __init__(self, program: str) -> None:
        """`program` is a word of the agent's command line that nothing else has."""
        self._program = program.encode()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="onehistory", daemon=True)
        self.pods: list[str] = []
        self.crowds: set[frozenset[str]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY):
            now = frozenset(self._running())
            self.pods += [pod for pod in sorted(now) if pod not in self.pods]
            if len(now) > 1:
                self.crowds.add(now)

    def _running(self) -> Iterator[str]:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            # A process may end between two looks.
            with suppress(OSError):
                if self._program in (folder / "cmdline").read_bytes():
                    yield from _POD.findall((folder / "cgroup").read_text())[:1]
