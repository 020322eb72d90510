"""A scripted working day against an agentctl that is killed again and again, and what was promised.

One client works on through every death, as a careful caller would: what was not answered is asked
again under its own id, before anything new. A reader follows the stream by its cursor. Whatever was
acknowledged is written down here, and compared at the end with what is known and what the agent
heard. When the killing happens is counted in the client's steps, so a slow machine spreads the
moments as a fast one does.
"""

import contextlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field

import httpx

from integration.agentctl.harness import Json, Refused, Sidecar, eventually

STEPS = 24
"""The killing comes after so many steps of a life at the latest."""
HURRY = 0.06
"""And at any moment of so many seconds after its step."""
WORDS = ("say it", "slow 3", "permission", "write notes.txt", "think")


class Died(Exception):
    """agentctl was killed in the middle of a call."""


@dataclass
class Promised:
    """What was acknowledged to the client, and what the reader has seen."""

    prompts: dict[str, Json] = field(default_factory=dict)
    operations: dict[str, tuple[str, Json]] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)
    events: dict[int, Json] = field(default_factory=dict)
    told_twice: list[int] = field(default_factory=list)


class Day:
    """The client, the reader and the killer of one day."""

    def __init__(self, sidecar: Sidecar, seed: int) -> None:
        self.sidecar, self.dice = sidecar, random.Random(seed)
        self.promised = Promised()
        self.unanswered: list[tuple[str, Json]] = []
        self.killed_at: Counter[str] = Counter()
        self.step, self.doing, self.over = 0, "start", False
        self.told = sidecar.spec("--tick", "0.01", "--save-new", "--save-prompt")
        self._reader = threading.Thread(target=self._read, daemon=True)

    # ---- lives -------------------------------------------------------------------------

    def live(self, kills: int) -> None:
        """So many lives, each ended by the killer, and a last one that ends well."""
        self._reader.start()
        for _ in range(kills):
            self._launch()
            killer = threading.Thread(target=self._kill, args=(self.dice.randrange(STEPS),))
            killer.start()
            with contextlib.suppress(Died):
                self._begin()
                while True:
                    self._work()
            killer.join()
        self._launch()
        self._begin()
        self._finish()

    def _launch(self) -> None:
        self.step, self.doing = 0, "start"
        with (self.sidecar.folder / "agentctl.out").open("ab") as out:
            self.sidecar.process = subprocess.Popen(
                self.sidecar.command("--after-turn-seconds", "0.05", "--quiet-seconds", "0.05"),
                stdout=out,
                stderr=out,
            )

    def _kill(self, after: int) -> None:
        process = self.sidecar.process
        assert process is not None
        deadline = time.monotonic() + 60
        while self.step < after and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(self.dice.random() * HURRY)
        self.killed_at[self.doing] += 1
        process.kill()
        process.wait()

    # ---- the client --------------------------------------------------------------------

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        self.step += 1
        try:
            answer: Json = self.sidecar.call(method, path, body)
        except httpx.HTTPError:
            raise Died from None
        return answer

    def _begin(self) -> None:
        process = self.sidecar.process
        assert process is not None
        while not self.sidecar.reads_run(process.pid):
            if process.poll() is not None:
                raise Died
            time.sleep(0.005)
        self.doing = "configure"
        self._call("PUT", "/api/v1/agent", self.told)
        for path, body in list(self.unanswered):
            self.doing = "repeat"
            self._acknowledged(path, body)
        self._open()

    def _open(self) -> None:
        """An open conversation, or one on its way."""
        self.doing = "open"
        status = self._call("GET", "/api/v1/status")
        if status["agent"]["status"] in ("opening", "idle", "running"):
            return
        if any(o["state"] == "running" for o in status["operations"]):
            return
        token = (status["token"] or {}).get("value")
        body = {"session_id": self.sidecar.session, "operation_id": uuid.uuid4().hex}
        body |= {"mode": "resume", "resume_token": token} if token else {"mode": "new"}
        self._ask("/api/v1/start", body)

    def _ask(self, path: str, body: Json) -> None:
        self.unanswered.append((path, body))
        self._acknowledged(path, body)

    def _acknowledged(self, path: str, body: Json) -> None:
        """Asked, answered, and from now on promised."""
        try:
            self._call("POST", path, body)
        except Refused as refused:
            # No conversation for this moment, or another start: told, and so not promised.
            if refused.code not in ("agent_not_running", "operation_conflict"):
                raise
            self.unanswered.remove((path, body))
            return
        self.unanswered.remove((path, body))
        if "prompt_id" in body:
            self.promised.prompts[body["prompt_id"]] = body
        else:
            self.promised.operations[body["operation_id"]] = (path, body)

    def _work(self) -> None:
        luck = self.dice.random()
        if luck < 0.55:
            self.doing = "prompt"
            prompt_id = uuid.uuid4().hex
            text = f"{self.dice.choice(WORDS)} #{prompt_id}"
            content = [{"type": "text", "text": text}]
            body = {"session_id": self.sidecar.session, "prompt_id": prompt_id, "content": content}
            self._ask("/api/v1/prompt", body)
        elif luck < 0.85:
            self._answer()
        elif luck < 0.9:
            self.doing = "cancel"
            with contextlib.suppress(Refused):
                self._call("POST", "/api/v1/cancel")
        elif luck < 0.93:
            self.doing = "stop"
            body = {"session_id": self.sidecar.session, "operation_id": uuid.uuid4().hex}
            self._ask("/api/v1/stop", body | {"grace_seconds": 1.0})
        else:
            self._open()

    def _answer(self) -> None:
        """Answer what is open; the answer counts once it is taken."""
        self.doing = "permission"
        for permission in self._list():
            option = self.dice.choice(["allow_once", "reject_once"])
            path = f"/api/v1/permissions/{permission['permission_id']}"
            with contextlib.suppress(Refused):  # closed meanwhile, by a cancel
                self._call("POST", path, {"option_id": option})
                self.promised.permissions[permission["permission_id"]] = option

    def _list(self) -> list[Json]:
        self.step += 1
        try:
            found: list[Json] = self.sidecar.call("GET", "/api/v1/permissions")
        except httpx.HTTPError:
            raise Died from None
        return found

    def _finish(self) -> None:
        """Everything that waits goes to the agent, and the reader sees the end."""

        def is_done() -> bool:
            self._answer()
            status = self.sidecar.status()
            waits = any(p["fate"] in ("queued", "sending") for p in status["prompts"])
            if waits:
                self._open()
            return not waits and status["turn"] is None

        eventually(is_done, "everything is decided", 240)
        last = self.sidecar.status()["journal"]["last_seq"]
        eventually(lambda: last in self.promised.events, "the reader has all of it", 60)
        self.over = True

    # ---- the reader --------------------------------------------------------------------

    def _read(self) -> None:
        cursor = ""
        while not self.over:
            with contextlib.suppress(OSError, KeyError):
                cursor = self._follow(cursor)
            time.sleep(0.01)

    def _follow(self, cursor: str) -> str:
        run = self.sidecar.run
        token = self.sidecar.keys.token()
        with socket.create_connection((run["host"], run["port"]), 5) as reader:
            reader.settimeout(1)
            reader.sendall(
                f"GET /api/v1/events?after={cursor} HTTP/1.1\r\nHost: x\r\n"
                f"X-Kandev-Token: {token}\r\n\r\n".encode()
            )
            rest = b""
            while not self.over:
                try:
                    data = reader.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not data:
                    break
                *blocks, rest = (rest + data).split(b"\n\n")
                for block in blocks:
                    if b"\ndata: " in block:
                        cursor = self._seen(json.loads(block.partition(b"\ndata: ")[2]))
        return cursor

    def _seen(self, event: Json) -> str:
        seq = event["seq"]
        if seq in self.promised.events:
            self.promised.told_twice.append(seq)
        self.promised.events[seq] = event
        return f"{event['journal_id']}:{seq}"


