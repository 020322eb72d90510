"""The scripted agent, driven through the official SDK: its promises, and each way to break one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError

from fakes.acp_client import Talk, talk
from fakes.scripted import options as told

pytestmark = pytest.mark.unit

AGENT = Path(__file__).parents[2] / "fakes" / "acp_agent.py"

Start = Callable[..., AbstractAsyncContextManager[Talk]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start the agent with these options; every start in a test shares one HOME."""

    def one(*options: str) -> AbstractAsyncContextManager[Talk]:
        command = [sys.executable, str(AGENT), "--tick=0.01", f"--log={tmp_path / 'log'}", *options]
        return talk(command, {"HOME": str(tmp_path)}, tmp_path)

    return one


def diary(folder: Path, event: str = "message") -> list[dict[str, Any]]:
    lines = (folder / "log").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["event"] == event]


async def one_turn(start: Start, *options: str) -> str:
    """A session with one turn in it, whose process is dead."""
    async with start(*options) as it:
        await it.initialize()
        session_id = await it.new()
        await it.ask(session_id, "alpha")
    return session_id


async def test_it_says_who_it_is_and_what_it_can(start: Start) -> None:
    async with start() as it:
        answer = await it.initialize()
    able = answer.agent_capabilities
    assert answer.agent_info is not None
    assert (answer.agent_info.name, answer.protocol_version) == ("acp-agent", 1)
    assert able is not None
    assert able.load_session is True
    assert able.session_capabilities is not None
    assert able.session_capabilities.resume is not None
    assert able.session_capabilities.list is not None


@pytest.mark.parametrize("way", ["resume", "load"])
async def test_a_killed_agent_comes_back_and_remembers(start: Start, way: str) -> None:
    session_id = await one_turn(start)
    async with start() as it:
        await it.initialize()
        await getattr(it, way)(session_id)
        replayed = [words for kind, words in it.heard() if kind.endswith("message_chunk")]
        assert await it.ask(session_id, "beta") == "You said 2 things so far; the first was: alpha"
    first_turn = ["alpha", "You said 1 things so far; the first was: alpha"]
    assert replayed == (first_turn if way == "load" else [])


async def test_words_stream_and_a_cancel_cuts_them(start: Start) -> None:
    async with start("--tick=0.05") as it:
        await it.initialize()
        session_id = await it.new()
        turn = asyncio.create_task(it.prompt(session_id, "slow 1000 alpha"))
        await it.until(lambda: "word2" in it.said())
        await it.agent.cancel(session_id=session_id)
        assert (await turn).stop_reason == "cancelled"
        assert "2 things so far; the first was: slow 1000 alpha" in await it.ask(session_id, "on")


@pytest.mark.parametrize(
    ("choice", "written", "words"),
    [("allow_once", True, "I wrote"), ("reject_once", False, "I was not allowed to write")],
)
async def test_a_permission_is_asked_and_obeyed(
    start: Start, tmp_path: Path, choice: str, written: bool, words: str
) -> None:
    async with start() as it:
        await it.initialize()
        it.ear.choose = choice
        session_id = await it.new()
        assert words in await it.ask(session_id, "with permission, write note.txt")
    assert [call.title for call in it.ear.permissions] == ["Write note.txt"]
    assert (tmp_path / "note.txt").exists() is written


async def test_an_open_permission_ends_with_a_cancel(start: Start) -> None:
    async with start() as it:
        await it.initialize()
        it.ear.choose = None
        session_id = await it.new()
        turn = asyncio.create_task(it.prompt(session_id, "permission"))
        await it.until(lambda: it.ear.permissions)
        await it.agent.cancel(session_id=session_id)
        assert (await turn).stop_reason == "cancelled"


async def test_the_list_has_pages_and_only_sessions_with_a_turn(
    start: Start, tmp_path: Path
) -> None:
    stored = {await one_turn(start) for _ in range(3)}
    async with start("--page-size=2") as it:
        await it.initialize()
        promised = await it.new()
        first = await it.agent.list_sessions(cwd=str(tmp_path))
        last = await it.agent.list_sessions(cwd=str(tmp_path), cursor=first.next_cursor)
        elsewhere = await it.agent.list_sessions(cwd="/elsewhere")
    assert [len(first.sessions), len(last.sessions), last.next_cursor] == [2, 1, None]
    listed = {session.session_id for session in [*first.sessions, *last.sessions]}
    assert listed == stored
    assert promised not in listed
    assert elsewhere.sessions == []


