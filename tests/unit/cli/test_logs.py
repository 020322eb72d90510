"""`kubectl kandev logs`: once, from a place, as JSON, and for as long as one looks."""

import asyncio
import json

import pytest

from kandev_operator.cli.commands import Logs
from kandev_operator.cli.faults import ExitCode, Fault, Refusal
from unit.cli.bodies import NAME, condition, session_body
from unit.cli.stage import Stage, until

PAGE = """\
2026-11-30T14:00:01Z user    Fix the bug
                             please
2026-11-30T14:00:01Z thought Hm.
2026-11-30T14:00:01Z agent   I look
                             at it.

                             Done.
2026-11-30T14:00:01Z tool    Read a.py [read] completed
2026-11-30T14:00:01Z warning the turn was cut off: the agent's process died
"""


def conversation(stage: Stage) -> None:
    it = stage.agentctl
    it.begin("p1")
    it.add("message", message_id="p", author="user", kind="text", text="Fix the bug\nplease\n")
    it.says("Hm.", "m0", kind="thought")
    it.says("I look\nat it.\n")
    it.says("\nDone.\n")
    content = {"title": "Read a.py", "kind": "read", "status": "completed"}
    it.add("message", message_id="c", author="agent", kind="tool_call", content=content)
    it.add("token", sha256="0" * 64, established=True)
    it.end("interrupted")


async def test_the_conversation_on_a_page(stage: Stage) -> None:
    conversation(stage)
    assert await stage.play(Logs(NAME)) == ExitCode.OK
    assert stage.said == PAGE


async def test_escape_sequences_do_nothing(stage: Stage) -> None:
    stage.agentctl.says("\x1b]0;pwned\x07\x1b[2Jhi\rthere")
    await stage.play(Logs(NAME))
    assert "\x1b" not in stage.said
    assert "\r" not in stage.said
    assert "there" in stage.said


async def test_json_has_the_contracts_events_one_a_line(stage: Stage) -> None:
    conversation(stage)
    await stage.play(Logs(NAME, as_json=True))
    events = [json.loads(line) for line in stage.said.splitlines()]
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6, 8]
    assert events[3]["data"]["text"] == "I look\nat it.\n"


async def test_since_a_number(stage: Stage) -> None:
    conversation(stage)
    await stage.play(Logs(NAME, since_seq=6, as_json=True))
    assert [json.loads(line)["seq"] for line in stage.said.splitlines()] == [8]


@pytest.mark.parametrize("since", [8, 1000])
async def test_since_the_end_there_is_nothing(stage: Stage, since: int) -> None:
    conversation(stage)
    assert await stage.play(Logs(NAME, since_seq=since)) == ExitCode.OK
    assert stage.said == ""


async def test_nothing_was_said_yet(stage: Stage) -> None:
    assert await stage.play(Logs(NAME)) == ExitCode.OK
    assert stage.said == ""
    assert "nothing has been said yet" in stage.noted


async def test_a_gap_is_shown(stage: Stage) -> None:
    conversation(stage)
    stage.agentctl.lost = [6]
    await stage.play(Logs(NAME))
    assert stage.said.startswith("2026-11-30T14:00:00Z warning events 1 to 6 are missing")


async def test_numbers_that_found_no_room_are_not_waited_for(stage: Stage) -> None:
    stage.agentctl.says("a")
    stage.agentctl.unwritten = 4
    assert await stage.play(Logs(NAME)) == ExitCode.OK
    assert stage.said.endswith("agent   a\n")


async def test_a_session_that_nobody_serves_is_a_refusal(stage: Stage) -> None:
    stage.api.put(
        "tasksessions",
        session_body(
            [
                condition("Ready", "True", "Suspended"),
                condition("Suspended", "True", "IdleTimeout"),
            ],
            isAgentRunning=False,
            executorRef=None,
        ),
    )
    fault = await stage.refused(Logs(NAME))
    assert isinstance(fault, Refusal)
    assert any("kandev resume demo" in hint for hint in fault.hints)


async def followed(stage: Stage, *, words: str) -> None:
    await until(lambda: words in stage.said + stage.noted)


async def test_following_over_a_restart(stage: Stage) -> None:
    stage.agentctl.says("One, ")
    following = asyncio.create_task(stage.play(Logs(NAME, follow=True)))
    await followed(stage, words="One, ")
    await stage.agentctl.stop()
    await followed(stage, words="waiting for it to come back")
    stage.agentctl.says("two\n")
    url = await stage.agentctl.start()
    stage.api.objects["executors", "team-a", "place"]["status"]["agentctlURL"] = url
    await followed(stage, words="two")
    assert "connected again" in stage.noted
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert stage.said == "2026-11-30T14:00:01Z agent   One, two\n"
    assert stage.noted.count("waiting for it") == 1


async def test_following_ends_when_the_session_has_finished(stage: Stage) -> None:
    stage.agentctl.says("bye")
    following = asyncio.create_task(stage.play(Logs(NAME, follow=True)))
    await followed(stage, words="bye")
    stage.api.put(
        "tasksessions",
        session_body([condition("Finished", "True", "Completed")], executorRef=None),
    )
    await stage.agentctl.cut()
    assert await following == ExitCode.OK
    assert "nothing more will come" in stage.noted


async def test_following_ends_when_the_session_is_gone(stage: Stage) -> None:
    stage.agentctl.says("bye")
    following = asyncio.create_task(stage.play(Logs(NAME, follow=True)))
    await followed(stage, words="bye")
    stage.api.objects.clear()
    await stage.agentctl.cut()
    with pytest.raises(Fault, match="there is no TaskSession demo in namespace team-a"):
        await following


async def test_a_finished_session_has_nothing_to_follow(stage: Stage) -> None:
    finished = session_body([condition("Finished", "True", "Completed")], executorRef=None)
    stage.api.put("tasksessions", finished)
    assert isinstance(await stage.refused(Logs(NAME, follow=True)), Refusal)
