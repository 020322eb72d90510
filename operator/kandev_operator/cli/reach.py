"""The way from a session to its agentctl: who is bound, where it answers, and a token for it.

Objects and signing key are read anew for each connection, because the address changes when an
agentctl is made again and the key when it is rotated. Tokens are good for minutes, for this
executor and session, and for reading, prompting, shells and files: this room can neither start nor
stop an agent. A pod is asked at its own address first, and through the API server where that is no
way.
"""

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli import troubles
from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.faults import Fault, Refusal
from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import DIRECT, Route
from kandev_operator.clients.signing import read_signing_key
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.paths import TOKEN_HEADER

ALLOWED: Final = frozenset({Scope.READ, Scope.PROMPT, Scope.SHELL, Scope.FILES})


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
        _check_bound(session, executor)
        mint = await self._minting(session, executor)
        url, pinned = executor.status.agentctl_url or "", executor.status.instance_id
        remote = executor.spec.remote
        route = DIRECT
        if remote is not None and remote.ca_bundle is not None:
            route = Route(ssl_context=_trusting(remote.ca_bundle))
        client = AgentctlClient(self._http, url, mint, pinned, route=route)
        if executor.status.pod_ref is None or await _answers(client):
            return Line(session, executor, client)
        proxy = AgentctlClient(
            self._http, self._proxy_url(executor), mint, pinned, route=self._proxy_route()
        )
        return Line(session, executor, proxy, proxied=True)

    async def _minting(self, session: TaskSession, executor: Executor) -> Callable[..., str]:
        try:
            key = await read_signing_key(self._cluster.kube, self._operator_namespace)
        except errors.ClientError as error:
            raise troubles.of_key(error, self._operator_namespace) from None
        minter = Minter(key, self._clock)
        audience = executor.audience

        def mint(*scopes: Scope) -> str:
            if not ALLOWED.issuperset(scopes):
                raise ValueError("the plugin signs for reading, prompting, shells and files only")
            return minter.mint(audience, scopes, session.metadata.uid)

        return mint

    def _proxy_url(self, executor: Executor) -> str:
        pod, parts = executor.status.pod_ref, urlsplit(executor.status.agentctl_url or "")
        assert pod is not None, "only pods are reached through the API server"
        scheme = "https:" if parts.scheme == "https" else ""
        namespace = executor.metadata.namespace
        return (
            f"{self._cluster.kube.server}/api/v1/namespaces/{namespace}/pods/"
            f"{scheme}{pod.name}:{parts.port or 80}/proxy"
        )

    def _proxy_route(self) -> Route:
        kube = self._cluster.kube
        return Route(kube.ssl_context, kube.auth_headers, TOKEN_HEADER)


def _check_bound(session: TaskSession, executor: Executor) -> None:
    """Both must point at each other: an agentctl of another session is not this one's."""
    name, place = session.metadata.name, executor.metadata.name
    chosen, held = session.status.executor_ref, executor.status.session_ref
    if chosen is None or chosen.uid != executor.metadata.uid:
        raise NotServed(f"executor {place} is another one than session {name} chose", session)
    if held is None or held.uid != session.metadata.uid:
        whom = f"it holds session {held.name}" if held else "it holds no session"
        raise NotServed(f"executor {place} is not bound to session {name}: {whom}", session)
    if executor.status.agentctl_url is None:
        raise NotServed(f"no agentctl runs in executor {place} at present", session)


async def _answers(client: AgentctlClient) -> bool:
    """Whether there is a way to its own address; what it answers is looked at later."""
    try:
        await client.health()
    except (errors.Unreachable, errors.TimedOut):
        return False
    except errors.AgentctlError:
        return True
    return True


def _trusting(ca_bundle: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_bundle)
