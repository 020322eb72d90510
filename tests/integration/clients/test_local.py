"""LocalHost with real processes: started detached, found again, ended with all that is theirs.

The agentctl here is a stand-in that keeps the promises LocalHost relies on (a launcher that
returns once it answers, a run.json, an environment that is handed down) and breaks one where a
test wants it to. It tells by a file in its worktree what it is to do.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kandev_operator.clients.local import LocalHost, LocalProcess, StartFailure
from kandev_operator.clients.processes import birth_of, carrying

AGENTCTL = """#!PYTHON
import argparse, json, os, signal, subprocess, sys, time
from pathlib import Path
assert sys.argv[1:5] == ["-P", "-m", "kandev_operator.agentctl", "run"], sys.argv
options = argparse.ArgumentParser()
for name in ("state", "workspace", "jwks", "instance-id", "audience", "host"):
    options.add_argument("--" + name, required=True)
options.add_argument("--detach", action="store_true", required=True)
told = options.parse_args(sys.argv[5:])
mode = (Path(told.workspace) / "mode").read_text()
state = Path(told.state)
(state / "environment.json").write_text(json.dumps(dict(os.environ)))
(state / "arguments.json").write_text(json.dumps(vars(told)))
if mode == "fails":
    print("\\n\\nthe journal cannot be opened: disk full\\n", file=sys.stderr)
    sys.exit(3)
if mode == "nothing":
    sys.exit(0)

def birth():
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])

