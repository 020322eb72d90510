"""The upstream as a place for executions: what the engine asks it for.

It makes runs, tells after a restart of ours which process lives on there and with what open
conversation, and watches whether the upstream answers at all: while it does not, nothing is known
of the agent, and the engine says so to its callers instead of repeating what it knew last.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from hashlib import sha256
from typing import ClassVar, Final

from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.reopen import Living
from kandev_operator.agentctl.machine.state import State
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.statedir import SessionFolder
from kandev_operator.agentctl.upstream.client import Client, Trouble
from kandev_operator.agentctl.upstream.credentials import Credentials
from kandev_operator.agentctl.upstream.launch import OWN
from kandev_operator.agentctl.upstream.opening import Where
from kandev_operator.agentctl.upstream.record import Records
from kandev_operator.agentctl.upstream.run import Means, Rejoined, UpstreamRun
from kandev_operator.agentctl.upstream.turn import Live
from kandev_operator.contract.agent import AgentSpec, PromptFate
from kandev_operator.contract.status import Capabilities

log = logging.getLogger("kandev.agentctl.upstream")

WATCH_SECONDS: Final = 2.0
AWAY_SECONDS: Final = 6.0
"""Silence of the upstream that is still taken for a hiccup."""
UNPROBED: Final = Capabilities(supports_workspace_only=False)
"""Their shell, files and git are not served through us."""


class UpstreamRuns:
    """One upstream. Made by `serve` when agentctl is told its address."""

    unprobed: ClassVar[Capabilities] = UNPROBED
    outlives_us: ClassVar[bool] = True

    def __init__(self, settings: Settings, redactor: Redactor, instance_id: str) -> None:
        told = settings.upstream
        assert told is not None
        self._settings, self._redactor = settings, redactor
        self._named = told.instance
        self._own = f"{OWN}{instance_id}"
        credentials = Credentials(settings.state, told.url, told.nonce_file)
        self._client = Client(told.url, credentials)

    async def close(self) -> None:
        await self._client.close()

    def instance_of(self, session_id: str) -> str:
        """The instance that a session lives in: the one we were told of, or one of its own."""
        if self._named is not None:
            return self._named
        return f"{self._own}~{sha256(session_id.encode()).hexdigest()[:12]}"

    # ---- executions --------------------------------------------------------------------

    def make(
        self,
        execution_id: str,
        spec: AgentSpec,
        folder: SessionFolder,
        marker_verified: bool,
        tell: Callable[[ev.Event], None],
        files: object,
    ) -> UpstreamRun:
        """A new execution. Its agent works on the files itself: ours are not those it is on."""
        where = self._where(spec.session_id, spec, marker_verified)
        return self._run(execution_id, where, folder, tell)

    def living(self, folder: SessionFolder) -> Living | None:
        """The process that was left behind, as we knew it last."""
        record = Records(folder.path).now
        if record is None:
            return None
        return Living(
            record.execution_id,
            record.conversation,
            record.profile_hash,
            record.policy,
            record.offers,
            record.ending,
            record.permission_timeout,
        )

    def rejoin(
        self,
        state: State,
        folder: SessionFolder,
        marker_verified: bool,
        tell: Callable[[ev.Event], None],
    ) -> UpstreamRun:
        """Go on with the execution that `state` says is alive."""
        assert state.session_id is not None
        assert state.execution_id is not None
        live = None
        if state.turn is not None:
            prompt = [p for p in state.prompts if p.prompt_id == state.turn.prompt_id]
            arrived = not prompt or prompt[0].fate is not PromptFate.SENDING
            live = Live(state.turn.turn_id, state.opened_token or "", arrived)
        where = self._where(state.session_id, None, marker_verified)
        return self._run(state.execution_id, where, folder, tell, Rejoined(live))

    def _where(self, session_id: str, spec: AgentSpec | None, marker_verified: bool) -> Where:
        workspace = spec.cwd if spec is not None and spec.cwd else str(self._settings.workspace)
        return Where(
            instance_id=self.instance_of(session_id),
            session_id=session_id,
            workspace=workspace,
            spec=spec,
            marker_verified=marker_verified,
            may_adopt=self._named is not None,
        )

    def _run(
        self,
        execution_id: str,
        where: Where,
        folder: SessionFolder,
        tell: Callable[[ev.Event], None],
        rejoined: Rejoined | None = None,
    ) -> UpstreamRun:
        return UpstreamRun(
            execution_id,
            where,
            Means(self._client, self._settings, self._redactor),
            Records(folder.path),
            tell,
            rejoined,
        )

    # ---- is it there? ------------------------------------------------------------------

    async def watch(self, told: Callable[[str | None], None]) -> None:
        """Tell, on each change, why the upstream is of no use now, or None when it is."""
        since: float | None = None
        away: str | None = "it was not asked yet"
        first = True
        while True:
            try:
                await self._client.instances()
                found = None
            except Trouble as trouble:
                found = str(trouble)
            since = None if found is None else since or time.monotonic()
            lasting = first or (since is not None and time.monotonic() - since >= AWAY_SECONDS)
            now_away = found if found is None or lasting else away
            if first or now_away != away:
                log.warning("the upstream: %s", now_away or "it answers")
                told(now_away)
                away = now_away
            first = False
            await asyncio.sleep(WATCH_SECONDS)
