"""The conversation with the agent in its own protocol; the only file that knows the ACP library.

It initializes, opens (session/new, session/resume where declared, else session/load), prompts,
cancels, and carries updates and permission requests to its listener, each exactly as it came. An
answer becomes a value, an error becomes a `Fault` with a stable code and the agent's own bounded
words. What any of it means for the session is decided by the machine; what the agent asks of its
client, files and terminals, is done by `clientside`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from acp import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.schema import InitializeResponse
from pydantic import ValidationError

from kandev_operator.agentctl import verdicts
from kandev_operator.agentctl.clientside import ClientSide, Declined
from kandev_operator.agentctl.transport import JsonLines
from kandev_operator.agentctl.verdicts import Fault, Listing
from kandev_operator.contract.status import (
    AgentInfo,
    AuthMethod,
    Capabilities,
    Failure,
    FailureCode,
    McpCapabilities,
    PromptCapabilities,
)

MAX_PAGES: Final = 200
MAX_ID: Final = 64 * 1024
LIST_TIMEOUT: Final = 20.0
POLL: Final = 0.02


class Listener(Protocol):
    """Who is told what the agent says by itself. Both return at once."""

    def update(self, session_id: str, update: dict[str, Any]) -> None: ...

    def permission(
        self, key: str, title: str, tool_kind: str | None, options: tuple[tuple[str, str, str], ...]
    ) -> None: ...


class Bridge:
    """One connection to one agent process."""

    def __init__(
        self,
        transport: JsonLines,
        listener: Listener,
        client: ClientSide,
        hide: Callable[[str], str],
    ) -> None:
        self._listener, self._client, self._hide = listener, client, hide
        self._transport = transport
        self._asked: dict[str, asyncio.Future[str | None]] = {}
        self._asked_count = 0
        self._last_update = 0.0
        self._logins: tuple[AuthMethod, ...] = ()
        self._connection = Connection(self._handle, transport)

    # ---- what we ask -------------------------------------------------------------------

    async def initialize(self, timeout: float) -> Capabilities:
        """The agent's capabilities; raises Fault, and ConnectionError if it is gone."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": True},
                "terminal": True,
            },
            "clientInfo": {"name": "kandev-agentctl", "title": "Kandev", "version": "0.1.0"},
        }
        try:
            async with asyncio.timeout(timeout):
                answer = await self._request("initialize", params)
        except TimeoutError:
            raise Fault(self._silent(timeout)) from None
        except Fault as fault:
            told = fault.failure
            if told.code == FailureCode.AUTHENTICATION_REQUIRED:
                raise
            update = {"code": FailureCode.INITIALIZE_FAILED}
            raise Fault(told.model_copy(update=update)) from None
        return self._capabilities(answer)

    def _silent(self, timeout: float) -> Failure:
        if self._transport.noise and not self._transport.messages:
            message = f"no JSON-RPC within {timeout:g} s, but other text: see the stderr tail"
            return Failure(code=FailureCode.GARBAGE, message=message)
        message = f"initialize was not answered within {timeout:g} s"
        return Failure(code=FailureCode.TIMED_OUT, message=message)

    def _capabilities(self, answer: Any) -> Capabilities:
        try:
            told = InitializeResponse.model_validate(answer)
        except ValidationError:
            message = "the answer to initialize is not one"
            raise Fault(Failure(code=FailureCode.INITIALIZE_FAILED, message=message)) from None
        if told.protocol_version != PROTOCOL_VERSION:
            message = (
                f"the agent speaks protocol version {told.protocol_version}, "
                f"agentctl speaks {PROTOCOL_VERSION}"
            )
            raise Fault(Failure(code=FailureCode.PROTOCOL_MISMATCH, message=message))
        abilities = told.agent_capabilities
        load = bool(abilities and abilities.load_session)
        sessions = abilities.session_capabilities if abilities else None
        resume = sessions is not None and sessions.resume is not None
        info = told.agent_info
        prompts = abilities.prompt_capabilities if abilities else None
        servers = abilities.mcp_capabilities if abilities else None
        self._logins = tuple(
            AuthMethod(id=m.id[:200], name=m.name[:200], description=(m.description or "")[:500])
            for m in (told.auth_methods or ())[:20]
        )
        return Capabilities(
            supports_session_resume=load or resume,
            supports_workspace_only=True,
            agent=AgentInfo(name=info.name[:200], version=info.version[:200]) if info else None,
            protocol_version=told.protocol_version,
            load_session=load,
            resume_session=resume,
            list_sessions=sessions is not None and sessions.list is not None,
            auth_methods=tuple(way.id for way in self._logins),
            logins=self._logins,
            # What is not declared is declared not to be there.
            prompt=PromptCapabilities(
                image=bool(prompts and prompts.image),
                audio=bool(prompts and prompts.audio),
                embedded_context=bool(prompts and prompts.embedded_context),
            ),
            mcp=McpCapabilities(
                http=bool(servers and servers.http), sse=bool(servers and servers.sse)
            ),
        )

    async def new(
        self, cwd: str, mcp_servers: tuple[dict[str, Any], ...]
    ) -> tuple[str, dict[str, Any]]:
        """Open a new conversation; gives the agent's id of it, and its whole answer."""
        answer = await self._request("session_new", {"cwd": cwd, "mcpServers": list(mcp_servers)})
        found = _told_id(answer)
        if found is None:
            message = "session/new was answered without a usable session id"
            raise Fault(Failure(code=FailureCode.AGENT_ERROR, message=message))
        return found, answer

    async def come_back(
        self, method: str, token: str, cwd: str, mcp_servers: tuple[dict[str, Any], ...]
    ) -> tuple[str, dict[str, Any]]:
        """session/resume or session/load; gives the id that is current from now on."""
        params = {"sessionId": token, "cwd": cwd, "mcpServers": list(mcp_servers)}
        answer = await self._request(method, params)
        return _told_id(answer) or token, answer if isinstance(answer, dict) else {}

    async def listing(self, token: str, cwd: str) -> Listing:
        """What the agent's own list, page by page, says about a conversation."""
        params = {"cwd": cwd}
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                for _ in range(MAX_PAGES):
                    answer = await self._request("session_list", params)
                    sessions = answer.get("sessions") if isinstance(answer, dict) else None
                    if not isinstance(sessions, list):
                        return Listing.UNREADABLE
                    if any(isinstance(s, dict) and s.get("sessionId") == token for s in sessions):
                        return Listing.PRESENT
                    cursor = answer.get("nextCursor")
                    if not isinstance(cursor, str) or not cursor:
                        return Listing.ABSENT
                    params = {"cwd": cwd, "cursor": cursor}
        except (Fault, TimeoutError):
            return Listing.UNREADABLE
        return Listing.UNREADABLE

    async def settle(self, quiet: float, longest: float) -> None:
        """Wait until the agent has said nothing for a while: its replay is over."""
        start = time.monotonic()
        while (now := time.monotonic()) - start < longest:
            since = now - max(self._last_update, start)
            if since >= quiet:
                return
            await asyncio.sleep(max(POLL, quiet - since))

    async def choose(self, method: str, token: str, params: dict[str, Any]) -> dict[str, Any]:
        """Have the agent make a choice among what it offers; gives its answer."""
        answer = await self._ask(method, {"sessionId": token, **params})
        return answer if isinstance(answer, dict) else {}

    async def prompt(
        self, token: str, content: tuple[dict[str, Any], ...]
    ) -> tuple[str, dict[str, Any] | None]:
        """Hand a prompt over and wait for the end of its turn; the stop reason and the usage."""
        answer = await self._request(
            "session_prompt", {"sessionId": token, "prompt": list(content)}
        )
        told = answer if isinstance(answer, dict) else {}
        reason, usage = told.get("stopReason"), told.get("usage")
        return (
            reason if isinstance(reason, str) else "unknown",
            usage if isinstance(usage, dict) else None,
        )

    async def cancel(self, token: str) -> None:
        await self._connection.send_notification(
            AGENT_METHODS["session_cancel"], {"sessionId": token}
        )

    async def close(self) -> None:
        for future in self._asked.values():
            future.cancel()
        await self._connection.close()

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        return await self._ask(AGENT_METHODS[method], params)

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._connection.send_request(method, params)
        except RequestError as error:
            failure = verdicts.failure_of(
                error.code, self._hide(str(error)), self._bare(error.data)
            )
            raise Fault(self._with_logins(failure)) from None

    def _with_logins(self, failure: Failure) -> Failure:
        """A login that is wanted is told with the ways in which the agent says it can be had."""
        if failure.code != FailureCode.AUTHENTICATION_REQUIRED or not self._logins:
            return failure
        ways = ", ".join(f"{way.name or way.id} [{way.id}]" for way in self._logins)
        told = f"{failure.message} (ways to log in: {ways})"
        return failure.model_copy(update={"message": told[: verdicts.MESSAGE_CHARS]})

    def _bare(self, data: Any) -> Any:
        """The error's data with secrets hidden in its words."""
        if isinstance(data, dict):
            return {k: self._hide(v) if isinstance(v, str) else v for k, v in data.items()}
        return self._hide(data) if isinstance(data, str) else data

    # ---- what the agent asks -----------------------------------------------------------

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        if method == CLIENT_METHODS["session_update"]:
            self._last_update = time.monotonic()
            if isinstance(params, dict) and isinstance(update := params.get("update"), dict):
                self._listener.update(str(params.get("sessionId", "")), update)
            return None
        if is_notification:
            return None
        if method == CLIENT_METHODS["session_request_permission"]:
            return await self._permission(params if isinstance(params, dict) else {})
        if self._client.knows(method):
            try:
                return await self._client.answer(method, params if isinstance(params, dict) else {})
            except Declined as declined:
                raise RequestError(declined.code, declined.message) from None
        raise RequestError.method_not_found(method)

    async def _permission(self, params: dict[str, Any]) -> dict[str, Any]:
        self._asked_count += 1
        key = str(self._asked_count)
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[key] = answer
        call = params.get("toolCall")
        call = call if isinstance(call, dict) else {}
        kind = call.get("kind")
        self._listener.permission(
            key,
            self._hide(_title(call))[:500],
            kind[:100] if isinstance(kind, str) else None,
            _options(params.get("options")),
        )
        try:
            option_id = await answer
        finally:
            del self._asked[key]
        if option_id is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option_id}}

    def answer_permission(self, key: str, option_id: str | None) -> None:
        """Let the agent's waiting request go on; a key that waits no more is ignored."""
        future = self._asked.get(key)
        if future is not None and not future.done():
            future.set_result(option_id)


def _told_id(answer: Any) -> str | None:
    """The conversation's id in an answer, where it holds a usable one."""
    if not isinstance(answer, dict):
        return None
    meta = answer.get("_meta")
    for found in (
        answer.get("sessionId"),
        meta.get("sessionId") if isinstance(meta, dict) else None,
    ):
        if isinstance(found, str) and found.strip() and len(found) <= MAX_ID:
            return found
    return None


def _title(call: dict[str, Any]) -> str:
    for found in (call.get("title"), call.get("rawInput"), call.get("toolCallId")):
        if isinstance(found, dict):
            found = found.get("command") or found.get("path")
        if isinstance(found, list):
            found = " ".join(str(word) for word in found)
        if isinstance(found, str) and found:
            return found
    return "a tool call"


def _options(told: Any) -> tuple[tuple[str, str, str], ...]:
    options = []
    for option in told[:20] if isinstance(told, list) else ():
        if isinstance(option, dict) and isinstance(option_id := option.get("optionId"), str):
            name, kind = str(option.get("name", option_id)), str(option.get("kind", ""))
            options.append((option_id[:200], name[:200], kind[:100]))
    return tuple(options)
