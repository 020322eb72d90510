"""Wrong agentctls: a transport in front of a real one that breaks one promise, and keeps the rest.

A lie changes what is asked before the real agentctl hears it, or what it answers, or the frames of
its event stream. What it is for is said by the table in `test_lies`.
"""

import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass
class Asked:
    """A call on its way."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes | None

    def json(self) -> Json:
        try:
            told = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    def claims(self) -> Json:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            part = token.split(".")[1]
            told: Json = json.loads(base64.urlsafe_b64decode(part + "=="))
        except (IndexError, ValueError):
            return {}
        return told

    def edit(self, **changes: Any) -> None:
        """Change the body's fields; None takes one out."""
        told = {k: v for k, v in {**self.json(), **changes}.items() if v is not None}
        self.body = json.dumps(told).encode()
        self.headers.pop("content-length", None)


@dataclass
class Told:
    """An answer on its way back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def code(self) -> str:
        told = self.json()
        return str(told.get("code", "")) if isinstance(told, dict) and self.status >= 400 else ""


@dataclass
class Lie:
    """What is changed. Every function may be left out."""

    ask: Callable[[Asked], None] = lambda _: None
    tell: Callable[[Asked, Told], None] = lambda _, __: None
    frame: Callable[[bytes], bytes | None] = lambda frame: frame
    readers: int = field(default=0)


class Lying(httpx.AsyncBaseTransport):
    """The real agentctl behind a lie."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._real = httpx.AsyncHTTPTransport()

    async def aclose(self) -> None:
        await self._real.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        chunked = "transfer-encoding" in request.headers
        asked = Asked(
            request.method,
            request.url.path,
            request.url.query.decode(),
            dict(request.headers),
            None if chunked else await request.aread(),
        )
        self._lie.ask(asked)
        url = request.url.copy_with(query=asked.query.encode() or None)
        headers = {k: v for k, v in asked.headers.items() if k != "content-length"}
        if chunked:
            sent = httpx.Request(asked.method, url, headers=headers, stream=request.stream)
        else:
            sent = httpx.Request(asked.method, url, headers=headers, content=asked.body)
        sent.extensions = request.extensions
        answer = await self._real.handle_async_request(sent)
        if "text/event-stream" in answer.headers.get("content-type", ""):
            stream = Frames(answer, self._lie)
            return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)
        body = await answer.aread()
        await answer.aclose()
        told = Told(answer.status_code, {"content-type": "application/json"}, body)
        self._lie.tell(asked, told)
        return httpx.Response(told.status, headers=told.headers, content=told.body)


class Frames(httpx.AsyncByteStream):
    """An event stream, frame by frame through the lie."""

    def __init__(self, answer: httpx.Response, lie: Lie) -> None:
        self._answer, self._lie = answer, lie

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._answer.aiter_raw():
            *frames, rest = (rest + chunk).split(b"\n\n")
            for frame in frames:
                changed = self._lie.frame(frame)
                if changed is not None:
                    yield changed + b"\n\n"

    async def aclose(self) -> None:
        await self._answer.aclose()


# ---- kinds of lies ---------------------------------------------------------------------


def takes(code: str) -> Lie:
    """What should be refused with this code is taken."""

    def tell(_: Asked, told: Told) -> None:
        if told.code == code:
            told.status, told.body = 200, b"{}"

    return Lie(tell=tell)


def calls_it(code: str, other: str, status: int) -> Lie:
    """It is refused, but not as the contract says."""

    def tell(_: Asked, told: Told) -> None:
        if told.code == code:
            told.status, told.body = status, json.dumps({**told.json(), "code": other}).encode()

    return Lie(tell=tell)


def details(code: str, **changes: Any) -> Lie:
    """The refusal's details are wrong."""

    def tell(_: Asked, told: Told) -> None:
        if told.code == code:
            body = told.json()
            told.body = json.dumps({**body, "details": {**body["details"], **changes}}).encode()

    return Lie(tell=tell)


