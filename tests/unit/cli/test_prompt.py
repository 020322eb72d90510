"""`kubectl kandev prompt`: refusing, handing in once, hearing out, and every way it can end."""

import asyncio
import io
from typing import Any

import pytest

from kandev_operator.cli.commands import Prompt
from kandev_operator.cli.faults import ExitCode, Misuse, OutOfTime, Refusal
from unit.cli.bodies import NAME, condition, session_body
from unit.cli.stage import Stage, until

ASK = Prompt(NAME, "Make the tests pass", prompt_id="p1")


def answering(stage: Stage, *said: str, outcome: str = "completed", **more: Any) -> None:
    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        for text in said:
            stage.agentctl.says(text)
        stage.agentctl.end(outcome, **more)
        await stage.agentctl.tell("agent", status="idle")

    stage.agentctl.on_prompt = turn


async def test_the_answer_is_standard_output_and_nothing_else(stage: Stage) -> None:
    answering(stage, "All ", "green. \n")
    assert await stage.play(Prompt(NAME, "Make the tests pass")) == ExitCode.OK
    assert stage.said == "All green. \n"
    [sent] = stage.agentctl.prompts
    assert sent["content"] == [{"type": "text", "text": "Make the tests pass"}]
    assert sent["session_id"] == "session-uid"


async def test_the_token_is_for_this_executor_and_session_and_for_little(stage: Stage) -> None:
    answering(stage, "ok")
    await stage.play(ASK)
    for claims in stage.agentctl.claims:
        assert claims["aud"] == "executor-uid"
        assert claims["session"] == "session-uid"
        assert set(claims["scopes"]) <= {"read", "prompt"}
        assert claims["exp"] - claims["iat"] <= 300
        assert "term" not in claims
        assert "epoch" not in claims


async def test_what_was_said_before_and_to_others_is_not_shown(stage: Stage) -> None:
    stage.agentctl.says("old news")

    async def turn(prompt_id: str) -> None:
        stage.agentctl.says("for somebody else", "m0", turn="t0")
        stage.agentctl.begin(prompt_id)
        stage.agentctl.says("for you")
        stage.agentctl.end()
        await stage.agentctl.tell("agent", status="idle")

    stage.agentctl.on_prompt = turn
    await stage.play(ASK)
    assert stage.said == "for you\n"


