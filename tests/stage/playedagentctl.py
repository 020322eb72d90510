"""An agentctl's event stream, played in this process: cursors, gaps, retention, a line that cuts.

It answers as the contract says, from a journal that the test fills, so thousands of them, and
moments that a real one has only once a year, can be had.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from kandev_operator.clients.errors import Unreachable
from kandev_operator.contract.events import Event, EventKind, parse_cursor
from kandev_operator.contract.status import StatusReport
from kandev_operator.contract.version import CONTRACT_VERSION
from stage.speech import Speech


class PlayedAgentctl:
    """One agentctl with one session. `say` fills its journal, `cut` ends its connections."""

    def __init__(self, session_uid: str, seed: int = 1, journal_id: str = "j1") -> None:
        self.session_uid = session_uid
        self._dice = random.Random(seed)
        self.speech = Speech(session_uid, journal_id, self._dice)
        self.first_seq = 1
        self.is_away = False
        self.asked: list[str | None] = []
        """The cursor of each connection."""
        self._connections = 0
        self._news = asyncio.Event()
        self._cuts = 0

    @property
    def journal(self) -> list[Event]:
        return self.speech.events

    @property
    def last_seq(self) -> int:
        return len(self.speech.events)

    def say(self, events: int) -> None:
        """So many more events, or a few more."""
        self.speech.go_on(events)
        self._rouse()

    def live(self, **data: Any) -> Event:
        """Words that are not kept yet; whoever sends them is the test."""
        return Event(
            journal_id=self.speech.journal_id,
            seq=self.last_seq,
            kind=EventKind.LIVE,
            at="2026-01-01T00:00:00.000Z",
            session_id=self.session_uid,
            data=data,
        )

    def forget(self, before: int) -> None:
        """Retention lets go of what is older."""
        self.first_seq = before

    def begin_anew(self, journal_id: str) -> None:
        """The workspace was lost: a journal of its own."""
        self.speech = Speech(self.session_uid, journal_id, self._dice)
        self.first_seq = 1
        self.cut()

    def set_back(self, last_seq: int) -> None:
        """A volume from before: the newest events never were, and their numbers are free."""
        before = self.speech
        self.speech = Speech(self.session_uid, before.journal_id, self._dice)
        self.speech.events[:] = before.events[:last_seq]
        self.cut()

    def cut(self) -> None:
        """Every connection ends."""
        self._cuts += 1
        self._rouse()

    async def dial(self) -> "PlayedAgentctl":
        if self.is_away:
            raise Unreachable("GET /api/v1/status", "no connection in time")
        return self

    async def status(self, *, with_token: bool = True) -> StatusReport:
        await asyncio.sleep(0)
        return StatusReport.model_validate(
            {
                "instance_id": "i1",
                "boot_id": "b1",
                "contract_version": CONTRACT_VERSION,
                "session": {
                    "session_id": self.session_uid,
                    "namespace": "team-a",
                    "name": "s-a",
                    "marker_verified": True,
                },
                "workspace_path": "/workspace",
                "agent": {"status": "idle"},
                "capabilities": {},
                "journal": {
                    "journal_id": self.speech.journal_id,
                    "last_seq": self.last_seq,
                    "state": "ok",
                },
            }
        )

    async def events(
        self, after: str | None = None, kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Event, None]:
        self.asked.append(after)
        assert set(kinds) >= {"state", "messages"}
        cuts, speech = self._cuts, self.speech
        journal_id, seq = parse_cursor(after) if after else (None, 0)
        if journal_id not in (None, speech.journal_id) or seq > self.last_seq:
            yield self._gap(1, self.first_seq - 1)
            seq = self.first_seq - 1
        while cuts == self._cuts:
            if seq < self.first_seq - 1:
                yield self._gap(seq + 1, self.first_seq - 1)
                seq = self.first_seq - 1
            if seq < self.last_seq:
                yield speech.events[seq]
                seq += 1
                if seq % 50 == 0:
                    await asyncio.sleep(0)
            else:
                self._news.clear()
                await self._news.wait()

    def _gap(self, start: int, end: int) -> Event:
        return Event(
            journal_id=self.speech.journal_id,
            seq=max(end, 0),
            kind=EventKind.GAP,
            at="2026-01-01T00:00:00.000Z",
            session_id=self.session_uid,
            data={"from_seq": start, "to_seq": end},
        )

    def _rouse(self) -> None:
        self._news.set()
