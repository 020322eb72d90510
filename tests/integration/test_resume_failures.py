"""A resume that fails: what the agent's answer means, what is kept, and how people get on.

The conversation's token and files are never given up for an error text. Only the agent's own
complete list (or -32002 where it has none) proves that a conversation is gone.
"""

import asyncio

from stage.scene import Part, Scene
from stage.sessions import Body, condition

MAY_PASS = {
    "b": ("--load-error=-32603:Internal error:no such session {id}", "ResumeFailed"),
    "c": ("--load-error=-32603", "ResumeFailed"),
    "d": ("--exit-at=resume", "AgentExited"),
    "f": ("--load-error=-32600:Invalid request: in use by another client", "HeldElsewhere"),
}


async def lost(scene: Scene, name: str, *manners: str, **spec: object) -> tuple[Part, Body, str]:
    """A session with a turn behind it whose agent dies and comes back with these manners."""
    part = await scene.begin(name, **spec)
    before = await part.with_history()
    token = part.token
    part.behave(*manners)
    part.kill()
    return part, before, token


def nothing_was_lost(part: Part, before: Body, token: str) -> Body:
    """Workspace served, token kept, no new conversation begun in silence."""
    status = part.status
    assert part.token == token
    assert status["resumeTokenRef"]["sha256Prefix"] == before["resumeTokenRef"]["sha256Prefix"]
    assert status["executorStatus"] == "ready"
    assert condition(status, "WorkspaceReady")["status"] == "True"
    assert "agentExecutionId" not in status, "a failed resume leaves no execution behind"
    assert status["isAgentRunning"] is False
    assert part.opened_new == 1
    assert token not in str(status)
    return status


async def recovers(part: Part, before: Body, token: str) -> None:
    """Repaired and asked again, the same conversation goes on."""
    part.behave()
    count = part.resumes
    await part.ask_for("resume", "repaired")
    status = await part.idle_again(before)
    assert "errorMessage" not in status
    assert not condition(status, "Stalled")
    assert part.token == token
    assert part.resumes == count + 1
    await part.remembers()


async def test_B041_a_failure_that_may_pass_is_tried_again_and_loses_nothing(scene: Scene) -> None:
    async def play(case: str) -> None:
        manners, reason = MAY_PASS[case]
        part, before, token = await lost(scene, f"b041-{case}", manners, resume={"maxAttempts": 2})
        status = await part.failed(reason, stalled=False)
        assert status["needsResume"] is True
        assert status["isResumable"] is True
        nothing_was_lost(part, before, token)
        await part.failed("MaxAttempts")
        assert part.resumes == 2
        nothing_was_lost(part, before, token)
        await recovers(part, before, token)

    await asyncio.gather(*map(play, MAY_PASS))


async def test_B041_a_definite_not_found_needs_a_person(scene: Scene) -> None:
    async def play(name: str, *manners: str) -> None:
        part, before, token = await lost(scene, name, *manners)
        status = await part.failed("SessionNotFound")
        assert status["isResumable"] is False
        assert condition(status, "Resumable")["reason"] == "SessionNotFound"
        nothing_was_lost(part, before, token)
        assert part.resumes == 1
        await part.ask_for("fresh-start", "1")
        status = await part.idle_again(before)
        assert "errorMessage" not in status
        assert status["isResumable"] is True
        assert part.token != token
        assert part.secret()["previous"] == token
        assert "the first was: beta" in await part.ask("beta")

    await asyncio.gather(
        play("b041-a-listed", "--forget"),
        play("b041-a-code", "--forget", "--no-list"),
    )


async def test_B041_a_rejection_is_not_retried_even_over_an_operator_restart(
    scene: Scene,
) -> None:
    rejection = "--load-error=-32602:Invalid params:a bad token {id}"
    part, before, token = await lost(scene, "b045", rejection)
    status = await part.failed("ResumeFailed")
    assert "a bad token [redacted]" in status["errorMessage"]
    assert status["isResumable"] is True
    await scene.restart_operator()
    other = await scene.begin("b045-other")
    await other.idle()
    assert part.status["conditions"] == status["conditions"]
    assert part.resumes == 1
    nothing_was_lost(part, before, token)
    await recovers(part, before, token)


