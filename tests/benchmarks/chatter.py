"""An ACP agent that says nothing but when: its updates carry the moment at which they were written.

A prompt is `KIND COUNT RATE`: so many updates, evenly in time, as fast as can be where RATE is 0.
`words` are chunks of one message, `calls` are changes of one tool call (each an event of its own).
Standard library only; the clock is the machine's monotonic one, which every process shares.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session: str, kind: str, number: int) -> None:
    stamp = f"<{number}:{time.monotonic_ns()}>"
    if kind == "words":
        told: Any = {"sessionUpdate": "agent_message_chunk"}
        told["content"] = {"type": "text", "text": stamp}
    else:
        told = {"sessionUpdate": "tool_call_update", "toolCallId": "call", "title": stamp}
    send(method="session/update", params={"sessionId": session, "update": told})


def talk(session: str, text: str) -> None:
    kind, count, rate = text.split()
    began = time.monotonic()
    for number in range(int(count)):
        if float(rate):
            wait = began + number / float(rate) - time.monotonic()
            if wait > 0:
                time.sleep(wait)
        update(session, kind, number)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        result: Any = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": False}}
        elif method == "session/new":
            result = {"sessionId": "chatter"}
        elif method == "session/prompt":
            talk(params["sessionId"], params["prompt"][0]["text"])
            result = {"stopReason": "end_turn"}
        if "id" in message:
            send(id=message["id"], result=result)
    os._exit(0)


main()