async def test_it_goes_when_its_stdin_is_closed(start: Start, tmp_path: Path) -> None:
    async with start() as it:
        await it.initialize()
        assert it.process.stdin is not None
        it.process.stdin.close()
        assert await it.process.wait() == 0
    assert len(diary(tmp_path, "end")) == 1


async def test_the_diary_tells_processes_and_calls(start: Start, tmp_path: Path) -> None:
    session_id = await one_turn(start)
    async with start() as it:
        await it.initialize()
        await it.resume(session_id)
    resumed = [entry for entry in diary(tmp_path) if entry["method"] == "session/resume"]
    assert [entry["sessionId"] for entry in resumed] == [session_id]
    assert len({entry["pid"] for entry in diary(tmp_path, "start")}) == 2


@pytest.mark.parametrize("way", ["load", "resume"])
async def test_what_was_never_stored_is_not_found(start: Start, way: str) -> None:
    async with start() as it:
        await it.initialize()
        promised = await it.new()
    async with start() as it:
        await it.initialize()
        for unknown in (promised, "../../etc/passwd"):
            with pytest.raises(RequestError) as refusal:
                await getattr(it, way)(unknown)
            assert refusal.value.code == -32002


async def test_save_new_keeps_a_session_without_a_turn(start: Start) -> None:
    async with start("--save-new") as it:
        await it.initialize()
        session_id = await it.new()
    async with start() as it:
        await it.initialize()
        await it.resume(session_id)


@pytest.mark.parametrize(
    ("option", "call", "code"),
    [
        ("--no-load", "load", -32601),
        ("--no-resume", "resume", -32601),
        ("--load-error=-32602", "load", -32602),
        ("--load-error=-32603:Internal error:no rollout found for {id}", "resume", -32603),
    ],
)
async def test_a_way_back_can_be_closed(start: Start, option: str, call: str, code: int) -> None:
    session_id = await one_turn(start)
    async with start(option) as it:
        await it.initialize()
        with pytest.raises(RequestError) as refusal:
            await getattr(it, call)(session_id)
    assert refusal.value.code == code
    if "{id}" in option:
        assert refusal.value.data == {"details": f"no rollout found for {session_id}"}


async def test_no_list_is_neither_declared_nor_known(start: Start) -> None:
    async with start("--no-list") as it:
        able = (await it.initialize()).agent_capabilities
        assert able is not None
        assert able.session_capabilities is not None
        assert able.session_capabilities.list is None
        with pytest.raises(RequestError) as refusal:
            await it.agent.list_sessions()
    assert refusal.value.code == -32601


async def test_resume_id_answers_another_empty_session(start: Start) -> None:
    session_id = await one_turn(start)
    async with start("--resume-id=tok-9") as it:
        await it.initialize()
        assert (await it.resume(session_id)).field_meta == {"sessionId": "tok-9"}
        assert await it.ask("tok-9", "beta") == "You said 1 things so far; the first was: beta"
        with pytest.raises(RequestError):
            await it.prompt(session_id, "beta")


async def test_change_id_makes_the_first_id_worthless(start: Start) -> None:
    async with start("--change-id=Y") as it:
        await it.initialize()
        session_id = await it.new()
        await it.ask(session_id, "alpha")
        assert ("session_info_update", "") in it.heard()
        assert it.ear.updates[-1][0] == "Y"
    async with start("--change-id=Y") as it:
        await it.initialize()
        with pytest.raises(RequestError) as refusal:
            await it.resume(session_id)
        assert refusal.value.code == -32603
        await it.resume("Y")
        assert "the first was: alpha" in await it.ask("Y", "beta")


@pytest.mark.parametrize("stage", told.STAGES)
async def test_it_can_exit_anywhere(start: Start, stage: str) -> None:
    session_id = await one_turn(start)
    async with start(f"--exit-at={stage}") as it:
        with pytest.raises(ConnectionError):
            await through(it, stage, session_id)
        assert await it.process.wait() == 3


@pytest.mark.parametrize("stage", told.STAGES)
async def test_it_can_hang_anywhere(start: Start, tmp_path: Path, stage: str) -> None:
    session_id = await one_turn(start)
    (tmp_path / "log").unlink()
    method = stage if stage == "initialize" else f"session/{stage}"
    async with start(f"--hang-at={stage}") as it:
        call = asyncio.create_task(through(it, stage, session_id))
        done: set[asyncio.Task[None]] = set()
        while not done and method not in heard_so_far(tmp_path):
            done, _ = await asyncio.wait([call], timeout=0.01)
        done, _ = await asyncio.wait([call], timeout=0.05)
        assert not done
        assert it.process.returncode is None
        call.cancel()


