"""The resume token: kept byte for byte, shown nowhere, given up for nothing but a good reason."""

import asyncio
import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from kandev_operator.clients.errors import Refused
from stage.scene import Part, Scene
from stage.sessions import Body, profile, session, task

ODD = {
    "newline": "token-with-an-end\n",
    "crlf": "token\r\nX-Injected: yes\r\n",
    "emoji": "token-\N{ROBOT FACE}-\N{FAMILY}",
    "long": "t" * 10_000,
    "json": '{"token": "x-1", "more": [null]}',
    "path": "../../../etc/token-1",
    "percent": "token%2F%00%0a",
    "spaces": "  token in the middle  ",
    "nul": "token-\0-and-more",
}


def shown_nowhere(scene: Scene, token: str, logs: list[Path]) -> None:
    """In no object but a Secret, in no event, in no log."""
    kinds = ("tasksessions", "executors", "tasks", "agentprofiles", "events", "configmaps")
    for kind in kinds:
        for body in scene.listed(kind):
            assert token not in json.dumps(body, ensure_ascii=False), f"in {kind}"
            for value in (body["metadata"].get("annotations") or {}).values():
                assert token not in value
    for log in logs:
        assert token not in log.read_text(errors="replace"), f"in {log}"


def own_logs(scene: Scene) -> list[Path]:
    return [scene.operator.log, *scene.place.root.glob(".kandev/*/*.log")]


async def test_B061_odd_tokens_travel_byte_for_byte_and_are_shown_nowhere(scene: Scene) -> None:
    async def play(name: str, token: str) -> None:
        part = scene.part(f"b061-{name}")
        part.behave(f"--new-id={token}")
        await scene.begin(f"b061-{name}")
        before = await part.with_history()
        assert part.token == token
        digest = hashlib.sha256(token.encode()).hexdigest()
        assert digest.startswith(before["resumeTokenRef"]["sha256Prefix"])
        part.kill()
        await part.idle_again(before)
        assert part.heard("session/resume")[-1]["sessionId"] == token
        await part.remembers()
        part.behave("--load-error=-32602:Invalid params:a bad id {id}")
        part.kill()
        status = await part.failed("ResumeFailed")
        assert token.strip() not in status["errorMessage"]
        assert part.token == token
        shown_nowhere(scene, token.strip(), own_logs(scene))

    await asyncio.gather(*(play(name, token) for name, token in ODD.items()))


async def test_B061_what_cannot_be_a_token_is_refused_in_clear_words(scene: Scene) -> None:
    async def play(name: str, token: str) -> None:
        part = scene.part(name)
        part.behave(f"--new-id={token}")
        await scene.begin(name, resume={"maxAttempts": 1})
        status = await part.failed("MaxAttempts")
        assert "without a usable session id" in status["errorMessage"]
        assert status["isResumable"] is False
        assert "resumeTokenRef" not in status
        part.behave()
        await part.ask_for("resume", "repaired")
        await part.with_history()

    await asyncio.gather(play("b061-blank", "   "), play("b061-huge", "t" * 70_000))


async def test_B017_no_bookkeeping_and_no_secret_in_annotations(scene: Scene) -> None:
    part = await scene.begin("b017", env={"SOME_PASSWORD": "hush-hush"}, prompt={"text": "hello"})
    await part.with_history()
    bystander = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bystander"}}
    await scene.apply({**bystander, "data": {"x": "y"}})
    await part.patch(resume={"maxAttempts": 5})
    await part.wait(lambda s: s["observedGeneration"] == 2, "seen anew")
    kinds = ("tasksessions", "executors", "tasks", "agentprofiles", "configmaps", "secrets")
    by_the_user = "kubectl.kubernetes.io/last-applied-configuration"
    for kind in kinds:
        for body in scene.listed(kind):
            marks = body["metadata"].get("annotations") or {}
            ours = {key for key in marks if key != by_the_user and "-requested" not in key}
            assert not ours, f"{kind} {body['metadata']['name']}: {ours}"
    executor = scene.get("executor", part.status["executorRef"]["name"])
    assert by_the_user not in (executor["metadata"].get("annotations") or {})
    for event in scene.listed("events"):
        assert "hush-hush" not in json.dumps(event)
    assert "hush-hush" not in scene.operator.log.read_text()