def rejects(wrongly: Callable[[Asked], Any], code: str = "unauthorized", status: int = 401) -> Lie:
    """What should be taken is refused."""

    def tell(asked: Asked, told: Told) -> None:
        if wrongly(asked):
            told.status = status
            told.body = json.dumps({"code": code, "message": "no", "details": {}}).encode()

    return Lie(tell=tell)


def answers(path: str, change: Callable[[Any], None]) -> Lie:
    """A good answer says something else."""

    def tell(asked: Asked, told: Told) -> None:
        if asked.path.endswith(path) and told.status < 300:
            body = told.json()
            change(body)
            told.body = json.dumps(body).encode()

    return Lie(tell=tell)


def says(path: str, **changes: Any) -> Lie:
    """A good answer has other fields."""
    return answers(path, lambda body: body.update(changes))


def both(*lies: Lie) -> Lie:
    """Several lies at once, about calls and answers."""

    def ask(asked: Asked) -> None:
        for lie in lies:
            lie.ask(asked)

    def tell(asked: Asked, told: Told) -> None:
        for lie in lies:
            lie.tell(asked, told)

    return Lie(ask=ask, tell=tell)


def leaves_out(room: str, *, but: str = "") -> Lie:
    """A room is said to be left out, and is; one path of it is served all the same."""

    def declare(body: Any) -> None:
        body["rooms"] |= {room: False, "reason": "a lie"}

    def wrongly(asked: Asked) -> bool:
        return asked.path.startswith(f"/api/v1/{room}") and asked.path != but

    return both(answers("/capabilities", declare), rejects(wrongly, "not_served", 501))


def asks(path: str, change: Callable[[Asked], None]) -> Lie:
    """Something else is done than what was asked."""

    def ask(asked: Asked) -> None:
        if asked.path.endswith(path):
            change(asked)

    return Lie(ask=ask)


def forgets(name: str) -> Lie:
    """An id that comes again is taken for a new one."""
    known: set[str] = set()

    def ask(asked: Asked) -> None:
        told = asked.json().get(name)
        if isinstance(told, str) and told in known:
            asked.edit(**{name: uuid.uuid4().hex})
        elif isinstance(told, str):
            known.add(told)

    return Lie(ask=ask)


def all_powerful() -> Lie:
    """Every token counts as one of scope control."""
    seen: list[str] = []

    def ask(asked: Asked) -> None:
        claims = asked.claims()
        if "control" in claims.get("scopes", ()):
            seen[:] = [asked.headers["authorization"]]
        elif seen and claims:
            asked.headers["authorization"] = seen[0]

    return Lie(ask=ask)


def frames(change: Callable[[bytes], bytes | None]) -> Lie:
    """The stream's frames are changed; None drops one."""
    return Lie(frame=change)


def words(old: str, new: str) -> Lie:
    """Something in the stream reads otherwise."""
    return frames(lambda frame: frame.replace(old.encode(), new.encode()))


def without(*parts: str) -> Lie:
    """Frames with one of these in them are lost."""
    return frames(lambda frame: None if any(p.encode() in frame for p in parts) else frame)


def late(asked: Asked) -> bool:
    """Its token has ended, if only a moment ago."""
    return bool(asked.claims().get("exp", time.time() + 1) < time.time())


class Line:
    """A WebSocket whose frames pass through a lie; what was typed is remembered."""

    def __init__(self, real: Any, change: Callable[[bytes], bytes], typed: list[bytes]) -> None:
        self._real, self._change, self._typed = real, change, typed

    async def send(self, data: bytes) -> None:
        self._typed.append(data.strip())
        await self._real.send(data)

    async def recv(self) -> Any:
        frame = await self._real.recv()
        return self._change(frame) if isinstance(frame, bytes) else frame


def overheard(typed: list[bytes]) -> Lie:
    """What is typed into a shell gets into the event stream."""
    return frames(lambda frame: frame.replace(b"done", typed[-1] if typed else b"done"))
