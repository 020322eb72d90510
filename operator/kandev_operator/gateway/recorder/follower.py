"""Follows one session's agentctl for as long as it can be followed.

A connection goes on after the newest event that is in memory; where memory is torn from the store,
after the newest that the store has. With the store away and nothing in memory it begins at the
journal's end: live words go on, and the past is read when the store is back. Connections are made
so many at a time, and of those that are far behind fewer: a gateway that starts asks thousands of
agentctls, and none of them is asked for everything at once.

agentctl is not trusted: what is of another session, or has an impossible number, ends the
connection.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from kandev_operator.clients.errors import ClientError
from kandev_operator.contract.events import (
    KINDS_LIVE,
    KINDS_MESSAGES,
    KINDS_STATE,
    Event,
    EventKind,
)
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.conversation import Conversation, cursor_of
from kandev_operator.gateway.recorder.metrics import RecorderMetrics
from kandev_operator.gateway.recorder.setback import is_same, parting
from kandev_operator.gateway.recorder.settings import Agent, NotFollowable, RecorderSettings
from kandev_operator.gateway.recorder.tail import Load, Tail
from kandev_operator.gateway.store.assembly import is_told_to_us
from kandev_operator.gateway.store.branches import begins_after, branch, is_of
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.rows import ID_CHARS, row_of
from kandev_operator.gateway.store.store import Store

_KINDS: Final = (KINDS_STATE, KINDS_MESSAGES, KINDS_LIVE)
_MAX_SEQ: Final = 2**62
_OVERHEAD: Final = 500
"""About what an event takes in memory beside its text, in bytes."""


class Strange(Exception):
    """What an agentctl sent cannot be of the session that is followed."""


class Follower:
    """Follows sessions on behalf of one recorder. `arrived` is called for each new event."""

    def __init__(
        self,
        store: Store,
        settings: RecorderSettings,
        metrics: RecorderMetrics,
        arrived: Callable[[Conversation], None],
        is_down: Callable[[], bool],
    ) -> None:
        self.load = Load()
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._arrived = arrived
        self._is_down = is_down
        self._connecting = asyncio.Semaphore(settings.connecting)
        self._catching_up = asyncio.Semaphore(settings.catching_up)

    async def follow(self, conversation: Conversation) -> None:
        """For ever; ended by cancelling it."""
        pause = self._settings.first_pause
        while True:
            # Whole crowds lose their connections at once, and must not come back at once.
            try:
                if await self._attend(conversation):
                    pause = self._settings.first_pause
                self._metrics.connection_ended("end")
            except (ClientError, NotFollowable, Strange, StoreUnavailable) as error:
                self._metrics.connection_ended(type(error).__name__)
            finally:
                conversation.following = False
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, self._settings.longest_pause)

    async def _attend(self, conversation: Conversation) -> bool:
        """One connection, from the first question to its end; whether it brought anything."""
        async with self._connecting:
            line = await self._connect(conversation)
        tail, end = line.tail, Place(line.name, line.last_seq)
        behind = _Behind(self._catching_up, self._settings, tail.end, end)
        brought = False
        await behind.begin()
        try:
            async with asyncio.timeout(None) as conversation.attending:
                async with aclosing(line.agent.events(line.cursor(), _KINDS)) as events:
                    conversation.following = True
                    conversation.wake()
                    if tail.torn:
                        self._arrived(conversation)
                    async for event in events:
                        brought = True
                        await self._take(conversation, tail, line.named(event))
                        behind.reached(tail.end)
        except TimeoutError:
            if conversation.attending is None or not conversation.attending.expired():
                raise
        finally:
            conversation.attending = None
            behind.over()
        return brought

    async def _connect(self, conversation: Conversation) -> "_Line":
        """Who answers, with which journal, and the tail to go on with."""
        assert conversation.dial is not None, "whoever is followed can be dialled"
        agent = await conversation.dial()
        report = await agent.status(with_token=False)
        served = report.session.session_id if report.session else None
        journal, last_seq = report.journal.journal_id, report.journal.last_seq
        if served != conversation.session_uid or journal is None:
            raise NotFollowable("it serves another session, or none")
        tail = await self._tail(conversation, Place(journal, last_seq))
        told = tail.end
        name = told.journal_id if told is not None and is_of(told.journal_id, journal) else journal
        if told is not None and told.journal_id == name:
            conversation.parted |= told.seq > last_seq
            if conversation.parted:
                tail, name = await self._branch(conversation, agent, name, Place(journal, last_seq))
        conversation.parted = False
        return _Line(agent, tail, journal, name, last_seq)

    async def _tail(self, conversation: Conversation, end: Place) -> Tail:
        """The tail to go on with."""
        tail, bounds = conversation.tail, self._settings.bounds
        if tail is not None and not tail.torn:
            return tail
        uid = conversation.session_uid
        try:
            place = await self._store.newest_place(uid)
            lengths = await self._store.lengths(uid, place) if place is not None else {}
            newest = None
            if place is not None:
                just_before = Place(place.journal_id, place.seq - 1)
                newest = next(iter(await self._store.raw(uid, just_before, 1)), None)
        except StoreUnavailable:
            if tail is None:
                tail = Tail(end, None, bounds, self.load)
                tail.torn = tail.is_blind = True
        else:
            if tail is not None:
                tail.drop()
            tail = Tail(place, lengths, bounds, self.load)
            tail.newest = newest
        conversation.tail = tail
        return tail

    async def _branch(
        self, conversation: Conversation, agent: Agent, name: str, end: Place
    ) -> tuple[Tail, str]:
        """The journal was set back: its tail from where it parts from what was told before."""
        tail = conversation.tail
        if tail is None or tail.torn or tail.unkept:
            # What was told before must be kept first.
            self._arrived(conversation)
            raise StoreUnavailable("what was told before is not kept yet")
        async with self._catching_up:
            first = await parting(
                self._store, agent, conversation.session_uid, name, end.seq, begins_after(name) + 1
            )
        name = branch(end.journal_id, first)
        conversation.tail = after = Tail(tail.end, None, self._settings.bounds, self.load)
        after.moves_to(Place(name, first - 1))
        return after, name

    async def _take(self, conversation: Conversation, tail: Tail, event: Event) -> None:
        _check(conversation, event)
        if event.kind is EventKind.LIVE:
            conversation.tell_live(event)
            return
        place = Place(event.journal_id, event.seq)
        if tail.end is not None and place.journal_id == tail.end.journal_id:
            if place.seq <= tail.end.seq:
                _compare(conversation, tail, event)
                return
            event = _from(event, tail.end.seq + 1)
        elif _is_empty(event):
            tail.moves_to(place)
            return
        while tail.is_full or (tail.unkept and self.load.size > self._settings.memory_bytes):
            await self._make_room(conversation, tail)
        tail.add(event, size_of(event))
        self._arrived(conversation)
        conversation.wake()

    async def _make_room(self, conversation: Conversation, tail: Tail) -> None:
        """Wait for the store, or go on without it: the journal is the buffer then."""
        if not self._is_down() and not tail.torn:
            conversation.room.clear()
            try:
                async with asyncio.timeout(self._settings.room_patience):
                    await conversation.room.wait()
            except TimeoutError:
                pass
            else:
                return
        self._metrics.shed(tail.shed())


@dataclass(frozen=True, slots=True)
class _Line:
    """One agentctl, its journal, and the name under which that is kept."""

    agent: Agent
    tail: Tail
    journal_id: str
    name: str
    last_seq: int

    def cursor(self) -> str | None:
        """Where to go on: with the newest event itself, to see that it is still the same."""
        end, newest = self.tail.end, self.tail.newest
        if end is None or end.journal_id != self.name:
            return cursor_of(end)
        again = newest is not None and newest.seq == end.seq
        return cursor_of(Place(self.journal_id, end.seq - again))

    def named(self, event: Event) -> Event:
        """The event under the journal's name here."""
        if self.name == self.journal_id or event.journal_id != self.journal_id:
            return event
        return event.model_copy(update={"journal_id": self.name})


