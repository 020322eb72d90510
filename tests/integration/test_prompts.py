"""Prompts: the first one is sent exactly once, later ones in order, none twice and none lost."""

import asyncio
import random

import pytest

from kandev_operator.clients.errors import Refused
from stage.scene import Part, Scene, until
from stage.sessions import Body, condition, profile, session, task


def config_map(name: str, **data: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Body:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def sent(status: Body) -> bool:
    prompt = status.get("firstPrompt") or {}
    return prompt.get("fate") in ("accepted", "delivered")


async def answered_once(part: Part, text: str) -> None:
    """The prompt reached the agent one time, and the conversation shows it one time."""
    status = await part.wait(
        lambda s: sent(s) and s["state"] == "WAITING_FOR_INPUT" and s.get("isAgentRunning"),
        "idle after its first prompt",
    )
    assert status["firstPrompt"]["id"] == "first"
    assert part.prompts() == [text]
    async with part.talk() as it:
        await it.until(lambda r: r.turns_completed == 1)
        assert await it.user_messages() == [text]


async def test_the_first_prompt_from_wherever_it_is_kept(scene: Scene) -> None:
    async def play(name: str, prompt: Body) -> None:
        part = await scene.begin(name, prompt=prompt)
        await answered_once(part, f"hello {name}")
        part.kill()
        await until(lambda: part.resumes == 1, "resumed")
        await answered_once(part, f"hello {name}")

    await scene.apply(
        config_map("prompts", hello="hello in-a-map"), secret("prompts", hello="hello in-a-secret")
    )
    key = {"name": "prompts", "key": "hello"}
    await asyncio.gather(
        play("in-spec", {"text": "hello in-spec"}),
        play("in-a-map", {"from": {"configMapKeyRef": key}}),
        play("in-a-secret", {"from": {"secretKeyRef": key}}),
    )


async def test_a_first_prompt_that_is_missing_is_waited_for(scene: Scene) -> None:
    key = {"name": "later", "key": "hello"}
    part = await scene.begin("later", prompt={"from": {"configMapKeyRef": key}})
    status = await part.wait(
        lambda s: condition(s, "Ready").get("reason") == "PromptMissing",
        "saying that its prompt is missing",
    )
    assert "spec.prompt.from" in condition(status, "Ready")["message"]
    assert condition(status, "Stalled")["reason"] == "PromptMissing"
    assert status["state"] == "WAITING_FOR_INPUT"
    assert part.prompts() == []
    await scene.apply(config_map("later", hello="hello at last"))
    await answered_once(part, "hello at last")
    assert not condition(part.status, "Stalled")


async def test_the_first_prompt_is_sent_once_however_often_the_operator_dies(scene: Scene) -> None:
    dice = random.Random(7)
    parts = [
        await scene.begin(f"once-{n}", "--slow-start=0.5", prompt={"text": f"hello {n}"})
        for n in range(3)
    ]
    for _ in range(3):
        await asyncio.sleep(dice.uniform(0.1, 1.0))
        await asyncio.to_thread(scene.operator.kill)
        await asyncio.to_thread(scene.operator.start, wait_ready=False)
        await asyncio.sleep(dice.uniform(0.5, 2.0))
    await asyncio.to_thread(scene.operator.wait_ready)
    for n, part in enumerate(parts):
        await answered_once(part, f"hello {n}")
        assert part.opened_new == 1


async def test_B050_prompts_are_delivered_once_and_in_order_over_restarts(scene: Scene) -> None:
    part = await scene.begin("b050")
    before = await part.with_history("p0")
    part.behave("--slow-start=2")
    part.kill()
    await part.wait(lambda s: s["state"] == "STARTING", "starting")
    async with part.talk() as it:
        await it.prompt("p1", "p1")
        await it.prompt("p2 slow 3", "p2")
        await scene.restart_operator()
        await it.prompt("p3", "p3")
        await it.prompt("p3", "p3")
        with pytest.raises(Refused):
            await it.prompt("p3 in other words", "p3")
        await it.prompt("p4", "p4")
        await it.turn_ended("p4")
        assert await it.user_messages() == ["p0", "p1", "p2 slow 3", "p3", "p4"]
    await part.idle_again(before)
    assert part.prompts() == ["p0", "p1", "p2 slow 3", "p3", "p4"]
    assert part.resumes == 1
    assert await part.ask("last") == "You said 6 things so far; the first was: p0"


async def test_a_prompt_that_may_have_reached_a_killed_agent_is_not_repeated(scene: Scene) -> None:
    part = await scene.begin("unknown-fate")
    before = await part.with_history()
    part.behave("--exit-at=prompt")
    part.kill()
    before = await part.idle_again(before)
    part.behave()
    async with part.talk() as it:
        await it.prompt("risky", "risky")
        report = await it.until(lambda r: r.last_turn and r.last_turn.prompt_id == "risky")
        assert report.last_turn is not None
        assert report.last_turn.outcome == "interrupted"
    status = await part.idle_again(before)
    assert status["interruptedTurn"]["promptId"] == "risky"
    assert part.prompts().count("risky") == 1
    await part.remembers()


async def test_a_turn_that_is_cut_off_is_told_and_the_rest_goes_on(scene: Scene) -> None:
    part = await scene.begin("cut")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
        await it.prompt("next", "next")
        await it.until(lambda r: r.turn is not None and r.turn.prompt_id == "long")
        await until(lambda: "slow 1000" in part.prompts(), "the agent has the prompt")
        part.kill()
        await it.turn_ended("next")
    status = await part.idle_again(before)
    assert part.prompts() == ["alpha", "slow 1000", "next"]
    assert "errorMessage" not in status


async def test_B008_a_late_end_of_a_cancelled_turn_does_not_end_the_next(scene: Scene) -> None:
    part = await scene.begin("b008", "--late-end=1.0")
    await part.idle()
    async with part.talk() as it:
        await it.prompt("slow 1000 A", "A")
        await it.until(lambda r: r.turn is not None)
        await until(lambda: part.prompts(), "the agent has the prompt")
        await it.client.cancel(it.session_uid)
        await it.prompt("slow 12 B", "B")
        report = await it.turn_ended("B")
        assert report.last_turn is not None
        assert report.last_turn.outcome == "completed"
        assert report.turns_completed == 1
        said = "".join(
            each.data.get("text") or ""
            for each in await it.events()
            if each.data.get("author") == "agent"
            and each.data.get("turn_id") == report.last_turn.turn_id
        )
        assert "word12" in said
    await part.wait(lambda s: s["state"] == "WAITING_FOR_INPUT", "waiting for input")


async def test_the_same_first_prompt_is_not_sent_again_by_a_session_made_anew(scene: Scene) -> None:
    part = await scene.begin("anew", prompt={"text": "only once"})
    await answered_once(part, "only once")
    executor = part.status["executorRef"]["name"]
    await scene.kubectl("delete", "tasksession", "anew", "--wait=false")
    await scene.wait_gone("executor", executor)
    await scene.apply(
        profile("anew", part.command()),
        task("anew"),
        session(
            "anew",
            scene.place.worktree("anew"),
            task="anew",
            profile="anew",
            prompt={"text": "only once"},
        ),
    )
    await answered_once(part, "only once")