async def test_B041_a_promised_token_that_is_not_found_is_replaced_quietly(scene: Scene) -> None:
    async def play(name: str, *options: str) -> None:
        part = await scene.begin(name, *options)
        before = await part.idle()
        assert before["resumeTokenRef"]["established"] is False
        promised = part.token
        part.kill()
        status = await part.idle_again(before)
        assert "errorMessage" not in status
        assert part.token != promised
        assert part.opened_new == 2
        assert "the first was: alpha" in await part.ask("alpha")

    await asyncio.gather(play("b041-promised"), play("b041-promised-blind", "--no-list"))


async def test_B041_after_a_first_turn_that_was_cut_off_the_new_conversation_is_told(
    scene: Scene,
) -> None:
    part = await scene.begin("b041-first-turn")
    before = await part.idle()
    async with part.talk() as it:
        await it.prompt("slow 1000", "cut")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    part.kill()
    status = await part.idle_again(before)
    assert status["interruptedTurn"]["promptId"] == "cut"
    assert condition(status, "Resumable")["reason"] == "HistoryLost"
    assert "does not know that prompt" in condition(status, "Resumable")["message"]
    await scene.restart_operator()
    await part.ask("alpha")
    status = await part.wait(
        lambda s: condition(s, "Resumable")["reason"] == "Resumable", "resumable, as any other"
    )
    assert "interruptedTurn" not in status
    assert part.prompts().count("slow 1000") == 1, "a turn that was cut off is not sent again"


async def test_B043_another_id_becomes_current_and_the_loss_is_told(scene: Scene) -> None:
    part, before, token = await lost(scene, "b043", "--resume-id=another-conversation")
    status = await part.idle_again(before)
    assert condition(status, "Resumable")["reason"] == "HistoryLost"
    assert part.token == "another-conversation"
    assert part.secret()["previous"] == token
    assert "the first was: beta" in await part.ask("beta")
    asked = part.heard("session/prompt")[-1]
    assert asked["params"]["sessionId"] == "another-conversation"


async def test_B044_an_id_that_the_agent_changes_is_stored_and_used(scene: Scene) -> None:
    part = await scene.begin("b044", "--change-id=the-agents-own")
    before = await part.with_history()
    await part.wait(lambda _s: part.token == "the-agents-own", "keeping the changed id")
    part.kill()
    await part.idle_again(before)
    assert part.heard("session/resume")[-1]["sessionId"] == "the-agents-own"
    await part.remembers()


async def test_a_resume_that_hangs_times_out_and_is_given_up(scene: Scene) -> None:
    part, before, token = await lost(
        scene, "hangs", "--hang-at=resume", resume={"timeoutSeconds": 5, "maxAttempts": 2}
    )
    status = await part.failed("ResumeTimedOut", stalled=False)
    assert status["resumeReason"] == "resume_timed_out"
    assert status["isResumable"] is True
    await part.failed("MaxAttempts")
    assert part.resumes == 2
    nothing_was_lost(part, before, token)
    await recovers(part, before, token)


async def test_an_agent_that_cannot_resume_leaves_the_workspace_on(scene: Scene) -> None:
    part = await scene.begin("unable", "--no-load", "--no-resume")
    before = await part.with_history()
    assert before["isResumable"] is False
    token = part.token
    part.kill()
    status = await part.failed("NotResumable")
    assert status["resumeReason"] == "not_resumable"
    assert status["isResumable"] is False
    nothing_was_lost(part, before, token)
    assert part.resumes == 0
    await part.ask_for("fresh-start", "1")
    await part.idle_again(before)
    assert part.opened_new == 2
    assert "the first was: beta" in await part.ask("beta")


async def test_on_failure_fresh_conversation_begins_anew_and_keeps_the_old_token(
    scene: Scene,
) -> None:
    async def play(name: str, fixed: tuple[str, ...], manners: tuple[str, ...]) -> None:
        part = await scene.begin(name, *fixed, resume={"onFailure": "FreshConversation"})
        before = await part.with_history()
        token = part.token
        part.behave(*manners)
        part.kill()
        status = await part.idle_again(before)
        assert "errorMessage" not in status
        assert part.token != token
        assert part.secret()["previous"] == token
        assert part.opened_new == 2

    await asyncio.gather(
        play("fresh-unable", ("--no-load", "--no-resume"), ()),
        play("fresh-gone", (), ("--forget",)),
    )
