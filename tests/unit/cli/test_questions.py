"""Permission requests during a prompt: shown, asked one by one, withdrawn, left open."""

import asyncio
from typing import Any

from kandev_operator.cli.commands import Prompt
from kandev_operator.cli.faults import ExitCode
from unit.cli.bodies import NAME
from unit.cli.stage import Stage, until

ASK = Prompt(NAME, "Make the tests pass", prompt_id="p1")


async def test_a_permission_is_shown_with_the_commands_that_answer_it(stage: Stage) -> None:
    asked = {
        "permission_id": "e1-p1",
        "turn_id": "t1",
        "title": "rm -rf \x1b[2Jbuild",
        "tool_kind": "execute",
        "options": [{"option_id": "yes", "name": "Allow once", "kind": "allow_once"}],
        "requested_at": "2026-11-30T14:00:00Z",
    }

    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        await stage.agentctl.tell("permission_requested", permission=asked)

    stage.agentctl.on_prompt = turn
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: "kubectl kandev deny" in stage.noted)
    assert "kubectl kandev allow demo e1-p1 -n team-a" in stage.noted
    assert "Allow once (yes)" in stage.noted
    assert "\x1b" not in stage.noted
    stage.agentctl.end()
    await stage.agentctl.cut()
    assert await playing == ExitCode.OK


async def test_what_policy_answers_at_once_is_not_asked(stage: Stage) -> None:
    asked = {"permission_id": "e1-p1", "turn_id": "t1", "title": "ls", "options": []}

    async def turn(prompt_id: str) -> None:
        it = stage.agentctl
        it.begin(prompt_id)
        it.add("permission_requested", permission={**asked, "requested_at": "t"})
        it.add("permission_resolved", permission_id="e1-p1", turn_id="t1", by="policy")
        it.says("done")
        it.end()
        await it.tell("agent", status="idle")

    stage.agentctl.on_prompt = turn
    assert await stage.play(ASK) == ExitCode.OK
    assert "kandev allow" not in stage.noted


def asking(stage: Stage, *names: str) -> list[dict[str, Any]]:
    """A turn that asks for these permissions, one after another, and ends when all are answered."""
    left = [
        {
            "permission_id": name,
            "turn_id": "t1",
            "title": f"run {name}",
            "options": [
                {"option_id": "once", "name": "Allow once", "kind": "allow_once"},
                {"option_id": "no", "name": "Reject", "kind": "reject_once"},
            ],
            "requested_at": "2026-11-30T14:00:00Z",
        }
        for name in names
    ]

    async def go_on() -> None:
        if not left:
            stage.agentctl.end()
            await stage.agentctl.tell("agent", status="idle")
            return
        stage.agentctl.permissions = [left.pop(0)]
        await stage.agentctl.tell("permission_requested", permission=stage.agentctl.permissions[0])

    async def answered() -> None:
        name, _ = stage.agentctl.answers[-1]
        stage.agentctl.add("permission_resolved", permission_id=name, turn_id="t1", by="caller")
        await go_on()

    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        await go_on()

    stage.agentctl.on_prompt = turn
    stage.agentctl.on_answer = answered
    return left


async def test_somebody_at_the_terminal_is_asked(stage: Stage) -> None:
    asking(stage, "p1", "p2")
    stage.attend("7", "one", "1", "0")
    assert await stage.play(ASK) == ExitCode.OK
    assert stage.agentctl.answers == [("p1", {"option_id": "once"}), ("p2", {})]
    assert "1) Allow once (once) [allow_once]" in stage.noted
    assert "'one' is not a number from 0 to 2" in stage.noted


async def test_a_question_that_others_answer_is_withdrawn(stage: Stage) -> None:
    asking(stage, "p1")
    screen = stage.attend()
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: bool(screen.questions))
    stage.agentctl.permissions.clear()
    stage.agentctl.add("permission_resolved", permission_id="p1", turn_id="t1", by="caller")
    stage.agentctl.end()
    await stage.agentctl.tell("agent", status="idle")
    assert await playing == ExitCode.OK


async def test_a_question_may_be_left_open(stage: Stage) -> None:
    asking(stage, "p1")
    stage.attend("")
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: "Answer later" in stage.noted)
    assert stage.agentctl.answers == []
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
    assert "the turn goes on" in stage.noted


async def test_an_answer_that_comes_too_late_is_said(stage: Stage) -> None:
    asking(stage, "p1")
    stage.agentctl.refuse["/api/v1/permissions/p1"] = (404, "unknown_permission")
    stage.attend("1")
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: "the answer was not taken" in stage.noted)
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
