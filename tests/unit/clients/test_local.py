"""What LocalHost believes: folders it may use, and a run.json that anybody may have written."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.clients.local import LocalHost, LocalProcess, WorktreeFault
from kandev_operator.clients.processes import Handle, birth_of, carrying


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "work").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def host(root: Path) -> LocalHost:
    return LocalHost({"team-a": root})


def run_json(state: Path, **changes: Any) -> None:
    told = {
        "pid": os.getpid(),
        "birth": birth_of(os.getpid()),
        "host": "127.0.0.1",
        "port": 4040,
        "instance_id": "i",
        "boot_id": "b",
        "url": "http://evil.example:1",
        "of_a_later_version": True,
    }
    (state / "run.json").write_text(json.dumps({**told, **changes}))


# ── Worktrees ────────────────────────────────────────────────────────────────────────────────


def test_a_folder_below_the_root_can_be_used(host: LocalHost, root: Path) -> None:
    assert host.check_worktree("team-a", root / "work") is None
    (root / "alias").symlink_to(root / "work")
    assert host.check_worktree("team-a", root / "alias") is None
    assert host.state_folder("team-a", root / "alias") == host.state_folder("team-a", root / "work")


def test_state_folders_are_apart_and_where_they_were_promised(host: LocalHost, root: Path) -> None:
    first = host.state_folder("team-a", root / "work")
    assert first != host.state_folder("team-a", root / "work2")
    assert first.parent == root.resolve() / ".kandev"
    assert len(first.name) == 16


def test_a_root_behind_a_link_is_the_folder_it_leads_to(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    host = LocalHost({"a": tmp_path / "link"})
    assert host.check_worktree("a", root / "work") is None
    assert host.state_folder("a", tmp_path / "link" / "work").is_relative_to(root.resolve())


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("{root}/missing", WorktreeFault.MISSING),
        ("{root}/file", WorktreeFault.NOT_A_DIRECTORY),
        ("{root}/../outside", WorktreeFault.OUTSIDE_ROOT),
        ("{root}/escape/etc", WorktreeFault.OUTSIDE_ROOT),
        ("{root}/loop", WorktreeFault.MISSING),
        ("{root}-sibling", WorktreeFault.OUTSIDE_ROOT),
        ("{root}/.kandev/0123", WorktreeFault.RESERVED),
        ("{root}/nul\0", WorktreeFault.OUTSIDE_ROOT),
        ("/", WorktreeFault.OUTSIDE_ROOT),
        ("work", WorktreeFault.OUTSIDE_ROOT),
        ("", WorktreeFault.OUTSIDE_ROOT),
    ],
)
def test_every_other_folder_is_refused_for_its_reason(
    host: LocalHost, root: Path, path: str, fault: WorktreeFault
) -> None:
    (root / "file").touch()
    (root / "escape").symlink_to("/")
    (root / "loop").symlink_to(root / "loop")
    Path(f"{root}-sibling").mkdir()
    problem = host.check_worktree("team-a", path.format(root=root))
    assert problem is not None
    assert problem.fault is fault


def test_a_namespace_without_a_root_has_no_place_here(host: LocalHost, root: Path) -> None:
    problem = host.check_worktree("team-b", root / "work")
    assert problem is not None
    assert problem.fault is WorktreeFault.NAMESPACE_NOT_ALLOWED
    assert str(root) not in problem.message


def test_a_folder_that_may_not_be_written_is_named(
    host: LocalHost, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may write anywhere
    problem = host.check_worktree("team-a", root / "work")
    assert problem is not None
    assert problem.fault is WorktreeFault.NOT_WRITABLE


# ── run.json ─────────────────────────────────────────────────────────────────────────────────


def test_a_living_process_is_found_where_it_says(host: LocalHost, tmp_path: Path) -> None:
    run_json(tmp_path)
    found = host.find(tmp_path)
    assert found is not None
    assert (found.pid, found.instance_id, found.boot_id) == (os.getpid(), "i", "b")
    assert found.url == "http://127.0.0.1:4040"
    run_json(tmp_path, host="::1")
    found = host.find(tmp_path)
    assert found is not None
    assert found.url == "http://[::1]:4040"


def test_a_pid_that_was_used_again_is_somebody_else(host: LocalHost, tmp_path: Path) -> None:
    birth = birth_of(os.getpid())
    assert birth is not None
    run_json(tmp_path, birth=birth - 1)
    assert host.find(tmp_path) is None
    assert Handle.open(os.getpid(), birth - 1) is None


async def test_a_stranger_with_the_pid_is_never_touched(
    host: LocalHost, tmp_path: Path, oddly_named: subprocess.Popen[bytes]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    birth = birth_of(oddly_named.pid)
    assert birth is not None
    run_json(state, pid=oddly_named.pid, birth=birth + 1)
    stale = LocalProcess.read(state)
    assert stale is not None
    assert await host.stop(stale, grace=5)
    assert oddly_named.poll() is None


def test_a_zombie_is_dead(host: LocalHost, tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    run_json(tmp_path, pid=child.pid, birth=birth_of(child.pid))
    assert host.find(tmp_path) is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert host.find(tmp_path) is None
    child.wait()
    assert host.find(tmp_path) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 0},
        {"pid": -1},
        {"pid": True},
        {"pid": "1"},
        {"birth": None},
        {"port": 0},
        {"port": 70000},
        {"host": "10.0.0.1"},
        {"host": "example.com"},
        {"host": None},
    ],
)
def test_odd_words_are_not_believed(
    host: LocalHost, tmp_path: Path, changes: dict[str, Any]
) -> None:
    run_json(tmp_path, **changes)
    assert host.find(tmp_path) is None


@given(content=st.binary(max_size=60) | st.just(b"[" * 50_000) | st.just(b'{"pid": 1}'))
def test_any_content_is_survived(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    state = tmp_path_factory.mktemp("state")
    (state / "run.json").write_bytes(content)
    assert LocalHost({}).find(state) is None


def test_no_file_is_no_process(host: LocalHost, tmp_path: Path) -> None:
    assert host.find(tmp_path) is None
    assert host.find(tmp_path / "nowhere") is None


# ── Processes ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def oddly_named(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/sleep")
    environment = {"KANDEV_STATE": str(tmp_path), "OTHER": "x"}
    with subprocess.Popen([str(odd), "60"], env=environment) as process:
        yield process
        process.kill()


def test_a_command_with_parentheses_in_its_name_is_read_rightly(
    oddly_named: subprocess.Popen[bytes],
) -> None:
    assert birth_of(oddly_named.pid) is not None


async def test_only_whoever_carries_the_whole_mark_is_swept(
    host: LocalHost, tmp_path: Path, oddly_named: subprocess.Popen[bytes]
) -> None:
    # Popen returns before the child has its new environment only where exec failed.
    assert carrying(f"KANDEV_STATE={tmp_path}") == [oddly_named.pid]
    assert carrying(f"KANDEV_STATE={tmp_path}/") == []
    assert carrying(f"KANDEV_STATE={str(tmp_path)[:-1]}") == []
    assert await host.sweep(Path(f"{tmp_path}x"))
    assert oddly_named.poll() is None
    assert await host.sweep(tmp_path)
    assert carrying(f"KANDEV_STATE={tmp_path}") == []


def test_keys_are_written_when_they_differ(tmp_path: Path) -> None:
    host = LocalHost({})
    path = host.refresh_jwks(tmp_path, {"keys": []})
    first = path.stat()
    host.refresh_jwks(tmp_path, {"keys": []})
    assert path.stat().st_ino == first.st_ino
    host.refresh_jwks(tmp_path, {"keys": [{"kid": "k"}]})
    assert json.loads(path.read_text()) == {"keys": [{"kid": "k"}]}
    assert [each.name for each in tmp_path.iterdir()] == ["jwks.json"]


def test_python_is_our_own_unless_said_otherwise(root: Path) -> None:
    assert LocalHost({})._python == sys.executable
