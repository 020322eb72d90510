"""A real agentctl process under test: its keys, its tokens, its calls, and how it is killed.

Everything waits by looking again until a condition holds; nothing sleeps for a fixed time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from integration.agentctl.reader import PATIENCE, Json, Reader

AGENT = Path(__file__).resolve().parents[2] / "fakes" / "acp_agent.py"
AUDIENCE = "executor-uid-1"
SESSION = "session-uid-1"


class Keys:
    """A signing key, and the JWKS file that agentctl reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Ed25519PrivateKey] = {}
        self._entries: list[Json] = []
        self.add("operator", ["read", "prompt", "control", "files", "shell"])

    def add(self, kid: str, scopes: list[str]) -> None:
        key = Ed25519PrivateKey.generate()
        self.known[kid] = key
        x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
        entry = {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "kandev_scopes": scopes}
        self._entries.append(entry)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"keys": self._entries}))
        part.replace(self.path)

    def token(self, kid: str = "operator", **changes: Any) -> str:
        now = int(time.time())
        claims: Json = {
            "iss": "kandev-operator",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 120,
            "scopes": ["read", "prompt", "control"],
            "term": 1,
            "epoch": 1,
        }
        claims |= changes
        claims = {k: v for k, v in claims.items() if v is not None}
        return jwt.encode(claims, self.known[kid], algorithm="EdDSA", headers={"kid": kid})


def eventually(look: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
    """Look until it holds; gives what was seen."""
    deadline = time.monotonic() + patience
    seen: Any = None
    while time.monotonic() < deadline:
        seen = look()
        if seen:
            return seen
        time.sleep(0.01)
    raise AssertionError(f"did not come true in {patience} s: {what}; last seen {seen!r}")


class Refused(AssertionError):
    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.status_code} {response.text[:600]}")
        self.status = response.status_code
        self.code = response.json().get("code")
        self.details = response.json().get("details")


