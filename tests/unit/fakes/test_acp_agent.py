"""The scripted agent keeps its word: driven through the official SDK, killed, and resumed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from acp import RequestError

from fakes.acp_client import OneTurn, Start
from fakes.scripted import options as told
from fakes.scripted_agent import diary

pytestmark = pytest.mark.unit


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
async def test_a_killed_agent_comes_back_and_remembers(
    start: Start, one_turn: OneTurn, way: str
) -> None:
    session_id = await one_turn()
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
    start: Start, one_turn: OneTurn, tmp_path: Path
) -> None:
    stored = {await one_turn() for _ in range(3)}
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
    assert len(diary(tmp_path / "log", "end")) == 1


async def test_the_diary_tells_processes_and_calls(
    start: Start, one_turn: OneTurn, tmp_path: Path
) -> None:
    session_id = await one_turn()
    async with start() as it:
        await it.initialize()
        await it.resume(session_id)
    resumed = diary(tmp_path / "log", method="session/resume")
    assert [entry["sessionId"] for entry in resumed] == [session_id]
    assert len({entry["pid"] for entry in diary(tmp_path / "log", "start")}) == 2


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


async def test_a_term_ends_it_otherwise(start: Start) -> None:
    async with start() as it:
        await it.initialize()
        it.process.terminate()
        assert await it.process.wait() == -signal.SIGTERM


async def test_usage_is_counted(start: Start) -> None:
    async with start("--usage") as it:
        await it.initialize()
        answer = await it.prompt(await it.new(), "think, alpha")
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    assert {"agent_thought_chunk", "usage_update"} <= {kind for kind, _ in it.heard()}


def test_every_option_is_explained() -> None:
    words = told.make_parser().format_help()
    assert all(f"--{name}" in words for name in [*told.FLAGS, *told.SECONDS, *told.COUNTS])
