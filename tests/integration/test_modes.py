"""What a session is to do: run, rest, serve its files alone, end; by hand and by limits of time."""

import asyncio
from collections.abc import Callable

from stage.scene import Part, Scene, until
from stage.sessions import Body, condition


def suspended(reason: str) -> Callable[[Body], bool]:
    def holds(status: Body) -> bool:
        resting = condition(status, "Suspended")
        ready = condition(status, "Ready")
        return (
            resting.get("status") == "True"
            and resting["reason"] == reason
            and (ready["status"], ready["reason"]) == ("True", "Suspended")
        )

    return holds


def rests(status: Body, before: Body) -> None:
    """The agent is gone, its conversation and files are kept, nobody is asked for anything."""
    assert status["state"] == "WAITING_FOR_INPUT"
    assert status["isAgentRunning"] is False
    assert status["isResumable"] is True
    assert status["needsResume"] is False
    assert "errorMessage" not in status
    assert "agentExecutionId" not in status
    assert status["resumeTokenRef"] == before["resumeTokenRef"]
    assert not condition(status, "Stalled")


async def test_suspended_and_back_the_conversation_goes_on(scene: Scene) -> None:
    part = await scene.begin("rests", "--save-delay=0.2")
    before = await part.with_history()
    await part.ask("beta")  # answered, and not yet stored by the agent
    await part.patch(operatingMode="Suspended")
    status = await part.wait(suspended("Requested"), "suspended")
    rests(status, before)
    assert part.log.read_text().rstrip().endswith('"event": "end"}'), "the agent ended gently"
    await part.patch(operatingMode="Running")
    status = await part.idle_again(before)
    assert condition(status, "Suspended")["status"] == "False"
    assert part.resumes == 1
    assert part.opened_new == 1
    answer = await part.ask("gamma")
    assert answer == "You said 3 things so far; the first was: alpha"


async def test_suspended_in_the_middle_of_a_turn(scene: Scene) -> None:
    part = await scene.begin("rests-mid-turn")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    await part.patch(operatingMode="Suspended")
    status = await part.wait(suspended("Requested"), "suspended")
    rests(status, before)
    await part.patch(operatingMode="Running")
    await part.idle_again(before)
    await part.remembers()
    assert part.prompts().count("slow 1000") == 1, "a turn that was cut off is not sent again"


async def test_suspended_before_it_ever_ran(scene: Scene) -> None:
    part = await scene.begin("rests-first", operatingMode="Suspended")
    status = await part.wait(suspended("Requested"), "suspended")
    assert status["state"] == "CREATED"
    assert part.starts == 0
    await part.patch(operatingMode="Running")
    await part.idle()


async def test_the_workspace_alone(scene: Scene) -> None:
    part = await scene.begin("files-only")
    before = await part.with_history()
    await part.patch(operatingMode="WorkspaceOnly")
    status = await part.wait(
        lambda s: condition(s, "Ready")["reason"] == "WorkspaceServed", "serving its files alone"
    )
    assert condition(status, "Ready")["status"] == "True"
    assert status["executorStatus"] == "ready"
    assert status["needsResume"] is False
    assert status["isAgentRunning"] is False
    async with part.talk() as it:
        assert (await it.status()).agent.pid is None
    await part.patch(operatingMode="Running")
    await part.idle_again(before)
    await part.remembers()


async def test_the_workspace_alone_where_the_profile_forbids_it(scene: Scene) -> None:
    part = await scene.begin(
        "no-files", profile_spec={"supportsWorkspaceOnly": False}, operatingMode="WorkspaceOnly"
    )
    status = await part.failed("ModeNotSupported")
    assert "WorkspaceOnly" in status["errorMessage"]
    await part.repair("agentprofile", {"supportsWorkspaceOnly": True})
    status = await part.wait(
        lambda s: condition(s, "Ready")["reason"] == "WorkspaceServed", "serving its files alone"
    )
    assert "errorMessage" not in status
    assert part.opened_new == 0


