"""What people get wrong: each mistake is named in status, harms nothing, and heals when mended."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.errors import KubectlError
from stage.scene import Part, Scene
from stage.sessions import Body, condition, fake_agent, profile, session, task

SHELL = "/bin/sh"


def waits_for(reason: str) -> Callable[[Body], bool]:
    """Reconciling for this reason; nothing was begun."""

    def holds(status: Body) -> bool:
        return (
            condition(status, "Reconciling").get("reason") == reason
            and condition(status, "Ready").get("status") == "False"
        )

    return holds


async def mends(part: Part, spec: Body) -> Body:
    """The profile is repaired; nobody asks for anything else."""
    await part.repair("agentprofile", spec)
    status = await part.idle()
    assert "errorMessage" not in status
    assert not condition(status, "Stalled")
    return status


async def test_references_may_be_applied_later(scene: Scene) -> None:
    part = scene.part("late")
    local = {"localStandalone": {"worktreePath": str(scene.place.worktree("late"))}}
    executor = {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "late"},
        "spec": {"runtime": "LocalStandalone", **local},
    }
    ref = {"ref": {"name": "late"}}
    await scene.apply(session("late", task="late", profile="late", executor=ref))
    for reason, missing in (
        ("TaskMissing", task("late")),
        ("ProfileMissing", profile("late", part.command())),
        ("ExecutorMissing", executor),
    ):
        status = await part.wait(waits_for(reason), f"waiting: {reason}")
        assert status["state"] == "CREATED"
        assert not condition(status, "Stalled")
        assert "errorMessage" not in status
        assert "late does not exist" in condition(status, "Ready")["message"]
        await scene.apply(missing)
    status = await part.idle()
    assert not condition(status, "Reconciling")


def test_an_executor_is_either_named_or_made(scene: Scene) -> None:
    local = {"runtime": "LocalStandalone", "localStandalone": {"worktreePath": "/w"}}
    both = session("both", executor={"ref": {"name": "e"}, "template": {"spec": local}})
    with pytest.raises(KubectlError, match=r"exactly one of|exists_one|ref.*template"):
        scene.place.apply(both)
    neither = session("neither", executor={})
    with pytest.raises(KubectlError, match=r"exactly one of|exists_one|ref.*template"):
        scene.place.apply(neither)


async def test_a_worktree_that_is_missing_may_come_later(scene: Scene) -> None:
    folder = scene.place.root / "comes-later"
    part = await scene.begin("comes-later", worktree=folder)
    status = await part.failed("WorktreeMissing", stalled=False)
    assert str(folder) in status["errorMessage"]
    assert condition(status, "WorkspaceReady")["reason"] == "WorktreeMissing"
    folder.mkdir()
    status = await part.idle()
    assert "errorMessage" not in status


async def test_a_worktree_must_lie_where_the_operator_allows(scene: Scene, tmp_path: Path) -> None:
    way_out = scene.place.root / "way-out"
    way_out.symlink_to(tmp_path)

    async def play(name: str, folder: Path) -> None:
        part = await scene.begin(name, worktree=folder)
        status = await part.failed("NotAllowed")
        assert "not below the folder" in status["errorMessage"]
        assert not await asyncio.to_thread(os.listdir, tmp_path)

    await asyncio.gather(play("outside", tmp_path), play("by-a-link", way_out))


async def test_two_sessions_never_share_a_worktree(scene: Scene) -> None:
    folder = scene.place.worktree("shared")
    first = await scene.begin("shared-1", worktree=folder)
    await first.idle()
    second = await scene.begin("shared-2", worktree=folder)
    status = await second.failed("WorkspaceInUse", stalled=False)
    assert "two sessions never share files" in status["errorMessage"]
    assert first.status["isAgentRunning"] is True
    assert second.starts == 0
    await scene.kubectl("delete", "tasksession", "shared-1", "--wait=false")
    await second.idle()
    assert "errorMessage" not in second.status


async def test_local_executors_only_where_the_operator_allows_them(scene: Scene) -> None:
    elsewhere = scene.elsewhere
    local = session("local", elsewhere.root / "w", task="t", profile="p")
    await asyncio.to_thread(elsewhere.apply, profile("p"), task("t"), local)
    status = await asyncio.to_thread(
        elsewhere.wait, "local", lambda s: s.get("state") == "ERROR", "ERROR"
    )
    assert condition(status, "Stalled")["reason"] == "NotAllowed"
    assert "not allowed in this namespace" in status["errorMessage"]


async def test_containers_only_where_the_operator_allows_them(scene: Scene) -> None:
    part = scene.part("docker")
    docker = {"runtime": "LocalDocker", "localDocker": {"image": "example/agent:1"}}
    refused = session(
        "docker", task="docker", profile="docker", executor={"template": {"spec": docker}}
    )
    await scene.apply(task("docker"), profile("docker", part.command()), refused)
    status = await part.failed("NotAllowed")
    assert "--allow-docker-executors does not name it" in status["errorMessage"]


@pytest.mark.parametrize(
    ("name", "command", "reason", "words"),
    [
        ("no-command", ["/no/such/agent"], "CommandNotFound", "/no/such/agent"),
        ("old-version", fake_agent("--protocol-version=99"), "ProtocolMismatch", "version 99"),
        ("no-login", fake_agent("--auth-required"), "AuthenticationRequired", "Authentication"),
    ],
)
async def test_a_profile_that_a_person_must_mend(
    scene: Scene, name: str, command: list[str], reason: str, words: str
) -> None:
    part = scene.part(name)
    worktree = scene.place.worktree(name)
    await scene.apply(
        profile(name, command), task(name), session(name, worktree, task=name, profile=name)
    )
    status = await part.failed(reason)
    assert words in status["errorMessage"]
    assert condition(status, "AgentReady")["reason"] == reason
    assert status["executorStatus"] == "ready"
    assert status["attempt"] == 1
    await mends(part, {"command": part.command()})
    await part.ask("alpha")
    await part.remembers()


async def test_an_agent_that_exits_at_once_is_tried_again_then_given_up(scene: Scene) -> None:
    async def play(name: str, command: list[str], words: str) -> None:
        part = scene.part(name)
        worktree = scene.place.worktree(name)
        await scene.apply(
            profile(name, command),
            task(name),
            session(name, worktree, task=name, profile=name, resume={"maxAttempts": 2}),
        )
        status = await part.failed("AgentExited", stalled=False)
        assert words in status["errorMessage"]
        status = await part.failed("MaxAttempts")
        assert words in status["errorMessage"]
        assert status["executorStatus"] == "ready"
        await mends(part, {"command": part.command()})

    talkative = "echo Usage: agent MODEL; echo no model was given >&2; exit 7"
    await asyncio.gather(
        play("exits", fake_agent("--exit-at=initialize"), "ends at initialize"),
        play("exits-talking", [SHELL, "-c", talkative], "no model was given"),
    )


async def test_an_agent_that_never_answers_is_given_up_in_the_time_that_spec_allows(
    scene: Scene,
) -> None:
    async def play(name: str, command: list[str], reason: str) -> None:
        part = scene.part(name)
        worktree = scene.place.worktree(name)
        limits = {"timeoutSeconds": 2, "maxAttempts": 1}
        await scene.apply(
            profile(name, command),
            task(name),
            session(name, worktree, task=name, profile=name, resume=limits),
        )
        await part.failed(reason)
        await mends(part, {"command": part.command()})

    chatter = "while sleep 0.2; do echo Loading the model...; done"
    await asyncio.gather(
        play("silent", fake_agent("--hang-at=initialize"), "MaxAttempts"),
        play("chatter", [SHELL, "-c", chatter], "MaxAttempts"),
        play("hangs-at-new", fake_agent("--hang-at=new"), "MaxAttempts"),
    )


async def test_rubbish_between_messages_and_huge_lines_harm_nothing(scene: Scene) -> None:
    async def play(name: str, option: str) -> None:
        part = await scene.begin(name, option)
        before = await part.with_history()
        await part.remembers()
        part.kill()
        await part.idle_again(before)
        await part.remembers()

    await asyncio.gather(
        play("garbage", "--garbage"),
        play("garbage-json", "--garbage-json"),
        play("big-line", "--big-line=20000000"),
    )


async def test_a_secret_that_the_profile_names_may_come_later(scene: Scene) -> None:
    part = scene.part("no-secret")
    key = {"name": "API_KEY", "secretKeyRef": {"name": "keys", "key": "api"}}
    worktree = scene.place.worktree("no-secret")
    await scene.apply(
        {**profile("no-secret"), "spec": {"command": part.command(), "env": [key]}},
        task("no-secret"),
        session("no-secret", worktree, task="no-secret", profile="no-secret"),
    )
    status = await part.failed("SecretMissing")
    assert "Secret keys with key api" in status["errorMessage"]
    assert part.starts == 0
    await scene.kubectl("create", "secret", "generic", "keys", "--from-literal=api=hush-hush-1")
    status = await part.idle()
    assert "hush-hush-1" not in str(status)


async def test_B049_a_renewed_key_is_used_at_once_when_somebody_asks(scene: Scene) -> None:
    part = scene.part("b049")
    wants_key = 'if [ "$API_KEY" = key-that-works ]; then exec "$@"; fi; exec "$@" --auth-required'
    command = [SHELL, "-c", wants_key, "sh", *part.command()]
    key = {"name": "API_KEY", "secretKeyRef": {"name": "b049", "key": "api"}}
    worktree = scene.place.worktree("b049")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b049"}}
    await scene.apply(
        {**secret, "stringData": {"api": "key-that-works"}},
        {**profile("b049"), "spec": {"command": command, "env": [key]}},
        task("b049"),
        session("b049", worktree, task="b049", profile="b049"),
    )
    before = await part.with_history()
    token = part.token

    await scene.apply({**secret, "stringData": {"api": "key-of-yesterday"}})
    await part.ask_for("resume", "look-again")  # nothing is done to an agent that lives
    part.kill()
    status = await part.failed("AuthenticationRequired")
    assert status["isResumable"] is True
    assert status["resumeReason"] == "authentication_required"
    assert part.token == token
    assert part.resumes == 1

    await scene.apply({**secret, "stringData": {"api": "key-that-works"}})
    await part.ask_for("resume", "renewed")
    status = await part.idle_again(before)
    assert "errorMessage" not in status
    assert part.token == token
    await part.remembers()
