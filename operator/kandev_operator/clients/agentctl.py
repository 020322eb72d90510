"""One agentctl, called by the contract: a method for each path, and the event stream.

The peer is not trusted: the agent runs with its uid. So answers are read up to a limit, nobody is
followed to another address, each call is signed with no more scope than it needs, and an answer
from another instance than the one pinned is Foreign. All failures are `AgentctlError`s; a
TimedOut request may have been carried out, and only the caller knows whether asking again is safe
(each writing call of the contract has an id that makes it so).

Nothing is remembered between calls, so a client may be made for one pass and dropped. The
aiohttp session belongs to the caller.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import aiohttp

from kandev_operator.clients.agentctl_answers import (
    as_refusal,
    parse_event,
    parse_identified,
    parse_permissions,
)
from kandev_operator.clients.agentctl_line import (
    DEFAULT_LIMITS,
    DIRECT,
    AgentctlLine,
    Limits,
    Mint,
    OnCall,
    Route,
    nobody_counts,
    words_of,
)
from kandev_operator.clients.errors import Malformed, Unreachable
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

_ATTENTION: Final = (Scope.READ, Scope.CONTROL)


class AgentctlClient(AgentctlLine):
    """The agentctl at one URL. `instance_id` pins which one has to answer there."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        mint: Mint,
        instance_id: str | None = None,
        *,
        route: Route = DIRECT,
        limits: Limits = DEFAULT_LIMITS,
        on_call: OnCall = nobody_counts,
    ) -> None:
        super().__init__(session, url, mint, route=route, limits=limits, on_call=on_call)
        self._pinned = instance_id

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
            failure = Unreachable(call, words_of(error))
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


class _SessionOnly(Wire):
    """The body of a call that names nothing but the session."""

    session_id: str


def _shell_path(shell_id: str) -> str:
    return f"{paths.SHELL}/{quote(shell_id, safe='')}"