def judge(day: Day) -> Json:
    """Raise AssertionError for anything that was acknowledged and is lost; gives the counts."""
    sidecar, promised = day.sidecar, day.promised
    heard = [text.rpartition("#")[2] for text in sidecar.prompts_heard()]
    assert len(heard) == len(set(heard)), "no prompt is sent twice"
    fates: Counter[str] = Counter()
    for prompt_id, body in promised.prompts.items():
        fate = sidecar.call("POST", "/api/v1/prompt", body)["fate"]
        fates[fate] += 1
        assert fate in ("delivered", "unknown"), f"{prompt_id} was accepted and is {fate}"
        assert fate == "unknown" or prompt_id in heard, "delivered means that the agent has it"
    assert set(heard) <= set(promised.prompts), "what the agent heard was acknowledged to somebody"
    order = [p for p in promised.prompts if p in set(heard)]
    assert heard == order, "and in the order in which they were accepted"
    for operation_id, (path, body) in promised.operations.items():
        operation = sidecar.call("POST", path, body)
        assert operation["operation_id"] == operation_id
        assert operation["state"] in ("succeeded", "failed"), operation
    kept = {e["seq"]: e for e in sidecar.events()}
    assert sorted(kept) == list(range(1, len(kept) + 1)), "numbered without holes"
    for seq, event in promised.events.items():
        assert kept.get(seq) == event, "what a reader saw is what is kept"
    assert not promised.told_twice, "a reader that gives its cursor gets each event once"
    assert len(promised.events) == len(kept), "and misses none"
    resolved = {
        e["data"]["permission_id"]: e["data"]
        for e in kept.values()
        if e["kind"] == "permission_resolved"
    }
    for permission_id, option in promised.permissions.items():
        told = resolved[permission_id]
        assert (told["by"], told["option_id"]) == ("caller", option), told
    return {
        "prompts": len(promised.prompts),
        "fates": dict(fates),
        "operations": len(promised.operations),
        "permission answers": len(promised.permissions),
        "events": len(kept),
        "killed while": dict(day.killed_at),
    }


def play(sidecar: Sidecar, seed: int, kills: int) -> Json:
    """One day; gives what was counted."""
    day = Day(sidecar, seed)
    try:
        day.live(kills)
    finally:
        day.over = True
    counted = judge(day)
    print(f"seed {seed}, {kills} kills: {counted}", file=sys.stderr)
    return counted
