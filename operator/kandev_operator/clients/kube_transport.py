"""How a call gets to the API server: connections, credentials, timeouts, one repeat after a 401.

Sent through the `kubernetes` package's REST client, which brings proxy and TLS settings; the
Authorization header is put on here, so that a token in a file is read again in time and nothing
goes out unsigned by mistake. Many calls that are refused at once read the credentials once.

Knows neither kinds nor verbs: it is given a path and a body, and gives back a document.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from kandev_operator import __version__
from kandev_operator.clients.credentials import Access, Source
from kandev_operator.clients.errors import KubeError, Unauthorized
from kandev_operator.clients.kube_answers import Answer, as_error, as_json, as_unavailable

USER_AGENT: Final = f"kandev-operator/{__version__}"
DEFAULT_TIMEOUT: Final = 10.0
_CONNECT_TIMEOUT: Final = 5.0
_REREAD_PAUSE: Final = 2.0
_MOST_OF_IT: Final = 0.9
_LONGEST_LINE: Final = 16 * 1024 * 1024
"""Of a watch: an object cannot be larger than the API server stores."""

JSON: Final = "application/json"

OnRequest = Callable[[str, str, str, float], None]
"""Told after each request: verb, plural, outcome, seconds."""

_NO_ANSWER: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError, RuntimeError)
"""RuntimeError is what a closed session says."""

_log = logging.getLogger(__name__)


def nobody_counts(_verb: str, _plural: str, _outcome: str, _seconds: float) -> None:
    """The `on_request` of a caller that has no metrics."""


@dataclass(frozen=True)
class Call:
    """One request, as it may have to be sent twice."""

    verb: str
    method: str
    path: str
    plural: str = ""
    about: str = ""
    query: str = ""
    body: Any = field(default=None, repr=False)
    content_type: str = JSON
    timeout: float = DEFAULT_TIMEOUT

    @property
    def title(self) -> str:
        """What error texts call it."""
        return " ".join(part for part in (self.verb, self.plural, self.about) if part)


class Transport:
    """Connections to one API server, as one user."""

    def __init__(
        self,
        source: Source,
        access: Access,
        on_request: OnRequest,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._on_request = on_request
        self._clock = clock
        self._rereading = asyncio.Lock()
        self._access = access
        self._read_at = clock()
        # Any: the package says that it is typed, and most of its client is not.
        self._client: Any = _connections(access)
        self._retired: Any = None
        self._calls: Counter[Any] = Counter()
        """How many calls each client has under way."""
        self._distrusted: list[Any] = []

    @property
    def access(self) -> Access:
        """What was read last; it may be about to be read again."""
        return self._access

    @property
    def ssl_context(self) -> Any:
        """TLS towards the API server."""
        return self._client.rest_client.ssl_context

    async def close(self) -> None:
        """Close every connection. Calls under way fail as Unavailable."""
        retired, self._retired = self._retired, None
        distrusted, self._distrusted = self._distrusted, []
        for client in (self._client, retired, *distrusted):
            if client is not None:
                await client.close()

    async def headers(self) -> dict[str, str]:
        """Who we are, as headers; credentials that are due are read again first."""
        access = await self._current()
        headers = {"User-Agent": USER_AGENT, "Accept": JSON}
        if access.authorization is not None:
            headers["Authorization"] = access.authorization
        return headers

    async def document(self, call: Call) -> Any:
        """Send a call and give back the JSON document in its answer."""
        outcome, began = "cancelled", self._clock()
        try:
            answer = await self._answer(call)
            if not answer.ok:
                raise as_error(call.title, call.plural, answer)
            document = as_json(call.title, answer)
            outcome = "ok"
            return document
        except KubeError as error:
            outcome = error.outcome
            raise
        finally:
            self._on_request(call.verb, call.plural, outcome, self._clock() - began)

    async def lines(self, call: Call, silence: float) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on, as they come, until the server ends it.

        Raises Unavailable when nothing came for `silence` seconds, or the connection broke. Wrap it
        in `aclosing`. A 401 is raised, with the credentials read again for the next try.
        """
        headers = await self.headers()
        asked_with = self._access
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=silence)
        secret = headers.get("Authorization", "").partition(" ")[2]
        async with self._using() as client:
            response = await self._respond(client, call, headers, limits)
            try:
                if response.status != 200:
                    answer = Answer(response.status, await response.read())
                    if answer.status == 401:
                        await self._reread(asked_with)
                    raise as_error(call.title, call.plural, answer)
                async for line in _lines_of(response.response.content):
                    yield line
                return
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                silent = isinstance(error, TimeoutError)
                words = f"silent for {silence:g} s" if silent else str(error)
                failure = as_unavailable(call.title, words, error, secret)
            finally:
                response.response.close()
        raise failure

    async def _answer(self, call: Call) -> Answer:
        headers = await self.headers()
        asked_with = self._access
        answer = await self._send(call, headers)
        if answer.status != 401:
            return answer
        if not await self._reread(asked_with):
            return answer
        return await self._send(call, await self.headers())

    async def _send(self, call: Call, headers: Mapping[str, str]) -> Answer:
        """One request and its whole answer. Raises Unavailable when there is none."""
        limits = aiohttp.ClientTimeout(
            total=call.timeout,
            sock_connect=min(_CONNECT_TIMEOUT, call.timeout),
            sock_read=min(DEFAULT_TIMEOUT, call.timeout),
        )
        began = self._clock()
        async with self._using() as client:
            try:
                response = await self._respond(client, call, headers, limits)
                body: bytes = await response.read()
                return Answer(response.status, body, response.headers.get("Retry-After"))
            except _NO_ANSWER as error:
                failure = _failure(call, headers, limits, error)
            except KubeError as error:
                failure = error
            except asyncio.CancelledError:
                # The caller's own patience may be over a moment before ours.
                if self._clock() - began >= _MOST_OF_IT * call.timeout:
                    self._distrust(client)
                raise
            if failure.reason == "Timeout":
                self._distrust(client)
        raise failure

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[Any]:
        """The client in use. One that is not trusted any more is closed after its last call."""
        client = self._client
        self._calls[client] += 1
        try:
            yield client
        finally:
            self._calls[client] -= 1
            if not self._calls[client]:
                del self._calls[client]
                if client in self._distrusted:
                    self._distrusted.remove(client)
                    await client.close()

    def _distrust(self, client: Any) -> None:
        """Use the lines no more of which one has just not answered in time.

        A path that swallows packets leaves all idle lines dead, and each of them would cost the
        next caller the whole of its patience. Calls under way on them go on.
        """
        if client is not self._client:
            return
        with suppress(Unauthorized):  # files that are being replaced: what there is may be good
            self._client = _connections(self._access)
            self._distrusted.append(client)

    async def _respond(
        self, client: Any, call: Call, headers: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> Any:
        """One request, up to the beginning of its answer. Raises Unavailable."""
        url = str(self._access.configuration.host).rstrip("/") + call.path
        if call.query:
            url = f"{url}?{call.query}"
        try:
            return await client.rest_client.request(
                call.method,
                url,
                headers={**headers, "Content-Type": call.content_type},
                body=call.body,
                _request_timeout=limits,
            )
        except _NO_ANSWER as error:
            failure = _failure(call, headers, limits, error)
        raise failure

    async def _current(self) -> Access:
        due = self._access.reread_after
        if due is not None and self._clock() - self._read_at >= due:
            await self._reread(self._access)
        return self._access

    async def _reread(self, known: Access) -> bool:
        """Read the credentials again, unless somebody just did. Tells whether to try again."""
        async with self._rereading:
            if self._access is not known:
                return True
            try:
                await self._use(await self._source.load())
            except Unauthorized as error:
                # What we have may still be good. Wait a little before looking again, but do not
                # wait the whole time: a projected token is replaced in several steps.
                _log.warning("Credentials cannot be read again: %s", error.message)
                self._read_at = self._clock() - (known.reread_after or 0.0) + _REREAD_PAUSE
                return False
            return True

    async def _use(self, fresh: Access) -> None:
        retired = None
        if fresh.connection != self._access.connection:
            # Another server, CA or client certificate: new connections. Calls under way end on
            # the old ones, which are closed at the next such change.
            client = _connections(fresh)
            retired, self._retired, self._client = self._retired, self._client, client
        self._access, self._read_at = fresh, self._clock()
        if retired is not None:
            await retired.close()


def _connections(access: Access) -> Any:
    """The REST client for this server and TLS material; raises Unauthorized when that is bad."""
    try:
        return ApiClient(access.configuration)
    except (OSError, ValueError) as error:
        problem = f"the TLS material cannot be used ({type(error).__name__})"
    raise Unauthorized("credentials", problem)


async def _lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The whole lines of a stream. Raises ValueError for one without an end."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _LONGEST_LINE:
            raise ValueError("a line without an end")


def _failure(
    call: Call, headers: Mapping[str, str], limits: aiohttp.ClientTimeout, error: Exception
) -> KubeError:
    """What to raise, unchained: aiohttp's errors carry the request, and so who we are."""
    secret = headers.get("Authorization", "").partition(" ")[2]
    return as_unavailable(call.title, _words(error, limits), error, secret)


def _words(error: Exception, limits: aiohttp.ClientTimeout) -> str:
    """What happened to a call that got no answer."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {limits.sock_connect:g} s"
    if isinstance(error, aiohttp.SocketTimeoutError):
        return f"no answer within {limits.sock_read:g} s"
    if isinstance(error, TimeoutError):
        return f"no answer within {limits.total:g} s"
    return f"{type(error).__name__}: {error}".rstrip(": ")
