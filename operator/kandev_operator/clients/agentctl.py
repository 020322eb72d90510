"""One agentctl, called by the contract: a method for each path, and the event stream.

The peer is not trusted: the agent runs with its uid. So answers are read up to a limit, nobody is
followed to another address, each call is signed with no more scope than it needs, and an answer
from another instance than the one pinned is Foreign. All failures are `AgentctlError`s; a
TimedOut request may have been carried out, and only the caller knows whether asking again is safe
(each writing call of the contract has an id that makes it so).

Nothing is remembered between calls, so a client may be made for one pass and dropped. The
aiohttp session belongs to the caller.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from kandev_operator.clients.agentctl_answers import (
    as_refusal,
    parse,
    parse_event,
    parse_identified,
    parse_permissions,
)
from kandev_operator.clients.errors import Malformed, TimedOut, Unreachable
from kandev_operator.clients.shell import HEARTBEAT, MAX_INCOMING, ShellConnection
from kandev_operator.clients.sse import Parser, StreamTooLong
from kandev_operator.contract import paths
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    CancelAnswer,
    CancelRequest,
    Permission,
    PermissionAnswer,
    PromptAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.conversation import ConfigRequest, ModeRequest
from kandev_operator.contract.events import Event
from kandev_operator.contract.shell import ShellAnswer, ShellList, ShellReport, ShellRequest
from kandev_operator.contract.status import Capabilities, Health, Operation, StatusReport
from kandev_operator.contract.wire import Wire

AUTHORIZATION: Final = "Authorization"
_MISSED_HEARTBEATS: Final = 3
_ATTENTION: Final = (Scope.READ, Scope.CONTROL)

Body = TypeVar("Body", bound=Wire)
OuterHeaders = Callable[[], Awaitable[Mapping[str, str]]]


class Mint(Protocol):
    """Makes the token for one call: for this executor and session, with these scopes."""

    def __call__(self, *scopes: Scope) -> str: ...


@dataclass(frozen=True)
class Limits:
    """How long a call may take, in seconds, and how much an answer may hold, in bytes."""

    connect: float = 2.0
    total: float = 5.0
    silence: float = _MISSED_HEARTBEATS * paths.HEARTBEAT_SECONDS
    """An event stream that says nothing for this long is dead."""
    body: int = paths.MAX_BODY_BYTES


@dataclass(frozen=True)
class Route:
    """How to get to an agentctl, where it is not simply its own URL.

    `ssl_context` brings a CA bundle. Through the API server's pod proxy, which takes the
    Authorization header for itself, `outer_headers` says who we are to the API server and the
    token travels in a header of its own.
    """

    ssl_context: ssl.SSLContext | None = None
    outer_headers: OuterHeaders | None = None
    token_header: str = AUTHORIZATION


DIRECT: Final = Route()
_DEFAULT_LIMITS: Final = Limits()


def open_session() -> aiohttp.ClientSession:
    """A session fit for thousands of agentctls at once. Close it when the program ends.

    No cookies, no proxy or netrc from the environment: peers are addressed directly and are
    told nothing but their own token. Idle connections are kept longer than probes are apart.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


