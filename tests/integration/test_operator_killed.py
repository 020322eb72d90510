"""The operator is killed, again and again, while a conversation goes on (B001, B037).

Whatever it was doing, the conversation is the same one afterwards: every accepted prompt once and
in order, no agent started beside one that lives, and a status that says what agentctl says.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.talk import Talk, talk
from stage.witness import Diary, agreed

SEED = 20260117


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


@asynccontextmanager
async def begun(
    place: Namespace, diary: Diary, *options: str, **spec: object
) -> AsyncIterator[Talk]:
    """A session `s` with an idle agent, and a way to talk to it."""
    place.apply(profile(command=diary.agent(*options)), task())
    place.apply(session("s", place.worktree("s"), **spec))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        yield s


class Chatter:
    """A user's program that keeps prompting; it remembers what was accepted."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.accepted: list[str] = []
        self.ended = asyncio.Event()

    async def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            number += 1
            text = f"prompt {number}, slow {number % 4}"
            await self.talk.prompt(text, f"p{number}")
            self.accepted.append(text)
            # Sometimes one at a time, sometimes several that have to queue.
            if number % 3 == 0:
                await self.talk.turn_ended(f"p{number}")
                await asyncio.sleep(0.3)


@pytest.mark.timeout(240)
async def test_b001_killed_twenty_times_and_nothing_is_lost_or_doubled(
    place: Namespace, make_operator: Callable[..., OperatorProcess], diary: Diary
) -> None:
    chance = random.Random(SEED)
    operator = make_operator().start()
    async with begun(place, diary, "--tick", "0.15") as s:
        first = place.status("s")
        chatter = Chatter(s)
        async with asyncio.TaskGroup() as tasks:
            chatting = tasks.create_task(chatter.run())
            for life in range(20):
                operator.kill()
                if life % 5 == 4:
                    # This one may live: it must put right whatever its forerunners left.
                    await asyncio.to_thread(operator.start)
                    await agreed(place, "s", s)
                    await asyncio.sleep(chance.uniform(0.0, 0.3))
                else:
                    operator.start(wait_ready=False)
                    await asyncio.sleep(chance.uniform(0.2, 1.6))
                assert operator.is_running, operator.tail()
            chatter.ended.set()
            await chatting
        await s.until(lambda r: r.turn is None and len(chatter.accepted) <= r.turns_completed)
        last = await agreed(place, "s", s)
        assert await s.user_messages() == chatter.accepted
    assert diary.prompts == chatter.accepted
    assert diary.openings == ["session/new"], "an agent that lives is never opened again"
    assert len(diary.processes) == 1
    assert last["agentExecutionId"] == first["agentExecutionId"]
    assert last["epoch"] == first["epoch"]
    assert len(place.items("executors")) == 1


async def test_b001_a_turn_that_ends_while_the_operator_is_down(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    async with begun(place, diary, "--tick", "0.2") as s:
        uid = place.get("tasksession", "s")["metadata"]["uid"]
        await s.prompt("slow 3", "held")
        place.wait_state("s", "RUNNING")
        operator.kill()
        await s.turn_ended("held")
        assert place.status("s")["state"] == "RUNNING", "nobody was there to say otherwise"
        operator.start()
        status = await agreed(place, "s", s)
        assert status["state"] == "WAITING_FOR_INPUT"
        said = [each.data.get("text") or "" for each in await s.events()]
        assert all(any(word in text for text in said) for word in ("word1", "word2", "word3"))
        assert place.get("tasksession", "s")["metadata"]["uid"] == uid
    assert [each["metadata"]["name"] for each in place.items("tasksessions")] == ["s"]
    assert diary.openings == ["session/new"]


async def test_b001_a_turn_that_is_open_across_a_restart_and_stop_still_works(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    async with begun(place, diary, "--tick", "0.1", "--hang-at", "prompt") as s:
        await s.prompt("slow 1", "held")
        place.wait_state("s", "RUNNING")
        operator.kill()
        operator.start()
        status = await agreed(place, "s", s)
        assert status["state"] == "RUNNING"
        assert status["turn"]["promptId"] == "held"
        assert diary.openings == ["session/new"]
        place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
        status = place.wait("s", lambda now: now.get("isAgentRunning") is False, "stopped")
        assert (await s.status()).agent.pid is None
        assert status["interruptedTurn"]["promptId"] == "held"


async def test_b001_the_agent_dies_while_the_operator_is_killed_and_killed(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    """Its death is answered by one resume, however often the operator dies in it."""
    chance = random.Random(SEED)
    async with begun(place, diary, "--slow-start", "0.6") as s:
        await s.ask("alpha")
        report = await s.status()
        assert report.agent.pid is not None
        os.kill(report.agent.pid, signal.SIGKILL)
        for _ in range(3):
            await asyncio.sleep(chance.uniform(0.0, 1.2))
            operator.kill()
            operator.start(wait_ready=False)
        await asyncio.to_thread(operator.wait_ready)
        status = place.wait(
            "s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed"
        )
        assert status["agentExecutionId"] != report.agent.execution_id
        await agreed(place, "s", s)
        assert "the first was: alpha" in await s.ask("beta")
        assert await s.user_messages() == ["alpha", "beta"]
    assert diary.openings == ["session/new", "session/resume"]


async def test_a_restart_with_nothing_changed_writes_nothing_but_the_lease(
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    own_control_plane: ControlPlane,
    diary: Diary,
) -> None:
    if place.cluster is not own_control_plane:
        pytest.skip("writes are counted in the audit log, which this cluster does not give away")
    user = f"operator-of-{place.name}"
    account = own_control_plane.kubeconfig_for(user, ["system:masters"])
    operator = make_operator(kubeconfig=account).start()
    async with begun(place, diary) as s:
        await s.ask("alpha")
        place.apply(session("finished", place.worktree("f"), operatingMode="Finished"))
        place.apply(session("asleep", place.worktree("a"), operatingMode="Suspended"))
        place.wait_state("finished", "COMPLETED")
        place.wait("asleep", lambda now: now.get("conditions"), "asleep")
        await agreed(place, "s", s)
        await quiet(own_control_plane, user)
        since = own_control_plane.audit.mark()
        for stop in (operator.kill, operator.stop):
            stop()
            operator.start()
            await verified(operator)
            await quiet(own_control_plane, user)
        written = own_control_plane.audit.writes(since=since, user=user)
        assert [each for each in written if each.resource != "leases"] == []
        assert written, "it led, so the Lease was written"
    assert diary.openings == ["session/new"]


async def verified(operator: OperatorProcess) -> None:
    """Wait until it leads and every object has had its pass."""
    async with asyncio.timeout(30):
        while True:
            leads = operator.metric("kandev_operator_lease_valid") == 1
            passes = operator.metric("kandev_operator_reconciles_total", kind="TaskSession")
            if leads and passes >= 3 and operator.metric("kandev_operator_queue_depth") == 0:
                return
            await asyncio.sleep(0.1)


async def quiet(cluster: ControlPlane, user: str, seconds: float = 2.0) -> None:
    """Wait until this user has written nothing but its Lease for a while."""
    async with asyncio.timeout(60):
        while True:
            since = await asyncio.to_thread(cluster.audit.mark)
            await asyncio.sleep(seconds)
            found = await asyncio.to_thread(cluster.audit.writes, since=since, user=user)
            if all(each.resource == "leases" for each in found):
                return
