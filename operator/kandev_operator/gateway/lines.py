"""Clients for the agentctls of sessions, made from what the cache knows at that moment.

An address changes when an agentctl is made again, so nobody keeps a client for longer than one
conversation with it. A pod that cannot be reached at its own address is asked through the API
server, and that is remembered for as long as the address stays.
"""

from collections.abc import Callable
from typing import Final

import aiohttp

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.clients import reach
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.claims import Scope
from kandev_operator.gateway.cache import Cache
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.wire.envelope import ErrorCode

_REMEMBERED: Final = 10_000


class Lines:
    """Every way to an agentctl. `minter` gives the one whose key is in use."""

    def __init__(
        self,
        kube: Kube,
        http: aiohttp.ClientSession,
        cache: Cache,
        minter: Callable[[], Minter],
    ) -> None:
        self._kube = kube
        self._http = http
        self._cache = cache
        self._minter = minter
        self._through: dict[tuple[str, str], bool] = {}

    def served(self, session: TaskSession) -> Executor | None:
        """The executor in which the session is served at present, both pointing at each other."""
        executor = self._cache.executor_of(session)
        return executor if reach.why_not_served(session, executor) is None else None

    async def client(self, session: TaskSession) -> AgentctlClient:
        """A client for the session's agentctl. Raises Refusal: not served, or no key yet."""
        executor = self.served(session)
        if executor is None:
            why = reach.why_not_served(session, self._cache.executor_of(session)) or ""
            status = session.status.executor_status
            raise Refusal(ErrorCode.AGENTCTL_NOT_READY, why, executor_status=status)
        self._minter()  # a key that is not there yet is refused here, not in the middle of a call
        mint = self._mint(executor, session.metadata.uid)
        direct = reach.direct(self._http, executor, mint)
        if executor.status.pod_ref is None:
            return direct
        known = (executor.metadata.uid, executor.status.agentctl_url or "")
        if known not in self._through:
            if len(self._through) >= _REMEMBERED:
                self._through.clear()
            self._through[known] = not await reach.answers(direct)
        if not self._through[known]:
            return direct
        # Neither way may be open yet: the next caller looks at both again.
        del self._through[known]
        return reach.proxied(self._kube, self._http, executor, mint)

    def _mint(self, executor: Executor, session_uid: str) -> Callable[..., str]:
        def mint(*scopes: Scope) -> str:
            if not reach.WITHOUT_CONTROL.issuperset(scopes):
                raise ValueError("a gateway neither starts nor stops agents")
            return self._minter().mint(executor.audience, scopes, session_uid)

        return mint
