"""The four ways in which coding agents ask a model, and how each wants its answer.

It answers what was asked, freed from all that is particular to a vendor (`Question`), and puts
words or a tool call into the events that the asking side expects. It refuses to decide what is
answered, and knows no sockets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# Agents add to what the person wrote: blocks in tags (reminders, surroundings, rules of the
# house) and whole messages of their own. Neither must count as a message of the person.
TAGGED = re.compile(r"<([a-zA-Z][\w-]*)\b[^>]*>.*?</\1>", re.DOTALL)
OWN_WORDS = ("# AGENTS.md", "This is the Gemini CLI", "Today's date", "Generate a title")

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Json
    wire: str  # the arguments as JSON text, which is how most dialects carry them


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the model: who asked how, what the person said, what the agent offers."""

    dialect: str
    model: str
    users: tuple[str, ...]
    tools: tuple[Tool, ...]
    answers_a_tool: bool  # the newest entry is a tool's result
    stream: bool
    schema: Json | None  # the answer must be JSON of this shape

    @property
    def newest(self) -> str:
        return self.users[-1] if self.users else ""


def dialect_of(path: str) -> str | None:
    plain = path.partition("?")[0].rstrip("/")
    if plain.endswith("/messages"):
        return "anthropic"
    if plain.endswith("/chat/completions"):
        return "chat"
    if plain.endswith("/responses"):
        return "responses"
    if plain.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return None


def read(dialect: str, path: str, body: Json) -> Question:
    entries = ENTRIES[dialect](body)
    users: list[str] = []
    after_tool = False
    for role, texts, is_result in entries:
        if is_result:
            after_tool = True
        elif role == "user" and (said := person_said(texts)):
            users.append(said)
            after_tool = False
    shape = (body.get("generationConfig") or {}).get("responseJsonSchema")
    return Question(
        dialect=dialect,
        model=str(body.get("model", "")),
        users=tuple(users),
        tools=tuple(TOOLS[dialect](body)),
        answers_a_tool=after_tool,
        stream=bool(body.get("stream", ":streamGenerateContent" in path)),
        schema=shape if isinstance(shape, dict) else None,
    )


def person_said(texts: list[str]) -> str:
    """The person's own words in one message; "" where an agent wrote all of it."""
    own = [TAGGED.sub("", text).strip() for text in texts]
    own = [text for text in own if text and not text.startswith(OWN_WORDS)]
    return own[-1] if own else ""


# ---- reading: (role, texts, is a tool's result) for each entry, and the tools on offer -----

Entry = tuple[str, list[str], bool]


