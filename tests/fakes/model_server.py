"""A model for coding agents that needs no key and no network, and cannot lie about memory.

It answers every request from that request alone: how many messages of the person it was shown,
and which was the first. So an agent that says it knows the talk again really sent it. It refuses
to remember anything itself. Words in the newest message steer the answer:

    slow N        N words, one every `tick` seconds, before the answer
    run: COMMAND  asks for one call of the agent's shell tool, with the rest of that line
    permission    the same, with a harmless command of its own (touch permitted.txt)
    fail N        HTTP status N (most agents try again for a while)

    python -m fakes.model_server --port N
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from fakes import dialects
from fakes.dialects import Call, Json, Question

SHELLS = (
    *("bash", "exec_command", "execute_command", "run_commands", "run_shell_command", "shell"),
    *("shell_command", "terminal"),
)


class ModelServer:
    """A server in a thread of its own, for tests of either colour, and for the demo."""

    def __init__(self, port: int = 0, tick: float = 0.2, host: str = "127.0.0.1") -> None:
        self.tick, self.address = tick, (host, port)
        self.requests: list[Question] = []
        self.stopping = threading.Event()
        self.server: ThreadingHTTPServer | None = None
        self.thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        assert self.server is not None, "start() first"
        return f"http://{self.server.server_address[0]!s}:{self.server.server_port}"

    def start(self) -> Self:
        handler = type("ScriptedHandler", (Handler,), {"owner": self})
        self.server = ThreadingHTTPServer(self.address, handler)
        # Agents keep connections open for ever; stopping must not wait for them.
        self.server.daemon_threads, self.server.block_on_close = True, False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        if self.server and self.thread:
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def words(self, question: Question) -> Iterator[str]:
        # Side questions (titles, summaries) bring no tools, and quote what was asked: not slow.
        found = re.search(r"\bslow (\d+)\b", question.newest) if question.tools else None
        for n in range(int(found[1]) if found else 0):
            if self.stopping.wait(self.tick):
                return
            yield f"word{n + 1} "
        yield answer_to(question)


def answer_to(question: Question) -> str:
    if question.schema:
        return json.dumps(filled(question.schema, ""))
    first = question.users[0] if question.users else ""
    return f"I see {len(question.users)} user messages; the first was: {first}"


def status_for(question: Question) -> int:
    found = re.search(r"\bfail (\d{3})\b", question.newest)
    return int(found[1]) if found else 200


def call_for(question: Question) -> Call | None:
    """The tool call that the newest message wants, once: not again after its result came."""
    if question.answers_a_tool:
        return None
    found = re.search(r"\brun: (.+)", question.newest)
    if not found and not re.search(r"\bpermission\b", question.newest):
        return None
    command = found[1].strip() if found else "touch permitted.txt"
    for tool in question.tools:
        if tool.name.lower() in SHELLS:
            arguments = filled(tool.schema, command)
            return Call(tool.name, arguments, json.dumps(arguments))
    return None


def filled(schema: Json, command: str) -> Json:
    """What a schema demands, the command in its place; optional fields stay out but for one."""
    demanded = schema.get("required") or []
    arguments: Json = {}
    for name, field in (schema.get("properties") or {}).items():
        if name == "commands":
            arguments[name] = [command] if field.get("type") == "array" else command
        elif name in ("command", "cmd"):
            listed = field.get("type") == "array"
            arguments[name] = ["bash", "-lc", command] if listed else command
        elif "require_escalated" in (field.get("enum") or []):
            # Codex asks the person only if the model wants to leave the sandbox.
            arguments |= {name: "require_escalated", "justification": "scripted"}
        elif name in demanded:
            arguments[name] = plain_value(field)
    return arguments


def plain_value(field: Json) -> Any:
    if choices := field.get("enum"):
        return choices[0]
    kind = str(field.get("type", "string")).lower()
    if kind == "boolean":
        return False
    return 10_000 if kind in ("integer", "number") else "scripted"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.give({})

    def do_GET(self) -> None:
        model = {"id": "scripted", "object": "model", "type": "model", "owned_by": "local"}
        model |= {"name": "models/scripted", "display_name": "Scripted"}
        self.give({"object": "list", "data": [model], "models": [], "has_more": False})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        dialect = dialects.dialect_of(self.path)
        if dialect is None:  # counting tokens, telemetry: nothing that needs an answer of ours
            self.give({"input_tokens": 10, "totalTokens": 10})
            return
        question = dialects.read(dialect, self.path, json.loads(body or b"{}"))
        self.owner.requests.append(question)
        status = status_for(question)
        if status != 200:
            self.give({"error": {"type": "api_error", "message": "a scripted failure"}}, status)
        elif question.stream:
            self.stream(question)
        else:
            self.give(dialects.whole(question, answer_to(question)))

    def give(self, answer: Json, status: int = 200) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, question: Question) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")  # the end of the stream is the end of the socket
        self.end_headers()
        self.close_connection = True
        say = dialects.SAY[question.dialect]
        try:
            for event in say(question.model, self.owner.words(question), call_for(question)):
                name = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
            if question.dialect == "chat":
                self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            return  # the agent hung up in the middle: cancelled, or killed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fakes.model_server")
    parser.add_argument("--port", type=int, default=8099, help="default 8099; 0 finds a free one")
    parser.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1")
    parser.add_argument("--tick", type=float, default=0.2, help="seconds a slow word (0.2)")
    options = parser.parse_args()
    with ModelServer(options.port, options.tick, options.host) as server:
        print(server.url, flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
