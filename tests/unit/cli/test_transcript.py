"""Events as pieces of text: what is said, what is left out, and what an agent may send."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kandev_operator.cli.transcript import Piece, Transcript, Voice
from kandev_operator.contract.events import Event, EventKind

AT = "2026-11-30T14:00:00.000Z"


def event(event_kind: str, /, **data: Any) -> Event:
    kind = EventKind(event_kind)
    return Event(journal_id="j", seq=1, kind=kind, at=AT, session_id="s", data=data)


def said(text: str, message_id: str = "m1", author: str = "agent", kind: str = "text") -> Event:
    return event("message", message_id=message_id, author=author, kind=kind, text=text)


def call(status: str, message_id: str = "c1", **content: Any) -> Event:
    content = {"title": "Read a.py", "kind": "read", "status": status, **content}
    return event(
        "message", message_id=message_id, author="agent", kind="tool_call", content=content
    )


def told(*events: Event) -> list[tuple[Voice, str, bool]]:
    transcript = Transcript()
    return [
        (piece.voice, piece.text, piece.begins)
        for each in events
        for piece in transcript.pieces(each)
    ]


def test_a_message_in_several_events_begins_once() -> None:
    assert told(said("One, "), said("two"), said("Three", "m2")) == [
        (Voice.AGENT, "One, ", True),
        (Voice.AGENT, "two", False),
        (Voice.AGENT, "Three", True),
    ]


def test_a_message_that_was_interrupted_begins_again() -> None:
    assert [begins for *_, begins in told(said("One"), call("completed"), said("two"))] == [
        True,
        True,
        True,
    ]


def test_voices() -> None:
    voices = [
        said("hi", author="user"),
        said("hm", kind="thought"),
        said("lost", author="agentctl", kind="fault"),
    ]
    assert [voice for voice, *_ in told(*voices)] == [Voice.USER, Voice.THOUGHT, Voice.WARNING]


def test_a_tool_call_is_said_when_it_begins_and_when_it_ends() -> None:
    states = ["pending", "in_progress", "in_progress", "completed", "completed"]
    assert [text for _, text, _ in told(*map(call, states))] == [
        "Read a.py [read] pending",
        "Read a.py [read] completed",
    ]


def test_calls_are_forgotten_in_the_end() -> None:
    transcript = Transcript()
    for number in range(2000):
        transcript.pieces(call("pending", f"c{number}"))
    assert len(transcript._calls) == 500


def start(state: str, mode: str = "resume", **more: Any) -> Event:
    return event("operation", operation={"kind": "start", "mode": mode, "state": state, **more})


BESIDE = [
    (start("succeeded"), Voice.NOTE, "the conversation was resumed"),
    (start("succeeded", token_replaced=True), Voice.WARNING, "another conversation"),
    (start("succeeded", "new"), Voice.NOTE, "a new conversation begins"),
    (start("failed", failure={"message": "no credit"}), Voice.WARNING, "failed: no credit"),
    (start("failed", "new"), Voice.WARNING, "starting a conversation failed"),
    (event("gap", from_seq=1, to_seq=40), Voice.WARNING, "events 1 to 40 are missing"),
    (event("gap", from_seq=1, to_seq=0), Voice.WARNING, "the journal is another one"),
    (event("turn_ended", turn={"outcome": "interrupted"}), Voice.WARNING, "cut off"),
    (event("turn_ended", turn={"outcome": "cancelled"}), Voice.WARNING, "cancelled"),
    (
        event("turn_ended", turn={"outcome": "failed", "failure": {"message": "no credit"}}),
        Voice.WARNING,
        "the turn failed: no credit",
    ),
    (
        event("permission_requested", permission={"title": "rm x", "permission_id": "p1"}),
        Voice.NOTE,
        "asks for permission: rm x (request p1)",
    ),
    (event("permission_resolved", option_id="yes", by="caller"), Voice.NOTE, "yes (by caller)"),
    (
        event("agent", status="exited", exit={"code": 3}),
        Voice.WARNING,
        "the agent's process ended with code 3",
    ),
    (
        event("agent", status="exited", exit={"code": None, "signal": "SIGKILL"}),
        Voice.WARNING,
        "by signal SIGKILL",
    ),
    (
        event(
            "message",
            kind="plan",
            author="agent",
            message_id="p",
            content={
                "entries": [
                    {"content": "look", "status": "completed"},
                    {"content": "do", "status": "in_progress"},
                ]
            },
        ),
        Voice.PLAN,
        "1 of 2 steps done; now: do",
    ),
    (
        event(
            "message",
            kind="attachments",
            author="user",
            message_id="p",
            content={"blocks": [{"type": "image", "mimeType": "image/png", "size": 3}]},
        ),
        Voice.USER,
        "[image image/png]",
    ),
]


@pytest.mark.parametrize(("one", "voice", "words"), BESIDE, ids=lambda value: str(value)[:40])
def test_what_is_worth_a_line(one: Event, voice: Voice, words: str) -> None:
    [(found, text, begins)] = told(one)
    assert found is voice
    assert words in text
    assert begins


SILENT = [
    event("turn_started", turn={"turn_id": "t", "prompt_id": "p"}),
    event("turn_ended", turn={"outcome": "completed"}),
    event("agent", status="running"),
    event("token", sha256="0" * 64),
    event("prompt", prompt_id="p", fate="delivered"),
    event("operation", operation={}),
    start("running"),
    event("operation", operation={"kind": "stop", "state": "succeeded"}),
]


@pytest.mark.parametrize("one", SILENT, ids=lambda one: one.kind.value)
def test_what_is_not(one: Event) -> None:
    assert told(one) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
_NAMES = """
message_id author kind text content turn permission exit status operation state mode failure
"""
names = st.sampled_from(_NAMES.split())
kinds = st.sampled_from(["text", "tool_call", "plan", "attachments", "agent", "exited"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(EventKind), st.dictionaries(names, json_values | kinds))))
def test_no_event_of_any_shape_is_too_much(shapes: list[tuple[EventKind, dict[str, Any]]]) -> None:
    transcript = Transcript()
    for kind, data in shapes:
        for piece in transcript.pieces(event(kind.value, **data)):
            assert isinstance(piece, Piece)
            assert isinstance(piece.text, str)
