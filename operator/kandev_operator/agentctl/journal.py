"""The session's journal: one SQLite file that outlives every process, with a single owner.

It keeps the numbered events, and beside them what must survive a restart: operations, prompts,
tokens, the fence, the turn. One step of the machine is one transaction, so a crash falls between
steps and never inside one. What must not be lost is written through to the disk before anybody
acts on it.

A file that cannot be read is never touched again: nothing is stored, nothing is deleted. A full
disk refuses what callers ask, while the agent goes on: events that found no room are counted and
a gap event tells of them as soon as there is room. Old events go when retention says so.
"""

import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from kandev_operator.agentctl import journal_rows
from kandev_operator.agentctl.filesystems import is_network
from kandev_operator.agentctl.frames import Frame, Recent, encode, wanted
from kandev_operator.agentctl.machine.effects import Append, Store
from kandev_operator.agentctl.machine.reopen import Kept
from kandev_operator.agentctl.machine.state import Prompt
from kandev_operator.agentctl.settings import Retention
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.status import JournalState, Operation

CHECK_EVERY: Final = 500
"""Events between two looks at retention; an hour of the clock that ends brings one, too."""
DELETE_AT_ONCE: Final = 20_000
"""Rows that one look deletes at most: nobody waits long for it."""
MAX_PENDING: Final = 2_000
Found = TypeVar("Found", Prompt, Operation)


class JournalFull(Exception):
    """There is no room; nothing of this transaction was kept."""


class JournalUnreadable(Exception):
    """The file cannot be read or written at all."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events, how far that is, and whether there were more of them at that moment."""

    frames: list[Frame]
    reached: int
    more: bool

    @property
    def events(self) -> list[Event]:
        """The same as values."""
        texts = (f.data.partition(b"\ndata: ")[2] for f in self.frames)
        return [Event.model_validate_json(text) for text in texts]


