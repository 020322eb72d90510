"""The way from a session to its agentctl: who is bound, where it answers, and a token for it.

Objects and signing key are read anew for each connection, because the address changes when an
agentctl is made again and the key when it is rotated. Tokens are good for minutes, for this
executor and session, and for reading, prompting, shells and files: this room can neither start nor
stop an agent. A pod is asked at its own address first, and through the API server where that is no
way.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli import troubles
from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.faults import Fault, Refusal
from kandev_operator.clients import errors, reach
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.signing import read_signing_key
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.claims import Scope


class NotServed(Refusal):
    """Nobody serves the session at present; it may be served again later."""

    def __init__(self, message: str, session: TaskSession) -> None:
        super().__init__(message)
        self.session = session


@dataclass(frozen=True, slots=True)
class Line:
    """A session's agentctl, as it can be called right now."""

    session: TaskSession
    executor: Executor
    client: AgentctlClient
    proxied: bool = False

    def fault(self, error: errors.AgentctlError) -> Fault:
        """What an error on this line means to a person."""
        return troubles.of_agentctl(error, self.executor, proxied=self.proxied)


class Reach(Protocol):
    """Makes the line to a session's agentctl, as often as it is needed."""

    async def line(self, name: str) -> Line:
        """Raises NotServed when nobody serves the session, Fault when it cannot be reached."""


class DirectReach:
    """Lines that are made with an administrator's rights, without a gateway."""

    def __init__(
        self,
        cluster: Cluster,
        http: aiohttp.ClientSession,
        operator_namespace: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._http = http
        self._operator_namespace = operator_namespace
        self._clock = clock

    async def line(self, name: str) -> Line:
        """The line to a session's agentctl."""
        session = await self._cluster.session(name)
        if session.status.executor_ref is None:
            raise NotServed(f"session {name} has no executor at present", session)
        executor = await self._cluster.executor_of(session)
        if (reason := reach.why_not_served(session, executor)) is not None:
            raise NotServed(reason, session)
        mint = await self._minting(session, executor)
        client = reach.direct(self._http, executor, mint)
        if executor.status.pod_ref is None or await reach.answers(client):
            return Line(session, executor, client)
        through = reach.proxied(self._cluster.kube, self._http, executor, mint)
        return Line(session, executor, through, proxied=True)

    async def _minting(self, session: TaskSession, executor: Executor) -> Callable[..., str]:
        try:
            key = await read_signing_key(self._cluster.kube, self._operator_namespace)
        except errors.ClientError as error:
            raise troubles.of_key(error, self._operator_namespace) from None
        minter = Minter(key, self._clock)
        audience = executor.audience

        def mint(*scopes: Scope) -> str:
            if not reach.WITHOUT_CONTROL.issuperset(scopes):
                raise ValueError("the plugin signs for reading, prompting, shells and files only")
            return minter.mint(audience, scopes, session.metadata.uid)

        return mint
