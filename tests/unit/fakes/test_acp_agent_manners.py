"""The scripted agent breaks its word: each misbehaviour, seen through the official SDK."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from acp import PromptResponse, RequestError

from fakes.acp_client import OneTurn, Start, Talk
from fakes.scripted import options as told
from fakes.scripted_agent import diary

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("option", "call", "code"),
    [
        ("--no-load", "load", -32601),
        ("--no-resume", "resume", -32601),
        ("--load-error=-32602", "load", -32602),
        ("--load-error=-32603:Internal error:no rollout found for {id}", "resume", -32603),
    ],
)
async def test_a_way_back_can_be_closed(
    start: Start, one_turn: OneTurn, option: str, call: str, code: int
) -> None:
    session_id = await one_turn()
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


async def test_resume_id_answers_another_empty_session(start: Start, one_turn: OneTurn) -> None:
    session_id = await one_turn()
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
async def test_it_can_exit_anywhere(start: Start, one_turn: OneTurn, stage: str) -> None:
    session_id = await one_turn()
    async with start(f"--exit-at={stage}") as it:
        with pytest.raises(ConnectionError):
            await through(it, stage, session_id)
        assert await it.process.wait() == 3


@pytest.mark.parametrize("stage", told.STAGES)
async def test_it_can_hang_anywhere(
    start: Start, one_turn: OneTurn, tmp_path: Path, stage: str
) -> None:
    session_id = await one_turn()
    (tmp_path / "log").unlink()
    method = stage if stage == "initialize" else f"session/{stage}"
    async with start(f"--hang-at={stage}") as it:
        call = asyncio.create_task(through(it, stage, session_id))
        done: set[asyncio.Task[None]] = set()
        while not done and not diary(tmp_path / "log", method=method):
            done, _ = await asyncio.wait([call], timeout=0.01)
        done, _ = await asyncio.wait([call], timeout=0.05)
        assert not done
        assert it.process.returncode is None
        call.cancel()


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


async def test_save_delay_loses_a_turn_to_a_kill_but_not_to_a_gentle_end(
    start: Start, one_turn: OneTurn
) -> None:
    session_id = await one_turn("--save-delay=60")
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


async def test_forget_wipes_the_memory(start: Start, one_turn: OneTurn) -> None:
    session_id = await one_turn()
    async with start("--forget") as it:
        await it.initialize()
        with pytest.raises(RequestError):
            await it.resume(session_id)


async def test_replay_may_come_after_the_answer(start: Start, one_turn: OneTurn) -> None:
    session_id = await one_turn()
    async with start("--replay-after-answer", "--replay-count=10000") as it:
        await it.initialize()
        await it.load(session_id)
        early = len(it.heard())
        await it.until(lambda: len(it.heard()) > early + 3)
    assert early < 10_000


async def test_a_long_replay_is_whole_and_in_order(start: Start, one_turn: OneTurn) -> None:
    session_id = await one_turn()
    async with start("--replay-count=500", "--replay-size=3000") as it:
        await it.initialize()
        await it.load(session_id)
        words = [words for kind, words in it.heard() if kind.endswith("message_chunk")]
    assert [text.split(" x")[0] for text in words] == [f"old message {n}" for n in range(500)]
    assert min(map(len, words)) > 3000


async def test_replay_on_resume(start: Start, one_turn: OneTurn) -> None:
    session_id = await one_turn()
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
        child = diary(tmp_path / "log", "child")[0]["child"]
        it.process.kill()
        await asyncio.sleep(0.05)
        assert os.getsid(child) == child  # alive, and out of reach of the group
        os.kill(child, signal.SIGKILL)


async def test_late_end_lets_the_next_turn_pass(start: Start) -> None:
    async with start("--late-end=3600") as it:
        session_id, old = await cancelled_turn(it)
        assert "2 things" in await it.ask(session_id, "beta")
        assert not old.done()
        old.cancel()


async def test_late_end_comes_after_all(start: Start) -> None:
    async with start("--late-end=0.05") as it:
        _, old = await cancelled_turn(it)
        assert (await old).stop_reason == "cancelled"
        assert it.said().endswith("late ")


async def cancelled_turn(it: Talk) -> tuple[str, asyncio.Task[PromptResponse]]:
    await it.initialize()
    session_id = await it.new()
    turn = asyncio.create_task(it.prompt(session_id, "slow 1000"))
    await it.until(lambda: "word1" in it.said())
    await it.agent.cancel(session_id=session_id)
    return session_id, turn


async def test_permission_then_hang_never_ends(start: Start) -> None:
    async with start("--permission-then-hang") as it:
        await it.initialize()
        turn = asyncio.create_task(it.prompt(await it.new(), "alpha"))
        await it.until(lambda: it.said().endswith("Well, "))
        assert len(it.ear.permissions) == 1
        assert not turn.done()
        turn.cancel()


@pytest.mark.parametrize(
    ("manner", "words", "first"),
    [
        ("queue", "slow 10", "end_turn"),
        ("cancel", "slow 1000", "cancelled"),
        ("fail", "slow 1000", -32603),
        ("swallow", "slow 1000", "cancelled"),
    ],
)
async def test_a_second_prompt_has_four_outcomes(
    start: Start, manner: str, words: str, first: str | int
) -> None:
    async with start(f"--busy={manner}") as it:
        await it.initialize()
        session_id = await it.new()
        turn = asyncio.create_task(it.prompt(session_id, words))
        await it.until(lambda: "word1" in it.said())
        assert (await it.prompt(session_id, "beta")).stop_reason == "end_turn"
        if manner == "swallow":  # the first turn never noticed
            assert not turn.done()
            await it.agent.cancel(session_id=session_id)
        try:
            outcome: str | int | None = (await turn).stop_reason
        except RequestError as refusal:
            outcome = refusal.code
        assert outcome == first
        assert ("You said 2 things" in it.said()) is (manner != "swallow")


async def test_one_writer_refuses_a_second_process_until_the_first_is_dead(
    start: Start, one_turn: OneTurn
) -> None:
    session_id = await one_turn("--one-writer")
    async with start("--one-writer") as one, start("--one-writer") as two:
        await one.initialize()
        await two.initialize()
        await one.resume(session_id)
        with pytest.raises(RequestError) as refusal:
            await two.resume(session_id)
        assert refusal.value.code == -32600
        await one.kill()
        await two.resume(session_id)


async def test_slow_start_and_words_on_stderr(start: Start, tmp_path: Path) -> None:
    async with start("--slow-start=0.1", "--word-delay=0.001", "--stderr=token=secret") as it:
        await it.initialize()
        await it.ask(await it.new(), "alpha")
    assert "token=secret" in (tmp_path / "agent-stderr.txt").read_text()


async def test_options_from_a_file_change_the_manners_between_two_starts(
    start: Start, one_turn: OneTurn, tmp_path: Path
) -> None:
    option = f"--options={tmp_path / 'manners'}"
    session_id = await one_turn(option)
    (tmp_path / "manners").write_text("--load-error=-32603  # broken today\n")
    async with start(option) as it:
        await it.initialize()
        with pytest.raises(RequestError):
            await it.resume(session_id)
    (tmp_path / "manners").unlink()
    async with start(option) as it:
        await it.initialize()
        await it.resume(session_id)