class Journal:
    """An open journal. Every method is short; the event loop calls them directly."""

    def __init__(
        self,
        path: Path,
        session_id: str,
        *,
        max_pages: int | None = None,
        keep: Retention | None = None,
    ) -> None:
        self.path = path
        self.session_id = session_id
        self.state = JournalState.OK
        self.message = ""
        self.journal_id: str | None = None
        self.first_seq = 1
        self.last_seq = 0
        self.keep = keep or Retention()
        self.no_room = False
        """It could not be opened for want of room: worth another look."""
        self.lost_total = 0
        self._lost_from: int | None = None
        self._since_check = 0
        self._hour = ""
        self._pending: dict[tuple[str, str], Store] = {}
        self._recent = Recent()
        self._full_sync: bool | None = None
        self._db: sqlite3.Connection | None = None
        try:
            self._open(max_pages)
        except (sqlite3.Error, ValueError, OSError) as exc:
            self._give_up(exc)
            self.no_room = _is_no_room(exc)

    def _open(self, max_pages: int | None) -> None:
        db = sqlite3.connect(self.path, isolation_level=None, timeout=0.5)
        self._db = db
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        mode = "TRUNCATE" if is_network(self.path.parent) else "WAL"
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("PRAGMA wal_autocheckpoint=1000")
        db.execute("PRAGMA journal_size_limit=4194304")
        if max_pages is not None:
            db.execute(f"PRAGMA max_page_count={int(max_pages)}")
        self._sync(full=True)
        db.execute("BEGIN IMMEDIATE")
        try:
            journal_rows.create(db)
            self.journal_id = journal_rows.identify(db, self.session_id, str(uuid.uuid4()))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        row = db.execute("SELECT min(seq), max(seq) FROM events").fetchone()
        self.last_seq = row[1] or 0
        self.first_seq = row[0] if row[0] is not None else self.last_seq + 1

    # ---- writing -----------------------------------------------------------------------

    def commit(self, stores: Sequence[Store]) -> list[Event]:
        """Keep everything, or nothing: raises JournalFull or JournalUnreadable."""
        db = self._usable()
        if not stores and not self._pending:
            return []
        durable = any(s.durable for s in stores) or bool(self._pending)
        events: list[Event] = []
        frames: list[Frame] = []
        seq = self.last_seq
        try:
            self._sync(full=durable)
            db.execute("BEGIN IMMEDIATE")
            if self._lost_from is not None and any(isinstance(s, Append) for s in stores):
                seq += 1
                events.append(self._gap(seq, stores))
                frames.append(self._write(db, events[-1]))
            for store in (*self._pending.values(), *stores):
                if isinstance(store, Append):
                    seq += 1
                    events.append(self._event(store, seq))
                    frames.append(self._write(db, events[-1]))
                else:
                    journal_rows.write(db, store)
            db.execute("COMMIT")
        except sqlite3.Error as exc:
            self._rolled_back(exc)
        self.last_seq = seq
        for frame in frames:
            self._recent.add(frame)
        self._pending.clear()
        if events:
            self._lost_from = None
        self.state, self.message = JournalState.OK, ""
        self._retain(events)
        return events

    def commit_or_lose(self, stores: Sequence[Store]) -> list[Event]:
        """Keep what can be kept: the agent goes on whether or not there is room."""
        try:
            return self.commit(stores)
        except JournalUnreadable:
            self._lose(stores)
            return []
        except JournalFull:
            self._lose(stores)
        # What must survive is small, and may find room where the events did not.
        with contextlib.suppress(JournalFull, JournalUnreadable):
            self._commit_rows()
        return []

    def _commit_rows(self) -> None:
        was = self.state, self.message
        self.commit(())
        self.state, self.message = was  # there is still no room for events

    def _lose(self, stores: Iterable[Store]) -> None:
        for store in stores:
            if isinstance(store, Append):
                self.last_seq += 1
                self.lost_total += 1
                if self._lost_from is None:
                    self._lost_from = self.last_seq
            elif len(self._pending) < MAX_PENDING:
                # The newest word on each thing is tried again with the next commit.
                self._pending[journal_rows.key(store)] = store

    def _gap(self, seq: int, stores: Sequence[Store]) -> Event:
        at = next(s.at for s in stores if isinstance(s, Append))
        data = {"from_seq": self._lost_from, "to_seq": seq - 1}
        return self._event(Append(EventKind.GAP, at, None, data), seq)

    def _write(self, db: sqlite3.Connection, event: Event) -> Frame:
        data = journal_rows.write_event(db, event)
        return self._frame(event.seq, event.kind.value, event.at, event.execution_id, data)

    def _frame(self, seq: int, kind: str, at: str, execution_id: str | None, data: str) -> Frame:
        row = (kind, at, execution_id, data)
        return Frame(seq, kind, encode(self.journal_id or "", self.session_id, seq, row))

    def _event(self, store: Append, seq: int) -> Event:
        return Event(
            journal_id=self.journal_id or "",
            seq=seq,
            kind=store.kind,
            at=store.at,
            session_id=self.session_id,
            execution_id=store.execution_id,
            data=store.data,
        )

    def _retain(self, added: Sequence[Event]) -> None:
        """Let old events go: too many, too many bytes, or too old."""
        if not added:
            return
        self._since_check += len(added)
        hour = added[-1].at[:13]
        due = min(CHECK_EVERY, max(1, self.keep.events // 10))
        if self._since_check < due and hour == self._hour:
            return
        self._since_check, self._hour = 0, hour
        db = self._usable()
        try:
            until = max(self._first_by_number(db), self._first_by_age(db, added[-1].at))
            until = min(until, self.last_seq, self.first_seq + DELETE_AT_ONCE)
            if until <= self.first_seq:
                return
            db.execute("DELETE FROM events WHERE seq < ?", (until,))
        except sqlite3.Error:
            return  # no room to make room: the next look tries again
        self.first_seq = until
        self._recent.forget(until)

    def _first_by_number(self, db: sqlite3.Connection) -> int:
        """The first event to stay, by how many there are and how big they are together."""
        kept = self.last_seq - self.first_seq + 1
        pages, free, size = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        used = (pages - free) * size
        if kept <= self.keep.events and used <= self.keep.bytes:
            return self.first_seq
        over = max(kept - self.keep.events, kept * (used - self.keep.bytes) // used, 0)
        # A tenth more, so that this is not done again at once.
        until: int = self.first_seq + over + kept // 10
        return until

    def _first_by_age(self, db: sqlite3.Connection, newest: str) -> int:
        try:
            oldest = datetime.fromisoformat(newest) - timedelta(days=self.keep.days)
        except (ValueError, OverflowError):
            return self.first_seq
        # Times are written alike (RFC 3339, UTC), and so they sort as texts.
        bound = oldest.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        row = db.execute(
            "SELECT seq FROM events WHERE at >= ? ORDER BY seq LIMIT 1", (bound,)
        ).fetchone()
        return self.first_seq if row is None else int(row[0])

    # ---- reading -----------------------------------------------------------------------

    def read(self, after: int, limit: int, *, messages: bool, states: bool) -> Batch:
        """Events after a sequence number, oldest first, as many as one reader may hold."""
        db = self._usable()
        recent = self._recent.after(after, limit)
        if recent is not None:
            reached = recent[-1].seq if recent else self.last_seq
            kept = [f for f in recent if wanted(f, messages=messages, states=states)]
            return Batch(kept, reached, reached < self.last_seq)
        last = self.last_seq
        try:
            rows, more = journal_rows.read_events(
                db, after, limit, messages=messages, states=states
            )
        except sqlite3.Error as exc:
            self._give_up(exc)
            raise JournalUnreadable(self.message) from None
        frames = [self._frame(*row) for row in rows]
        return Batch(frames, frames[-1].seq if more else max(after, last), more)

    def load(self) -> Kept:
        """What it keeps beside the events."""
        db = self._usable()
        try:
            return journal_rows.load(db, self.session_id)
        except (sqlite3.Error, ValueError, KeyError, TypeError) as exc:
            self._give_up(exc)
            raise JournalUnreadable(self.message) from None

    def find_prompt(self, prompt_id: str) -> Prompt | None:
        """One of the prompts of long ago."""
        return self._find(journal_rows.find_prompt, prompt_id)

    def find_operation(self, operation_id: str) -> Operation | None:
        """One of the operations of long ago."""
        return self._find(journal_rows.find_operation, operation_id)

    def _find(
        self, look: Callable[[sqlite3.Connection, str], Found | None], key: str
    ) -> Found | None:
        try:
            return look(self._usable(), key)
        except (sqlite3.Error, JournalUnreadable):
            return None

    def size(self) -> int:
        """Bytes on disk."""
        total = 0
        for suffix in ("", "-wal"):
            try:
                total += self.path.with_name(self.path.name + suffix).stat().st_size
            except OSError:
                continue
        return total

    def close(self) -> None:
        """Write everything down and let go of the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    # ---- trouble -----------------------------------------------------------------------

    def _usable(self) -> sqlite3.Connection:
        if self._db is None or self.state is JournalState.UNREADABLE:
            raise JournalUnreadable(self.message or "the journal is closed")
        return self._db

    def _sync(self, *, full: bool) -> None:
        if self._db is not None and self._full_sync is not full:
            self._db.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
            self._full_sync = full

    def _rolled_back(self, exc: sqlite3.Error) -> None:
        db = self._db
        if db is not None and db.in_transaction:
            try:
                db.execute("ROLLBACK")
            except sqlite3.Error as worse:
                self._give_up(worse)
                raise JournalUnreadable(self.message) from None
        if _is_no_room(exc):
            self.state, self.message = JournalState.FULL, "there is no room for the journal"
            raise JournalFull(self.message) from None
        self._give_up(exc)
        raise JournalUnreadable(self.message) from None

    def _give_up(self, exc: Exception) -> None:
        self.state = JournalState.UNREADABLE
        self.message = f"{type(exc).__name__}: {exc}"[:300]
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def describe(self) -> dict[str, Any]:
        """For the metrics."""
        return {"bytes": self.size(), "last_seq": self.last_seq, "lost": self.lost_total}


def _is_no_room(exc: Exception) -> bool:
    return getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
