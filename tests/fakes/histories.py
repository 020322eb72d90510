"""What a real agent keeps of its conversations, read from its HOME: the person's words, and forks.

Most agents fork a history in silence when two processes hold one conversation: each goes on from
the same message, and later only one of the two branches is shown. Here that shows, because the
files are read and not the agent's answers. It refuses to judge: how many conversations there
should be is for the test that made them.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """What lies in a HOME."""

    conversations: int
    said: tuple[str, ...]
    """The person's messages, in the order in which they were stored."""
    forks: int
    """How many times a message got a second successor."""


def read(agent: str, home: Path) -> History:
    """The history of one of opencode, codex and claude."""
    return _READERS[agent](home)


def _claude(home: Path) -> History:
    files = [list(_lines(path)) for path in (home / ".claude/projects").glob("*/*.jsonl")]
    files = [entries for entries in files if any("uuid" in entry for entry in entries)]
    entries = [entry for each in files for entry in each if "uuid" in entry]
    users = [entry["message"]["content"] for entry in entries if entry["type"] == "user"]
    parents = (entry["parentUuid"] for entry in entries if not entry.get("isSidechain"))
    return History(len(files), tuple(map(_text, users)), _forks(parents))


def _codex(home: Path) -> History:
    files = [list(_lines(path)) for path in (home / ".codex/sessions").rglob("rollout-*.jsonl")]
    items = [
        entry["payload"]
        for each in files
        for entry in each
        if entry["type"] == "response_item" and entry["payload"].get("role") == "user"
    ]
    texts = [_text(item["content"]) for item in items]
    # What Codex itself tells its model of the surroundings stands in angle brackets. A file holds
    # one line of descent: a fork would be another file.
    said = tuple(text for text in texts if not text.startswith("<"))
    return History(len(files), said, 0)


def _opencode(home: Path) -> History:
    folder = home / ".local/share/opencode"
    with tempfile.TemporaryDirectory() as scratch:
        # A copy: whoever opens a database in WAL mode writes beside it.
        for path in folder.glob("opencode.db*"):
            shutil.copy2(path, scratch)
        with closing(sqlite3.connect(Path(scratch, "opencode.db"))) as database:
            sessions = database.execute("SELECT count(*) FROM session").fetchone()[0]
            rows = "SELECT id, data FROM message ORDER BY time_created"
            messages = {key: json.loads(data) for key, data in database.execute(rows)}
            rows = "SELECT message_id, data FROM part ORDER BY time_created"
            parts = [(key, json.loads(data)) for key, data in database.execute(rows)]
    users = [key for key, message in messages.items() if message["role"] == "user"]
    said = tuple(
        "".join(part["text"] for key, part in parts if key == user and part["type"] == "text")
        for user in users
    )
    return History(sessions, said, _forks(each.get("parentID") for each in messages.values()))


_READERS: dict[str, Callable[[Path], History]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}


def _forks(parents: Iterable[str | None]) -> int:
    children = Counter(parent for parent in parents if parent)
    return sum(count - 1 for count in children.values())


def _lines(path: Path) -> Iterator[Json]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
