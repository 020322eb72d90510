"""The agentctl under test, as a caller sees it: calls, answers, waiting, and the way to a session.

One session of the suite's own is used for everything. What a check needs (a configuration, an open
conversation, an idle agent) it asks for here, so that each check also runs alone. Nothing here
judges: an answer is handed over as it came.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final, TypeVar

import httpx
from websockets.asyncio.client import ClientConnection, connect

from kandev_operator.conformance.signing import Credentials
from kandev_operator.contract import paths
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import ErrorBody
from kandev_operator.contract.events import Event
from kandev_operator.contract.status import AgentStatus, EndedTurn, Operation, StatusReport
from kandev_operator.contract.wire import Wire

Model = TypeVar("Model", bound=Wire)
Seen = TypeVar("Seen")
Json = dict[str, Any]

CONTROL: Final = (Scope.READ, Scope.PROMPT, Scope.CONTROL)
PATIENCE: Final = 30.0
ALIVE: Final = frozenset(AgentStatus) - {AgentStatus.NONE, AgentStatus.EXITED}
UNDECIDED: Final = frozenset({PromptFate.QUEUED, PromptFate.SENDING})


class TooLate(Exception):
    """What was waited for did not come; the text says what, and what was seen last."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: httpx.Headers
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises ValueError."""
        return json.loads(self.body)

    def fits(self, model: type[Model]) -> Model:
        """The body as a value of the contract; raises pydantic.ValidationError."""
        return model.model_validate_json(self.body)

    def code(self) -> str:
        """The error's code, "" where there is none."""
        try:
            return ErrorBody.model_validate_json(self.body).code if self.status >= 400 else ""
        except ValueError:
            return ""

    def details(self) -> Json:
        """The error's details."""
        return ErrorBody.model_validate_json(self.body).details

    def __str__(self) -> str:
        words = self.body[:200].decode("utf-8", "replace")
        return f"{self.status} {words}"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of the stream as it came over the wire, or a comment line."""

    id: str = ""
    kind: str = ""
    data: str = ""
    comment: str = ""

    def event(self) -> Event:
        return Event.model_validate_json(self.data)


@dataclass
class Target:
    """One agentctl, and the session that the suite uses on it."""

    url: str
    credentials: Credentials
    agent: tuple[str, ...] = ()
    transport: httpx.AsyncBaseTransport | None = None
    session: str = field(default_factory=lambda: f"conformance-{uuid.uuid4().hex[:12]}")
    term: int = 1
    epoch: int = 1
    wrap: Callable[[ClientConnection], Any] = lambda line: line
    """Stands between a check and a WebSocket, where a test wants to."""
    patience: float = PATIENCE
    """Seconds until what did not come counts as not coming."""
    _http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> "Target":
        # Shorter than servers keep an idle connection: none is used at the moment of its closing.
        limits = httpx.Limits(
            max_connections=200, max_keepalive_connections=20, keepalive_expiry=2.0
        )
        self._http = httpx.AsyncClient(
            base_url=self.url, timeout=20.0, transport=self.transport, limits=limits
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._http is not None
        await self._http.aclose()

    # ---- calls -------------------------------------------------------------------------

    def token(self, scopes: Iterable[str] = CONTROL, **claims: Any) -> str:
        """A token of ours; claims replace the usual ones, None leaves one out."""
        return self.credentials.token(scopes, **{"term": self.term, "epoch": self.epoch, **claims})

    async def send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        """One call, as it is told; without a token where that is None. An event stream that begins
        is left again at once, and its body is empty here."""
        assert self._http is not None
        sent = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with self._http.stream(
            method, path, content=content, headers={**sent, **(headers or {})}
        ) as answer:
            begun = answer.status_code == 200 and answer.headers.get("content-type", "")
            endless = begun and begun.startswith("text/event-stream")
            body = b"" if endless else await answer.aread()
            return Answer(answer.status_code, answer.headers, body)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        scopes: Iterable[str] = CONTROL,
        **claims: Any,
    ) -> Answer:
        """One call with a good token and a JSON body."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        token = self.token(scopes, **claims)
        return await self.send(method, path, content=content, headers=headers, token=token)

    async def ask(self, method: str, path: str, body: Any = None, **claims: Any) -> Answer:
        """A call that is only the way to something else: TooLate if it is refused."""
        answer = await self.call(method, path, body, **claims)
        if answer.status >= 400:
            raise TooLate(f"{method} {path} was refused: {answer}")
        return answer

    @asynccontextmanager
    async def websocket(self, path: str, scopes: Iterable[str]) -> AsyncIterator[Any]:
        """A socket of the target's; raises what the library raises."""
        headers = {"Authorization": f"Bearer {self.token(scopes)}"}
        url = "ws" + self.url.removeprefix("http") + path
        async with connect(url, additional_headers=headers, compression=None) as line:
            yield self.wrap(line)

    # ---- bodies ------------------------------------------------------------------------

    def spec(self, **changes: Any) -> Json:
        """What PUT agent is told; a hash of its own unless one is given."""
        command, *arguments = self.agent or ("python3", "-I", "-c", source())
        return {
            "session_id": self.session,
            "session_namespace": "conformance",
            "session_name": self.session,
            "command": command,
            "args": arguments,
            "env": {},
            "permission_policy": "Ask",
            "profile_hash": uuid.uuid4().hex,
            **changes,
        }

    def start_body(self, **changes: Any) -> Json:
        bare = {"session_id": self.session, "operation_id": uuid.uuid4().hex, "mode": "new"}
        return {**bare, **changes}

    def stop_body(self, **changes: Any) -> Json:
        return {"session_id": self.session, "operation_id": uuid.uuid4().hex, **changes}

    def prompt_body(self, text: str, **changes: Any) -> Json:
        content = [{"type": "text", "text": text}]
        bare = {"session_id": self.session, "prompt_id": uuid.uuid4().hex, "content": content}
        return {**bare, **changes}

    # ---- the way to a state ------------------------------------------------------------

    async def configured(self, **changes: Any) -> Json:
        """Our session is served, by a configuration of its own; gives what was told."""
        told = self.spec(**changes)
        await self.ask("PUT", paths.AGENT, told)
        return told

    async def opened(self, **changes: Any) -> StatusReport:
        """An idle agent with an open conversation of ours; what lives and is idle is used."""
        status = await self.status()
        ours = status.session is not None and status.session.session_id == self.session
        if not changes and ours and status.agent.status is AgentStatus.IDLE:
            return status
        if ours and status.agent.status in ALIVE:
            await self.stopped()
        await self.configured(**changes)
        await self.started()
        return await self.status()

    async def started(self, **changes: Any) -> Operation:
        """A start that succeeded."""
        body = self.start_body(**changes)
        await self.ask("POST", paths.START, body)
        operation = await self.outcome(body["operation_id"])
        if operation.failure is not None:
            raise TooLate(f"the start failed: {operation.failure.code}")
        return operation

    async def stopped(self, **changes: Any) -> Operation:
        """No agent of ours lives."""
        body = self.stop_body(**changes)
        await self.ask("POST", paths.STOP, body)
        return await self.outcome(body["operation_id"])

    async def outcome(self, operation_id: str) -> Operation:
        """An operation that has ended."""

        async def look() -> Operation | None:
            for operation in (await self.status()).operations:
                if operation.operation_id == operation_id and operation.ended_at is not None:
                    return operation
            return None

        return await self.eventually(look, "the end of an operation")

    async def prompted(self, text: str) -> str:
        """A prompt that was accepted; gives its id."""
        body = self.prompt_body(text)
        await self.ask("POST", paths.PROMPT, body)
        return str(body["prompt_id"])

    async def turn_end(self, prompt_id: str) -> EndedTurn:
        """The end of the turn of a prompt."""

        async def look() -> EndedTurn | None:
            last = (await self.status()).last_turn
            return last if last is not None and last.prompt_id == prompt_id else None

        return await self.eventually(look, "the end of a turn")

    async def decided(self, prompt_id: str) -> str:
        """The fate of a prompt, once it is decided; "" if the target does not know it."""

        async def look() -> str | None:
            record = {p.prompt_id: p.fate for p in (await self.status()).prompts}.get(prompt_id)
            return None if record in UNDECIDED else str(record or "none")

        return await self.eventually(look, "a prompt's fate")

    async def status(self, **claims: Any) -> StatusReport:
        """The whole status."""
        answer = await self.call("GET", paths.STATUS, **claims)
        if answer.status != 200:
            raise TooLate(f"GET /status was refused: {answer}")
        return answer.fits(StatusReport)

    async def agent_is(self, *wanted: AgentStatus) -> StatusReport:
        """The status, once the agent's process is in one of these."""

        async def look() -> StatusReport | None:
            status = await self.status()
            return status if status.agent.status in wanted else None

        return await self.eventually(look, f"agent {' or '.join(wanted)}")

    async def eventually(self, look: Callable[[], Awaitable[Seen | None]], what: str) -> Seen:
        """Look until something is seen; raises TooLate."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            if (seen := await look()) is not None:
                return seen
            await asyncio.sleep(0.02)
        raise TooLate(f"{what} did not come within {self.patience:g} s")

    # ---- events ------------------------------------------------------------------------

    async def read(
        self,
        until: Callable[[Frame], bool],
        *,
        stream: str = paths.EVENTS,
        scopes: Iterable[str] = CONTROL,
        headers: dict[str, str] | None = None,
        patience: float | None = None,
        opened: Callable[[], Awaitable[None]] | None = None,
        **query: str,
    ) -> list[Frame]:
        """A stream's frames up to the first that is wanted; `opened` runs once it answers."""
        assert self._http is not None
        params = {k: v for k, v in query.items() if v}
        sent = {"Authorization": f"Bearer {self.token(scopes)}", **(headers or {})}
        frames: list[Frame] = []
        try:
            async with (
                asyncio.timeout(self.patience if patience is None else patience),
                self._http.stream("GET", stream, params=params, headers=sent) as answer,
            ):
                if answer.status_code != 200:
                    await answer.aread()
                    raise TooLate(f"GET {stream} was refused: {answer.status_code}")
                if opened is not None:
                    await opened()
                async for frame in split(answer.aiter_lines()):
                    frames.append(frame)
                    if until(frame):
                        return frames
        except TimeoutError:
            pass
        last = frames[-1] if frames else None
        raise TooLate(f"the event did not come; {len(frames)} frames, the last {last}"[:300])

    async def events(self, after: str = "") -> list[Event]:
        """Everything that is kept after the cursor, up to this moment."""
        last = (await self.status()).journal.last_seq
        if last == 0 or after.endswith(f":{last}"):
            return []

        def is_last(frame: Frame) -> bool:
            return bool(frame.data) and frame.event().seq >= last

        return [f.event() for f in await self.read(is_last, after=after) if f.data]

    async def mark(self) -> str:
        """A cursor at what is the last event now; "" where there is none."""
        journal = (await self.status()).journal
        return f"{journal.journal_id}:{journal.last_seq}" if journal.last_seq else ""

    async def words(self, after: str, author: str = "agent", kind: str = "text") -> str:
        """What somebody said after the cursor."""
        found = await self.events(after)
        said = [e.data for e in found if e.kind == "message"]
        return "".join(
            str(d.get("text", ""))
            for d in said
            if (d.get("author"), d.get("kind")) == (author, kind)
        )


async def split(lines: AsyncIterator[str]) -> AsyncIterator[Frame]:
    """Server-sent events from lines."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line.startswith(":"):
            yield Frame(comment=line)
        elif line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif fields:
            yield Frame(fields.get("id", ""), fields.get("event", ""), fields.get("data", ""))
            fields = {}


def source() -> str:
    """The suite's own agent, as the text of a program."""
    return resources.files("kandev_operator.conformance").joinpath("agent.py").read_text()