class Sidecar:
    """One agentctl on one state folder; it may be started again and again."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder, self.keys = folder, keys
        self.told: Json = {}
        self.left: set[str] = set()
        self.state = folder / "state"
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.agent_log = folder / "agent.jsonl"
        self.process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(timeout=20.0)
        self.run: Json = {}
        self.epoch, self.term = 1, 1
        self.session = SESSION
        self.extra: list[str] = []

    # ---- the process -------------------------------------------------------------------

    def command(self, *extra: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "kandev_operator.agentctl",
            "run",
            "--state",
            str(self.state),
            "--workspace",
            str(self.workspace),
            "--audience",
            AUDIENCE,
            "--jwks",
            str(self.keys.path),
            *self.extra,
            *extra,
        ]

    def start(self, *extra: str, env: dict[str, str] | None = None) -> Sidecar:
        with (self.folder / "agentctl.out").open("ab") as out:
            self.process = subprocess.Popen(
                self.command(*extra), stdout=out, stderr=out, env={**os.environ, **(env or {})}
            )
        eventually(self.listens, "agentctl listens")
        return self

    def listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output()[-3000:]
        return self.reads_run(self.process.pid)

    def reads_run(self, pid: int) -> bool:
        try:
            self.run = json.loads((self.state / "run.json").read_bytes())
        except (OSError, ValueError):
            return False
        return bool(self.run["pid"] == pid)

    def output(self) -> str:
        return (self.folder / "agentctl.out").read_text(errors="replace")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self, patience: float = PATIENCE) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(patience)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.http.close()

    def fresh_session(self) -> Sidecar:
        """Another session on the same agentctl, with a log of its own."""
        if self.told.get("session_id") == self.session:
            # One that is only about to be tried comes alive a moment later, under this session.
            with contextlib.suppress(AssertionError):
                eventually(self._was_tried, "the agent that was put is tried", 10)
        if self.agent() not in ("none", "exited"):
            self.stop(grace_seconds=0)
        self.left.add(self.session)
        self.session = f"session-{uuid.uuid4().hex[:8]}"
        self.agent_log = self.folder / f"{self.session}.jsonl"
        self.epoch = 1
        return self

    def _was_tried(self) -> bool:
        told = self.call("GET", "/api/v1/capabilities")
        return bool(told.get("probed_at") or told.get("failure")) or self.agent() != "none"

    # ---- calls -------------------------------------------------------------------------

    def raw(self, method: str, path: str, body: Any = None, **claims: Any) -> httpx.Response:
        token = self.keys.token(**({"term": self.term, "epoch": self.epoch} | claims))
        headers = {"Authorization": f"Bearer {token}"}
        return self.http.request(method, self.run["url"] + path, json=body, headers=headers)

    def call(self, method: str, path: str, body: Any = None, **claims: Any) -> Any:
        response = self.raw(method, path, body, **claims)
        if response.status_code >= 400:
            raise Refused(response)
        return response.json()

    def spec(self, *options: str, **changes: Any) -> Json:
        return {
            "session_id": self.session,
            "session_namespace": "team-a",
            "session_name": "s-a",
            "command": sys.executable,
            "args": ["-E", "-S", str(AGENT), "--log", str(self.agent_log), *options],
            "env": {"MODEL_API_KEY": "very-secret-value"},
            "permission_policy": "Ask",
            "profile_hash": f"hash-{uuid.uuid4().hex[:6]}",
        } | changes

    def put(self, *options: str, **changes: Any) -> Any:
        self.told = self.spec(*options, **changes)
        while True:
            try:
                return self.call("PUT", "/api/v1/agent", self.told)
            except Refused as refused:
                # The agent of the test before is stopped, and its last processes still go.
                if (refused.details or {}).get("session_id") not in self.left:
                    raise
            time.sleep(0.02)

    def put_again(self, **claims: Any) -> Any:
        return self.call("PUT", "/api/v1/agent", self.told, **claims)

    def begin(self, mode: str = "new", token: str | None = None, **more: Any) -> Json:
        body = {"session_id": self.session, "mode": mode, "operation_id": uuid.uuid4().hex}
        if token is not None:
            body["resume_token"] = token
        answer: Json = self.call("POST", "/api/v1/start", body | more)
        return answer

    def open(self, mode: str = "new", token: str | None = None, **more: Any) -> Json:
        """Start, and wait for the outcome."""
        return self.outcome(self.begin(mode, token, **more)["operation_id"])

    def resume(self, **more: Any) -> Json:
        return self.open("resume", self.token(), **more)

    def outcome(self, operation_id: str) -> Json:
        def look() -> Json | None:
            for operation in self.status()["operations"]:
                if operation["operation_id"] == operation_id and operation["state"] != "running":
                    return dict(operation)
            return None

        found: Json = eventually(look, f"operation {operation_id} ends")
        return found

    def succeeded(self, operation: Json) -> Json:
        assert operation["state"] == "succeeded", operation
        return operation

    def failed(self, operation: Json, code: str) -> Json:
        assert operation["state"] == "failed", operation
        assert operation["failure"]["code"] == code, operation
        failure: Json = operation["failure"]
        return failure

    def stop(self, **more: Any) -> Json:
        body = {"session_id": self.session, "operation_id": uuid.uuid4().hex}
        answer: Json = self.call("POST", "/api/v1/stop", body | more)
        return self.outcome(answer["operation_id"])

    def prompt(self, text: str, prompt_id: str | None = None) -> Json:
        body = {
            "session_id": self.session,
            "prompt_id": prompt_id or uuid.uuid4().hex,
            "content": [{"type": "text", "text": text}],
        }
        answer: Json = self.call("POST", "/api/v1/prompt", body)
        return answer

    def say(self, text: str) -> Json:
        """Prompt, and wait for the end of its turn."""
        prompt_id = self.prompt(text)["prompt_id"]
        return self.turn_end(prompt_id)

    def turn_end(self, prompt_id: str) -> Json:
        def look() -> Json | None:
            last = self.status()["last_turn"]
            return dict(last) if last and last["prompt_id"] == prompt_id else None

        found: Json = eventually(look, f"turn of {prompt_id} ends")
        return found

    def status(self, **claims: Any) -> Json:
        answer: Json = self.call("GET", "/api/v1/status", **claims)
        return answer

    def health(self) -> Json:
        answer: Json = self.http.get(self.run["url"] + "/health").json()
        return answer

    def agent(self) -> str:
        return str(self.status()["agent"]["status"])

    def becomes(self, *wanted: str) -> str:
        return str(eventually(lambda: self.agent() in wanted and self.agent(), f"agent {wanted}"))

    def token(self) -> str:
        return str(self.status()["token"]["value"])

    def fate(self, prompt_id: str) -> str:
        for record in self.status()["prompts"]:
            if record["prompt_id"] == prompt_id:
                return str(record["fate"])
        return "unknown to agentctl"

    def agent_pid(self) -> int:
        return int(eventually(lambda: self.status()["agent"]["pid"], "agent's pid"))

    # ---- what the agent saw ------------------------------------------------------------

    def heard(self, method: str) -> list[Json]:
        """The messages of a method that any agent process got, in order."""
        if not self.agent_log.exists():
            return []
        lines = [json.loads(line) for line in self.agent_log.read_text().splitlines()]
        return [m for m in lines if m.get("event") == "message" and m.get("method") == method]

    def prompts_heard(self) -> list[str]:
        return [m["params"]["prompt"][0]["text"] for m in self.heard("session/prompt")]

    # ---- events ------------------------------------------------------------------------

    def events(self, after: str = "", kinds: str = "") -> list[Json]:
        """Everything that the stream replays now, up to the journal's last number."""
        last = self.status()["journal"]["last_seq"]
        wanted = set((kinds or "state,messages").split(","))
        with self.stream(after) as reader:
            found = reader.until(lambda event: event["seq"] >= last) if last else []
        return [e for e in found if ("messages" if e["kind"] == "message" else "state") in wanted]

    @contextlib.contextmanager
    def stream(self, after: str = "", kinds: str = "", **claims: Any) -> Iterator[Reader]:
        reader = Reader(self, after, kinds, claims)
        try:
            yield reader
        finally:
            reader.close()

    def said(self, author: str = "agent") -> str:
        return "".join(
            e["data"].get("text", "")
            for e in self.events(kinds="messages")
            if e["kind"] == "message" and e["data"]["author"] == author
        )


def alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
