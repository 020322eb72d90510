"""Clients of agentctls, made with the right address, pin, TLS and token for each call.

A client is cheap and made for one pass. Tokens are minted per executor, session, term and epoch;
term and epoch travel only with calls that change something, and only from a process that leads.
"""

import ssl
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp

from kandev_operator.api.executor import Executor
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import DIRECT, Mint, OnCall, Route, nobody_counts
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.paths import TOKEN_HEADER
from kandev_operator.controller.prober import Target


class Callers:
    """Makes clients for followers (reading) and for actions (fenced)."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        minter: Minter,
        through: Kube | None = None,
        on_call: OnCall = nobody_counts,
    ) -> None:
        """`through`: the API server by whose pod proxy pods are reached; None: pods are asked at
        their own addresses."""
        self._on_call = on_call
        self._http = http
        self._minter = minter
        self._through = through

    def reading(self, target: Target) -> AgentctlClient:
        """For looking: no term, no epoch, so looking never fences anybody out."""

        def mint(*scopes: Scope) -> str:
            return self._minter.mint(target.audience, scopes, target.session_uid)

        return self._client(target, mint)

    def acting(
        self, executor: Executor, session_uid: str, *, term: int, epoch: int
    ) -> AgentctlClient | None:
        """For changing something; None while the executor has no address."""
        target = target_of(executor, session_uid)
        if target is None:
            return None

        def mint(*scopes: Scope) -> str:
            return self._minter.mint(target.audience, scopes, session_uid, term, epoch)

        return self._client(target, mint)

    def _client(self, target: Target, mint: Mint) -> AgentctlClient:
        url, route = target.url, _route(target.ca_bundle)
        if target.pod is not None and self._through is not None:
            url = proxied(self._through.server, target)
            kube = self._through
            route = Route(kube.ssl_context, kube.auth_headers, TOKEN_HEADER)
        return AgentctlClient(
            self._http, url, mint, target.instance_id, route=route, on_call=self._on_call
        )


def proxied(server: str, target: Target) -> str:
    """The way to a pod through the API server."""
    assert target.pod is not None, "only pods are behind the API server's proxy"
    namespace, name = target.pod
    port = urlsplit(target.url).port
    return f"{server}/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy"


def target_of(executor: Executor, session_uid: str | None) -> Target | None:
    """Where this executor's agentctl is to be asked, as its status says."""
    url = executor.status.agentctl_url
    if url is None:
        return None
    remote, pod = executor.spec.remote, executor.status.pod_ref
    return Target(
        url=url,
        instance_id=executor.status.instance_id,
        audience=executor.audience,
        session_uid=session_uid,
        ca_bundle=remote.ca_bundle if remote else None,
        pod=(executor.metadata.namespace, pod.name) if pod else None,
    )


def _route(ca_bundle: str | None) -> Route:
    return DIRECT if ca_bundle is None else Route(ssl_context=_context(ca_bundle))


@lru_cache(maxsize=256)
def _context(ca_bundle: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_bundle)
