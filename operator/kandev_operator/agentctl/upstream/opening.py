"""What comes before the first turn: initialize, once, and the conversation that is opened.

What their answer to `initialize` leaves out is learned by asking: whether the agent can load a
conversation is seen when one is asked for that nobody has. Nothing is initialized twice, since
that wedges their side for good; a process that somebody else started is asked first whether it
was. Errors become `Fault`s with the agent's own words; what follows from them is decided elsewhere.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.upstream import wire
from kandev_operator.agentctl.upstream.launch import Started
from kandev_operator.agentctl.upstream.record import Records
from kandev_operator.agentctl.upstream.stream import Broken, Rejected, Stream
from kandev_operator.agentctl.upstream.turn import Conversation
from kandev_operator.agentctl.verdicts import Fault, Listing, is_definitely_gone
from kandev_operator.contract.agent import AgentSpec
from kandev_operator.contract.status import AgentInfo, Capabilities, Failure, FailureCode

log = logging.getLogger("kandev.agentctl.upstream")
Json = dict[str, Any]

PROBE_SECONDS: Final = 20.0
TOLD_SECONDS: Final = 1.0
"""What is offered in a conversation is told beside the answer that it is open."""
NEVER_TOLD: Final = {
    "protocol_version": "the upstream does not tell what it and the agent agreed on",
    "auth_methods": "the upstream does not tell them",
    "logins": "the upstream does not tell them",
    "mcp": "the upstream does not tell it",
}
"""What their answer to `initialize` leaves out, and no other call of theirs tells."""
NOBODY: Final = "00000000-0000-4000-8000-000000000000"
"""A conversation that no agent has: asked for, to learn whether any can be asked for."""


@dataclass(frozen=True, slots=True)
class Where:
    """The place of one execution: what to run for which session, and what to believe of it."""

    instance_id: str
    session_id: str
    workspace: str
    spec: AgentSpec | None
    """None after a restart of ours, until the operator says again what to run."""
    marker_verified: bool
    may_adopt: bool
    """A process that we did not start may be taken over."""


class Opening:
    """Initializes a process and opens conversations in it, over its stream."""

    def __init__(
        self,
        stream: Stream,
        talk: Conversation,
        where: Where,
        records: Records,
        hide: Callable[[str], str],
        initialize_seconds: float,
    ) -> None:
        self._stream, self._talk = stream, talk
        self._where, self._records = where, records
        self._hide, self._initialize_seconds = hide, initialize_seconds

    async def capabilities(self, started: Started) -> Capabilities:
        """Initialize, once, and learn by asking what their answer to it leaves out."""
        info: Json = {}
        load: bool | None = None
        if started.adopted:
            await self._quiet()
            load = await self._can_load()
        if not started.adopted or load is None:
            payload = {"client_name": "kandev-agentctl", "client_version": "0.1.0"}
            seconds = self._initialize_seconds
            try:
                info = await self._stream.call("agent.initialize", payload, seconds)
            except Rejected as no:
                failure = wire.failure_of(no.message, self._hide)
                if failure.code != FailureCode.AUTHENTICATION_REQUIRED:
                    update = {"code": FailureCode.INITIALIZE_FAILED}
                    failure = failure.model_copy(update=update)
                raise Fault(failure) from None
            except Broken:
                raise Fault(_broken("initialize")) from None
            except TimeoutError:
                message = f"initialize was not answered within {seconds:g} s"
                raise Fault(Failure(code=FailureCode.TIMED_OUT, message=message)) from None
            load = await self._can_load()
        agent = wire.agent_info(info)
        return Capabilities(
            supports_session_resume=load,
            supports_workspace_only=False,
            agent=agent,
            load_session=load,
            resume_session=False,
            list_sessions=False,
            prompt=self._talk.prompts,
            unknown=_unknown(agent, load, adopted=started.adopted),
            probed_at=now(),
        )

    async def _quiet(self) -> None:
        """A process that somebody else started: whatever turn it is in ends here."""
        try:
            await self._stream.call("agent.cancel", {}, PROBE_SECONDS)
        except (Broken, Rejected, TimeoutError) as exc:
            log.debug("nothing to cancel in the process taken over: %s", type(exc).__name__)

    async def _can_load(self) -> bool | None:
        """Their API does not tell whether the agent declares session/load, but a try does."""
        try:
            await self._stream.call("agent.session.load", {"session_id": NOBODY}, PROBE_SECONDS)
        except Rejected as no:
            if wire.NOT_INITIALIZED in no.message or wire.NOT_RUNNING in no.message:
                return None
            return wire.NO_LOADING not in no.message
        except (Broken, TimeoutError):
            return None
        return True

    async def opened(self, act: fx.Open) -> tuple[str, str, Json]:
        """Open; gives the method, the agent's id, and what it offers there."""
        payload: Json = {"mcp_servers": wire.mcp_servers(act.mcp_servers)}
        if act.mode == "new" or act.token is None:
            method, action = "session/new", "agent.session.new"
            payload["cwd"] = self._where.workspace
        else:
            record = self._records.now
            if record is not None and record.conversation == act.token:
                # It is open already, from before our restart.
                return "session/load", act.token, record.offers
            if record is not None and record.capabilities is not None:
                _require_loading(record.capabilities)
            method, action = "session/load", "agent.session.load"
            payload["session_id"] = act.token
        self._talk.offers = {}
        self._talk.said_opened.clear()
        try:
            answer = await self._stream.call(action, payload, act.timeout)
        except Rejected as no:
            failure = wire.failure_of(no.message, self._hide)
            raise Fault(self._judged(failure, act.mode)) from None
        except Broken:
            raise Fault(_broken(method)) from None
        token = wire.session_id(answer)
        if token is None:
            message = f"{method} was answered without a usable session id"
            raise Fault(Failure(code=FailureCode.AGENT_ERROR, message=message))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOLD_SECONDS):
                await self._talk.said_opened.wait()
        return method, token, self._talk.offers

    def _judged(self, failure: Failure, mode: str) -> Failure:
        verified = self._where.marker_verified
        if mode == "resume" and is_definitely_gone(failure, Listing.NONE, marker_verified=verified):
            return failure.model_copy(update={"code": FailureCode.SESSION_NOT_FOUND})
        return failure


def _unknown(agent: AgentInfo | None, load: bool | None, *, adopted: bool) -> dict[str, str]:
    """What stays absent, each with the reason."""
    found = dict(NEVER_TOLD)
    if agent is None:
        found["agent"] = (
            "it is told at initialize only, and somebody else initialized this process"
            if adopted
            else "the upstream tells none"
        )
    if load is None:
        words = "whether the agent can load a conversation was asked, and not answered"
        found |= dict.fromkeys(("load_session", "supports_session_resume"), words)
    return found


def _require_loading(capabilities: Capabilities) -> None:
    if capabilities.load_session is False:
        message = "the agent does not declare session/load"
        raise Fault(Failure(code=FailureCode.RESUME_UNSUPPORTED, message=message))


def _broken(method: str) -> Failure:
    message = f"the connection to the upstream broke during {method}"
    return Failure(code=FailureCode.AGENT_ERROR, message=message)