async def ended(part: Part, state: str) -> Body:
    status = await part.wait(lambda s: s["state"] == state, state)
    assert condition(status, "Finished")["status"] == "True"
    assert condition(status, "Ready")["reason"] == "Finished"
    assert condition(status, "Ready")["status"] == "True"
    assert status["isAgentRunning"] is False
    assert status["needsResume"] is False
    assert "errorMessage" not in status
    assert "executorRef" not in status
    pid = part.pid
    await until(lambda: not alive(pid), "the agent's process is gone")
    return status


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_finished_between_turns_is_completed_and_stays_so(scene: Scene) -> None:
    part = await scene.begin("done")
    await part.with_history()
    await part.patch(operatingMode="Finished")
    await ended(part, "COMPLETED")
    await part.ask_for("resume", "too late")
    await scene.restart_operator()
    other = await scene.begin("done-other")
    await other.idle()
    await ended(part, "COMPLETED")
    assert part.starts == 1


async def test_finished_in_a_turn_is_cancelled(scene: Scene) -> None:
    part = await scene.begin("cut-off")
    await part.idle()
    async with part.talk() as it:
        await it.prompt("slow 1000")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    await part.patch(operatingMode="Finished")
    await ended(part, "CANCELLED")


async def test_closing_the_task_finishes_its_sessions_and_no_others(scene: Scene) -> None:
    async def play(name: str, closed: str, state: str) -> None:
        part = await scene.begin(name)
        await part.with_history()
        await part.repair("task", {"closed": closed})
        await ended(part, state)
        await scene.wait(name, lambda s: s["state"] == state, state, kind="task")
        await scene.wait(
            name, lambda s: s["sessions"].get(state.lower()) == 1, "counted anew", kind="task"
        )

    other = await scene.begin("not-closed")
    before = await other.with_history()
    await asyncio.gather(
        play("closed", "Completed", "COMPLETED"), play("called-off", "Cancelled", "CANCELLED")
    )
    assert other.status["conditions"] == before["conditions"]


async def test_a_finished_session_goes_when_its_time_to_live_is_over(scene: Scene) -> None:
    async def play(name: str, annotations: dict[str, str]) -> Part:
        limits = {"ttlSecondsAfterFinished": 1}
        part = await scene.begin(name, lifecycle=limits, annotations=annotations)
        await part.idle()
        await part.patch(operatingMode="Finished")
        return part

    tracked = await play("of-git", {"argocd.argoproj.io/tracking-id": "app:kandev.dev/x"})
    await play("short-lived", {})
    await scene.wait_gone("tasksession", "short-lived")
    # Git would make it again, and it would be prompted again.
    status = tracked.status
    assert status["state"] == "COMPLETED"
    assert "ttlSecondsAfterFinished" in condition(status, "Ready")["message"]


async def test_an_idle_session_goes_to_rest_and_a_wish_wakes_it(scene: Scene) -> None:
    part = await scene.begin("sleepy")
    before = await part.with_history()
    await part.patch(lifecycle={"idleTimeoutSeconds": 1})
    status = await part.wait(suspended("IdleTimeout"), "resting")
    rests(status, before)
    spec = scene.get("tasksession", "sleepy")["spec"]
    assert spec["operatingMode"] == "Running", "spec stays as people wrote it"
    await part.patch(lifecycle={"idleTimeoutSeconds": 600})  # or it sleeps before it is asked
    await part.ask_for("resume", "wake up")
    await part.idle_again(before)
    await part.remembers()
    await part.patch(lifecycle={"idleTimeoutSeconds": 1})
    await part.wait(suspended("IdleTimeout"), "resting again")


async def test_a_session_that_lasted_long_enough_goes_to_rest(scene: Scene) -> None:
    part = await scene.begin("long-lived")
    before = await part.with_history()
    await part.patch(lifecycle={"maxDurationSeconds": 1})
    status = await part.wait(suspended("Expired"), "resting")
    rests(status, before)
    await part.patch(lifecycle={"maxDurationSeconds": 600})
    await part.ask_for("resume", "wake up")
    await part.idle_again(before)
    await part.remembers()
