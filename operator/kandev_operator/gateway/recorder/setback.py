"""Where a journal that was set back parts from what is kept of it."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from kandev_operator.contract.events import KINDS_MESSAGES, KINDS_STATE, Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.settings import Agent, NotFollowable
from kandev_operator.gateway.store.store import Store

_AT_ONCE = 200


async def parting(
    store: Store, agent: Agent, session_uid: str, name: str, last_seq: int, first_seq: int
) -> int:
    """The first number of the journal, as it is now, that is kept (under this name) otherwise.

    `last_seq` is the journal's newest, and less than what is kept; what is before `first_seq` is
    not compared. Raises StoreUnavailable, ClientError, and NotFollowable for a stream cut short.
    """
    if last_seq < first_seq:
        return last_seq + 1
    kept = _kept(store, session_uid, name)
    async with aclosing(agent.events(None, (KINDS_STATE, KINDS_MESSAGES))) as events:
        have = await anext(kept, None)
        async for event in events:
            while have is not None and have.seq < event.seq:
                have = await anext(kept, None)
            if have is not None and have.seq == event.seq and not is_same(have, event):
                return event.seq
            if event.seq >= last_seq:
                return last_seq + 1
    raise NotFollowable("the stream ended before its journal did")


async def _kept(store: Store, session_uid: str, name: str) -> AsyncIterator[Event]:
    place = Place(name, 0)
    while events := await store.raw(session_uid, place, _AT_ONCE):
        for event in events:
            yield event
        place = Place(name, events[-1].seq)


def is_same(kept: Event, event: Event) -> bool:
    """Whether the journal still has what is kept of it."""
    if event.kind is EventKind.GAP:
        return True  # told to us alone, or lost before it was told to anybody
    return (kept.kind, kept.at, kept.data) == (event.kind, event.at, event.data)