class AgentctlClient:
    """The agentctl at one URL. `instance_id` pins which one has to answer there."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        mint: Mint,
        instance_id: str | None = None,
        *,
        route: Route = DIRECT,
        limits: Limits = _DEFAULT_LIMITS,
    ) -> None:
        self._session = session
        self._base = url.rstrip("/")
        self._mint = mint
        self._pinned = instance_id
        self._route = route
        self._limits = limits

    async def health(self) -> Health:
        """Ask whether it is there. Needs no token."""
        call, body = await self._ask("GET", paths.HEALTH, ())
        return parse_identified(call, Health, body, self._pinned)

    async def status(self, *, with_token: bool = True) -> StatusReport:
        """Ask for everything it knows; the resume token only with scope control."""
        scopes = _ATTENTION if with_token else (Scope.READ,)
        call, body = await self._ask("GET", paths.STATUS, scopes)
        return parse_identified(call, StatusReport, body, self._pinned)

    async def capabilities(self) -> Capabilities:
        """Ask what the agent can do; absent answers are not known yet."""
        return await self._read("GET", paths.CAPABILITIES, (Scope.READ,), Capabilities)

    async def put_agent(self, spec: AgentSpec) -> AgentAnswer:
        """Say which session it serves and what to run. The same again has no effect."""
        return await self._read("PUT", paths.AGENT, (Scope.CONTROL,), AgentAnswer, spec)

    async def start(self, request: StartRequest) -> Operation:
        """Open or resume the conversation. The same operation id again: the same outcome."""
        return await self._read("POST", paths.START, (Scope.CONTROL,), Operation, request)

    async def stop(self, request: StopRequest) -> Operation:
        """End the agent gently; the workspace stays served."""
        return await self._read("POST", paths.STOP, (Scope.CONTROL,), Operation, request)

    async def prompt(self, request: PromptRequest) -> PromptAnswer:
        """Hand in a prompt; it is accepted once it is stored. The same id sends nothing twice."""
        return await self._read("POST", paths.PROMPT, (Scope.PROMPT,), PromptAnswer, request)

    async def cancel(self, session_id: str) -> None:
        """Cut off the turn under way."""
        await self._ask("POST", paths.CANCEL, (Scope.PROMPT,), _SessionOnly(session_id=session_id))

    async def cancel_prompt(self, prompt_id: str) -> CancelAnswer:
        """Cancel one prompt: in the queue, or in its turn."""
        asked = CancelRequest(prompt_id=prompt_id)
        return await self._read("POST", paths.CANCEL, (Scope.PROMPT,), CancelAnswer, asked)

    async def choose_mode(self, request: ModeRequest) -> Operation:
        """Have the agent work in another mode. The same operation id again: the same outcome."""
        return await self._read("POST", paths.MODE, (Scope.PROMPT,), Operation, request)

    async def choose_config(self, request: ConfigRequest) -> Operation:
        """Have the agent take another value of an option, such as its model."""
        return await self._read("POST", paths.CONFIG, (Scope.PROMPT,), Operation, request)

    async def permissions(self) -> tuple[Permission, ...]:
        """Ask for the open permission requests."""
        call, body = await self._ask("GET", paths.PERMISSIONS, (Scope.READ,))
        return parse_permissions(call, body)

    async def answer_permission(self, permission_id: str, answer: PermissionAnswer) -> None:
        """Answer a permission request."""
        path = f"{paths.PERMISSIONS}/{quote(permission_id, safe='')}"
        await self._ask("POST", path, (Scope.PROMPT,), answer)

    async def shells(self) -> ShellList:
        """Ask which shells there are."""
        return await self._read("GET", paths.SHELL, (Scope.SHELL,), ShellList)

    async def make_shell(self, request: ShellRequest) -> ShellAnswer:
        """Make a shell, or find the one of that name."""
        return await self._read("POST", paths.SHELL, (Scope.SHELL,), ShellAnswer, request)

    async def shell(self, shell_id: str) -> ShellReport:
        """Ask for one shell. Raises Refused `unknown_shell` where it is not this agentctl's."""
        return await self._read("GET", _shell_path(shell_id), (Scope.SHELL,), ShellReport)

    async def close_shell(self, shell_id: str) -> ShellReport:
        """End a shell and whatever it started."""
        return await self._read("DELETE", _shell_path(shell_id), (Scope.SHELL,), ShellReport)

    @asynccontextmanager
    async def attach_shell(
        self, shell_id: str, after: int | None = None, *, view_only: bool = False
    ) -> AsyncIterator[ShellConnection]:
        """See a shell, and type into it; from byte `after` on, or all that is kept.

        A refusal of the upgrade has no body that could be read here: ask for the shell first.
        """
        path = _shell_path(shell_id)
        call = f"WS {path}"
        query = {"mode": "view"} if view_only else {}
        if after is not None:
            query["after"] = str(after)
        try:
            socket = await self._session.ws_connect(
                self._url(call, path).update_query(query),
                headers=await self._headers((Scope.SHELL,)),
                ssl=self._route.ssl_context or True,
                heartbeat=HEARTBEAT,
                max_msg_size=MAX_INCOMING,
                timeout=aiohttp.ClientWSTimeout(ws_close=self._limits.connect),
            )
        except aiohttp.WSServerHandshakeError as error:
            failure = as_refusal(call, error.status, b"")
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            failure = Unreachable(call, _words(error))
        else:
            async with socket:
                yield ShellConnection(call, socket, lambda: self._mint(Scope.SHELL))
            return
        raise failure

    async def events(
        self, after: str | None = None, kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Event, None]:
        """Follow what happens: first what came after the cursor, then live.

        Ends when the peer ends it. Raises TimedOut after three missed heartbeats. Wrap it in
        `contextlib.aclosing`, so that leaving the loop closes the connection at once.
        """
        call = f"GET {paths.EVENTS}"
        query = {"after": after or "", "kinds": ",".join(kinds)}
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._limits.connect, sock_read=self._limits.silence
        )
        parser = Parser(self._limits.body)
        async with self._open("GET", paths.EVENTS, (Scope.READ,), limits, query=query) as response:
            async for chunk in response.content.iter_any():
                try:
                    messages = [*parser.feed(chunk)]
                except StreamTooLong as error:
                    raise Malformed(call, str(error)) from None
                for message in messages:
                    if (event := parse_event(call, message.data)) is not None:
                        yield event

    async def exchange(
        self,
        method: str,
        path: str,
        scopes: tuple[Scope, ...],
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        seconds: float | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        """One call whose body or answer is not JSON, or that takes longer; headers and body."""
        total = self._limits.total if seconds is None else seconds
        limits = aiohttp.ClientTimeout(total=total, sock_connect=self._limits.connect)
        async with self._open(
            method, path, scopes, limits, query=query, headers=headers, request=data
        ) as response:
            return response.headers, await self._body(f"{method} {path}", response)

    async def _read(
        self,
        method: str,
        path: str,
        scopes: tuple[Scope, ...],
        model: type[Body],
        request: Wire | None = None,
    ) -> Body:
        call, body = await self._ask(method, path, scopes, request)
        return parse(call, model, body)

    async def _ask(
        self,
        method: str,
        path: str,
        scopes: tuple[Scope, ...],
        request: Wire | None = None,
    ) -> tuple[str, bytes]:
        limits = aiohttp.ClientTimeout(total=self._limits.total, sock_connect=self._limits.connect)
        async with self._open(method, path, scopes, limits, request=request) as response:
            return f"{method} {path}", await self._body(f"{method} {path}", response)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        scopes: tuple[Scope, ...],
        limits: aiohttp.ClientTimeout,
        *,
        request: Wire | bytes | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; within, its good answer can be read. All failures get their type."""
        call = f"{method} {path}"
        url = self._url(call, path)
        sent = {**(headers or {}), **await self._headers(scopes)}
        data = BytesIO(request) if isinstance(request, bytes) else None
        if isinstance(request, Wire):
            sent["Content-Type"] = "application/json"
            data = BytesIO(request.model_dump_json(exclude_none=True).encode())
        try:
            async with self._session.request(
                method,
                url,
                params={key: value for key, value in (query or {}).items() if value},
                data=data,
                headers=sent,
                timeout=limits,
                allow_redirects=False,
                ssl=self._route.ssl_context or True,
            ) as response:
                if response.status >= 300:
                    raise as_refusal(call, response.status, await self._body(call, response))
                yield response
                return
        except aiohttp.ConnectionTimeoutError:
            failure: Unreachable | TimedOut = Unreachable(call, "no connection in time")
        except TimeoutError:
            failure = TimedOut(
                call, "it went silent" if limits.total is None else "no answer in time"
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Not chained: aiohttp's errors carry the request with its headers.
            failure = Unreachable(call, _words(error))
        raise failure

    def _url(self, call: str, path: str) -> URL:
        try:
            url = URL(self._base + path, encoded=True)
            usable = url.scheme in ("http", "https") and url.host and url.user is None
        except ValueError:
            usable = False
        if not usable:
            raise Unreachable(call, "its address is not a plain http or https URL")
        return url

    async def _headers(self, scopes: tuple[Scope, ...]) -> dict[str, str]:
        # Identity only: a small compressed body could unpack to any size.
        headers = {"Accept-Encoding": "identity"}
        if self._route.outer_headers is not None:
            headers.update(await self._route.outer_headers())
        if scopes:
            token = self._mint(*scopes)
            plain = self._route.token_header == AUTHORIZATION
            headers[self._route.token_header] = f"Bearer {token}" if plain else token
        return headers

    async def _body(self, call: str, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._limits.body:
                raise Malformed(call, f"an answer of more than {self._limits.body} bytes")
            parts.append(chunk)
        return b"".join(parts)


class _SessionOnly(Wire):
    """The body of a call that names nothing but the session."""

    session_id: str


def _shell_path(shell_id: str) -> str:
    return f"{paths.SHELL}/{quote(shell_id, safe='')}"


def _words(error: Exception) -> str:
    """What aiohttp says went wrong; for errors that could quote a header only their name."""
    quotable = isinstance(error, aiohttp.ClientOSError | OSError | aiohttp.ServerDisconnectedError)
    return f"{error}" if quotable and str(error) else type(error).__name__
