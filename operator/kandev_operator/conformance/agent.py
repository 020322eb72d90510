"""The small ACP agent that the suite has run on the target; its source travels with the call.

Standard library only, no file but its memory under HOME. A prompt's first word says what it does:
  say TEXT      answers TEXT                 count    says how many prompts this conversation had
  slow N        N words, 50 ms apart         ask      asks for permission, says what came of it
  exit          says one word, ends with 3   think    one thought, then an answer
Any other prompt is answered by `heard: ` and its own text. It keeps conversations on disk, lists
them, loads them with a replay, and waits CONFORMANCE_OPEN_DELAY seconds before it opens one. To
initialize it answers protocol version 1, or CONFORMANCE_PROTOCOL.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
import uuid
from typing import Any

FOLDER = pathlib.Path(os.environ.get("HOME", ".")) / ".conformance-agent"
DELAY = float(os.environ.get("CONFORMANCE_OPEN_DELAY", "0"))
PROTOCOL = int(os.environ.get("CONFORMANCE_PROTOCOL", "1"))
SPEAKING = threading.Lock()
CANCELLED = threading.Event()
ANSWERS: dict[str, Any] = {}


def send(**message: Any) -> None:
    with SPEAKING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tell(session: str, kind: str, text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": kind, "content": content}
    send(method="session/update", params={"sessionId": session, "update": update})


def say(session: str, text: str) -> None:
    tell(session, "agent_message_chunk", text)


def path(session: str) -> pathlib.Path:
    return FOLDER / (session.replace("/", "_") + ".json")


def save(session: str, told: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    part = path(session).with_suffix(".part")
    part.write_text(json.dumps(told))
    part.replace(path(session))


def ask(session: str) -> Any:
    key = "ask-" + uuid.uuid4().hex[:8]
    box: list[Any] = [threading.Event(), None]
    ANSWERS[key] = box
    kinds = {"allow_once": "Allow", "reject_once": "Reject"}
    send(
        id=key,
        method="session/request_permission",
        params={
            "sessionId": session,
            "toolCall": {"toolCallId": key, "title": "Write a file", "kind": "edit"},
            "options": [{"optionId": k, "name": n, "kind": k} for k, n in kinds.items()],
        },
    )
    box[0].wait()
    return (box[1] or {}).get("outcome") or {}


def turn(request: Any, session: str, text: str) -> None:
    told = json.loads(path(session).read_text())
    told.append(text)
    save(session, told)
    word, _, rest = text.partition(" ")
    if word == "exit":
        say(session, "goodbye")
        os._exit(3)
    if word == "slow":
        for number in range(int(rest.split()[0])):
            if CANCELLED.wait(0.05):
                break
            say(session, f"word{number} ")
    elif word == "ask":
        outcome = ask(session)
        if outcome.get("outcome") != "selected":
            CANCELLED.set()
        else:
            say(session, "selected " + str(outcome.get("optionId")))
    elif word == "count":
        say(session, f"this conversation had {len(told)} prompts")
    else:
        if word == "think":
            tell(session, "agent_thought_chunk", "a thought")
        say(session, rest if word == "say" else "heard: " + text)
    reason = "cancelled" if CANCELLED.is_set() else "end_turn"
    send(id=request, result={"stopReason": reason})


def load(params: Any) -> Any:
    session = params["sessionId"]
    if not path(session).exists():
        return {"error": {"code": -32002, "message": "Resource not found"}}
    for text in json.loads(path(session).read_text()):
        tell(session, "user_message_chunk", text)
        say(session, "replayed " + text)
    return {"result": {}}


def new() -> Any:
    time.sleep(DELAY)
    session = str(uuid.uuid4())
    save(session, [])
    return {"result": {"sessionId": session}}


def answer(method: str, params: Any) -> Any:
    if method == "initialize":
        able = {"loadSession": True, "sessionCapabilities": {"list": {}}}
        info = {"name": "conformance-agent", "version": "1.0"}
        told = {"protocolVersion": PROTOCOL, "agentCapabilities": able, "agentInfo": info}
        return {"result": told}
    if method == "session/new":
        return new()
    if method == "session/load":
        time.sleep(DELAY)
        return load(params)
    if method == "session/list":
        cwd = params.get("cwd", "/")
        known = [{"sessionId": file.stem, "cwd": cwd} for file in FOLDER.glob("*.json")]
        return {"result": {"sessions": known}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            box = ANSWERS.pop(str(message.get("id")), None)
            if box:
                box[1] = message.get("result")
                box[0].set()
        elif method == "session/prompt":
            CANCELLED.clear()
            text = "".join(b.get("text", "") for b in params["prompt"])
            work = (message["id"], params["sessionId"], text)
            threading.Thread(target=turn, args=work, daemon=True).start()
        elif method == "session/cancel":
            CANCELLED.set()
        elif "id" in message:
            send(id=message["id"], **answer(method, params))
    os._exit(0)


main()
