"""Watching for changes through a running agentctl. The field case B032 among them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from integration.agentctl.harness import Json, Sidecar, eventually
from integration.agentctl.workbench import Bench, repository
from kandev_operator.contract import paths
from kandev_operator.contract.files import encode_path

PATIENCE = 30.0


class Watcher:
    """A reader of changes, in a thread of its own."""

    def __init__(self, bench: Bench, **query: object) -> None:
        token = bench.sidecar.keys.token(scopes=["files"], term=None, epoch=None)
        self._client = httpx.Client(timeout=PATIENCE)
        request = self._client.build_request(
            "GET",
            bench.sidecar.run["url"] + paths.FILES_WATCH,
            params={k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in query.items()},
            headers={"X-Kandev-Token": token},
        )
        self._response = self._client.send(request, stream=True)
        self.status = self._response.status_code
        if self.status != 200:
            self.refused: Json = json.loads(self._response.read())
            return
        self._events: queue.Queue[tuple[str, Json] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        kind, self.ready = self.next()
        assert kind == "ready"

    def _read(self) -> None:
        kind = ""
        with contextlib.suppress(httpx.HTTPError, OSError):
            for line in self._response.iter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    self._events.put((kind, json.loads(line[6:])))
        self._events.put(None)

    def next(self) -> tuple[str, Json]:
        found = self._events.get(timeout=PATIENCE)
        assert found is not None, "the stream ended without a word"
        return found

    def until(self, *wanted: str) -> set[str]:
        """Every path that was told, up to the moment when all of these were."""
        seen: set[str] = set()
        deadline = time.monotonic() + PATIENCE
        while not set(wanted) <= seen:
            assert time.monotonic() < deadline, (wanted, seen)
            kind, data = self.next()
            assert kind == "changed", (kind, data)
            assert len(set(data["paths"])) == len(data["paths"])
            seen |= set(data["paths"])
        return seen

    def close(self) -> None:
        stream = self._response.extensions["network_stream"]
        with contextlib.suppress(OSError):
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        if self.status == 200:
            self._thread.join(5)
        self._response.close()
        self._client.close()


@contextlib.contextmanager
def watching(bench: Bench, **query: object) -> Iterator[Watcher]:
    watcher = Watcher(bench, **query)
    try:
        yield watcher
    finally:
        watcher.close()


def fds(sidecar: Sidecar) -> int:
    assert sidecar.process is not None
    return len(os.listdir(f"/proc/{sidecar.process.pid}/fd"))


def test_what_is_made_changed_moved_and_removed_is_told(bench: Bench) -> None:
    bench.make_folder("a")
    bench.put("a/f", b"1")
    with watching(bench) as watcher:
        (bench.workspace / "a/f").write_text("2")
        watcher.until("a/f")
        (bench.workspace / "a/f").rename(bench.workspace / "g")
        watcher.until("a/f", "g")
        (bench.workspace / "g").unlink()
        watcher.until("g")
        odd = os.fsencode(bench.workspace) + b"/n\n\xff"
        Path(os.fsdecode(odd)).touch()
        watcher.until(encode_path(b"n\n\xff"))


def test_new_folders_are_watched_and_what_was_in_them_is_told(bench: Bench) -> None:
    with watching(bench) as watcher:
        (bench.workspace / "a/b/c").mkdir(parents=True)
        (bench.workspace / "a/b/c/f").touch()
        watcher.until("a", "a/b", "a/b/c", "a/b/c/f")
        (bench.workspace / "a/b/c/g").touch()
        watcher.until("a/b/c/g")
        (bench.workspace / "a/b").rename(bench.workspace / "moved")
        watcher.until("a/b", "moved")
        (bench.workspace / "moved/c/h").touch()
        assert "a/b/c/h" not in watcher.until("moved/c/h")
        shutil.rmtree(bench.workspace / "moved")
        watcher.until("moved")


def test_what_git_ignores_is_not_told_unless_asked(bench: Bench) -> None:
    repository(bench.workspace, {".gitignore": "*.log\nbuild/\n"})
    bench.make_folder("build")
    with watching(bench) as watcher, watching(bench, ignored=True) as nosy:
        for name in ("x.log", "build/out", ".git/x", "last"):
            (bench.workspace / name).touch()
        nosy.until("x.log", "build/out", ".git/x", "last")
        assert watcher.until("last") == {"last"}
        (bench.workspace / ".gitignore").write_text("*.log\n")
        watcher.until(".gitignore")
        (bench.workspace / "build/more").touch()
        watcher.until("build/more")


def test_what_is_tracked_is_told_whatever_the_patterns_say(bench: Bench) -> None:
    repository(bench.workspace, {"x.log": "", "build/deep/keep": ""})
    bench.put(".gitignore", b"*.log\nbuild\n")
    with watching(bench) as watcher:
        for name in ("x.log", "y.log", "build/deep/keep", "build/deep/out", "last"):
            (bench.workspace / name).touch()
        assert watcher.until("x.log", "build/deep/keep", "last") == {
            *("x.log", "build/deep/keep", "last")
        }


def test_a_reader_of_one_folder_hears_of_that_folder(bench: Bench) -> None:
    bench.make_folder("a")
    bench.make_folder("b")
    with watching(bench, path="a") as watcher:
        bench.put("b/f", b"")
        bench.put("a/f", b"")
        assert {path.partition("/")[0] for path in watcher.until("a/f")} == {"a"}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("..", 403, "outside_workspace"),
        ("a/../..", 403, "outside_workspace"),
        ("away", 403, "outside_workspace"),
        ("nowhere", 404, "file_not_found"),
        ("f", 409, "not_a_folder"),
        ("link", 409, "not_a_folder"),
        ("link/b", 409, "not_a_folder"),
    ],
)
def test_what_would_be_silent_for_ever_is_refused(
    bench: Bench, path: str, status: int, code: str
) -> None:
    bench.make_folder("a/b", parents=True)
    bench.put("f", b"")
    (bench.workspace / "link").symlink_to("a")
    (bench.workspace / "away").symlink_to("/etc")
    watcher = Watcher(bench, path=path)
    assert (watcher.status, watcher.refused["code"]) == (status, code)
    watcher.close()


def test_many_changes_of_one_file_are_few_events(bench: Bench) -> None:
    bench.put("f", b"")
    with watching(bench) as watcher:
        for number in range(500):
            (bench.workspace / "f").write_text(str(number))
        bench.put("last", b"")
        events = 0
        seen: set[str] = set()
        while "last" not in seen:
            _, data = watcher.next()
            events += 1
            seen |= set(data["paths"])
        assert events < 100


def test_more_changes_than_a_reader_may_have_waiting_are_an_overflow(bench: Bench) -> None:
    """A folder with very many files comes at once."""
    aside = bench.workspace.parent / "aside"
    aside.mkdir()
    for number in range(3000):
        (aside / f"f{number}").touch()
    with watching(bench) as watcher:
        aside.rename(bench.workspace / "many")
        assert watcher.next() == ("overflow", {"reason": "reader"})
        (bench.workspace / "many/afterwards").touch()
        watcher.until("many/afterwards")


def test_changes_that_the_kernel_lost_are_an_overflow(own: Sidecar) -> None:
    """agentctl is stopped while more happens than the kernel keeps; a new folder is among it."""
    bench = Bench(own)
    assert own.process is not None
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with watching(bench) as watcher:
        own.process.send_signal(signal.SIGSTOP)
        try:
            for number in range(kept // 2 + 10):  # at least two events each
                (bench.workspace / f"f{number}").touch()
            (bench.workspace / "new").mkdir()
        finally:
            own.process.send_signal(signal.SIGCONT)
        assert watcher.next() == ("overflow", {"reason": "kernel"})
        (bench.workspace / "new/afterwards").touch()
        watcher.until("new/afterwards")


def test_the_end_of_the_workspace_is_told(own: Sidecar) -> None:
    bench = Bench(own)
    with watching(bench) as watcher:
        bench.workspace.rename(bench.workspace.with_name("away"))
        kind, data = watcher.next()
        assert (kind, data) == ("closed", {"reason": "folder_gone"})
    bench.workspace.mkdir()
    with watching(bench) as watcher:
        bench.put("f", b"")
        watcher.until("f")


def test_readers_come_and_go_without_a_leak(bench: Bench) -> None:
    with watching(bench):
        pass
    before = fds(bench.sidecar)
    for _ in range(30):
        with watching(bench) as watcher:
            assert watcher.ready["folders"] >= 1
    eventually(lambda: fds(bench.sidecar) <= before + 1, "descriptors are given back")


def test_there_are_only_so_many_readers(bench: Bench) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(watching(bench))
        one_more = Watcher(bench)
        assert (one_more.status, one_more.refused["code"]) == (503, "busy")
        one_more.close()
        assert bench.sidecar.health()["status"] == "ok"

    def watches_again() -> bool:
        another = Watcher(bench)
        another.close()
        return another.status == 200

    eventually(watches_again, "places are given back")


def test_b032_a_stream_says_whose_it_is_and_why_it_ends(own: Sidecar) -> None:
    """The client connects anew, sees another agentctl, and takes nothing for the old one's."""
    bench = Bench(own)
    with watching(bench) as watcher:
        first = (watcher.ready["instance_id"], watcher.ready["boot_id"])
        assert first == (own.health()["instance_id"], own.health()["boot_id"])
        own.terminate()
        kind, data = watcher.next()
        assert (kind, data) == ("closed", {"reason": "shutdown"})
    own.start()
    with watching(bench) as watcher:
        assert watcher.ready["instance_id"] == first[0]
        assert watcher.ready["boot_id"] != first[1]


def test_b032_another_instance_at_the_same_address_is_told_apart(unstarted: Sidecar) -> None:
    port = _free_port()
    bench = Bench(unstarted.start("--port", str(port), "--instance-id", "pod-1"))
    with watching(bench) as watcher:
        unstarted.kill()
        with pytest.raises(AssertionError, match="without a word"):
            watcher.next()
    unstarted.start("--port", str(port), "--instance-id", "pod-2")
    with watching(bench) as watcher:
        assert watcher.ready["instance_id"] == "pod-2"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
