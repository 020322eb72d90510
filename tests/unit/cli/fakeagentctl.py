"""A small agentctl that keeps the contract where the plugin relies on it.

Cursors, gaps, one id one prompt, and tokens that are really checked. Everything that it was asked
stands in plain fields, and everything that it says is put there by the test.
"""

import asyncio
import json
from typing import Any

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer

from kandev_operator.clients.tokens import SigningKey
from kandev_operator.contract.events import EventKind
from unit.cli.bodies import AT, EXECUTOR_UID, NAME, NS, SESSION_UID, Json


class FakeAgentctl:
    """One agentctl: its journal, and everything it was asked."""

    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self.audience = EXECUTOR_UID
        self.journal_id = "journal-1"
        self.events: list[Json] = []
        self.lost: list[int] = []
        self.agent_status = "idle"
        self.instance_id = "instance-1"
        self.turn: Json | None = None
        self.last_turn: Json | None = None
        self.records: list[Json] = []
        self.permissions: list[Json] = []
        self.rooms: Json | None = None
        self.prompts: list[Json] = []
        self.answers: list[tuple[str, Json]] = []
        self.cancels = 0
        self.cursors: list[str] = []
        self.claims: list[Json] = []
        self.refuse: dict[str, tuple[int, str]] = {}
        self.on_prompt: Any = None
        self.on_answer: Any = None
        self.fate = "queued"
        self.lose_answers = 0
        self.unwritten = 0
        self.repeats = 0
        self.news = asyncio.Condition()
        self.generation = 0
        self.server: TestServer | None = None

    async def start(self) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.server = TestServer(app)
        await self.server.start_server()
        return str(self.server.make_url("")).rstrip("/")

    async def stop(self) -> None:
        await self.cut()
        if self.server is not None:
            await self.server.close()

    async def cut(self) -> None:
        """End every stream, as a process that dies does."""
        self.generation += 1
        async with self.news:
            self.news.notify_all()

    def add(self, event: str, /, **data: Any) -> int:
        """Append an event without telling anybody yet."""
        seq = (self.events[-1]["seq"] if self.events else 0) + 1
        self.events.append(
            {
                "journal_id": self.journal_id,
                "seq": seq,
                "kind": event,
                "at": "2026-11-30T14:00:01.500Z",
                "session_id": SESSION_UID,
                "data": data,
            }
        )
        return seq

    async def tell(self, event: str, /, **data: Any) -> int:
        seq = self.add(event, **data)
        async with self.news:
            self.news.notify_all()
        return seq

    def says(self, text: str, message_id: str = "m1", turn: str = "t1", **more: Any) -> int:
        data = {"message_id": message_id, "author": "agent", "kind": "text", "turn_id": turn}
        return self.add(EventKind.MESSAGE, **{**data, "text": text, **more})

    def begin(self, prompt_id: str, turn_id: str = "t1") -> None:
        self.turn = {
            "turn_id": turn_id,
            "prompt_id": prompt_id,
            "execution_id": "e1",
            "started_at": AT,
        }
        self.add(EventKind.TURN_STARTED, turn=self.turn)

    def end(self, outcome: str = "completed", **more: Any) -> None:
        assert self.turn is not None
        self.last_turn = {
            **{name: self.turn[name] for name in ("turn_id", "prompt_id", "execution_id")},
            "ended_at": AT,
            "outcome": outcome,
            **more,
        }
        self.turn = None
        self.add(EventKind.TURN_ENDED, turn=self.last_turn)

    @property
    def report(self) -> Json:
        return {
            **{"instance_id": self.instance_id, "boot_id": "b", "contract_version": "1.0"},
            "session": {
                "session_id": SESSION_UID,
                "namespace": NS,
                "name": NAME,
                "marker_verified": True,
            },
            "workspace_path": "/w",
            "agent": {"status": self.agent_status},
            "capabilities": {},
            "journal": {
                "journal_id": self.journal_id,
                "last_seq": (self.events[-1]["seq"] if self.events else 0) + self.unwritten,
                "state": "ok",
            },
            "turn": self.turn,
            "last_turn": self.last_turn,
            "prompts": self.records,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.partition("/proxy")[2] or request.path
        if path == "/health":
            return web.json_response(
                {**self.report, "status": "ok", "agent_status": self.agent_status}
            )
        header = request.headers.get("X-Kandev-Token") or request.headers["Authorization"]
        token = header.removeprefix("Bearer ")
        try:
            public = self.key.private.public_key()
            claims = jwt.decode(token, public, algorithms=["EdDSA"], audience=self.audience)
        except jwt.PyJWTError:
            return _error(401, "unauthorized", "the token is not valid here")
        self.claims.append(claims)
        if (refusal := self.refuse.get(path)) is not None:
            return _error(refusal[0], refusal[1], "it is not possible")
        body = await request.json() if request.can_read_body else {}
        match request.method, path:
            case "GET", "/api/v1/status":
                return web.json_response(self.report)
            case "GET", "/api/v1/capabilities":
                return web.json_response({"rooms": self.rooms})
            case "GET", "/api/v1/shell":
                return web.json_response({"instance_id": self.instance_id, "shells": []})
            case "GET", "/api/v1/events":
                return await self.stream(request)
            case "POST", "/api/v1/prompt":
                return await self.prompt(request, body)
            case "GET", "/api/v1/permissions":
                return web.json_response(self.permissions)
            case "POST", "/api/v1/cancel":
                self.cancels += 1
                return web.json_response({"turn_id": "t1"}, status=202)
            case "POST", _:
                return await self.answer(path.rpartition("/")[2], body)
            case _:
                return _error(404, "not_found", "no such path")

    async def prompt(self, request: web.Request, body: Json) -> web.Response:
        self.prompts.append(body)
        fate = next(
            (r["fate"] for r in self.records if r["prompt_id"] == body["prompt_id"]), self.fate
        )
        if self.on_prompt is not None:
            await self.on_prompt(body["prompt_id"])
        if self.lose_answers and request.transport is not None:
            self.lose_answers -= 1
            request.transport.close()
        answer = {"prompt_id": body["prompt_id"], "fate": fate, "position": 0}
        return web.json_response(answer, status=202)

    async def answer(self, permission_id: str, body: Json) -> web.Response:
        if all(each["permission_id"] != permission_id for each in self.permissions):
            return _error(404, "unknown_permission", "no such permission request is open")
        self.permissions.clear()
        self.answers.append((permission_id, body))
        if self.on_answer is not None:
            await self.on_answer()
        return web.json_response({"permission_id": permission_id}, status=202)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        mine = self.generation
        given = request.query.get("after", "")
        self.cursors.append(given)
        journal_id, _, seq = given.rpartition(":")
        after = max(int(seq or 0) - self.repeats, 0)
        if journal_id and journal_id != self.journal_id:
            after = 0
            await self.send(response, self.gap(1, 0, 0))
        if self.lost and after < self.lost[-1]:
            await self.send(response, self.gap(after + 1, self.lost[-1], self.lost[-1]))
            after = self.lost[-1]
        while self.generation == mine:
            for event in self.events:
                if event["seq"] > after and self.generation == mine:
                    await self.send(response, event)
                    after = event["seq"]
            async with self.news:
                if not self.events or self.events[-1]["seq"] <= after:
                    await self.news.wait()
        return response

    def gap(self, start: int, end: int, seq: int) -> Json:
        return {
            **{"journal_id": self.journal_id, "seq": seq, "kind": "gap", "at": AT},
            "session_id": SESSION_UID,
            "data": {"from_seq": start, "to_seq": end},
        }

    async def send(self, response: web.StreamResponse, event: Json) -> None:
        lines = f"id: {event['journal_id']}:{event['seq']}\nevent: {event['kind']}\n"
        await response.write(f"{lines}data: {json.dumps(event)}\n\n".encode())


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"code": code, "message": message, "details": {}}, status=status)
