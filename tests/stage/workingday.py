"""A day's work on one session, with everything around it killed now and then; and what was heard.

A client of the gateway prompts, listens and comes back with its cursor whenever its socket ends, as
a browser would. What it put together is then compared with agentctl's own journal, byte for byte.
The dice are given in; a failure tells the seed.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

import websockets

from stage.onlooker import Heard, Onlooker, RefusedError, onlooker
from stage.talk import Talk

PATIENCE = 120.0
LOST = (OSError, ConnectionError, TimeoutError, websockets.WebSocketException)


class Served(Protocol):
    """A gateway, wherever it runs."""

    @property
    def url(self) -> str: ...


class Journalled(Protocol):
    """A session whose agentctl can be asked."""

    def talk(self) -> AbstractAsyncContextManager[Talk]: ...


class Colleague:
    """A client that always comes back, and goes on where it was."""

    def __init__(self, gateway: Served, session_id: str, name: str = "") -> None:
        self._url = gateway.url
        self.session_id = session_id
        self.name = name
        self.heard = Heard()
        self.ended: dict[str, int] = {}
        """How often the end of each prompt's turn was told."""
        self.connections = 0
        self._line: Onlooker | None = None
        self._news = asyncio.Condition()

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with self.open() as it:
                    await self._look(it)
            except* LOST:
                pass
            except* (RefusedError, AssertionError) as group:
                for each in group.exceptions:
                    if not (isinstance(each, RefusedError) and each.code == "not_found"):
                        raise  # not_found: a gateway that has not listed yet
            self._line = None
            await asyncio.sleep(0.05)

    def open(self) -> AbstractAsyncContextManager[Onlooker]:
        """Another socket."""
        return onlooker(self._url)

    async def _look(self, it: Onlooker) -> None:
        it.heard[self.session_id] = self.heard
        cursor = {"cursor": self.heard.cursor} if self.heard.cursor else {}
        await it.ask("session.subscribe", session_id=self.session_id, **cursor)
        self._line = it
        self.connections += 1
        seen = 0
        while it.closed is None:
            async with it.news:
                if len(it.notices) == seen:
                    await it.news.wait()
            for action, body in it.notices[seen:]:
                if action == "session.turn" and body["what"] == "ended":
                    prompt = body["prompt_id"]
                    self.ended[prompt] = self.ended.get(prompt, 0) + 1
            seen = len(it.notices)
            async with self._news:
                self._news.notify_all()

    async def until_ended(self, prompt_id: str) -> None:
        """The end of that prompt's turn was told."""
        await self._until(lambda: prompt_id in self.ended, f"the end of {prompt_id}")

    async def until_pieces(self, count: int) -> None:
        """So many pieces of the conversation were heard."""
        await self._until(lambda: len(self.heard.pieces) >= count, f"{count} pieces")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"{self.name} did not hear in {PATIENCE:g} s: {what}") from None

    async def prompt(self, prompt_id: str, text: str) -> None:
        """Hand it in until it was taken: the same id again is the same prompt."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(*LOST, RefusedError):
                    if self._line is not None:
                        named = {"session_id": self.session_id, "prompt_id": prompt_id}
                        await self._line.ask("session.prompt", **named, text=text)
                        return
                await asyncio.sleep(0.1)


async def compare(part: Journalled, heard: Heard) -> int:
    """Every message event of the journal, in order, each once, byte for byte; how many."""
    async with part.talk() as talk:
        events = [each for each in await talk.events() if each.kind == "message"]
    written = [
        (
            f"{each.journal_id}:{each.seq}",
            each.data["content"] if each.data.get("content") is not None else each.data["text"],
        )
        for each in events
    ]
    assert heard.pieces == written
    texts: dict[str, str] = {}
    for each in events:
        if each.data.get("content") is None:
            known = texts.get(each.data["message_id"], "")
            texts[each.data["message_id"]] = known + each.data["text"]
    assert heard.texts == texts
    return len(written)


def deck(restarts: int, dice: random.Random) -> list[str]:
    """Whom it hits, in a random order: gateway, operator and agentctl equally often."""
    victims = [("gateway", "operator", "agentctl")[number % 3] for number in range(restarts)]
    dice.shuffle(victims)
    return victims
