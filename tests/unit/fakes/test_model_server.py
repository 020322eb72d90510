"""What the scripted model answers: from the request alone, in each dialect, steered by words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import dialects, model_server
from fakes.dialects import Question

pytestmark = pytest.mark.unit

PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/any:streamGenerateContent?alt=sse",
}
SHELL: dict[str, Any] = {
    "type": "object",
    "required": ["command", "description", "timeout", "background"],
    "properties": {
        "command": {"type": "string"},
        "description": {"type": "string"},
        "timeout": {"type": "INTEGER"},
        "background": {"type": "boolean"},
        "mode": {"enum": ["use_default", "require_escalated"]},
        "workdir": {"type": "string"},
    },
}


def body(dialect: str, *texts: str, result: bool = False, stream: bool = True) -> dict[str, Any]:
    """A request as an agent would send it: the person's messages, with an answer after each."""
    if dialect == "gemini":
        contents: list[Any] = [{"role": "user", "parts": [{"text": text}]} for text in texts]
        done = {"role": "user", "parts": [{"functionResponse": {"name": "bash"}}]}
        declared = {"name": "run_shell_command", "parametersJsonSchema": SHELL}
        tools = [{"functionDeclarations": [declared]}]
        return {"contents": contents + [done] * result, "tools": tools}
    messages: list[Any] = []
    for text in texts:
        messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        messages.append({"role": "assistant", "content": "I see"})
    messages.pop()
    results: dict[str, Any] = {
        "anthropic": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]},
        "chat": {"role": "tool", "content": "ok"},
        "responses": {"type": "function_call_output", "output": "ok"},
    }
    function = {"name": "bash", "parameters": SHELL}
    offers: dict[str, list[Any]] = {
        "anthropic": [{"name": "Bash", "input_schema": SHELL}],
        "chat": [{"type": "function", "function": function}],
        "responses": [{"type": "function", **function}, {"type": "web_search"}],
    }
    key = "input" if dialect == "responses" else "messages"
    return {key: messages + [results[dialect]] * result, "tools": offers[dialect], "stream": stream}


def question(dialect: str, *texts: str, result: bool = False) -> Question:
    path = PATHS[dialect]
    assert dialects.dialect_of(path) == dialect
    return dialects.read(dialect, path, body(dialect, *texts, result=result))


@pytest.mark.parametrize("dialect", PATHS)
def test_it_counts_what_it_is_shown(dialect: str) -> None:
    asked = question(dialect, "alpha", "beta", "gamma")
    assert model_server.answer_to(asked) == "I see 3 user messages; the first was: alpha"


@pytest.mark.parametrize("dialect", PATHS)
def test_a_tool_is_asked_for_once(dialect: str) -> None:
    call = model_server.call_for(question(dialect, "alpha", "run: touch mark"))
    assert call is not None
    assert call.arguments == {
        "command": "touch mark",
        "description": "scripted",
        "timeout": 10_000,
        "background": False,
        "mode": "require_escalated",
        "justification": "scripted",
    }
    assert json.loads(call.wire) == call.arguments
    assert model_server.call_for(question(dialect, "run: touch mark", result=True)) is None
    assert model_server.call_for(question(dialect, "run: touch mark", "beta")) is None


@pytest.mark.parametrize("dialect", PATHS)
def test_the_words_are_in_the_events_and_in_the_whole(dialect: str) -> None:
    asked = question(dialect, "alpha")
    events = list(dialects.SAY[dialect]("any", ["one ", "two"], None))
    assert ["one " in json.dumps(event) for event in events].count(True) >= 1
    assert "one two" in json.dumps(dialects.whole(asked, "one two"))


def test_what_agents_add_is_no_message_of_the_person() -> None:
    asked = question(
        "chat",
        "<environment_context>here</environment_context>",
        "# AGENTS.md instructions",
        "<system-reminder>be nice</system-reminder>\nalpha",
    )
    assert asked.users == ("alpha",)


def test_a_failure_can_be_ordered() -> None:
    assert model_server.status_for(question("chat", "fail 429")) == 429
    assert model_server.status_for(question("chat", "fail 429", "go on")) == 200


def test_a_wanted_shape_is_filled() -> None:
    shape = {"type": "object", "required": ["choice"], "properties": {"choice": {"enum": ["a"]}}}
    asked = body("gemini", "alpha") | {"generationConfig": {"responseJsonSchema": shape}}
    read = dialects.read("gemini", PATHS["gemini"], asked)
    assert json.loads(model_server.answer_to(read)) == {"choice": "a"}
