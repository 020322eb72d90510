"""What becomes of a local agentctl: killed, hung, or with a journal that cannot be read."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    return make_operator("--probe-seconds=1").start()


async def begun(place: Namespace, diary: Diary, **spec: object) -> int:
    """A session with one turn behind it; its agentctl's pid."""
    place.apply(profile(command=diary.agent()), task())
    place.apply(session("s", place.worktree("s"), **spec))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        await agreed(place, "s", s)
        pid = (await s.status()).pid
    assert pid is not None
    return pid


async def remembers(place: Namespace) -> None:
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: alpha" in await s.ask("beta")
        assert await s.user_messages() == ["alpha", "beta"]


async def test_agentctl_is_killed(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    pid = await begun(place, diary)
    before = place.executor_of("s")["status"]
    os.kill(pid, signal.SIGKILL)
    place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
    after = place.executor_of("s")["status"]
    assert after["pid"] != before["pid"]
    assert after["instanceId"] != before["instanceId"], "whoever makes a new one pins it anew"
    await remembers(place)
    assert diary.openings == ["session/new", "session/resume"]


async def test_agentctl_hangs_for_longer_than_the_grace(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    pid = await begun(place, diary, lifecycle={"unreachableGraceSeconds": 3})
    before = place.status("s")
    os.kill(pid, signal.SIGSTOP)
    try:
        operator.kill()  # else nobody asks before the stream's heartbeats are missed
        operator.start()
        status = place.wait_state("s", "ERROR")
        assert condition(status, "Ready")["reason"] == "AgentctlUnreachable"
        assert status["resumeTokenRef"] == before["resumeTokenRef"], "kept"
        assert "isAgentRunning" not in status, "nobody knows"
        executor = place.executor_of("s")["status"]
        assert executor["state"] == "error"
        assert executor["pid"] == pid, "it is not replaced: it may be alive"
    finally:
        os.kill(pid, signal.SIGCONT)
    status = place.wait_idle("s")
    assert "errorMessage" not in status
    assert status["epoch"] == before["epoch"]
    await remembers(place)
    assert diary.openings == ["session/new"]


async def test_the_journal_cannot_be_read(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    pid = await begun(place, diary)
    operator.kill()
    os.kill(pid, signal.SIGKILL)
    (state,) = place.root.glob(".kandev/*")
    journals = [path for path in state.rglob("*") if path.suffix in (".db", ".sqlite", ".sqlite3")]
    assert journals, [str(path.relative_to(state)) for path in state.rglob("*")]
    whole = {path: path.read_bytes() for path in journals}
    for path in state.rglob("*"):
        if path.name.endswith(("-wal", "-shm")):
            whole[path] = path.read_bytes()
            path.unlink()
    for path in journals:
        path.write_bytes(b"this was a journal once" * 200)
    operator.start()
    status = place.wait_state("s", "ERROR")
    assert condition(status, "Ready")["reason"] == "JournalUnreadable"
    assert condition(status, "WorkspaceReady")["reason"] == "JournalUnreadable"
    assert "journal_unreadable" in status["errorMessage"]
    assert status["executorStatus"] == "ready", "shell, files and git can be used"
    for path in journals:
        assert path.read_bytes().startswith(b"this was a journal once"), "nothing is deleted"
    assert diary.openings == ["session/new"], "no agent is started on it"
    # Somebody puts the journal back, and agentctl is started anew.
    executor = place.executor_of("s")["status"]
    os.kill(executor["pid"], signal.SIGKILL)
    for path, content in whole.items():
        path.write_bytes(content)
    place.wait_idle("s")
    await remembers(place)
    assert diary.openings == ["session/new", "session/resume"]
