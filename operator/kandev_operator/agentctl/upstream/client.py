"""Calls to a Kandev agentctl: its control server, and the instance that is ours on it.

Bodies are bounded and read as data; what goes wrong becomes one of four errors that callers can
act on. A 401 is met by one handshake with the nonce, since a restarted process of theirs takes
the same nonce again and gives another token. Tokens travel in headers only, and no error, log or
`repr` holds one. Nothing here knows of sessions or turns.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import aiohttp

from kandev_operator.agentctl.upstream.credentials import Credentials

Json = dict[str, Any]

CALL_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
STOP_SECONDS: Final = 40.0
"""Their stop waits five seconds, then two after TERM, and for the last of the group."""
MAX_BODY: Final = 4 * 1024 * 1024
MAX_FRAME: Final = 64 * 1024 * 1024
"""Largest frame of the event stream; they put no bound on it."""
PING_SECONDS: Final = 10.0
RUNNING: Final = frozenset({"running", "starting", "stopping", "paused"})


class Trouble(Exception):
    """A call to the upstream failed. Its text is for people and holds no secret."""


class Unreachable(Trouble):
    """No answer, or none that could be read. It proves nothing."""


class Unauthorized(Trouble):
    """It refuses our token, and the nonce buys no other one."""


class Vanished(Trouble):
    """The instance is not there any more; another one may have its port."""


class Refused(Trouble):
    """It answered with an error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words[:500] or f"HTTP {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Instance:
    """One of the upstream's instances."""

    instance_id: str
    port: int
    workspace: str
    status: str


@dataclass(frozen=True, slots=True)
class Process:
    """The agent's process of an instance, as the upstream tells it."""

    running: bool
    pid: int | None
    exit_code: int | None
    exit_error: str


