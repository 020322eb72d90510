"""What is said, as events: gathered, split, bounded, and never trusted."""

from typing import Any

import pytest

from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine import messages
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    AgentStatus,
)
from unit.agentctl.play import AT, Play


def test_chunks_of_one_message_become_one_event() -> None:
    play = Play().open()
    play.prompt()
    play.says("Hel")
    assert fx.Arm in {type(a) for a in play.acts}
    play.says("lo")
    assert play.appended(EventKind.MESSAGE) == []
    speech = play.state.speech
    assert speech is not None
    play.on(ev.TimerFired(AT, ev.Timer.FLUSH, speech.message_id))
    (told,) = play.appended(EventKind.MESSAGE)
    assert (told["text"], told["author"], told["kind"]) == ("Hello", "agent", "text")
    play.says(" there")
    play.says("hm", "agent_thought_chunk")
    (more,) = play.appended(EventKind.MESSAGE)
    assert (more["text"], more["message_id"]) == (" there", told["message_id"])
    assert play.state.turn is not None
    play.on(ev.TurnAnswered(AT, "x1", play.state.turn.turn_id, "end_turn"))
    (thought,) = play.appended(EventKind.MESSAGE)
    assert (thought["text"], thought["kind"]) == ("hm", "thought")
    assert thought["message_id"] != told["message_id"]


def test_long_texts_are_split_and_never_cut() -> None:
    play = Play().open()
    play.prompt()
    play.says("x" * 150_000)
    told = play.appended(EventKind.MESSAGE)
    assert len(told) == 3
    assert sum(len(t["text"]) for t in told) == 150_000
    assert len({t["message_id"] for t in told}) == 1


def test_a_tool_call_is_shown_whole_each_time_and_bounded() -> None:
    play = Play().open()
    play.prompt()
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Run", "kind": "execute"}
    play.on(ev.UpdateCame(AT, "x1", "t1", call | {"rawInput": {"command": "y" * 10**6}}))
    (first,) = play.appended(EventKind.MESSAGE)
    change = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}
    play.on(ev.UpdateCame(AT, "x1", "t1", change))
    (second,) = play.appended(EventKind.MESSAGE)
    assert first["message_id"] == second["message_id"]
    assert second["content"]["title"] == "Run"
    assert second["content"]["status"] == "completed"
    assert len(second["content"]["rawInput"]["command"]) < 5000


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        ["x" * 1000] * 1000,
        {str(n): ["y" * 3000] * 90 for n in range(90)},
        [[[[[[[[[["deep"]]]]]]]]]],
        object(),
    ],
)
def test_whatever_an_agent_sends_is_bounded(value: Any) -> None:
    assert len(str(messages.trim(value))) < 200_000


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"sessionUpdate": 3},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": []},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 3}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AAAA"}},
        {"sessionUpdate": "tool_call"},
        {"sessionUpdate": "plan", "entries": "none"},
        {"sessionUpdate": "session_info_update", "_meta": {"sessionId": "   "}},
        {"sessionUpdate": "session_info_update", "_meta": 3},
    ],
)
def test_odd_updates_are_no_harm(update: dict[str, Any]) -> None:
    play = Play().open()
    play.prompt()
    play.on(ev.UpdateCame(AT, "x1", "t1", update))
    assert play.state.status is AgentStatus.RUNNING
    assert play.state.token is not None
    assert play.state.token.value == "t1"


def test_words_of_a_sub_agent_are_not_the_conversations() -> None:
    play = Play().open()
    play.prompt()
    play.says("inner", session="another session")
    assert play.state.speech is None
    assert play.state.stray == 1
