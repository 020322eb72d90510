"""An executor that is drained: the turn may end first, then nobody is in, and nobody is let in.

The same for an executor that Git keeps and for one that was made for its session: neither is
deleted, and the session comes back into it when it may be used again.
"""

import asyncio
from collections.abc import Callable

import pytest

from stage.scene import Part, Scene
from stage.sessions import Body, condition


async def begin(scene: Scene, kind: str, name: str) -> tuple[Part, str]:
    """An idle session with a history, and the name of its executor."""
    if kind == "template":
        part = await scene.begin(name)
    else:
        await scene.apply(
            {
                "apiVersion": "kandev.dev/v1alpha1",
                "kind": "Executor",
                "metadata": {"name": name},
                "spec": {
                    "runtime": "LocalStandalone",
                    "localStandalone": {"worktreePath": str(scene.place.worktree(name))},
                },
            }
        )
        part = await scene.begin(name, executor={"ref": {"name": name}})
    status = await part.with_history()
    return part, status["executorRef"]["name"]


async def drain(scene: Scene, executor: str, **spec: object) -> None:
    await asyncio.to_thread(scene.place.patch, "executor", executor, {"spec": spec})


def draining(reason: str) -> Callable[[Body], bool]:
    return lambda status: condition(status, "Draining").get("reason") == reason


def put_out(status: Body) -> bool:
    """The session knows that it has no place, and why."""
    ready = condition(status, "Ready").get("reason") == "ExecutorDraining"
    return ready and status["isAgentRunning"] is False


async def emptied(part: Part, executor: str) -> Body:
    """Nobody is in the executor, and the session says so."""
    scene = part.scene
    status = await scene.wait(executor, draining("Drained"), "drained", kind="executor")
    assert "sessionRef" not in status
    assert condition(status, "Bound")["status"] == "False"
    status = await part.wait(put_out, "put out")
    assert (status["state"], status["needsResume"]) == ("ERROR", True)
    assert condition(status, "Stalled")["reason"] == "ExecutorDraining"
    assert status["resumeTokenRef"]["established"] is True, "the conversation is kept"
    return status


@pytest.mark.parametrize("kind", ["ref", "template"])
async def test_a_turn_may_end_before_its_executor_is_empty(scene: Scene, kind: str) -> None:
    part, executor = await begin(scene, kind, f"patient-{kind}")
    async with part.talk() as it:
        await it.prompt("slow 20", "last-one")
        await part.wait(lambda s: s["state"] == "RUNNING", "running")
        await drain(scene, executor, drain=True)
        await scene.wait(executor, draining("WaitingForTurn"), "waiting", kind="executor")
        assert part.status["isAgentRunning"] is True
        ended = await it.turn_ended("last-one") if kind == "ref" else None
    status = await emptied(part, executor)
    assert "interruptedTurn" not in status, "the turn was heard out"
    assert ended is None or (ended.last_turn and ended.last_turn.outcome == "completed")
    assert not part.heard("session/cancel")
    assert part.resumes == 0

    await drain(scene, executor, drain=False)
    status = await part.idle()
    assert status["executorRef"]["name"] == executor
    await part.remembers()
    assert part.prompts().count("slow 20") == 1


@pytest.mark.parametrize("kind", ["ref", "template"])
async def test_a_turn_that_takes_too_long_is_cut_off(scene: Scene, kind: str) -> None:
    part, executor = await begin(scene, kind, f"hurried-{kind}")
    async with part.talk() as it:
        await it.prompt("slow 3000", "endless")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    await drain(scene, executor, drain=True, drainDeadlineSeconds=2)
    await emptied(part, executor)
    assert part.heard("session/cancel"), "the agent was asked first, and could keep what it had"

    await drain(scene, executor, drain=False)
    await part.idle()
    async with part.talk() as it:
        last = (await it.status()).last_turn
    assert last is not None
    assert (last.prompt_id, last.outcome) == ("endless", "cancelled")
    await part.remembers()
    assert part.prompts().count("slow 3000") == 1, "what was cut off is not repeated"
