"""A recorder in this process that follows a real agentctl, and what it is compared with."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp

from integration.agentctl.harness import Sidecar
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.events import Event
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.recorder import Recorder
from kandev_operator.gateway.recorder.settings import Agent, Dial, NotFollowable, RecorderSettings
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store

AT = "2026-01-01T00:00:00.000Z"
QUICK = RecorderSettings(gather=0.01, first_pause=0.02, longest_pause=0.2)
PATIENCE = 60.0


def session_of(sidecar: Sidecar) -> SeenSession:
    return SeenSession(sidecar.session, "team-a", "s-a", "task-uid-1", "t-a")


def dialling(sidecar: Sidecar, http: aiohttp.ClientSession) -> Dial:
    """The way to a sidecar that may be started again elsewhere."""

    async def dial() -> Agent:
        if "url" not in sidecar.run:
            raise NotFollowable("it has never been started")

        def mint(*scopes: Scope) -> str:
            return sidecar.keys.token(scopes=[scope.value for scope in scopes])

        return AgentctlClient(http, sidecar.run["url"], mint)

    return dial


@asynccontextmanager
async def recording(
    store: Store, settings: RecorderSettings = QUICK, **followed: tuple[SeenSession, Dial]
) -> AsyncIterator[Recorder]:
    """A recorder that follows some sessions; it is killed at the end, in the middle of things."""
    recorder = Recorder(store, lambda: AT, settings)
    for session, dial in followed.values():
        recorder.follow(session, dial)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def eventually(look: Callable[[], Any], what: str) -> Any:
    """Look until it holds; gives what was seen."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        seen = look()
        if asyncio.iscoroutine(seen):
            seen = await seen
        if seen:
            return seen
        await asyncio.sleep(0.02)
    raise AssertionError(f"did not come true in {PATIENCE:g} s: {what}")


async def kept(store: Store, journal_id: str, session_uid: str) -> list[Event]:
    """All that the store has of a journal, as it came."""
    found: list[Event] = []
    while True:
        after = Place(journal_id, found[-1].seq if found else 0)
        more = await store.raw(session_uid, after, 500)
        if not more:
            return found
        found += more


async def holds(store: Store, sidecar: Sidecar) -> list[dict[str, Any]]:
    """Wait until the store has as much as the journal; the same events, as agentctl writes them."""
    journal = (await asyncio.to_thread(sidecar.status))["journal"]

    async def is_there() -> bool:
        place = await store.newest_place(sidecar.session)
        return place == Place(journal["journal_id"], journal["last_seq"])

    await eventually(is_there, f"the store has {journal}")
    events = await kept(store, journal["journal_id"], sidecar.session)
    return [event.model_dump(mode="json") for event in events]


def patient(settings: RecorderSettings, **changes: Any) -> RecorderSettings:
    return replace(settings, **changes)


__all__ = ["open_session"]
