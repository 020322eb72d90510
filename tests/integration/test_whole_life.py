"""One life through many states: at every moment status agrees with itself and with the spec.

Each look at a session's status is checked for contradictions by `stage.sanity`; here that gets
enough to look at.
"""

from stage.scene import Part, Scene
from stage.sessions import Body, condition, profile, session, task


def judged(part: Part) -> Body:
    """The status is of the spec as it is now."""
    body = part.scene.get("tasksession", part.name)
    assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
    status: Body = body["status"]
    return status


async def test_B052_conditions_stay_unique_and_whole_through_a_life(scene: Scene) -> None:
    part = await scene.begin("b052", "--slow-start=0.3", resume={"maxAttempts": 2})
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 5")
        await it.until(lambda r: r.turns_completed == 2)
    part.behave("--load-error=-32603")
    part.kill()
    await part.failed("MaxAttempts")
    part.behave()
    await part.ask_for("resume", "1")
    status = await part.idle_again(before)
    await part.patch(operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended")["status"] == "True", "suspended")
    await part.patch(operatingMode="WorkspaceOnly")
    await part.wait(lambda s: condition(s, "Ready")["reason"] == "WorkspaceServed", "served")
    await part.patch(operatingMode="Running")
    await part.idle_again(status)
    await part.patch(operatingMode="Finished")
    await part.wait(lambda s: s["state"] == "COMPLETED", "COMPLETED")
    types = {each["type"] for each in judged(part)["conditions"]}
    assert types == {
        "Ready",
        "ExecutorReady",
        "WorkspaceReady",
        "AgentReady",
        "Resumable",
        "Suspended",
        "Finished",
    }


async def test_B053_every_verdict_is_about_the_spec_as_it_is_now(scene: Scene) -> None:
    part = scene.part("b053")
    worktree = scene.place.worktree("b053")
    await scene.apply(task("b053"), session("b053", worktree, task="b053", profile="b053"))

    async def edited(reason: str, attempts: int) -> Body:
        """A change of the spec is seen while the older failure goes on."""
        await part.patch(resume={"maxAttempts": attempts})
        generation = scene.get("tasksession", "b053")["metadata"]["generation"]
        status = await part.wait(
            lambda s: s["observedGeneration"] == generation, f"of generation {generation}"
        )
        ready = condition(status, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", reason)
        return status

    await part.wait(lambda s: condition(s, "Reconciling") != {}, "waiting")
    await edited("ProfileMissing", 4)
    await scene.apply(profile("b053", ["/no/such/agent"]))
    await part.failed("CommandNotFound")
    status = await edited("CommandNotFound", 5)
    assert "b053 does not exist" not in status["errorMessage"]
    await part.repair("agentprofile", {"command": part.command("--protocol-version=9")})
    await part.failed("ProtocolMismatch")
    status = await edited("ProtocolMismatch", 6)
    assert "/no/such/agent" not in status["errorMessage"]
    await part.repair("agentprofile", {"command": part.command()})
    await part.idle()
    assert "errorMessage" not in judged(part)


async def test_B028_a_task_follows_its_sessions_and_is_stuck_on_no_failure(scene: Scene) -> None:
    first = await scene.begin("b028", resume={"maxAttempts": 1})
    second = scene.part("b028-second")
    before = await first.with_history()

    async def task_is(state: str, **counts: int) -> None:
        def holds(status: Body) -> bool:
            told = {key: n for key, n in status["sessions"].items() if key != "total"}
            return bool(status["state"] == state and told == counts)

        await scene.wait("b028", holds, f"{state} {counts}", kind="task")

    await task_is("REVIEW", waitingForInput=1)
    first.behave("--load-error=-32602")
    first.kill()
    await first.failed("ResumeFailed")
    await task_is("BLOCKED", error=1)
    await scene.apply(
        profile("b028-second", second.command()),
        session(
            "b028-second", scene.place.worktree("b028-second"), task="b028", profile="b028-second"
        ),
    )
    untouched = await second.idle()
    await task_is("REVIEW", error=1, waitingForInput=1)
    first.behave()
    await first.ask_for("resume", "1")
    await first.idle_again(before)
    await task_is("REVIEW", waitingForInput=2)
    assert second.status["conditions"] == untouched["conditions"]
    assert second.status["epoch"] == untouched["epoch"]