async def test_tools_and_thoughts_go_beside_the_answer(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        it = stage.agentctl
        it.begin(prompt_id)
        it.says("Let me think", "m0", kind="thought")
        it.says("First.", "m1")
        call = {"title": "Run make", "kind": "execute", "status": "completed"}
        it.add("message", message_id="c", author="agent", kind="tool_call", content=call)
        it.events[-1]["data"]["turn_id"] = "t1"
        it.says("Second.", "m2")
        it.end()
        await it.tell("agent", status="idle")

    stage.agentctl.on_prompt = turn
    await stage.play(ASK)
    assert stage.said == "First.\n\nSecond.\n"
    assert "tool: Run make [execute] completed" in stage.noted
    assert "thought: Let me think" in stage.noted


async def test_the_prompt_may_come_from_standard_input(stage: Stage) -> None:
    stage.desk.screen._stdin = io.StringIO("from a file")
    answering(stage, "ok")
    await stage.play(Prompt(NAME, "-"))
    assert stage.agentctl.prompts[0]["content"][0]["text"] == "from a file"


@pytest.mark.parametrize("text", ["", "  \n", "\ud800", "x" * 5_000_000])
async def test_a_prompt_that_cannot_be_meant_is_wrong_usage(stage: Stage, text: str) -> None:
    assert isinstance(await stage.refused(Prompt(NAME, text)), Misuse)
    assert stage.agentctl.prompts == []


async def test_without_waiting_it_is_handed_in_and_no_more(stage: Stage) -> None:
    assert await stage.play(Prompt(NAME, "go", "nightly", wait=False)) == ExitCode.OK
    assert "nightly is accepted (queued)" in stage.said
    assert stage.agentctl.cursors == []


ENDS = [
    ("cancelled", {}, "the turn was cancelled"),
    ("interrupted", {}, "the agent's process died in the middle"),
    ("failed", {"failure": {"code": "agent_error", "message": "no credit"}}, "no credit"),
]


@pytest.mark.parametrize(("outcome", "more", "words"), ENDS)
async def test_a_turn_that_ends_otherwise_is_said_plainly(
    stage: Stage, outcome: str, more: dict[str, Any], words: str
) -> None:
    answering(stage, "half an ans", outcome=outcome, **more)
    fault = await stage.refused(ASK)
    assert fault.code == ExitCode.FAILED
    assert words in fault.message
    assert stage.said == "half an ans\n"


async def test_a_turn_that_stops_at_a_limit_is_done_and_said(stage: Stage) -> None:
    answering(stage, "and so", stop_reason="max_tokens")
    assert await stage.play(ASK) == ExitCode.OK
    assert "limit of tokens" in stage.noted


async def test_an_unknown_fate_is_neither_a_yes_nor_a_no(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        stage.agentctl.add("prompt", prompt_id=prompt_id, fate="unknown", reason="it died")
        stage.agentctl.end("interrupted")
        await stage.agentctl.tell("agent", status="exited")

    stage.agentctl.on_prompt = turn
    fault = await stage.refused(ASK)
    assert fault.code == ExitCode.FAILED
    assert "it is not known whether the agent got the prompt" in fault.message
    assert "(it died)" in fault.message


async def test_an_unknown_fate_without_an_end_does_not_wait_for_ever(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        await stage.agentctl.tell("prompt", prompt_id=prompt_id, fate="unknown", reason="")

    stage.agentctl.on_prompt = turn
    assert "not known" in (await stage.refused(ASK)).message


async def test_a_prompt_that_never_reaches_the_agent_is_told(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        await stage.agentctl.tell(
            "prompt", prompt_id=prompt_id, fate="not_delivered", reason="stopped"
        )

    stage.agentctl.on_prompt = turn
    assert "never reached the agent" in (await stage.refused(ASK)).message


async def test_no_agent_is_a_refusal_with_the_way_out(stage: Stage) -> None:
    stage.api.put(
        "tasksessions",
        session_body(
            [condition("Ready", "False", "AgentNotRunning", "The agent is not running.")],
            {"resume": {"policy": "OnRequest"}},
            isAgentRunning=False,
            needsResume=True,
            resumeReason="agent_not_running",
        ),
    )
    fault = await stage.refused(Prompt(NAME, "go"))
    assert isinstance(fault, Refusal)
    assert "agent_not_running" in fault.message
    assert any("kubectl kandev resume demo -n team-a" in hint for hint in fault.hints)
    assert stage.agentctl.prompts == []


async def test_an_agent_that_died_unnoticed_is_a_refusal_too(stage: Stage) -> None:
    stage.agentctl.agent_status = "exited"
    fault = await stage.refused(Prompt(NAME, "go"))
    assert isinstance(fault, Refusal)
    assert "exited" in fault.message


async def test_agentctls_own_no_is_a_refusal(stage: Stage) -> None:
    stage.agentctl.refuse["/api/v1/prompt"] = (409, "agent_not_running")
    fault = await stage.refused(ASK)
    assert isinstance(fault, Refusal)
    assert any("kubectl kandev why demo" in hint for hint in fault.hints)


async def test_a_known_id_sends_nothing_and_tells_what_became_of_it(stage: Stage) -> None:
    stage.agentctl.records = [{"prompt_id": "p1", "fate": "delivered"}]
    assert await stage.play(ASK) == ExitCode.OK
    assert "handed in before" in stage.noted


async def test_a_known_id_is_answered_even_when_no_agent_runs(stage: Stage) -> None:
    stage.api.session["status"]["isAgentRunning"] = False
    stage.agentctl.agent_status = "exited"
    stage.agentctl.records = [{"prompt_id": "p1", "fate": "unknown", "reason": "it died"}]
    assert "not known" in (await stage.refused(ASK)).message


async def test_a_lost_answer_is_asked_for_again_under_the_same_id(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        if len(stage.agentctl.prompts) == 1:
            stage.agentctl.begin(prompt_id)
            stage.agentctl.says("only once")
            stage.agentctl.end()
            stage.agentctl.records = [{"prompt_id": prompt_id, "fate": "delivered"}]

    stage.agentctl.on_prompt = turn
    stage.agentctl.lose_answers = 1
    assert await stage.play(ASK) == ExitCode.OK
    assert [each["prompt_id"] for each in stage.agentctl.prompts] == ["p1", "p1"]
    assert stage.said == "only once\n"


async def test_nobody_there_to_say_that_it_is_stored(stage: Stage) -> None:
    stage.agentctl.lose_answers = 1_000_000
    fault = await stage.refused(ASK)
    assert fault.code == ExitCode.FAILED
    assert "not known whether the prompt was accepted" in fault.message
    assert any("--id p1" in hint for hint in fault.hints)


async def test_the_answer_goes_on_after_agentctl_came_back_elsewhere(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        stage.agentctl.says("One, ")
        await stage.agentctl.tell("agent", status="running")

    stage.agentctl.on_prompt = turn
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: "One, " in stage.said)
    await stage.agentctl.stop()
    stage.agentctl.says("two")
    stage.agentctl.end()
    url = await stage.agentctl.start()
    stage.api.objects["executors", "team-a", "place"]["status"]["agentctlURL"] = url
    assert await playing == ExitCode.OK
    assert stage.said == "One, two\n"


async def test_an_end_that_is_not_kept_any_more_is_read_from_the_report(stage: Stage) -> None:
    async def turn(prompt_id: str) -> None:
        stage.agentctl.begin(prompt_id)
        await stage.agentctl.tell("agent", status="running")

    stage.agentctl.on_prompt = turn
    playing = asyncio.create_task(stage.play(ASK))
    await until(lambda: bool(stage.agentctl.cursors))
    stage.agentctl.end()
    stage.agentctl.says("the next turn", turn="t2")
    stage.agentctl.events = stage.agentctl.events[-1:]
    stage.agentctl.lost = [stage.agentctl.events[0]["seq"] - 1]
    await stage.agentctl.cut()
    assert await playing == ExitCode.OK
    assert "are missing" in stage.noted


async def test_a_queue_that_nobody_will_empty_is_not_waited_for(stage: Stage) -> None:
    async def died(_prompt_id: str) -> None:
        stage.api.put(
            "tasksessions",
            session_body(
                [condition("Ready", "False", "AgentNotRunning")],
                {"resume": {"policy": "OnRequest"}},
                isAgentRunning=False,
                needsResume=True,
            ),
        )

    stage.agentctl.on_prompt = died
    fault = await stage.refused(ASK)
    assert "the prompt waits, and no agent runs" in fault.message
    assert any("kandev resume" in hint for hint in fault.hints)


async def test_the_time_is_over_and_the_turn_goes_on(stage: Stage) -> None:
    fault = await stage.refused(Prompt(NAME, "go", timeout=0.2))
    assert isinstance(fault, OutOfTime)
    assert any("kandev logs -f demo" in hint for hint in fault.hints)
