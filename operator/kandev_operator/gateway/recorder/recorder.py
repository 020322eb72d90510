"""The recorder: every session that can be followed is followed, kept, and given to its readers.

It implements `Conversations`. Reading never waits for what is to come, and never for a database
that is down: what memory has is given, and `late` says that more will follow. The watch tells which
sessions there are and which can be followed; telling it twice changes nothing. Several gateways
may follow the same sessions into the same database.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from kandev_operator.contract.events import Event, EventKind, cursor, parse_cursor
from kandev_operator.gateway.ports import HistoryUnavailable, Place, Stretch
from kandev_operator.gateway.recorder.conversation import Conversation, Listener, cursor_of
from kandev_operator.gateway.recorder.follower import Follower
from kandev_operator.gateway.recorder.forgetting import Forgetting
from kandev_operator.gateway.recorder.metrics import Levels, RecorderMetrics
from kandev_operator.gateway.recorder.settings import Dial, RecorderSettings
from kandev_operator.gateway.recorder.tail import Tail
from kandev_operator.gateway.recorder.writer import Writer
from kandev_operator.gateway.store.assembly import Assembler
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store
from kandev_operator.gateway.store.stretches import STRETCH_BYTES
from kandev_operator.gateway.wire.messages import MAX_PAGE_SIZE, MessagePage

READ_KINDS: Final = frozenset(
    {
        EventKind.MESSAGE,
        EventKind.PERMISSION_REQUESTED,
        EventKind.PERMISSION_RESOLVED,
        EventKind.TURN_STARTED,
        EventKind.TURN_ENDED,
        EventKind.PROMPT,
        EventKind.GAP,
    }
)
_FLUSH_SECONDS: Final = 5.0
_USUAL: Final = RecorderSettings()


class Recorder:
    """`now` gives the time of day in RFC 3339. Use it from one loop; `run` owns all its tasks."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], str],
        settings: RecorderSettings = _USUAL,
        metrics: RecorderMetrics | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._metrics = metrics or RecorderMetrics()
        self._metrics.watch(self._levels)
        self._now = now
        self._conversations: dict[str, Conversation] = {}
        self._group: asyncio.TaskGroup | None = None
        self._writer = Writer(
            store,
            settings,
            self._metrics,
            now,
            lambda: [*self._conversations.values()],
            self._tidy,
        )
        self._forgetting = Forgetting(
            store, settings.keeping, self._metrics, now, lambda: self._writer.written
        )
        self._follower = Follower(
            store, settings, self._metrics, self._writer.arrived, lambda: self._writer.is_down
        )

    async def run(self) -> None:
        """For ever; ended by cancelling it. Raises StoreRefused (in a group) for good."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._writer.run())
                group.create_task(self._forgetting.run())
                for conversation in self._conversations.values():
                    self._start(conversation)
        finally:
            self._group = None
            # What is not written is read again from the journals: this only saves that.
            with suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._writer.flush()

    # ---- the watch -------------------------------------------------------------------------

    def follow(self, session: SeenSession, dial: Dial) -> None:
        """An agentctl serves this session; `dial` finds the way to it, as often as need be."""
        self._writer.see(session)
        conversation = self._conversations.get(session.uid)
        if conversation is None:
            conversation = self._conversations[session.uid] = Conversation(session)
        conversation.seen, conversation.dial = session, dial
        self._start(conversation)

    def leave(self, session: SeenSession) -> None:
        """Nobody serves this session at present."""
        self._writer.see(session)
        self._end(session.uid)

    def gone(self, session_uid: str) -> None:
        """The session was deleted."""
        self._writer.gone(session_uid)
        self._end(session_uid)

    def listed(self, uids: Collection[str], namespaces: Collection[str] | None) -> None:
        """These are all that there are, in these namespaces or everywhere (None)."""
        there = None if namespaces is None else frozenset(namespaces)
        self._writer.listed(frozenset(uids), there)

    def _start(self, conversation: Conversation) -> None:
        if self._group is None or conversation.task is not None or conversation.dial is None:
            return
        conversation.task = self._group.create_task(self._follower.follow(conversation))

    def _end(self, session_uid: str) -> None:
        conversation = self._conversations.get(session_uid)
        if conversation is None:
            return
        conversation.dial = None
        if conversation.task is not None:
            conversation.task.cancel()
            conversation.task = None
            conversation.wake()
        self._tidy(conversation)

    def _tidy(self, conversation: Conversation) -> None:
        if conversation.is_idle:
            if conversation.tail is not None:
                conversation.tail.drop()
            self._conversations.pop(conversation.session_uid, None)

    # ---- the readers -----------------------------------------------------------------------

    async def newest(self, session_uid: str, before: str | None, limit: int) -> MessagePage:
        """A page of messages as they stand. Raises HistoryUnavailable; ValueError for no place."""
        limit = max(1, min(limit, MAX_PAGE_SIZE))
        place = None if before is None else Place(*parse_cursor(before))
        conversation = self._conversations.get(session_uid)
        try:
            page = await self._store.page(session_uid, place, limit)
        except StoreUnavailable as error:
            if place is not None or conversation is None or conversation.tail is None:
                raise HistoryUnavailable(str(error)) from None
            return _from_memory(session_uid, conversation.tail, limit)
        first = page.messages[0] if page.older and page.messages else None
        return MessagePage(
            session_id=session_uid,
            messages=page.messages,
            before=None if first is None else cursor(first.journal_id, first.seq),
            cursor=cursor_of(page.place),
            late=self._is_late(conversation),
        )

    async def after(self, session_uid: str, place: Place | None, limit: int) -> Stretch:
        """What follows a place; None: from the very beginning. Never waits for what comes."""
        conversation = self._conversations.get(session_uid)
        found = self._from_tail(conversation, place, limit)
        if found is not None:
            return found
        try:
            kept = await self._store.after(session_uid, place, limit, READ_KINDS)
            if kept.unknown and not _is_about(conversation, place):
                kept = await self._store.after(session_uid, None, limit, READ_KINDS)
        except StoreUnavailable:
            if conversation is not None:
                conversation.lacking = True
            return Stretch((), place, more=False, late=True)
        late = self._is_late(conversation) or kept.unknown
        room = limit - len(kept.events)
        if not kept.more and room > 0:
            newer = self._from_tail(conversation, kept.place, room)
            if newer is not None:
                return Stretch(kept.events + newer.events, newer.place, newer.more, late)
            if conversation is not None:
                conversation.lacking = True
        return Stretch(kept.events, kept.place, kept.more, late)

    def listen(
        self, session_uid: str, wake: Callable[[], None], live: Callable[[Event], None]
    ) -> Callable[[], None]:
        """Call `wake` when there is more, `live` with words not kept yet. Returns what ends it."""
        conversation = self._conversations.get(session_uid)
        if conversation is None:
            conversation = Conversation(SeenSession(session_uid, "", "", "", ""))
            self._conversations[session_uid] = conversation
        listener = Listener(wake, live)
        conversation.listeners.append(listener)

        def end() -> None:
            with suppress(ValueError):
                conversation.listeners.remove(listener)
            self._tidy(conversation)

        return end

    def following(self, session_uid: str) -> bool:
        """Whether its agentctl is being heard at this moment."""
        conversation = self._conversations.get(session_uid)
        return conversation is not None and conversation.following

    def holds(self, session_uid: str) -> bool:
        """Whether memory has anything of a session."""
        return session_uid in self._conversations

    def _from_tail(
        self, conversation: Conversation | None, place: Place | None, limit: int
    ) -> Stretch | None:
        if conversation is None or conversation.tail is None:
            return None
        found = conversation.tail.after(place, limit, STRETCH_BYTES, READ_KINDS)
        if found is None:
            return None
        return Stretch(found.events, found.place, found.more, self._is_late(conversation))

    def _is_late(self, conversation: Conversation | None) -> bool:
        if conversation is None:
            return self._writer.is_down
        torn = conversation.tail is not None and conversation.tail.torn
        return self._writer.is_down or conversation.sick > 0 or torn

    def _levels(self) -> Levels:
        tails = [each.tail for each in self._conversations.values() if each.tail is not None]
        return Levels(
            followed=sum(each.following for each in self._conversations.values()),
            unkept=sum(tail.unkept for tail in tails),
            unkept_bytes=self._follower.load.size,
            torn=sum(tail.torn for tail in tails),
            oldest_seconds=self._writer.oldest_seconds,
            is_down=self._writer.is_down,
        )


def _is_about(conversation: Conversation | None, place: Place | None) -> bool:
    """Whether a place that the store does not know is in the journal that is followed now."""
    if conversation is None or conversation.tail is None or place is None:
        return False
    end = conversation.tail.end
    return end is not None and end.journal_id == place.journal_id


def _from_memory(session_uid: str, tail: Tail, limit: int) -> MessagePage:
    """The page that can be shown while the store is away: what was said since."""
    found = Assembler()
    found.extend(tail.everything())
    messages = tuple(found.messages()[-limit:])
    first = messages[0] if messages else None
    place = Place(first.journal_id, first.seq) if first else tail.base
    return MessagePage(
        session_id=session_uid,
        messages=messages,
        before=cursor_of(place),
        cursor=cursor_of(tail.end),
        late=True,
    )
