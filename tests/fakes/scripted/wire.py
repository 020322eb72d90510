"""How the scripted agent speaks: JSON-RPC messages, one a line, and a diary of what it heard.

It answers what goes over stdout, in which shape, and what spoils it on purpose. It refuses to
know what any message means: sessions and turns are with its neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

RUBBISH = b"\n\x1b[33mwarn\x1b[0m this is no JSON-RPC {\n\xff\xfe\n"
STRAY_JSON = b'42\n[]\n"a JSON text that is no message"\nnull\n'


class RefusedError(Exception):
    """An error answer: code, message and data as they go over the wire."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.wire = {"code": code, "message": message} | ({} if data is None else {"data": data})


def not_found(session_id: str) -> RefusedError:
    return RefusedError(-32002, f"Resource not found: {session_id}", {"uri": session_id})


def invalid(details: str) -> RefusedError:
    return RefusedError(-32602, "Invalid params", {"details": details})


def block(text: str) -> Json:
    return {"type": "text", "text": text}


def text_of(blocks: Iterable[Json]) -> str:
    return "".join(str(part.get("text", "")) for part in blocks if part.get("type") == "text")


def update(session_id: str, kind: str, /, **fields: Any) -> Json:
    params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}}
    return {"method": "session/update", "params": params}


class Wire:
    def __init__(self, options: argparse.Namespace) -> None:
        self.log: str | None = options.log
        self.spoil = RUBBISH * options.garbage + STRAY_JSON * options.garbage_json
        self.speaking = threading.Lock()

    def answer(self, request_id: Any, result: Json) -> None:
        self.send({"id": request_id, "result": result})

    def refuse(self, request_id: Any, refusal: RefusedError) -> None:
        self.send({"id": request_id, "error": refusal.wire})

    def send(self, *messages: Json) -> None:
        self.send_all(messages)

    def send_all(self, messages: Iterable[Json]) -> None:
        try:
            with self.speaking:
                sys.stdout.buffer.write(self.spoil)
                for message in messages:
                    line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
                    sys.stdout.buffer.write(line.encode() + b"\n")
                sys.stdout.buffer.flush()  # once, so that a long replay is as fast as the pipe
        except OSError:
            os._exit(1)  # the client is gone: there is nobody left to tell

    def heard(self, message: Json) -> None:
        params = message.get("params") or {}
        self.record(
            "message",
            method=message.get("method"),
            id=message.get("id"),
            sessionId=params.get("sessionId"),
            params=params,
            result=message.get("result"),
        )

    def record(self, event: str, **facts: Any) -> None:
        if not self.log:
            return
        line = json.dumps({"at": time.time(), "pid": os.getpid(), "event": event, **facts}) + "\n"
        # One write in append mode: lines of several processes never mix.
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
