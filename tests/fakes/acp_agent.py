#!/usr/bin/env python3
"""A small ACP agent of our own: it keeps its word, or breaks it exactly as it is told.

It answers what a client of the Agent Client Protocol sees of a coding agent: sessions that are
remembered on disk and come back in a new process, words that stream, a permission, a cancel.
Every answer counts what the session holds, so the text itself proves the memory. It refuses to
know any model, network or key. Standard library only: run it by its path, with scripted/ beside.

Words in a prompt steer the turn:
  slow N          N chunks, one every --tick seconds, before the answer
  write NAME      a tool call that writes the file NAME into the session's folder
  permission      a tool call that asks first (writes permitted.txt, or the NAME of `write`)
  think           one thought before the answer
  plan:           a plan, told twice: before the work, and when it is done
  mode: NAME      the agent changes its mode by itself
  read: PATH      asks the client for a text file and says what is in it
  put: PATH       asks the client to write the prompt into a text file
  terminal: LINE  has the client run a shell line; says how it ended and what it wrote
  background: LINE  the same, but leaves it running
  crash now       the process ends in the middle of the turn, with exit code 3
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

# Not resolved: mounted files are often links into another folder.
sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from fakes.scripted import options as told
from fakes.scripted.offers import Offers
from fakes.scripted.store import Store
from fakes.scripted.turns import Turns, crash, now
from fakes.scripted.wire import (
    Json,
    RefusedError,
    Wire,
    block,
    invalid,
    not_found,
    text_of,
    update,
)

# A handler's answer: the result, and what follows it; None if it answers by itself, or never.
Answer = tuple[Json, tuple[Json, ...]] | None


class Agent:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        folder = Path(os.environ.get("HOME", ".")) / ".acp-agent" / "sessions"
        self.wire, self.store = Wire(options), Store(folder, options.save_delay)
        self.turns = Turns(options, self.wire, self.store)
        self.offers = Offers(options)
        self.open: dict[str, Json] = {}
        self.authenticated = not options.auth_required
        self.handlers: dict[str, Callable[[Json, Any], Answer]] = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/list": self.list,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
        }
        for method in ("set_mode", "set_config_option", "set_model"):
            name = f"session/{method}"
            self.handlers[name] = functools.partial(self.choose, name)
        for method in ("load", "resume", "list"):
            if getattr(options, f"no_{method}"):
                del self.handlers[f"session/{method}"]

    # ---- the process -------------------------------------------------------------------

    def serve(self) -> NoReturn:
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                self.wire.refuse(None, RefusedError(-32700, "Parse error"))
                continue
            self.wire.heard(message)
            if "method" in message:
                self.dispatch(message)
            else:
                self.turns.answered(message)
        while self.options.ignore_eof:
            time.sleep(60)
        self.store.flush()  # a gentle end: what was answered is stored before the process goes
        self.wire.record("end")
        os._exit(0)  # turns still running are threads that nobody waits for any more

    def dispatch(self, message: Json) -> None:
        method, request_id = message["method"], message.get("id")
        stage = method.removeprefix("session/")
        if stage != "prompt":  # a prompt fails in its turn, after the first words
            if self.options.exit_at == stage:
                crash(stage)
            if self.options.hang_at == stage:
                return
        try:
            if (handler := self.handlers.get(method)) is None:
                raise RefusedError(-32601, "Method not found", {"method": method})
            answer = handler(message.get("params") or {}, request_id)
        except RefusedError as refusal:
            if request_id is not None:
                self.wire.refuse(request_id, refusal)
            return
        if answer and request_id is not None:
            result, after = answer
            self.wire.send({"id": request_id, "result": result}, *after)

    # ---- sessions ----------------------------------------------------------------------

    def initialize(self, params: Json, _: Any) -> Answer:
        time.sleep(self.options.slow_start)
        kept: Json = {name: {} for name in ("list", "resume") if f"session/{name}" in self.handlers}
        login = {"id": "scripted", "name": "Scripted login", "description": "Lets everybody in"}
        result: Json = {
            "protocolVersion": self.options.protocol_version,
            "agentCapabilities": {
                "loadSession": "session/load" in self.handlers,
                "promptCapabilities": self.takes("image", "audio", "embeddedContext"),
                "mcpCapabilities": self.takes("http", "sse"),
                "sessionCapabilities": kept,
            },
            "agentInfo": {
                "name": self.options.name,
                "title": "Scripted agent",
                "version": "1.0.0",
            },
            "authMethods": [login] if self.options.auth_required else [],
        }
        return result, ()

    def takes(self, *kinds: str) -> Json:
        return {kind: kind in self.options.takes.split(",") for kind in kinds}

    def authenticate(self, params: Json, _: Any) -> Answer:
        self.authenticated = True
        return {}, ()

    def admit(self) -> None:
        if not self.authenticated:
            raise RefusedError(-32000, "Authentication required")

    def new(self, params: Json, _: Any) -> Answer:
        self.admit()
        session = self.begin(self.options.new_id or str(uuid.uuid4()), params.get("cwd"))
        if self.options.save_new:
            self.store.write(session)
        session_id = session["sessionId"]
        return {"sessionId": session_id, **self.offers.told(session_id)}, commands(session_id)

    def begin(self, session_id: str, cwd: Any) -> Json:
        if not (isinstance(cwd, str) and os.path.isabs(cwd)):
            raise invalid("cwd must be an absolute path")
        session: Json = {"sessionId": session_id, "cwd": cwd, "title": "", "messages": []}
        return self.keep(session | {"updatedAt": now()})

    def keep(self, session: Json) -> Json:
        if self.options.one_writer:
            self.store.lock(session["sessionId"])
        self.open[session["sessionId"]] = session
        return session

    def load(self, params: Json, request_id: Any) -> Answer:
        session = self.back(params)
        if not self.options.replay_after_answer:
            self.wire.send_all(self.replay(session))
            return self.returned(session)
        threading.Thread(target=self.load_late, args=(session, request_id), daemon=True).start()
        return None

    def load_late(self, session: Json, request_id: Any) -> None:
        """The answer, then old messages, with gaps in which a hasty client gets its prompt."""
        replay = list(self.replay(session))
        result, after = self.returned(session)
        self.wire.answer(request_id, result)
        for message in replay:
            time.sleep(0.01)
            self.wire.send(message)
        self.wire.send(*after)

    def resume(self, params: Json, _: Any) -> Answer:
        session = self.back(params)
        if self.options.replay_on_resume:
            self.wire.send_all(self.replay(session))
        return self.returned(session)

    def back(self, params: Json) -> Json:
        """The session that was asked for, open from now on, or the error as told."""
        self.admit()
        session_id = str(params.get("sessionId"))
        if self.options.load_error:
            raise told_error(self.options.load_error, session_id)
        if self.options.resume_id:
            return self.begin(self.options.resume_id, params.get("cwd"))
        session = self.store.read(session_id)
        if session is None and self.options.change_id:
            details = f'Invalid session identifier "{session_id}".'
            raise RefusedError(-32603, "Internal error", {"details": details})
        if session is None:
            raise not_found(session_id)
        return self.keep(session)

    def returned(self, session: Json) -> tuple[Json, tuple[Json, ...]]:
        session_id = session["sessionId"]
        result: Json = self.offers.told(session_id)
        if self.options.resume_id:
            result |= {"sessionId": session_id, "_meta": {"sessionId": session_id}}
        return result, commands(session_id)

    def replay(self, session: Json) -> Iterator[Json]:
        messages: Iterable[Json] = session["messages"]
        if self.options.replay_count is not None:
            filler = " " + "x" * self.options.replay_size if self.options.replay_size else ""
            messages = (
                {"role": ("user", "agent")[n % 2], "text": f"old message {n}{filler}"}
                for n in range(self.options.replay_count)
            )
        for entry in messages:
            kind = f"{entry['role']}_message_chunk"
            yield update(session["sessionId"], kind, content=block(entry["text"]))

    def list(self, params: Json, _: Any) -> Answer:
        sessions = [
            {name: session[name] for name in ("sessionId", "cwd", "title", "updatedAt")}
            for session in self.store.every()
            if params.get("cwd") in (None, session["cwd"])
        ]
        cursor = str(params.get("cursor") or "page-0").removeprefix("page-")
        if not cursor.isdecimal():
            raise invalid("unknown cursor")
        end = int(cursor) + self.options.page_size
        page: Json = {"sessions": sessions[int(cursor) : end]}
        return page | ({"nextCursor": f"page-{end}"} if end < len(sessions) else {}), ()

    def prompt(self, params: Json, request_id: Any) -> Answer:
        self.admit()
        session_id = str(params.get("sessionId"))
        # By what it holds, not by its key: --change-id renames a session while it is open.
        known = [session for session in self.open.values() if session["sessionId"] == session_id]
        session = self.open.get(session_id) or next(iter(known), None)
        if session is None:
            message = f"Invalid params: session not found: {session_id}"
            raise RefusedError(-32602, message, {"sessionId": session_id})
        self.turns.start(session, request_id, text_of(params.get("prompt") or ()))
        return None

    def choose(self, method: str, params: Json, _: Any) -> Answer:
        return self.offers.choose(method, params), ()

    def cancel(self, params: Json, _: Any) -> Answer:
        self.turns.cancel(str(params.get("sessionId")))
        return None


def commands(session_id: str) -> tuple[Json, ...]:
    slow = {"name": "slow", "description": "Answer in N slow chunks", "input": {"hint": "N"}}
    return (update(session_id, "available_commands_update", availableCommands=[slow]),)


def told_error(words: str, session_id: str) -> RefusedError:
    code, message, details = ([*words.replace("{id}", session_id).split(":", 2), "", ""])[:3]
    data = {"details": details} if details else None
    return RefusedError(int(code), message or "Internal error", data)


def start_child(keep_stdout: bool) -> int:
    """A process that leaves this one's group and session, as helpers of real agents do."""
    output = None if keep_stdout else subprocess.DEVNULL
    child = subprocess.Popen(
        ["sleep", "600"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    return child.pid


def our_own_mistake(failure: threading.ExceptHookArgs) -> NoReturn:
    """A turn that fails by our fault must not look like one of the promised misbehaviours."""
    sys.excepthook(failure.exc_type, failure.exc_value or SystemExit(), failure.exc_traceback)
    os._exit(70)


def main(argv: list[str]) -> NoReturn:
    options = told.read(argv)
    threading.excepthook = our_own_mistake
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent = Agent(options)
    if options.forget:
        agent.store.forget()
    if options.stderr:
        print(options.stderr, file=sys.stderr, flush=True)
    home, names = os.environ.get("HOME"), sorted(os.environ)
    agent.wire.record("start", argv=argv, cwd=os.getcwd(), home=home, env=names)
    if options.escape_child:
        agent.wire.record("child", child=start_child(options.child_keeps_stdout))
    agent.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
