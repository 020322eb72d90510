"""A stage for the plugin: a small API server and a small agentctl on the loopback, and the streams.

Both keep what they are told in plain fields, so a test sets the scene and looks at it afterwards.
The agentctl keeps the contract where the plugin relies on it: cursors, gaps, one id one prompt,
and tokens that are really checked.
"""

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jwt
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli.commands import OPERATOR_NAMESPACE, Command, Where
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import Fault
from kandev_operator.cli.follow import Pace
from kandev_operator.cli.program import carry_out, desk_for
from kandev_operator.cli.screen import Screen
from kandev_operator.clients.agentctl import open_session
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import SECRET_NAME
from kandev_operator.clients.tokens import SigningKey
from kandev_operator.contract.events import EventKind

NS, NAME = "team-a", "demo"
SESSION_UID, EXECUTOR_UID = "session-uid", "executor-uid"
FAST = Pace(first=0.01, longest=0.05, quiet=0.3)
AT = "2026-11-30T14:00:00Z"
Json = dict[str, Any]


def condition(type_: str, status: str, reason: str, message: str = "", since: str = AT) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }


def session_body(
    conditions: list[Json] | None = None, spec: Json | None = None, **status: Any
) -> Json:
    """A session that is bound and whose agent is idle, unless told otherwise."""
    idle = [
        condition("Ready", "True", "AgentReady"),
        condition("AgentReady", "True", "AgentReady"),
        condition("Resumable", "True", "Resumable"),
    ]
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "metadata": {"name": NAME, "namespace": NS, "uid": SESSION_UID, "generation": 1},
        "spec": {
            "taskRef": {"name": "work"},
            "agentProfileRef": {"name": "claude"},
            "executor": {"ref": {"name": "place"}},
            **(spec or {}),
        },
        "status": {
            "observedGeneration": 1,
            "state": "WAITING_FOR_INPUT",
            "isAgentRunning": True,
            "isResumable": True,
            "needsResume": False,
            "executorRef": {"name": "place", "uid": EXECUTOR_UID},
            "executorStatus": "ready",
            "conditions": idle if conditions is None else conditions,
            **status,
        },
    }


def executor_body(url: str | None, spec: Json | None = None, **status: Any) -> Json:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "place", "namespace": NS, "uid": EXECUTOR_UID, "generation": 1},
        "spec": spec
        or {"runtime": "LocalStandalone", "localStandalone": {"worktreePath": "/srv/demo"}},
        "status": {
            "state": "ready",
            "sessionRef": {"name": NAME, "uid": SESSION_UID},
            "agentctlURL": url,
            "instanceId": "instance-1",
            "conditions": [condition("AgentctlReady", "True", "AgentctlReady")],
            **status,
        },
    }


def a_session(*args: Any, **kwargs: Any) -> TaskSession:
    return TaskSession.from_body(session_body(*args, **kwargs))


def an_executor(url: str | None = "http://10.0.0.7:8700", **kwargs: Any) -> Executor:
    return Executor.from_body(executor_body(url, **kwargs))


class Attended(Screen):
    """A screen with somebody before it, who gives these answers and then says nothing more."""

    def __init__(self, out: io.StringIO, err: io.StringIO, *answers: str | None) -> None:
        super().__init__(io.StringIO(), out, err)
        self.answers = [*answers]
        self.questions: list[str] = []

    @property
    def is_attended(self) -> bool:
        return True

    async def ask(self, question: str) -> str | None:
        self.questions.append(question)
        if not self.answers:
            await asyncio.Event().wait()
        return self.answers.pop(0)


async def until(done: Callable[[], bool]) -> None:
    """Look again until it holds."""
    async with asyncio.timeout(10):
        for _ in itertools.count():
            if done():
                return
            await asyncio.sleep(0.005)


@dataclass
class FakeApi:
    """Objects by plural, namespace and name; what may not be read; what was patched."""

    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    patches: list[Json] = field(default_factory=list)
    on_patch: Any = None
    broken: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.split("/namespaces/")[1].split("/")
        namespace, plural, name = parts[:3]
        if parts[3:4] and parts[-1] != "status":
            return await self.proxied(request)
        if self.broken:
            return _status(503, "ServiceUnavailable", "etcd is away")
        if plural in self.forbidden:
            return _status(403, "Forbidden", f'{plural} "{name}" is forbidden')
        found = self.objects.get((plural, namespace, name))
        if found is None:
            return _status(404, "NotFound", f'{plural}.kandev.dev "{name}" not found')
        if request.method == "PATCH":
            patch = await request.json()
            self.patches.append(patch)
            meta = found["metadata"]
            if patch["metadata"].get("uid", meta["uid"]) != meta["uid"]:
                return _status(409, "Conflict", "another object")
            meta.setdefault("annotations", {}).update(patch["metadata"]["annotations"])
            if self.on_patch is not None:
                self.on_patch(found)
        return web.json_response(found)

    proxy: Any = None

    async def proxied(self, request: web.Request) -> web.StreamResponse:
        if self.proxy is None:
            return _status(403, "Forbidden", "pods/proxy")
        response: web.StreamResponse = await self.proxy(request)
        return response

    def put(self, plural: str, body: Json, namespace: str = NS) -> Json:
        self.objects[plural, namespace, body["metadata"]["name"]] = body
        return body

    @property
    def session(self) -> Json:
        return self.objects["tasksessions", NS, NAME]


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason}
    return web.json_response({**body, "message": message}, status=code)


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


@dataclass
class Stage:
    """Everything together, and how a command is played on it."""

    api: FakeApi
    agentctl: FakeAgentctl
    desk: Desk
    out: io.StringIO
    err: io.StringIO

    def attend(self, *answers: str | None) -> Attended:
        """Put somebody before the screen."""
        screen = Attended(self.out, self.err, *answers)
        self.desk = replace(self.desk, screen=screen)
        return screen

    async def play(self, command: Command) -> int:
        return await carry_out(self.desk, command)

    async def refused(self, command: Command) -> Fault:
        """Play a command that must end in a fault."""
        try:
            await self.play(command)
        except Fault as fault:
            return fault
        raise AssertionError(f"it was not refused; said: {self.out.getvalue()}")

    @property
    def said(self) -> str:
        return self.out.getvalue()

    @property
    def noted(self) -> str:
        return self.err.getvalue()


def signing_secret(key: SigningKey) -> Json:
    return {"metadata": {"name": SECRET_NAME}, "data": key.to_secret_data()}


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "an-administrators-token"}}],
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NS}}
                ],
            }
        )
    )
    return str(path)


@asynccontextmanager
async def serving(api: FakeApi) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("")).rstrip("/")
    await server.close()


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[Stage]:
    """A stage on which a session is bound, its agent idle, and its agentctl well."""
    key, api = SigningKey.generate(), FakeApi()
    agentctl = FakeAgentctl(key)
    url = await agentctl.start()
    api.put("tasksessions", session_body())
    api.put("executors", executor_body(url))
    api.put("secrets", signing_secret(key), OPERATOR_NAMESPACE)
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(io.StringIO(), out, err)
    async with serving(api) as server:
        config = kubeconfig(folder, server)
        async with await Kube.connect(config) as kube, open_session() as http:
            desk = desk_for(Where(kubeconfig=config), kube, http, screen)
            desk = replace(desk, pace=FAST, poll=0.01, insist=0.5)
            yield Stage(api, agentctl, desk, out, err)
    await agentctl.stop()