class Client:
    """One upstream. Must be closed."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url.rstrip("/")
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._shaking = asyncio.Lock()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # ---- the control server ------------------------------------------------------------

    async def instances(self) -> tuple[Instance, ...]:
        """Every instance; this call alone shows that it answers and takes our token."""
        told = await self._call("GET", f"{self.url}/api/v1/instances")
        listed = told.get("instances") if isinstance(told, dict) else told
        return tuple(_instance(i) for i in listed or () if isinstance(i, dict))

    async def find(self, instance_id: str) -> Instance:
        """One instance; raises Vanished."""
        for instance in await self.instances():
            if instance.instance_id == instance_id:
                return instance
        raise Vanished("the instance is gone from the upstream")

    async def create(self, instance_id: str, workspace: str, session_id: str) -> Instance:
        body = {
            "id": instance_id,
            "workspace_path": workspace,
            "protocol": "acp",
            "auto_start": False,
            "auto_approve_permissions": False,
            "session_id": session_id,
        }
        told = await self._call("POST", f"{self.url}/api/v1/instances", body)
        if not isinstance(told, dict) or not isinstance(told.get("port"), int):
            raise Unreachable("the upstream made an instance and told no port")
        return Instance(instance_id, told["port"], workspace, "running")

    async def delete(self, instance_id: str) -> None:
        path = f"/api/v1/instances/{quote(instance_id, safe='')}"
        await self._call("DELETE", self.url + path, seconds=STOP_SECONDS)

    # ---- an instance -------------------------------------------------------------------

    async def process(self, instance: Instance) -> Process:
        told = await self._at(instance, "GET", "/api/v1/status")
        info = told.get("process_info") if isinstance(told, dict) else None
        info = info if isinstance(info, dict) else {}
        status = told.get("agent_status") if isinstance(told, dict) else None
        if not isinstance(status, str):
            raise Unreachable("the upstream told no status of its agent")
        pid, code, error = info.get("pid"), info.get("exit_code"), info.get("exit_error")
        return Process(
            running=status in RUNNING,
            pid=pid if isinstance(pid, int) else None,
            exit_code=code if isinstance(code, int) and code >= 0 else None,
            exit_error=error if isinstance(error, str) else "",
        )

    async def folder(self, instance: Instance) -> str:
        """The folder that the agent would be started in."""
        told = await self._at(instance, "GET", "/api/v1/info")
        found = told.get("work_dir") if isinstance(told, dict) else None
        return found if isinstance(found, str) else ""

    async def configure(
        self, instance: Instance, argv: tuple[str, ...], env: Mapping[str, str]
    ) -> None:
        body = {"command": argv[0], "agent_args": list(argv), "env": dict(env)}
        await self._at(instance, "POST", "/api/v1/agent/configure", body)

    async def start(self, instance: Instance) -> None:
        await self._at(instance, "POST", "/api/v1/start", {})

    async def stop(self, instance: Instance) -> None:
        """End the agent's process; returns when its whole group is gone."""
        await self._at(instance, "POST", "/api/v1/stop", {}, seconds=STOP_SECONDS)

    async def stream(self, instance: Instance) -> aiohttp.ClientWebSocketResponse:
        """Connect to the event stream. Two readers share the events: there must be one."""
        url = self._of(instance, "/api/v1/agent/stream")
        for again in (True, False):
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    return await self._http().ws_connect(
                        url,
                        headers=self._headers(instance.instance_id),
                        heartbeat=PING_SECONDS,
                        max_msg_size=MAX_FRAME,
                    )
            except aiohttp.WSServerHandshakeError as error:
                if error.status == 401 and again:
                    await self._handshake(self._credentials.token)
                    continue
                if error.status == 404:
                    raise Vanished("another instance has the port of ours") from None
                raise Refused(error.status, "the event stream was refused") from None
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise Unreachable(_words(error)) from None
        raise AssertionError("unreachable")

    # ---- how -----------------------------------------------------------------------------

    async def _at(
        self,
        instance: Instance,
        method: str,
        path: str,
        body: Json | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Any:
        url = self._of(instance, path)
        return await self._call(method, url, body, instance.instance_id, seconds)

    def _of(self, instance: Instance, path: str) -> str:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return urlunsplit((parts.scheme, f"{host}:{instance.port}", path, "", ""))

    def _headers(self, instance_id: str | None) -> dict[str, str]:
        headers = {}
        if self._credentials.token is not None:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        if instance_id is not None:
            headers["X-Instance-ID"] = instance_id
        return headers

    async def _call(
        self,
        method: str,
        url: str,
        body: Json | None = None,
        instance_id: str | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Any:
        for again in (True, False):
            used = self._credentials.token
            status, text = await self._exchange(method, url, body, instance_id, seconds)
            if status == 401 and again:
                await self._handshake(used)
                continue
            return _answer(status, text)
        raise AssertionError("unreachable")

    async def _exchange(
        self, method: str, url: str, body: Json | None, instance_id: str | None, seconds: float
    ) -> tuple[int, bytes]:
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._http().request(
                method,
                url,
                json=body,
                headers=self._headers(instance_id),
                timeout=limits,
                allow_redirects=False,
            ) as response:
                text = await response.content.read(MAX_BODY)
                while len(text) < MAX_BODY and (more := await response.content.read(MAX_BODY)):
                    text += more
                return response.status, text
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(_words(error)) from None

    async def _handshake(self, used: str | None) -> None:
        """Buy a token with the nonce, unless another call did meanwhile. Stored before used."""
        async with self._shaking:
            if self._credentials.token != used:
                return
            nonce = self._credentials.nonce()
            if nonce is None:
                raise Unauthorized("the upstream wants a token, and no nonce for it is here")
            body = {"nonce": nonce}
            url = f"{self.url}/auth/handshake"
            limits = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
            try:
                async with self._http().post(
                    url, json=body, timeout=limits, allow_redirects=False
                ) as response:
                    status, text = response.status, await response.content.read(MAX_BODY)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise Unreachable(_words(error)) from None
            token = _token(text) if status == 200 else None
            if token is None:
                lost = "" if used is None else " and the token that we had"
                raise Unauthorized(
                    f"the upstream refuses the nonce{lost}: it is another upstream, or the "
                    "nonce was used already and only a restart of the upstream makes it good again"
                )
            try:
                await asyncio.to_thread(self._credentials.keep, token)
            except OSError as error:
                raise Unauthorized(f"the token could not be stored: {error.strerror}") from None

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session


def _answer(status: int, text: bytes) -> Any:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if 200 <= status < 300:
        if told is None:
            raise Unreachable(f"HTTP {status} without JSON: is this a Kandev agentctl?")
        return told
    words = told.get("error") if isinstance(told, dict) else None
    words = words if isinstance(words, str) else f"HTTP {status}"
    if status == 401:
        raise Unauthorized("the upstream refuses the token that it gave")
    if status == 404:
        raise Vanished(words[:500])
    if status in (502, 503, 504):
        raise Unreachable(f"HTTP {status} from something in between")
    raise Refused(status, words)


def _token(text: bytes) -> str | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    found = told.get("token") if isinstance(told, dict) else None
    return found if isinstance(found, str) and found else None


def _instance(told: Json) -> Instance:
    port = told.get("port")
    return Instance(
        instance_id=str(told.get("id", "")),
        port=port if isinstance(port, int) else 0,
        workspace=str(told.get("workspace_path", "")),
        status=str(told.get("status", "")),
    )


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the upstream does not answer"
    if isinstance(error, OSError) and error.strerror:
        return f"the upstream cannot be reached: {error.strerror}"
    return f"the upstream cannot be talked to: {type(error).__name__}"
