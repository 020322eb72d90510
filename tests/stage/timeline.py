"""When did what become so? The changes of a namespace's objects, with the moment each was seen.

Kubernetes' own timestamps have whole seconds. Here a watch is read as it comes, so a moment is
that of a change plus what the watch takes, milliseconds. Moments are seconds since the epoch: the
same clock that agentctl's journal and the scripted agent's diary use.
"""

import codecs
import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from cluster.interface import Cluster

Body = dict[str, Any]
_CHUNK = 65536


@dataclass(frozen=True)
class Seen:
    """An object as it was at a moment."""

    at: float
    event: str
    """ADDED, MODIFIED or DELETED."""
    body: Body

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    @property
    def uid(self) -> str:
        uid: str = self.body["metadata"]["uid"]
        return uid

    @property
    def status(self) -> Body:
        found: Body = self.body.get("status") or {}
        return found


class Timeline:
    """A context that watches one kind in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, kind: str) -> None:
        self._command = [str(cluster.kubectl_command), f"--kubeconfig={cluster.kubeconfig}"]
        self._command += ["-n", namespace, "get", kind, "--watch", "--output-watch-events"]
        self._command += ["--output=json", f"--cache-dir={cluster.scratch}/kubectl-cache"]
        self._news = threading.Condition()
        self._seen: list[Seen] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._read, name="timeline", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def first(
        self, holds: Callable[[Seen], Any], what: str, *, since: float = 0, seconds: float = 120
    ) -> Seen:
        """The first that was so after a moment; waits for it."""
        end = time.monotonic() + seconds
        with self._news:
            while True:
                for each in self._seen:
                    if each.at >= since and holds(each):
                        return each
                left = end - time.monotonic()
                if left <= 0:
                    last = self._seen[-1].body if self._seen else None
                    raise AssertionError(f"never seen: {what}; last: {json.dumps(last)[:3000]}")
                self._news.wait(min(left, 1.0))

    def all(self) -> list[Seen]:
        with self._news:
            return list(self._seen)

    def _read(self) -> None:
        assert self._process.stdout is not None
        objects, rest = json.JSONDecoder(), ""
        letters = codecs.getincrementaldecoder("utf-8")()
        while data := self._process.stdout.read1(_CHUNK):  # type: ignore[attr-defined]
            now = time.time()
            rest += letters.decode(data)
            while rest := rest.lstrip():
                try:
                    told, length = objects.raw_decode(rest)
                except ValueError:
                    break
                rest = rest[length:]
                with self._news:
                    self._seen.append(Seen(now, told["type"], told["object"]))
                    self._news.notify_all()
