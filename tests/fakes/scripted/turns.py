"""How the scripted agent works on prompts: one turn at a time, each in a thread of its own.

It answers what is said in a turn, what is asked, and how the turn ends. It refuses to know how
a session was found; it gets an open one and gives it to the store when the turn is over.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

from fakes.scripted.store import Store
from fakes.scripted.wire import Json, RefusedError, Wire, block, update

CRASHED = 3


def crash(stage: str) -> NoReturn:
    print(f"acp-agent: ends at {stage}, as it was told", file=sys.stderr, flush=True)
    os._exit(CRASHED)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Turn:
    """One prompt, and how to reach it from outside while it is worked on."""

    def __init__(self, session: Json, request_id: Any, text: str) -> None:
        self.session, self.request_id, self.text = session, request_id, text
        self.failed = False
        self.cancelled = threading.Event()
        self.mail: queue.SimpleQueue[Json] = queue.SimpleQueue()

    def cancel(self) -> None:
        self.cancelled.set()
        self.mail.put({})


def worth(answer: Json, name: str) -> str:
    """What an answer of the client comes to, in words."""
    if "error" in answer:
        return f"error {answer['error'].get('code')} {answer['error'].get('message')}"
    result = answer.get("result") or {}
    return str(result.get(name)) if name else "done"


class Turns:
    def __init__(self, options: argparse.Namespace, wire: Wire, store: Store) -> None:
        self.options, self.wire, self.store = options, wire, store
        self.running: dict[str, list[Turn]] = {}
        self.asked: dict[str, Turn] = {}
        self.queues: dict[str, threading.Lock] = {}

    def start(self, session: Json, request_id: Any, text: str) -> None:
        turn = Turn(session, request_id, text)
        before = self.running.setdefault(session["sessionId"], [])
        if before and self.options.busy == "swallow":
            self.wire.answer(request_id, {"stopReason": "end_turn"})
            return
        if before and self.options.busy in ("cancel", "fail"):
            for other in before:
                other.failed = self.options.busy == "fail"
                other.cancel()
        # Known before its thread runs: a cancel that follows at once must find it.
        before.append(turn)
        threading.Thread(target=self.run, args=(turn, before), daemon=True).start()

    def cancel(self, session_id: str) -> None:
        for turn in list(self.running.get(session_id, ())):
            turn.cancel()

    def answered(self, message: Json) -> None:
        if turn := self.asked.pop(str(message.get("id")), None):
            turn.mail.put(message)

    def run(self, turn: Turn, running: list[Turn]) -> None:
        with self.queues.setdefault(turn.session["sessionId"], threading.Lock()):
            turn.session["messages"].append({"role": "user", "text": turn.text})
            turn.session["title"] = turn.session["title"] or turn.text[:80]
            if self.options.save_prompt:
                self.store.save(turn.session)
            answer = self.work(turn)
            if answer is None:
                return  # hangs: still in the list, and its answer never comes
            running.remove(turn)
            late = self.options.late_end if turn.cancelled.is_set() else 0
            if not late:
                self.finish(turn, answer)
        if late:
            # Outside the queue: the next turn may be running when this old one ends.
            time.sleep(late)
            self.say(turn, "late ")
            self.finish(turn, answer)

    def work(self, turn: Turn) -> str | None:
        """The words of the answer; "" if the turn was cut off; None if it never ends."""
        if self.options.exit_at == "prompt":
            crash("prompt")
        if self.options.big_line:
            self.say(turn, "x" * self.options.big_line)
        if re.search(r"\bcrash now\b", turn.text):
            self.say(turn, "Half an ")
            crash("prompt")
        if re.search(r"\bthink\b", turn.text):
            self.tell(turn, "agent_thought_chunk", content=block("Let me think."))
        for n in range(self.slowness(turn.text)):
            if turn.cancelled.wait(self.options.tick):
                return ""
            self.say(turn, f"word{n + 1} ")
        self.describe(turn)
        self.use_client(turn)
        wants_tool = re.search(r"\b(permission|write \w)", turn.text)
        if (wants_tool or self.options.permission_then_hang) and not self.tool(turn):
            return ""
        if self.options.hang_at == "prompt" or self.options.permission_then_hang:
            self.say(turn, "Well, ")
            return None
        said = [entry["text"] for entry in turn.session["messages"] if entry["role"] == "user"]
        answer = f"You said {len(said)} things so far; the first was: {said[0]}"
        for word in re.findall(r"\S+\s*", answer):
            if turn.cancelled.wait(self.options.word_delay):
                return ""
            self.say(turn, word)
        return answer

    def slowness(self, text: str) -> int:
        found = re.search(r"\bslow (\d+)\b", text)
        return int(found[1]) if found else 0

    def tool(self, turn: Turn) -> bool:
        """The tool call, asked for first if the prompt wants that; False: the turn is over."""
        found = re.search(r"\bwrite (\w[\w.-]*)", turn.text)
        name = found[1] if found else "permitted.txt"
        call: Json = {"toolCallId": f"call-{uuid.uuid4().hex[:8]}", "title": f"Write {name}"}
        call |= {"kind": "edit", "status": "pending", "rawInput": {"path": name}}
        path = str(Path(turn.session["cwd"]) / name)
        call["locations"] = [{"path": path, "line": 1}]
        self.tell(turn, "tool_call", **call)
        allowed = True
        if "permission" in turn.text or self.options.permission_then_hang:
            outcome = self.ask(turn, call)
            if outcome.get("outcome") != "selected":
                turn.cancelled.set()
                return False
            allowed = str(outcome.get("optionId")).startswith("allow")
        if allowed:
            Path(path).write_text(turn.text + "\n")
        done: Json = {"toolCallId": call["toolCallId"], "status": "failed"}
        if allowed:
            diff = {"type": "diff", "path": path, "oldText": None, "newText": turn.text + "\n"}
            done |= {"status": "completed", "content": [diff]}
        self.tell(turn, "tool_call_update", **done)
        self.say(turn, f"I {'wrote' if allowed else 'was not allowed to write'} {name}. ")
        return True

    def ask(self, turn: Turn, call: Json) -> Json:
        """What the client selected; empty if the turn was cancelled while it was open."""
        kinds = {"allow_once": "Allow", "allow_always": "Always allow", "reject_once": "Reject"}
        options = [{"optionId": kind, "name": name, "kind": kind} for kind, name in kinds.items()]
        told = self.request(turn, "session/request_permission", toolCall=call, options=options)
        outcome: Json = (told.get("result") or {}).get("outcome") or {}
        return outcome

    def request(self, turn: Turn, method: str, /, **params: Any) -> Json:
        """What the client answers; empty if the turn was cancelled while it was open."""
        request_id = f"{method.rpartition('/')[2]}-{uuid.uuid4().hex[:8]}"
        self.asked[request_id] = turn
        params = {"sessionId": turn.session["sessionId"], **params}
        self.wire.send({"id": request_id, "method": method, "params": params})
        return turn.mail.get()

    def describe(self, turn: Turn) -> None:
        """A plan, another mode: what an agent tells beside its words."""
        if re.search(r"\bplan:", turn.text):
            for status in ("in_progress", "completed"):
                entry = {"content": "Do it", "priority": "high", "status": status}
                self.tell(turn, "plan", entries=[entry])
        if found := re.search(r"\bmode: (\w+)", turn.text):
            self.tell(turn, "current_mode_update", currentModeId=found[1])

    def use_client(self, turn: Turn) -> None:
        """Files and terminals of the client, as the words of the prompt say."""
        if found := re.search(r"\bread: (\S+)", turn.text):
            path = os.path.join(turn.session["cwd"], found[1])
            told = self.request(turn, "fs/read_text_file", path=path)
            self.say(turn, f"Read: {worth(told, 'content')}\n")
        if found := re.search(r"\bput: (\S+)", turn.text):
            path = os.path.join(turn.session["cwd"], found[1])
            told = self.request(turn, "fs/write_text_file", path=path, content=turn.text)
            self.say(turn, f"Put: {worth(told, '')}\n")
        if found := re.search(r"\b(terminal|background): (.+)", turn.text):
            self.terminal(turn, found[2], left_running=found[1] == "background")

    def terminal(self, turn: Turn, line: str, *, left_running: bool) -> None:
        how: Json = {"command": "sh", "args": ["-c", line], "outputByteLimit": 1000}
        made = self.request(turn, "terminal/create", **how)
        terminal_id = (made.get("result") or {}).get("terminalId")
        if terminal_id is None:
            self.say(turn, f"Terminal: {worth(made, '')}\n")
            return
        shown = [{"type": "terminal", "terminalId": terminal_id}]
        call: Json = {"toolCallId": f"call-{terminal_id}", "title": line, "kind": "execute"}
        self.tell(turn, "tool_call", **call, status="in_progress", content=shown)
        if left_running:
            self.say(turn, "Terminal: left running\n")
            return
        ended = self.request(turn, "terminal/wait_for_exit", terminalId=terminal_id)
        output = self.request(turn, "terminal/output", terminalId=terminal_id)
        self.request(turn, "terminal/release", terminalId=terminal_id)
        self.say(turn, f"Terminal: {worth(ended, 'exitCode')} {worth(output, 'output')}\n")

    def finish(self, turn: Turn, answer: str) -> None:
        """Store and answer. The store decides whether that is the order on the disk, too."""
        session = turn.session
        if answer:  # a cut-off turn leaves its question in the history, never half an answer
            session["messages"].append({"role": "agent", "text": answer})
        session["updatedAt"] = now()
        if self.options.change_id and session["sessionId"] != self.options.change_id:
            session["sessionId"] = self.options.change_id
            meta = {"sessionId": session["sessionId"]}
            self.tell(turn, "session_info_update", title=session["title"], _meta=meta)
        self.store.save(session)
        if turn.failed:
            self.wire.refuse(turn.request_id, RefusedError(-32603, "Internal error", {}))
            return
        result: Json = {"stopReason": "cancelled" if turn.cancelled.is_set() else "end_turn"}
        if self.options.usage:
            count = sum(len(entry["text"].split()) for entry in session["messages"])
            result["usage"] = {"totalTokens": count, "inputTokens": count, "outputTokens": 0}
            self.tell(turn, "usage_update", used=count, size=200_000)
        self.wire.answer(turn.request_id, result)

    def say(self, turn: Turn, text: str) -> None:
        self.tell(turn, "agent_message_chunk", content=block(text))

    def tell(self, turn: Turn, kind: str, /, **fields: Any) -> None:
        self.wire.send(update(turn.session["sessionId"], kind, **fields))