def heard_so_far(folder: Path) -> list[str]:
    return [e["method"] for e in diary(folder)] if (folder / "log").exists() else []


async def through(it: Talk, stage: str, session_id: str) -> None:
    await it.initialize()
    if stage in ("load", "resume"):
        await getattr(it, stage)(session_id)
    elif stage != "initialize":
        await it.ask(await it.new(), "alpha")


async def test_crash_now_ends_it_in_the_middle_of_a_turn(start: Start) -> None:
    async with start("--save-prompt") as it:
        await it.initialize()
        session_id = await it.new()
        with pytest.raises(ConnectionError):
            await it.ask(session_id, "crash now")
        assert (it.said(), await it.process.wait()) == ("Half an ", 3)
    async with start() as it:
        await it.initialize()
        await it.load(session_id)
        assert it.heard()[0] == ("user_message_chunk", "crash now")


async def test_garbage_does_not_hide_what_it_says(start: Start) -> None:
    async with start("--garbage") as it:
        await it.initialize()
        assert "the first was: alpha" in await it.ask(await it.new(), "alpha")


async def test_garbage_json_is_more_than_the_sdk_bears(start: Start) -> None:
    async with start("--garbage-json") as it:
        with pytest.raises(ConnectionError):
            await it.initialize()


async def test_a_big_line_is_one_line(start: Start) -> None:
    async with start("--big-line=3000000") as it:
        await it.initialize()
        session_id = await it.new()
        await it.prompt(session_id, "alpha")
    assert max(len(words) for _, words in it.heard()) == 3_000_000


async def test_another_protocol_version(start: Start) -> None:
    async with start("--protocol-version=9") as it:
        assert (await it.initialize()).protocol_version == 9


async def test_ignore_term_and_ignore_eof_leave_only_the_kill(start: Start) -> None:
    async with start("--ignore-term", "--ignore-eof") as it:
        await it.initialize()
        assert it.process.stdin is not None
        it.process.terminate()
        it.process.stdin.close()
        done, _ = await asyncio.wait([asyncio.create_task(it.process.wait())], timeout=0.2)
        assert not done
    assert it.process.returncode == -signal.SIGKILL


async def test_a_term_ends_it_otherwise(start: Start) -> None:
    async with start() as it:
        await it.initialize()
        it.process.terminate()
        assert await it.process.wait() == -signal.SIGTERM


async def test_save_delay_loses_a_turn_to_a_kill_but_not_to_a_gentle_end(start: Start) -> None:
    session_id = await one_turn(start, "--save-delay=60")
    async with start("--save-delay=60") as it:
        await it.initialize()
        with pytest.raises(RequestError):
            await it.resume(session_id)
        session_id = await it.new()
        await it.ask(session_id, "alpha")
        assert it.process.stdin is not None
        it.process.stdin.close()
        await it.process.wait()
    async with start() as it:
        await it.initialize()
        await it.resume(session_id)


async def test_forget_wipes_the_memory(start: Start) -> None:
    session_id = await one_turn(start)
    async with start("--forget") as it:
        await it.initialize()
        with pytest.raises(RequestError):
            await it.resume(session_id)


async def test_replay_may_come_after_the_answer(start: Start) -> None:
    session_id = await one_turn(start)
    async with start("--replay-after-answer", "--replay-count=6") as it:
        await it.initialize()
        await it.load(session_id)
        early = len(it.heard())
        await it.until(lambda: len(it.heard()) == 7)
    assert early < 6


async def test_a_long_replay_is_whole_and_in_order(start: Start) -> None:
    session_id = await one_turn(start)
    async with start("--replay-count=500", "--replay-size=3000") as it:
        await it.initialize()
        await it.load(session_id)
        words = [words for kind, words in it.heard() if kind.endswith("message_chunk")]
    assert [text.split(" x")[0] for text in words] == [f"old message {n}" for n in range(500)]
    assert min(map(len, words)) > 3000


async def test_replay_on_resume(start: Start) -> None:
    session_id = await one_turn(start)
    async with start("--replay-on-resume") as it:
        await it.initialize()
        await it.resume(session_id)
    assert it.heard()[0] == ("user_message_chunk", "alpha")


