"""The way from a session to its agentctl, for those who look on and talk, but never steer.

Pure but for one question (`answers`): whether two objects point at each other, which address and
pinned instance follow from an executor, and how the same is reached through the API server's pod
proxy. Who signs, and how long a line is kept, is the caller's business.
"""

import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import DIRECT, Mint, Route
from kandev_operator.clients.kube import Kube
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.paths import TOKEN_HEADER

WITHOUT_CONTROL: Final = frozenset({Scope.READ, Scope.PROMPT, Scope.SHELL, Scope.FILES})
"""What anybody but the operator may sign for: such a caller can neither start nor stop an agent."""


def why_not_served(session: TaskSession, executor: Executor | None) -> str | None:
    """Why nobody serves this session at present; None where somebody does.

    Both must point at each other: an agentctl of another session is not this one's.
    """
    name, chosen = session.metadata.name, session.status.executor_ref
    if chosen is None:
        return f"session {name} has no executor at present"
    if executor is None:
        return f"executor {chosen.name} of session {name} is not there"
    place, held = executor.metadata.name, executor.status.session_ref
    if chosen.uid != executor.metadata.uid:
        return f"executor {place} is another one than session {name} chose"
    if held is None or held.uid != session.metadata.uid:
        whom = f"it holds session {held.name}" if held else "it holds no session"
        return f"executor {place} is not bound to session {name}: {whom}"
    if executor.status.agentctl_url is None:
        return f"no agentctl runs in executor {place} at present"
    return None


def direct(http: aiohttp.ClientSession, executor: Executor, mint: Mint) -> AgentctlClient:
    """A client at the executor's own address, pinned to the instance that the operator named."""
    remote = executor.spec.remote
    route = DIRECT
    if remote is not None and remote.ca_bundle is not None:
        route = Route(ssl_context=ssl.create_default_context(cadata=remote.ca_bundle))
    status = executor.status
    return AgentctlClient(http, status.agentctl_url or "", mint, status.instance_id, route=route)


def proxied(
    kube: Kube, http: aiohttp.ClientSession, executor: Executor, mint: Mint
) -> AgentctlClient:
    """The same through the API server, for an executor that has a pod."""
    pod, parts = executor.status.pod_ref, urlsplit(executor.status.agentctl_url or "")
    if pod is None:
        raise ValueError("only pods are reached through the API server")
    scheme = "https:" if parts.scheme == "https" else ""
    url = (
        f"{kube.server}/api/v1/namespaces/{executor.metadata.namespace}/pods/"
        f"{scheme}{pod.name}:{parts.port or 80}/proxy"
    )
    route = Route(kube.ssl_context, kube.auth_headers, TOKEN_HEADER)
    return AgentctlClient(http, url, mint, executor.status.instance_id, route=route)


async def answers(client: AgentctlClient) -> bool:
    """Whether there is a way to its own address; what it answers is looked at later."""
    try:
        await client.health()
    except (errors.Unreachable, errors.TimedOut):
        return False
    except errors.AgentctlError:
        return True
    return True
