"""When a conversation is resumed: by itself, when asked, or not at all; and never twice at once."""

import asyncio

from stage.scene import Part, Scene, until
from stage.sessions import Body, condition


def waits_for_a_wish(status: Body) -> bool:
    ready = condition(status, "Ready")
    return (
        status["state"] == "WAITING_FOR_INPUT"
        and (ready["status"], ready["reason"]) == ("False", "AgentNotRunning")
        and status.get("isAgentRunning") is False
    )


def can_be_resumed(status: Body) -> None:
    assert status["needsResume"] is True
    assert status["isResumable"] is True
    assert status["resumeReason"] in ("agent_not_running", "agent_exited")
    assert status["executorStatus"] == "ready"
    assert "agentExecutionId" not in status


async def test_on_request_an_idle_agent_that_dies_waits_for_a_wish(scene: Scene) -> None:
    part = await scene.begin("on-request", resume={"policy": "OnRequest"})
    before = await part.with_history()
    part.kill()
    status = await part.wait(waits_for_a_wish, "waiting for a wish")
    can_be_resumed(status)
    assert "errorMessage" not in status
    await scene.restart_operator()
    can_be_resumed(await part.wait(waits_for_a_wish, "still waiting for a wish"))
    assert part.resumes == 0
    await part.ask_for("resume", "please")
    status = await part.idle_again(before)
    assert status["lastHandledResumeRequest"] == "please"
    assert status["needsResume"] is False
    await part.remembers()
    assert part.resumes == 1


async def test_B067_on_request_an_agent_that_dies_in_a_turn_is_an_error(scene: Scene) -> None:
    part = await scene.begin("b067", resume={"policy": "OnRequest"})
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    part.kill()
    status = await part.failed("AgentExited")
    can_be_resumed(status)
    assert "SIGKILL" in status["errorMessage"]
    assert status["interruptedTurn"]["promptId"] == "long"
    await part.ask_for("resume", "please")
    status = await part.idle_again(before)
    assert "errorMessage" not in status
    assert part.prompts().count("slow 1000") == 1
    await part.remembers()


async def test_B067_by_itself_an_agent_that_dies_is_resumed_and_its_turn_told(scene: Scene) -> None:
    part = await scene.begin("b067-auto")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    part.kill()
    status = await part.idle_again(before)
    assert status["interruptedTurn"]["promptId"] == "long"
    assert status["executorRef"] == before["executorRef"]
    assert part.resumes == 1
    await part.remembers()
    await part.wait(lambda s: "interruptedTurn" not in s, "a turn was completed since")


async def test_never_only_a_fresh_start_brings_an_agent_back(scene: Scene) -> None:
    part = await scene.begin("never", resume={"policy": "Never"})
    before = await part.with_history()
    token = part.token
    part.kill()
    status = await part.wait(waits_for_a_wish, "left alone")
    can_be_resumed(status)
    await part.ask_for("resume", "please")
    await part.wait(lambda s: s.get("lastHandledResumeRequest") == "please", "told of the wish")
    assert part.resumes == 0
    await part.ask_for("fresh-start", "anew")
    await part.idle_again(before)
    assert part.secret()["previous"] == token
    assert part.opened_new == 2


async def test_B005_many_who_ask_at_once_get_one_resume(scene: Scene) -> None:
    part = await scene.begin("b005", resume={"policy": "OnRequest"})
    before = await part.with_history()
    part.kill()
    status = await part.wait(waits_for_a_wish, "waiting for a wish")
    executor = status["executorRef"]["name"]
    part.behave("--slow-start=1")
    await asyncio.gather(
        part.ask_for("resume", "first"),
        part.ask_for("resume", "second"),
        part.ask_for("resume", "third"),
        scene.kubectl("annotate", "executor", executor, "example.com/touched=1"),
    )
    after = await part.idle_again(before)
    await part.ask_for("resume", "too late")
    await part.wait(lambda s: s.get("lastHandledResumeRequest") == "too late", "told of the wish")
    assert part.status["agentExecutionId"] == after["agentExecutionId"]
    assert part.resumes == 1
    assert part.starts == 2
    await part.remembers()


async def test_B005_an_operator_killed_in_the_middle_resumes_once(scene: Scene) -> None:
    async def lost(n: int) -> tuple[Part, Body]:
        part = await scene.begin(f"b005-{n}", resume={"policy": "OnRequest"})
        before = await part.with_history()
        part.kill()
        await part.wait(waits_for_a_wish, "waiting for a wish")
        part.behave("--slow-start=1")
        return part, before

    lives = await asyncio.gather(*map(lost, range(3)))
    for n, (part, _) in enumerate(lives):
        await part.ask_for("resume", "please")
        await asyncio.sleep(n * 0.05)
    await asyncio.to_thread(scene.operator.kill)
    await asyncio.gather(*(part.ask_for("resume", "again") for part, _ in lives[:1]))
    await asyncio.to_thread(scene.operator.start)
    for part, before in lives:
        await part.idle_again(before)
        await part.remembers()
        assert part.resumes == 1
        assert part.starts == 2


async def test_B010_a_fresh_start_on_a_stopped_session_keeps_nothing_of_the_old(
    scene: Scene,
) -> None:
    part = await scene.begin("b010")
    before = await part.with_history()
    token = part.token
    await part.patch(operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended")["status"] == "True", "suspended")
    await part.ask_for("fresh-start", "anew")
    await scene.restart_operator()
    await part.patch(operatingMode="Running")
    status = await part.idle_again(before)
    assert status["lastHandledFreshStartRequest"] == "anew"
    assert part.resumes == 0
    assert part.opened_new == 2
    assert part.token != token
    assert part.secret()["previous"] == token
    assert "the first was: beta" in await part.ask("beta")
    part.kill()
    await part.idle_again(status)
    await part.remembers("beta")


async def test_a_fresh_start_of_a_live_agent(scene: Scene) -> None:
    part = await scene.begin("fresh-live")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    await part.ask_for("fresh-start", "anew")
    status = await part.idle_again(before)
    assert status["epoch"] > before["epoch"]
    assert "the first was: beta" in await part.ask("beta")
    await until(lambda: part.opened_new == 2, "a second conversation")


async def test_a_wish_that_came_with_a_new_object_is_recorded_and_not_done(scene: Scene) -> None:
    """It came with a backup, or with Git, and its time is over."""
    wishes = {"kandev.dev/resume-requested": "old", "kandev.dev/fresh-start-requested": "old"}
    part = await scene.begin("old-wish", annotations=wishes)
    status = await part.idle()
    assert status["lastHandledResumeRequest"] == "old"
    assert status["lastHandledFreshStartRequest"] == "old"
    assert part.opened_new == 1