ready, tell = os.pipe()
if os.fork():
    os.close(tell)
    os.read(ready, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if mode == "slow":
    time.sleep(600)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
# An agent that escaped from every group, and that nobody ends but the sweep.
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
(state / "run.json.new").write_text(json.dumps({
    "pid": os.getpid(), "birth": birth(), "host": told.host, "port": 4040,
    "instance_id": told.instance_id, "boot_id": "boot", "url": "x", "child": child.pid,
}))
(state / "run.json.new").rename(state / "run.json")
os.write(tell, b"1")
signal.pause() if mode != "deaf" else time.sleep(600)
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    path = tmp_path / "python"
    path.write_text(AGENTCTL.replace("PYTHON", sys.executable))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    worktree = tmp_path.resolve() / "root" / "work"
    worktree.mkdir(parents=True)
    (worktree / "mode").write_text("well")
    return worktree


@pytest.fixture
async def host(python: str, worktree: Path) -> AsyncIterator[LocalHost]:
    host = LocalHost({"team-a": worktree.parent}, python, start_seconds=20)
    yield host
    assert await host.sweep(host.state_folder("team-a", worktree))


async def start(host: LocalHost, worktree: Path, instance: str = "i") -> Any:
    state = host.state_folder("team-a", worktree)
    return await host.start(state, worktree, instance, "executor-uid", {"keys": []})


def told(process: LocalProcess, name: str) -> Any:
    return json.loads((process.state / f"{name}.json").read_text())


def children_of_ours() -> set[int]:
    """Our children, zombies too. Only who they are: what they do this moment says nothing."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


async def test_it_is_started_found_and_ended(host: LocalHost, worktree: Path) -> None:
    before = children_of_ours()
    process = await start(host, worktree)
    assert isinstance(process, LocalProcess)
    assert process.url == "http://127.0.0.1:4040"
    assert host.find(process.state) == process
    assert told(process, "arguments") == {
        "state": str(process.state),
        "workspace": str(worktree),
        "jwks": str(process.state / "jwks.json"),
        "instance_id": "i",
        "audience": "executor-uid",
        "host": "127.0.0.1",
        "detach": True,
    }
    assert children_of_ours() <= before
    assert await host.stop(process, grace=10)
    assert host.find(process.state) is None
    assert birth_of(told(process, "run")["child"]) is None
    assert await host.stop(process, grace=10)


async def test_nothing_of_the_operators_environment_goes_down(
    host: LocalHost, worktree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPERATOR_PASSWORD", "sesame")
    monkeypatch.setenv("KUBECONFIG", "/secret")
    monkeypatch.setenv("KANDEV_AUDIENCE", "another")
    monkeypatch.setenv("LANG", "C.UTF-8")
    process = await start(host, worktree)
    environment = told(process, "environment")
    assert environment["KANDEV_STATE"] == str(process.state)
    assert environment["LANG"] == "C.UTF-8"
    assert environment["HOME"] == str(process.state)
    assert not {"OPERATOR_PASSWORD", "KUBECONFIG", "KANDEV_AUDIENCE"} & environment.keys()


async def test_the_same_start_again_finds_what_it_started(host: LocalHost, worktree: Path) -> None:
    process = await start(host, worktree)
    assert await start(host, worktree) == process
    another = await start(host, worktree, "other")
    assert isinstance(another, StartFailure)
    assert "another agentctl (i)" in str(another)
    assert host.find(process.state) == process


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fails", "agentctl ended with code 3: the journal cannot be opened: disk full"),
        ("nothing", "agentctl started and is gone again"),
    ],
)
async def test_a_failure_is_a_value_with_its_own_words(
    host: LocalHost, worktree: Path, mode: str, words: str
) -> None:
    (worktree / "mode").write_text(mode)
    assert str(await start(host, worktree)) == words


async def test_one_that_does_not_come_up_is_given_up_with_all_it_started(
    python: str, worktree: Path, host: LocalHost
) -> None:
    (worktree / "mode").write_text("slow")
    before = children_of_ours()
    impatient = LocalHost({"team-a": worktree.parent}, python, start_seconds=1)
    failure = await start(impatient, worktree)
    assert str(failure).startswith("agentctl did not come up within 1 s")
    assert carrying(f"KANDEV_STATE={host.state_folder('team-a', worktree)}") == []
    assert children_of_ours() <= before


async def test_a_cancelled_start_leaves_nothing_behind(host: LocalHost, worktree: Path) -> None:
    (worktree / "mode").write_text("slow")
    before = children_of_ours()
    state = host.state_folder("team-a", worktree)
    starting = asyncio.create_task(start(host, worktree))
    for _ in range(500):
        if (state / "arguments.json").exists():
            break
        await asyncio.sleep(0.02)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert carrying(f"KANDEV_STATE={state}") == []
    assert children_of_ours() <= before


async def test_a_deaf_one_is_killed_after_the_grace(host: LocalHost, worktree: Path) -> None:
    (worktree / "mode").write_text("deaf")
    process = await start(host, worktree)
    assert isinstance(process, LocalProcess)
    assert await host.stop(process, grace=0.3)
    assert birth_of(process.pid) is None


async def test_what_outlived_its_agentctl_is_swept(host: LocalHost, worktree: Path) -> None:
    process = await start(host, worktree)
    os.kill(process.pid, signal.SIGKILL)
    child = told(process, "run")["child"]
    assert birth_of(child) is not None
    assert await host.stop(process, grace=5)
    assert birth_of(child) is None


async def test_it_can_be_started_again_after_its_death(host: LocalHost, worktree: Path) -> None:
    first = await start(host, worktree)
    assert await host.stop(first, grace=10)
    second = await start(host, worktree)
    assert isinstance(second, LocalProcess)
    assert (second.pid, second.birth) != (first.pid, first.birth)


async def test_python_that_cannot_be_run_is_said(worktree: Path) -> None:
    host = LocalHost({"team-a": worktree.parent}, "/nowhere/python")
    failure = await start(host, worktree)
    assert str(failure) == "python cannot be run (No such file or directory)"


async def test_a_state_folder_that_cannot_be_made_is_said(host: LocalHost, worktree: Path) -> None:
    (worktree.parent / ".kandev").write_text("a file in its place")
    failure = await start(host, worktree)
    assert str(failure).startswith("the state folder cannot be written")


OUTLIVING = """
import asyncio, signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
from kandev_operator.clients.local import LocalHost
async def main():
    work = Path(sys.argv[1])
    host = LocalHost({"team-a": work.parent}, sys.argv[2])
    print(await host.start(host.state_folder("team-a", work), work, "i", "a", {}), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_it_outlives_an_operator_that_is_killed_or_interrupted(
    host: LocalHost, python: str, worktree: Path, number: signal.Signals
) -> None:
    operator = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OUTLIVING,
        str(worktree),
        python,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert operator.stdout is not None
    assert b"LocalProcess" in await operator.stdout.readline()
    # To the whole group, as a terminal or a service manager does.
    os.killpg(operator.pid, number)
    await operator.wait()
    process = host.find(host.state_folder("team-a", worktree))
    assert process is not None
    assert await host.stop(process, grace=10)