async def test_nothing_without_a_login(start: Start) -> None:
    async with start("--auth-required") as it:
        methods = (await it.initialize()).auth_methods
        with pytest.raises(RequestError) as refusal:
            await it.new()
        assert refusal.value.code == -32000
        assert methods
        await it.agent.authenticate(method_id=methods[0].id)
        await it.new()


@pytest.mark.parametrize("more", [(), ("--child-keeps-stdout",)])
async def test_a_child_escapes(start: Start, tmp_path: Path, more: tuple[str, ...]) -> None:
    async with start("--escape-child", *more) as it:
        await it.initialize()
        child = diary(tmp_path, "child")[0]["child"]
        it.process.kill()
        await asyncio.sleep(0.05)
        assert os.getsid(child) == child  # alive, and out of reach of the group
        os.kill(child, signal.SIGKILL)


async def test_late_end_arrives_in_the_next_turn(start: Start) -> None:
    async with start("--late-end=0.2") as it:
        await it.initialize()
        session_id = await it.new()
        old = asyncio.create_task(it.prompt(session_id, "slow 1000"))
        await it.until(lambda: "word1" in it.said())
        await it.agent.cancel(session_id=session_id)
        assert "2 things" in await it.ask(session_id, "beta")
        assert not old.done()
        assert (await old).stop_reason == "cancelled"
        assert it.said().endswith("late ")


async def test_permission_then_hang_never_ends(start: Start) -> None:
    async with start("--permission-then-hang") as it:
        await it.initialize()
        turn = asyncio.create_task(it.prompt(await it.new(), "alpha"))
        await it.until(lambda: it.said().endswith("Well, "))
        assert len(it.ear.permissions) == 1
        assert not turn.done()
        turn.cancel()


@pytest.mark.parametrize(
    ("manner", "first"),
    [("queue", "end_turn"), ("cancel", "cancelled"), ("fail", -32603), ("swallow", "end_turn")],
)
async def test_a_second_prompt_has_four_outcomes(
    start: Start, tmp_path: Path, manner: str, first: str | int
) -> None:
    async with start(f"--busy={manner}", "--tick=0.03") as it:
        await it.initialize()
        session_id = await it.new()
        turn = asyncio.create_task(it.prompt(session_id, "slow 5 alpha"))
        await it.until(lambda: "word1" in it.said())
        second = await it.prompt(session_id, "beta")
        try:
            outcome: str | int | None = (await turn).stop_reason
        except RequestError as refusal:
            outcome = refusal.code
        assert (outcome, second.stop_reason) == (first, "end_turn")
        assert ("You said 2 things" in it.said()) is (manner != "swallow")


async def test_one_writer_refuses_a_second_process_until_the_first_is_dead(start: Start) -> None:
    session_id = await one_turn(start, "--one-writer")
    async with start("--one-writer") as one, start("--one-writer") as two:
        await one.initialize()
        await two.initialize()
        await one.resume(session_id)
        with pytest.raises(RequestError) as refusal:
            await two.resume(session_id)
        assert refusal.value.code == -32600
        await one.kill()
        await two.resume(session_id)


async def test_usage_is_counted(start: Start) -> None:
    async with start("--usage") as it:
        await it.initialize()
        answer = await it.prompt(await it.new(), "think, alpha")
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    assert {"agent_thought_chunk", "usage_update"} <= {kind for kind, _ in it.heard()}


async def test_slow_start_and_words_on_stderr(start: Start, tmp_path: Path) -> None:
    async with start("--slow-start=0.1", "--word-delay=0.001", "--stderr=token=secret") as it:
        await it.initialize()
        await it.ask(await it.new(), "alpha")
    assert "token=secret" in (tmp_path / "agent-stderr.txt").read_text()


async def test_options_from_a_file_change_the_manners_between_two_starts(
    start: Start, tmp_path: Path
) -> None:
    option = f"--options={tmp_path / 'manners'}"
    session_id = await one_turn(start, option)
    (tmp_path / "manners").write_text("--load-error=-32603  # broken today\n")
    async with start(option) as it:
        await it.initialize()
        with pytest.raises(RequestError):
            await it.resume(session_id)
    (tmp_path / "manners").unlink()
    async with start(option) as it:
        await it.initialize()
        await it.resume(session_id)


def test_every_option_is_explained() -> None:
    words = told.make_parser().format_help()
    assert all(f"--{name}" in words for name in [*told.FLAGS, *told.SECONDS, *told.COUNTS])
