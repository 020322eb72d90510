"""Opening a conversation with a process that has initialized: new, or the way back to an old one.

`session/resume` where it is declared, else `session/load`, whose replay is waited out before
anybody may prompt. A failed way back is judged with the help of the agent's own list: only a
definite not-found is called one. What becomes of the outcome is not known here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.settings import Patience
from kandev_operator.agentctl.verdicts import (
    METHOD_NOT_FOUND,
    Fault,
    Listing,
    is_definitely_gone,
)
from kandev_operator.contract.status import Capabilities, Failure, FailureCode

if TYPE_CHECKING:
    from kandev_operator.agentctl.bridge import Bridge


@dataclass(frozen=True, slots=True)
class Opening:
    """What is needed to open a conversation in one process."""

    bridge: "Bridge"
    can: Capabilities
    cwd: str
    marker_verified: bool
    patience: Patience

    async def open(self, act: fx.Open) -> tuple[str, str, dict[str, Any]]:
        """(ACP method, the agent's id, its answer); raises Fault and ConnectionError."""
        if act.mode == "new" or act.token is None:
            return "session/new", *await self.bridge.new(self.cwd, act.mcp_servers)
        if not (self.can.resume_session or self.can.load_session):
            message = "the agent declares neither session/resume nor session/load"
            raise Fault(Failure(code=FailureCode.RESUME_UNSUPPORTED, message=message))
        try:
            method, token, answer = await self._way_back(act, act.token)
        except Fault as fault:
            raise Fault(await self._judge(fault.failure, act.token)) from None
        await self.bridge.settle(self.patience.quiet, self.patience.settle)
        return method, token, answer

    async def _way_back(self, act: fx.Open, token: str) -> tuple[str, str, dict[str, Any]]:
        servers = act.mcp_servers
        if self.can.resume_session:
            try:
                back = await self.bridge.come_back("session_resume", token, self.cwd, servers)
                return "session/resume", *back
            except Fault as fault:
                if fault.failure.agent_code != METHOD_NOT_FOUND or not self.can.load_session:
                    raise
        # It declares nothing else, or what it cannot do.
        back = await self.bridge.come_back("session_load", token, self.cwd, servers)
        return "session/load", *back

    async def _judge(self, failure: Failure, token: str) -> Failure:
        """Ask the agent's own list whether the conversation is gone or only failed."""
        listing = Listing.NONE
        if self.can.list_sessions:
            listing = await self.bridge.listing(token, self.cwd)
        if is_definitely_gone(failure, listing, marker_verified=self.marker_verified):
            return failure.model_copy(update={"code": FailureCode.SESSION_NOT_FOUND})
        return failure