async def test_B007_an_unrelated_failure_to_start_leaves_the_token_alone(scene: Scene) -> None:
    part = await scene.begin("b007")
    before = await part.with_history()
    token, folder = part.token, scene.place.root / "b007"
    away = scene.folder / "b007-away"
    folder.rename(away)
    os.kill(scene.get("executor", before["executorRef"]["name"])["status"]["pid"], signal.SIGKILL)
    status = await part.failed("WorktreeMissing", stalled=False)
    assert status["isResumable"] is True
    assert status["executorStatus"] == "error"
    assert part.token == token
    await part.ask_for("resume", "too early")
    await scene.restart_operator()
    await part.failed("WorktreeMissing", stalled=False)
    away.rename(folder)
    status = await part.idle_again(before)
    assert "errorMessage" not in status
    assert part.token == token
    assert part.resumes == 1
    await part.remembers()


async def test_B002_a_failed_resume_leaves_no_execution_and_refuses_prompts(scene: Scene) -> None:
    part = await scene.begin("b002")
    before = await part.with_history()
    part.behave("--load-error=-32602")
    part.kill()
    status = await part.failed("ResumeFailed")
    assert "agentExecutionId" not in status
    assert status["isAgentRunning"] is False
    async with part.talk() as it:
        with pytest.raises(Refused) as refused:
            await it.prompt("anybody there?")
    assert refused.value.code == "agent_not_running"
    part.behave()
    await part.ask_for("resume", "repaired")
    await part.idle_again(before)
    await part.remembers()


async def test_a_turn_that_the_agent_never_stored_is_not_lost_in_silence(scene: Scene) -> None:
    """Killed between its answer and its own save: the agent forgot, the journal did not."""
    first = await scene.begin("unsaved-first", "--save-delay=600")
    second = await scene.begin("unsaved-second")
    await asyncio.gather(first.with_history(), second.with_history())
    token = first.token
    first.kill()
    status = await first.failed("SessionNotFound")
    assert status["isResumable"] is False
    assert first.token == token
    assert first.opened_new == 1

    second.behave("--save-delay=600")
    before = second.status
    second.kill()
    before = await second.idle_again(before)
    assert await second.ask("beta") == "You said 2 things so far; the first was: alpha"
    second.kill()
    await second.idle_again(before)
    assert await second.ask("gamma") == "You said 2 things so far; the first was: alpha"
    async with second.talk() as it:
        assert await it.user_messages() == ["alpha", "beta", "gamma"]


async def another_agent(part: Part, home: Path) -> Body:
    """The same profile name, another object, and an agent that keeps its memory elsewhere."""
    scene = part.scene
    await scene.kubectl("delete", "agentprofile", part.name)
    return profile(part.name, part.command(), {"HOME": str(home)})


async def test_the_token_of_another_profile_is_kept_and_the_refusal_told(
    scene: Scene, tmp_path: Path
) -> None:
    part = await scene.begin("other-agent")
    before = await part.with_history()
    token = part.token
    stranger = await another_agent(part, tmp_path)
    assert part.status["isAgentRunning"] is True, "a live agent is not touched for it"
    await scene.apply(stranger)
    part.kill()
    status = await part.failed("SessionNotFound")
    assert status["isResumable"] is False
    assert part.token == token
    assert part.opened_new == 1
    await scene.apply(profile("other-agent", part.command()))
    await part.ask_for("resume", "the old agent is back")
    status = await part.idle_again(before)
    assert part.token == token
    await part.remembers()


async def test_a_session_made_again_with_another_profile_says_what_became_of_the_old(
    scene: Scene, tmp_path: Path
) -> None:
    part = await scene.begin("remade")
    await part.with_history()
    token, executor = part.token, part.status["executorRef"]["name"]
    await scene.kubectl("delete", "tasksession", "remade", "--wait=false")
    await scene.wait_gone("executor", executor)
    await scene.apply(
        profile("remade-2", part.command(), {"HOME": str(tmp_path)}),
        task("remade"),
        session("remade", scene.place.worktree("remade"), task="remade", profile="remade-2"),
    )
    await part.failed("SessionNotFound")
    assert part.opened_new == 1
    await part.ask_for("fresh-start", "anew")
    await part.idle()
    assert part.token != token
    assert "the first was: beta" in await part.ask("beta")
