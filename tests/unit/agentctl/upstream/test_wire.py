"""The tables between their words and ours, as their stream was seen to speak."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.agentctl.upstream import wire
from kandev_operator.agentctl.verdicts import Fault
from kandev_operator.contract.status import FailureCode

pytestmark = pytest.mark.unit
Json = dict[str, Any]
S = "acp-session-1"


def hide(text: str) -> str:
    return text.replace("hush", "[redacted]")


UPDATES: list[tuple[Json, Json]] = [
    (
        {"type": "message_chunk", "session_id": S, "text": "You ", "supports_image": False},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "You "}},
    ),
    (
        {"type": "message_chunk", "text": "You ", "protocol_message_id": "m-1"},
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "You "},
            "messageId": "m-1",
        },
    ),
    (
        {"type": "reasoning", "reasoning_text": "Let me think."},
        {
            "sessionUpdate": "agent_thought_chunk",
            "content": {"type": "text", "text": "Let me think."},
        },
    ),
    (
        {
            "type": "tool_call",
            "tool_call_id": "call-1",
            "tool_name": "edit",
            "tool_title": "Write a.txt",
            "tool_status": "pending",
            "normalized": {"kind": "modify_file", "modify_file": {"file_path": "a.txt"}},
        },
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "call-1",
            "title": "Write a.txt",
            "status": "pending",
            "kind": "edit",
            "rawInput": {"file_path": "a.txt"},
        },
    ),
    (
        {
            "type": "tool_update",
            "tool_call_id": "call-1",
            "tool_status": "complete",
            "normalized": {"kind": "shell_exec", "shell_exec": {"command": "ls"}},
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call-1",
            "status": "completed",
            "kind": "execute",
            "rawInput": {"command": "ls"},
        },
    ),
    (
        {"type": "tool_update", "tool_call_id": "call-1", "tool_status": "cancelled"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "failed"},
    ),
    (
        {"type": "plan", "plan_entries": [{"description": "look", "status": "pending"}]},
        {
            "sessionUpdate": "plan",
            "entries": [{"content": "look", "status": "pending", "priority": "medium"}],
        },
    ),
    (
        {"type": "available_commands", "available_commands": [{"name": "x", "input_hint": "N"}]},
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "x", "description": None, "input": {"hint": "N"}}],
        },
    ),
    (
        {"type": "session_mode", "current_mode_id": "plan", "available_modes": [{"id": "plan"}]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    ),
    (
        {"type": "context_window", "context_window_size": 200000, "context_window_used": 11},
        {"sessionUpdate": "usage_update", "used": 11, "size": 200000},
    ),
]


@pytest.mark.parametrize(("event", "update"), UPDATES, ids=lambda v: str(v.get("type", "")))
def test_an_event_of_theirs_is_an_update_of_the_protocol(event: Json, update: Json) -> None:
    assert wire.updates(event) == (update,)


@pytest.mark.parametrize(
    "kind",
    ["turn_started", "complete", "error", "mcp_attachment", "session_status", "agent_capabilities"],
)
def test_what_says_nothing_of_the_conversation_is_no_update(kind: str) -> None:
    assert wire.updates({"type": kind, "text": "x", "tool_call_id": "y"}) == ()


def test_a_permission_is_the_same_from_the_event_and_from_the_list() -> None:
    options = [{"option_id": "allow_once", "name": "Allow", "kind": "allow_once"}]
    event = {
        "request_id": "r",
        "pending_id": "p",
        "permission_title": "Write a.txt",
        "permission_options": options,
        "action_type": "file_write",
    }
    listed = {
        "request_id": "r",
        "pending_id": "p",
        "title": "Write a.txt",
        "options": options,
        "action": {"type": "file_write"},
    }
    assert wire.asked(event) == wire.asked(listed)
    assert wire.asked(event) == wire.Asked(
        "r", "p", "Write a.txt", "edit", (("allow_once", "Allow", "allow_once"),)
    )


FAILURES = [
    (
        'failed to load session: {"code":-32002,"message":"Resource not found: X"}',
        (FailureCode.AGENT_ERROR, -32002, "Resource not found: X"),
    ),
    (
        'failed to load: {"code":-32602,"message":"Invalid params","data":{"details":"no"}}',
        (FailureCode.REJECTED, -32602, "Invalid params: no"),
    ),
    (
        'failed to create session: {"code":-32000,"message":"Authentication required"}',
        (FailureCode.AUTHENTICATION_REQUIRED, -32000, "Authentication required"),
    ),
    (
        'failed to load session: {"code":-32600,"message":"x","data":{"reason":"session_locked"}}',
        (FailureCode.HELD_ELSEWHERE, -32600, "x: session_locked"),
    ),
    (
        "agent does not support session loading (LoadSession capability is false)",
        (
            FailureCode.RESUME_UNSUPPORTED,
            None,
            "agent does not support session loading (LoadSession capability is false)",
        ),
    ),
    ("no active session - hush", (FailureCode.AGENT_ERROR, None, "no active session - [redacted]")),
    ("odd {not json", (FailureCode.AGENT_ERROR, None, "odd {not json")),
]


@pytest.mark.parametrize(("words", "wanted"), FAILURES, ids=lambda v: str(v)[:40])
def test_an_error_of_theirs_is_read_down_to_the_agents_own(words: str, wanted: Any) -> None:
    failure = wire.failure_of(words, hide)
    assert (failure.code, failure.agent_code, failure.message) == wanted


def test_a_failed_turn_has_the_agents_code() -> None:
    event = {"error": "Internal error", "provider_error": {"rpc_code": -32603, "message": "x"}}
    failure = wire.turn_failure(event, hide)
    assert (failure.code, failure.agent_code) == (FailureCode.AGENT_ERROR, -32603)


def test_content_becomes_text_and_attachments() -> None:
    blocks = (
        {"type": "text", "text": "look at"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    )
    assert wire.prompt(blocks) == {
        "text": "look at\nfile:///a.txt",
        "attachments": [{"type": "image", "data": "aGk=", "mime_type": "image/png"}],
    }
    with pytest.raises(Fault) as fault:
        wire.prompt(({"type": "resource", "resource": {"uri": "a", "text": "b"}},))
    assert fault.value.failure.code == FailureCode.REJECTED


def test_pairs_of_an_mcp_server_become_maps() -> None:
    stdio = {"name": "m", "command": "cat", "args": ["-"], "env": [{"name": "A", "value": "b"}]}
    http = {
        "type": "http",
        "name": "n",
        "url": "http://x/",
        "headers": [{"name": "H", "value": "v"}],
    }
    assert wire.mcp_servers((stdio, http)) == [
        {"name": "m", "type": "stdio", "command": "cat", "args": ["-"], "env": {"A": "b"}},
        {"name": "n", "type": "http", "url": "http://x/", "headers": {"H": "v"}},
    ]


@pytest.mark.parametrize(
    ("method", "params", "wanted"),
    [
        (
            "session/set_mode",
            {"modeId": "plan"},
            ("agent.session.set_mode", {"session_id": S, "mode_id": "plan"}),
        ),
        ("session/set_model", {"modelId": "x"}, ("agent.session.set_model", {"model_id": "x"})),
        (
            "session/set_config_option",
            {"configId": "effort", "value": "high"},
            ("agent.session.set_config_option", {"config_id": "effort", "value": "high"}),
        ),
    ],
)
def test_a_choice_is_a_call_of_theirs(method: str, params: Json, wanted: Any) -> None:
    assert wire.choice(method, S, params) == wanted


def test_an_option_that_is_on_or_off_has_no_call() -> None:
    with pytest.raises(Fault):
        wire.choice("session/set_config_option", S, {"configId": "web", "value": True})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from([str(event["type"]) for event, _ in UPDATES] + ["error", "complete"])
FIELDS = st.sampled_from(
    sorted({key for event, _ in UPDATES for key in event} | {"prompt_generation", "data", "usage"})
)


@given(kind=KINDS, fields=st.dictionaries(FIELDS, ANYTHING, max_size=6))
def test_whatever_they_say_is_taken_as_data(kind: str, fields: Json) -> None:
    event = fields | {"type": kind}
    for update in wire.updates(event):
        assert isinstance(update["sessionUpdate"], str)
    wire.offers(event)
    wire.asked(event)
    wire.generation(event)
    wire.stop_reason(event)
    wire.usage(event)
    wire.turn_failure(event, hide)