def parts_of(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    return [part for part in content or [] if isinstance(part, dict)]


def texts_of(parts: list[Json]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def read_messages(body: Json) -> Iterator[Entry]:
    for entry in body.get("messages") or []:
        parts = parts_of(entry.get("content"))
        result = entry.get("role") == "tool" or any(
            part.get("type") == "tool_result" for part in parts
        )
        yield entry.get("role", ""), texts_of(parts), result


def read_responses(body: Json) -> Iterator[Entry]:
    asked = body.get("input") or []
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    for entry in asked:
        result = str(entry.get("type", "")).endswith("_output")
        yield entry.get("role", ""), texts_of(parts_of(entry.get("content"))), result


def read_gemini(body: Json) -> Iterator[Entry]:
    for entry in body.get("contents") or []:
        parts = parts_of(entry.get("parts"))
        result = any("functionResponse" in part for part in parts)
        yield entry.get("role", "user"), texts_of(parts), result


def flat_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools") or []:
        schema = tool.get("input_schema") or tool.get("parameters") or {}
        yield Tool(tool.get("name") or tool.get("type", ""), schema)


def chat_tools(body: Json) -> Iterator[Tool]:
    for tool in body.get("tools") or []:
        function = tool.get("function") or {}
        yield Tool(function.get("name", ""), function.get("parameters") or {})


def gemini_tools(body: Json) -> Iterator[Tool]:
    for group in body.get("tools") or []:
        for tool in group.get("functionDeclarations") or []:
            yield Tool(
                tool["name"], tool.get("parametersJsonSchema") or tool.get("parameters") or {}
            )


ENTRIES = {
    "anthropic": read_messages,
    "chat": read_messages,
    "responses": read_responses,
    "gemini": read_gemini,
}
TOOLS = {
    "anthropic": flat_tools,
    "chat": chat_tools,
    "responses": flat_tools,
    "gemini": gemini_tools,
}


# ---- answering: the events of one answer, in order ----------------------------------------


def fresh(prefix: str) -> str:
    return f"{prefix}_scripted{next(_numbers):06d}"


def say_anthropic(model: str, words: Iterable[str], call: Call | None) -> Iterator[Json]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message: Json = {"id": fresh("msg"), "type": "message", "role": "assistant", "model": model}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    if call:
        head = {"type": "tool_use", "id": fresh("toolu"), "name": call.name, "input": {}}
        yield {"type": "content_block_start", "index": 0, "content_block": head}
        delta: Json = {"type": "input_json_delta", "partial_json": call.wire}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    else:
        head = {"type": "text", "text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": head}
        for word in words:
            delta = {"type": "text_delta", "text": word}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def say_chat(model: str, words: Iterable[str], call: Call | None) -> Iterator[Json]:
    name = fresh("chatcmpl")

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head: Json = {"id": name, "object": "chat.completion.chunk", "created": 1, "model": model}
        return head | {"choices": [choice]}

    if call:
        function = {"name": call.name, "arguments": call.wire}
        one = {"index": 0, "id": fresh("call"), "type": "function", "function": function}
        yield chunk({"role": "assistant", "tool_calls": [one]})
    else:
        for word in words:
            yield chunk({"role": "assistant", "content": word})
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield chunk({}, "tool_calls" if call else "stop") | {"usage": usage}


def say_responses(model: str, words: Iterable[str], call: Call | None) -> Iterator[Json]:
    head: Json = {"id": fresh("resp"), "object": "response", "created_at": 1, "model": model}
    yield {"type": "response.created", "response": head | {"status": "in_progress", "output": []}}
    if call:
        item: Json = {"type": "function_call", "id": fresh("fc"), "call_id": fresh("call")}
        item |= {"name": call.name, "arguments": call.wire, "status": "completed"}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    else:
        item = {"type": "message", "id": fresh("msg"), "role": "assistant"}
        begun = item | {"status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
        said = ""
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        for word in words:
            said += word
            yield {"type": "response.output_text.delta", **place, "delta": word}
        text = {"type": "output_text", "text": said, "annotations": []}
        item |= {"status": "completed", "content": [text]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = head | {"status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": whole}


def say_gemini(model: str, words: Iterable[str], call: Call | None) -> Iterator[Json]:
    def chunk(part: Json, finish: str | None = None) -> Json:
        one: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
        one |= {"finishReason": finish} if finish else {}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [one], "usageMetadata": usage, "modelVersion": model}

    if call:
        yield chunk({"functionCall": {"name": call.name, "args": call.arguments}}, "STOP")
        return
    for word in words:
        yield chunk({"text": word})
    yield chunk({"text": ""}, "STOP")


SAY = {
    "anthropic": say_anthropic,
    "chat": say_chat,
    "responses": say_responses,
    "gemini": say_gemini,
}


def whole(question: Question, text: str) -> Json:
    """The same answer for those who do not stream; they are side questions and get no tool."""
    events = list(SAY[question.dialect](question.model, [text], None))
    if question.dialect == "anthropic":
        message: Json = events[0]["message"]
        return message | {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    if question.dialect == "chat":
        choice = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": text}}
        return events[-1] | {"object": "chat.completion", "choices": [choice]}
    last: Json = events[-1]["response"] if question.dialect == "responses" else events[0]
    return last
