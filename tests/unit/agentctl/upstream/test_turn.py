"""What is told of the turns of a process elsewhere, whatever its stream does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.upstream import turn
from kandev_operator.agentctl.upstream.stream import Broken, Rejected
from kandev_operator.agentctl.upstream.turn import Conversation, Live

pytestmark = pytest.mark.unit
Json = dict[str, Any]
S = "acp-session-1"
TURN = "x-t3"
DONE = {"type": "complete", "prompt_generation": 3, "data": {"stop_reason": "end_turn"}}


class Wire:
    """A stream whose calls end as the test says; connected from the start."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Json]] = []
        self.ends: dict[str, Callable[[], Json]] = {}

    async def connected(self) -> None:
        await asyncio.sleep(0)

    async def call(self, action: str, payload: Json, timeout: float) -> Json:
        self.calls.append((action, payload))
        await asyncio.sleep(0)
        return self.ends.get(action, dict)()

    def asked(self, action: str) -> list[Json]:
        return [payload for called, payload in self.calls if called == action]


class Play:
    """A conversation with everything it told."""

    def __init__(self, live: Live | None = None, lives: bool | None = True) -> None:
        self.wire = Wire()
        self.told: list[ev.Event] = []
        self.lives = lives

        async def look() -> bool | None:
            return self.lives

        self.it = Conversation(
            "x",
            self.wire,
            lambda text: text,
            self.told.append,
            look,
            live,  # type: ignore[arg-type]
        )

    async def send(self, turn_id: str = TURN) -> None:
        act = fx.SendPrompt("x", turn_id, "p", S, ({"type": "text", "text": "hi"},))
        self.it.begins(turn_id, S)
        await self.it.send(act)

    async def hears(self, *events: Json) -> None:
        for event in events:
            await self.it.event(event)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.told]


def chunk(text: str) -> Json:
    return {"type": "message_chunk", "session_id": S, "text": text}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "SIGN_SECONDS", 0.05)
    monkeypatch.setattr(turn, "PAUSE", 0.001)


def raises(error: Exception) -> Callable[[], Json]:
    def end() -> Json:
        raise error

    return end


async def test_a_turn_is_sent_with_its_number_and_ends_with_it() -> None:
    play = Play()
    await play.send()
    assert play.wire.asked("agent.prompt") == [{"text": "hi", "prompt_generation": 3}]
    await play.hears({"type": "turn_started"}, chunk("a"), {**DONE, "prompt_generation": 2})
    assert play.kinds() == ["UpdateCame"], "the end of another turn is not this one's"
    await play.hears(DONE)
    ended = play.told[-1]
    assert isinstance(ended, ev.TurnAnswered)
    assert (ended.turn_id, ended.stop_reason) == (TURN, "end_turn")


async def test_the_rest_of_a_turn_that_was_given_up_is_not_the_next_ones() -> None:
    play = Play()
    await play.send("x-t1")
    await play.hears({"type": "turn_started"}, chunk("a"))
    await play.send("x-t2")
    await play.hears(chunk("late"), {**DONE, "prompt_generation": 1})
    assert play.kinds() == ["UpdateCame"], "neither its words nor its end"
    await play.hears({"type": "turn_started"}, chunk("b"))
    assert play.told[-1].update["content"]["text"] == "b"  # type: ignore[union-attr]


async def test_a_refused_prompt_certainly_never_arrived() -> None:
    play = Play()
    play.wire.ends["agent.prompt"] = raises(Rejected("BAD_REQUEST", "no active session"))
    await play.send()
    [failed] = play.told
    assert isinstance(failed, ev.TurnFailed)
    assert not failed.answered


async def test_a_handing_over_that_broke_is_waited_for_and_never_repeated() -> None:
    play = Play()
    play.wire.ends["agent.prompt"] = raises(Broken("x"))
    sending = asyncio.ensure_future(play.send())
    await asyncio.sleep(0.01)
    await play.hears({"type": "turn_started"})
    await sending
    assert play.told == [], "it arrived, so its turn goes on"
    assert len(play.wire.asked("agent.prompt")) == 1
    await play.hears(DONE)
    assert play.kinds() == ["TurnAnswered"]


async def test_a_handing_over_that_left_no_trace_is_cancelled_and_unknown() -> None:
    play = Play()
    play.wire.ends["agent.prompt"] = raises(Broken("x"))
    await play.send()
    [failed] = play.told
    assert isinstance(failed, ev.TurnFailed)
    assert not failed.answered
    assert len(play.wire.asked("agent.prompt")) == 1
    assert len(play.wire.asked("agent.cancel")) == 1, "nothing goes on unseen"


async def test_an_error_of_a_process_that_died_is_told_as_its_end_elsewhere() -> None:
    play = Play()
    await play.send()
    play.lives = False
    await play.hears({"type": "error", "prompt_generation": 3, "error": "Internal error"})
    assert play.told == []


async def test_an_error_of_a_process_that_lives_fails_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "EXIT_LOOKS", 2)
    play = Play()
    await play.send()
    provider = {"rpc_code": -32000, "message": "Authentication required"}
    event = {"type": "error", "prompt_generation": 3, "error": "no", "provider_error": provider}
    await play.hears(event)
    [failed] = play.told
    assert isinstance(failed, ev.TurnFailed)
    assert (failed.answered, failed.failure.code) == (True, "authentication_required")


ASKED = {"type": "permission_request", "request_id": "r", "pending_id": "p"}
LISTED = {"permissions": [{"request_id": "r", "pending_id": "p", "title": "Write"}]}


async def test_a_permission_is_asked_once_however_often_it_is_told() -> None:
    play = Play(Live(TURN, S))
    play.wire.ends["agent.permissions.list"] = lambda: LISTED
    await play.it.connected()
    await play.hears(ASKED)
    assert play.kinds() == ["PermissionAsked"]
    await play.it.answer("1", "allow_once")
    assert play.wire.asked("agent.permissions.resolve") == [
        {"request_id": "r", "pending_id": "p", "option_id": "allow_once"}
    ]
    await play.it.connected()
    assert play.kinds() == ["PermissionAsked"], "an answer may still be on its way"


async def test_a_permission_refused_is_cancelled_there_and_one_withdrawn_is_told() -> None:
    play = Play(Live(TURN, S))
    await play.hears(ASKED, {**ASKED, "pending_id": "q"})
    await play.it.answer("1", None)
    assert play.wire.asked("agent.permissions.cancel") == [{"request_id": "r", "pending_id": "p"}]
    await play.hears(
        {"type": "permission_cancelled", "pending_id": "p"},
        {"type": "permission_cancelled", "pending_id": "q"},
    )
    assert play.kinds() == ["PermissionAsked", "PermissionAsked", "PermissionWithdrawn"]
    assert play.told[-1].key == "2"  # type: ignore[union-attr]


async def test_an_answer_is_given_again_when_the_connection_breaks() -> None:
    play = Play(Live(TURN, S))
    await play.hears(ASKED)
    ends = iter([raises(Broken("x")), dict])
    play.wire.ends["agent.permissions.resolve"] = lambda: next(ends)()
    await play.it.answer("1", "allow_once")
    assert len(play.wire.asked("agent.permissions.resolve")) == 2


async def test_a_cancel_is_not_repeated_once_its_turn_is_over() -> None:
    play = Play(Live(TURN, S))

    def ends_meanwhile() -> Json:
        play.it._live = None
        raise Broken("x")

    play.wire.ends["agent.cancel"] = ends_meanwhile
    await play.it.cancel()
    assert len(play.wire.asked("agent.cancel")) == 1
