"""The operator is killed between two steps of a start (B037): nothing is made twice or forgotten.

A step is held by taking from the operator's user the right to the write that follows it; then the
operator is killed there, the right is given back, and another operator process finds what is
left. Sessions started one after another are at all the places in between when one kill comes.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.account import Account
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, profile, session, task
from stage.witness import Diary


@pytest.fixture
def account(own_control_plane: ControlPlane, place: Namespace) -> Account:
    return Account(place.cluster, place.name)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


def begin(place: Namespace, diary: Diary, *names: str) -> None:
    place.apply(profile(command=diary.agent()), task())
    place.apply(*(session(name, place.worktree(name)) for name in names))


def look_until(look: Callable[[], object], place: Namespace, seconds: float = 40) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not come to that\n{place.tail()}")


def processes(place: Namespace) -> list[Body]:
    """What each agentctl that was started says about itself."""
    return [json.loads(path.read_bytes()) for path in place.root.glob(".kandev/*/run.json")]


def one_executor(place: Namespace) -> Body:
    found = place.items("executors")
    assert len(found) == 1, [each["metadata"]["name"] for each in found]
    return found[0]


def test_b037_killed_after_the_executor_was_made(
    place: Namespace, account: Account, make_operator: Callable[..., OperatorProcess], diary: Diary
) -> None:
    with account.without("update", "tasksessions/status"):
        operator = make_operator(kubeconfig=account.kubeconfig).start(wait_ready=False)
        begin(place, diary, "s")
        look_until(lambda: place.items("executors"), place)
        operator.kill()
        made = one_executor(place)
        assert "executorRef" not in place.status("s"), "the session does not know of it"
    operator.start()
    status = place.wait_idle("s")
    assert status["executorRef"]["uid"] == made["metadata"]["uid"]
    assert one_executor(place)["metadata"]["uid"] == made["metadata"]["uid"]
    assert diary.openings == ["session/new"]
    assert len(processes(place)) == 1


def test_b037_killed_after_agentctl_came_up_and_before_anybody_wrote_so(
    place: Namespace, account: Account, make_operator: Callable[..., OperatorProcess], diary: Diary
) -> None:
    operator = make_operator(kubeconfig=account.kubeconfig).start()
    begin(place, diary, "s")

    def pinned() -> object:
        return [each for each in place.items("executors") if "instanceId" in each["status"]]

    look_until(pinned, place)
    with account.without("update", "executors/status"):
        told = look_until(lambda: processes(place), place)
        before = one_executor(place)["status"]
        held = "agentctlURL" not in before
        operator.kill()
    operator.start()
    place.wait_idle("s")
    status = one_executor(place)["status"]
    assert isinstance(told, list)
    assert status["agentctlURL"] == told[0]["url"], "the one that was started is found again"
    assert status["bootId"] == told[0]["boot_id"]
    assert status["instanceId"] == before["instanceId"]
    assert diary.openings == ["session/new"]
    assert held, "the address was written before the right was gone: this proved too little"


def test_b037_killed_after_the_agent_was_started_and_before_its_outcome_was_written(
    place: Namespace, account: Account, make_operator: Callable[..., OperatorProcess], diary: Diary
) -> None:
    operator = make_operator(kubeconfig=account.kubeconfig).start()
    begin(place, diary, "s")
    intent = place.wait("s", lambda now: now.get("intent"), "an intent")["intent"]
    with account.without("update", "tasksessions/status"):
        look_until(lambda: diary.openings, place)
        operator.kill()
        assert place.status("s")["state"] == "STARTING"
    operator.start()
    status = place.wait_idle("s")
    assert status["intent"] == intent, "the same attempt, not another one"
    assert diary.openings == ["session/new"]
    assert len(diary.processes) == 1


async def test_b037_one_kill_meets_sessions_at_every_place_of_their_start(
    place: Namespace, operator: OperatorProcess, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(6)]
    diaries = {name: Diary(tmp_path / f"{name}.jsonl") for name in names}
    place.apply(task())
    for name, diary in diaries.items():
        place.apply(
            profile(name, command=diary.agent("--slow-start", "0.3")),
            session(name, place.worktree(name), profile=name),
        )
        await asyncio.sleep(0.35)
    places = {place.status(name).get("state", "nothing yet") for name in names}
    operator.kill()
    operator.start()
    for name in names:
        status = place.wait_idle(name)
        assert status["epoch"] == 1
        assert diaries[name].openings == ["session/new"], name
        assert len(diaries[name].processes) == 1
    executors = place.items("executors")
    assert len({each["status"]["sessionRef"]["uid"] for each in executors}) == len(executors) == 6
    assert len(processes(place)) == 6
    assert places, "for a failure's text"
