"""A conversation as agentctl journals it, made up: what is said, in events, and as it must read.

Texts come in pieces, tool calls change, states lie between; everything follows from the dice that
are given in.
"""

import random
from typing import Any

from kandev_operator.contract.events import Event, EventKind

WORDS = ("Ü", "naïve", "\0", "日本", "<script>", "👩‍💻", "plain", " ", "\n")


class Speech:
    """Makes one journal, and remembers every message of it as it stands."""

    def __init__(self, session_uid: str, journal_id: str, dice: random.Random) -> None:
        self.session_uid, self.journal_id, self._dice = session_uid, journal_id, dice
        self.events: list[Event] = []
        self.texts: dict[str, str] = {}
        self.contents: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []

    def go_on(self, events: int) -> list[Event]:
        """So many more events, or a few more."""
        start = len(self.events)
        while len(self.events) < start + events:
            match self._dice.randrange(6):
                case 0:
                    self.add(EventKind.AGENT, status="running")
                case 1:
                    self.add(EventKind.PROMPT, prompt_id="p", fate="delivered", reason="")
                case 2:
                    self.call(self._dice.randint(1, 4))
                case _:
                    self.say(self._dice.randint(1, 6))
        return self.events[start:]

    def say(self, pieces: int) -> None:
        """One text, in so many pieces."""
        message_id = self._begin("m")
        for _ in range(pieces):
            text = "".join(self._dice.choices(WORDS, k=self._dice.randint(1, 5)))
            self.texts[message_id] += text
            self._message(message_id, "text", text=text)

    def call(self, changes: int) -> None:
        """A tool call that changes, with something said in between."""
        message_id = self._begin("c")
        for number in range(changes):
            content = {"title": "a call", "status": f"{number} of {changes}"}
            self.contents[message_id] = content
            self._message(message_id, "tool_call", content=content)
            if self._dice.random() < 0.3:
                self.say(1)

    def add(self, what: EventKind, **data: Any) -> Event:
        """One event."""
        event = Event(
            journal_id=self.journal_id,
            seq=len(self.events) + 1,
            kind=what,
            at=f"2026-01-01T00:00:{len(self.events) % 60:02}.000Z",
            session_id=self.session_uid,
            execution_id="e1",
            data=data,
        )
        self.events.append(event)
        return event

    def as_it_stands(self) -> list[tuple[str, str, dict[str, Any] | None]]:
        """Every message: its id, its text, its content, in the order in which each began."""
        return [(m, self.texts[m], self.contents.get(m)) for m in self.order]

    def _begin(self, letter: str) -> str:
        message_id = f"e1-{letter}{len(self.order) + 1}"
        self.order.append(message_id)
        self.texts[message_id] = ""
        return message_id

    def _message(self, message_id: str, kind: str, **body: Any) -> None:
        named = {"message_id": message_id, "author": "agent", "kind": kind}
        self.add(EventKind.MESSAGE, **named, **body, turn_id="t1")