class _Behind:
    """Whether a connection is still reading what it missed, and its turn to do so."""

    def __init__(
        self, turns: asyncio.Semaphore, settings: RecorderSettings, start: Place | None, end: Place
    ) -> None:
        self._turns = turns
        self._seconds = settings.catch_up_seconds
        self._end = end
        had = start.seq if start is not None and start.journal_id == end.journal_id else 0
        self._is_far = end.seq - had > settings.near
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Wait for a turn, where it is far behind."""
        if self._is_far:
            await self._turns.acquire()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self.over)

    def reached(self, place: Place | None) -> None:
        """It has read up to here."""
        if self._timer is not None and place is not None:
            there = place.journal_id == self._end.journal_id and place.seq >= self._end.seq
            if there:
                self.over()

    def over(self) -> None:
        """Somebody else's turn."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turns.release()


def _check(conversation: Conversation, event: Event) -> None:
    if event.session_id != conversation.session_uid:
        raise Strange("an event of another session")
    if not 0 <= event.seq <= _MAX_SEQ or not 0 < len(event.journal_id) <= ID_CHARS:
        raise Strange("an event with an impossible place")


def _is_empty(event: Event) -> bool:
    """A gap of nothing: what follows is another journal than the cursor's, from its beginning."""
    told = event.data.get("from_seq"), event.data.get("to_seq")
    return event.kind is EventKind.GAP and told == (1, 0)


def _compare(conversation: Conversation, tail: Tail, event: Event) -> None:
    """An event that was told before, or what should be one."""
    newest = tail.newest
    if newest is not None and newest.seq == event.seq:
        conversation.parted = not is_same(newest, event)
    else:
        conversation.parted = is_told_to_us(event)
    if conversation.parted:
        raise Strange("the journal was set back")


def _from(event: Event, seq: int) -> Event:
    """A gap that was told to us, without what we have."""
    start = event.data.get("from_seq")
    if not is_told_to_us(event) or not isinstance(start, int) or start >= seq:
        return event
    return event.model_copy(update={"data": {**event.data, "from_seq": seq}})


def size_of(event: Event) -> int:
    """About how many bytes an event takes in memory."""
    text = event.data.get("text")
    return _OVERHEAD + (4 * len(text) if isinstance(text, str) else 3 * row_of(event).size)
