"""The line to one agentctl: how a call is signed, sent, limited and read, whatever it asks.

Answers are read up to a limit, nobody is followed to another address, and each call is signed with
no more scope than it needs. All failures are `AgentctlError`s. What the calls mean is the
business of `agentctl`.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Final, Protocol, TypeVar

import aiohttp
from yarl import URL

from kandev_operator.clients.agentctl_answers import as_refusal, parse
from kandev_operator.clients.errors import AgentctlError, Malformed, TimedOut, Unreachable
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.wire import Wire

AUTHORIZATION: Final = "Authorization"
_MISSED_HEARTBEATS: Final = 3

Body = TypeVar("Body", bound=Wire)
OuterHeaders = Callable[[], Awaitable[Mapping[str, str]]]
OnCall = Callable[[str, str, float], None]
"""Told after each call: its word in the contract, outcome, seconds."""

_ROOT: Final = "/api/v1/"


def nobody_counts(_call: str, _outcome: str, _seconds: float) -> None:
    """The `on_call` of a caller that has no metrics."""


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
DEFAULT_LIMITS: Final = Limits()


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


class AgentctlLine:
    """The way to the agentctl at one URL, for calls of any kind."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        mint: Mint,
        *,
        route: Route = DIRECT,
        limits: Limits = DEFAULT_LIMITS,
        on_call: OnCall = nobody_counts,
    ) -> None:
        self._session = session
        self._on_call = on_call
        self._base = url.rstrip("/")
        self._mint = mint
        self._route = route
        self._limits = limits

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
        told = _Told(self._on_call, path)
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
                if limits.total is None:
                    told.ended("ok")  # a stream: that it opened is what counts
                yield response
                told.ended("ok")
                return
        except aiohttp.ConnectionTimeoutError:
            failure: Unreachable | TimedOut = Unreachable(call, "no connection in time")
        except TimeoutError:
            failure = TimedOut(
                call, "it went silent" if limits.total is None else "no answer in time"
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Not chained: aiohttp's errors carry the request with its headers.
            failure = Unreachable(call, words_of(error))
        except AgentctlError as error:
            told.ended(error.outcome)
            raise
        except asyncio.CancelledError:
            told.ended("cancelled")
            raise
        told.ended(failure.outcome)
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


class _Told:
    """One call, told once: when its stream opens, or at its end."""

    def __init__(self, on_call: OnCall, path: str) -> None:
        self._on_call, self._path = on_call, path
        self._began = time.monotonic()
        self._is_over = False

    def ended(self, outcome: str) -> None:
        """Tell how it ended, unless that is told already."""
        if not self._is_over:
            self._is_over = True
            seconds = time.monotonic() - self._began
            self._on_call(call_word(self._path), outcome, seconds)


def call_word(path: str) -> str:
    """What a path asks for, in one word of the contract; ids and names are left out."""
    return path.removeprefix(_ROOT).strip("/").partition("/")[0]


def words_of(error: Exception) -> str:
    """What aiohttp says went wrong; for errors that could quote a header only their name."""
    if isinstance(error, aiohttp.ClientConnectorError) and not _is_about_tls(error):
        cause = error.os_error
        known = cause.errno is not None and cause.errno > 0
        why = os.strerror(cause.errno or 0) if known else cause.strerror or str(cause)
        return f"cannot connect to {error.host}:{error.port}: {why}"
    quotable = isinstance(error, aiohttp.ClientOSError | OSError | aiohttp.ServerDisconnectedError)
    return f"{error}" if quotable and str(error) else type(error).__name__


def _is_about_tls(error: aiohttp.ClientConnectorError) -> bool:
    """Its number is one of OpenSSL's, and its text says what is wrong."""
    return isinstance(error, aiohttp.ClientSSLError)
