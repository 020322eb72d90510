"""The journal's tables, and how each kept thing becomes a row and comes back.

Plain functions over a connection; transactions, errors and retention belong to `journal`. The
schema has a version: a file of a later one is refused as unreadable rather than guessed at.
"""

import json
import sqlite3
from typing import Any, Final

from kandev_operator.agentctl.frames import BATCH_BYTES
from kandev_operator.agentctl.machine.effects import (
    StoreCapabilities,
    StoreExecution,
    StoreFence,
    StoreOperation,
    StorePrompt,
    StoreToken,
    StoreTurn,
)
from kandev_operator.agentctl.machine.reopen import Kept
from kandev_operator.agentctl.machine.state import KEPT_OPERATIONS, KEPT_PROMPTS, Prompt, Token
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.events import Event
from kandev_operator.contract.status import Capabilities, EndedTurn, Operation, Turn

SCHEMA_VERSION: Final = 2
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
  seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, at TEXT NOT NULL, execution_id TEXT, data TEXT
);
CREATE INDEX IF NOT EXISTS state_events ON events (seq) WHERE kind <> 'message';
CREATE TABLE IF NOT EXISTS operations (
  place INTEGER PRIMARY KEY, operation_id TEXT UNIQUE NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS prompts (
  place INTEGER PRIMARY KEY, prompt_id TEXT UNIQUE NOT NULL, fate TEXT NOT NULL,
  at TEXT NOT NULL, reason TEXT NOT NULL, content TEXT NOT NULL, digest TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS tokens (
  place INTEGER PRIMARY KEY CHECK (place = 1), value TEXT, established INTEGER NOT NULL,
  epoch INTEGER NOT NULL, at TEXT NOT NULL, previous TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS fence (
  place INTEGER PRIMARY KEY CHECK (place = 1), term INTEGER NOT NULL, epoch INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS turns (
  place INTEGER PRIMARY KEY CHECK (place = 1), live TEXT, ended TEXT, completed INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS executions (
  place INTEGER PRIMARY KEY CHECK (place = 1), execution_id TEXT NOT NULL, ended TEXT
);
"""
UPGRADES: Final = {
    1: "ALTER TABLE prompts ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
}
"""From each older version to the one after it."""
PROMPT_MEMORY: Final = 10_000
"""How many prompt ids are remembered, so that an old one is not taken for new."""

Row = (
    StoreFence
    | StoreOperation
    | StorePrompt
    | StoreToken
    | StoreExecution
    | StoreTurn
    | StoreCapabilities
)


def create(db: sqlite3.Connection) -> None:
    """Make what is missing, upgrade what is older; raises ValueError for a schema of the future."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise ValueError(f"the journal has schema {version}, this agentctl knows {SCHEMA_VERSION}")
    if version < SCHEMA_VERSION:
        fresh = SCHEMA.split(";\n") if version == 0 else []
        for statement in fresh or [UPGRADES[old] for old in range(version, SCHEMA_VERSION)]:
            if statement.strip():
                db.execute(statement)
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def identify(db: sqlite3.Connection, session_id: str, fresh: str) -> str:
    """Give the journal's id, a fresh one for a new file; note whose it is."""
    db.execute("INSERT OR IGNORE INTO meta VALUES ('journal_id', ?)", (fresh,))
    db.execute("INSERT OR REPLACE INTO meta VALUES ('session_id', ?)", (session_id,))
    found: str = db.execute("SELECT value FROM meta WHERE name = 'journal_id'").fetchone()[0]
    return found


def write_event(db: sqlite3.Connection, event: Event) -> str:
    """Write an event; gives its data as the text that is kept."""
    data = _json(event.data)
    db.execute(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        (event.seq, event.kind.value, event.at, event.execution_id, data),
    )
    return data


def write(db: sqlite3.Connection, store: Row) -> None:
    """Write one kept thing; the newest word replaces the older one."""
    match store:
        case StoreFence(term=term, epoch=epoch):
            db.execute("INSERT OR REPLACE INTO fence VALUES (1, ?, ?)", (term, epoch))
        case StoreOperation(operation=operation):
            db.execute(
                "INSERT INTO operations (operation_id, body) VALUES (?, ?) "
                "ON CONFLICT (operation_id) DO UPDATE SET body = excluded.body",
                (operation.operation_id, operation.model_dump_json()),
            )
        case StorePrompt(prompt=prompt):
            _write_prompt(db, prompt)
        case StoreToken(token=token, previous=previous, epoch=epoch, at=at):
            value = token.value if token else None
            established = bool(token and token.established)
            db.execute(
                "INSERT OR REPLACE INTO tokens VALUES (1, ?, ?, ?, ?, ?)",
                (value, established, epoch, at, _json(previous)),
            )
            maker = (token.agent, token.profile) if token else (None, None)
            db.execute("INSERT OR REPLACE INTO meta VALUES ('token_maker', ?)", (_json(maker),))
        case StoreExecution(execution_id=execution_id, ended=ended):
            db.execute("INSERT OR REPLACE INTO executions VALUES (1, ?, ?)", (execution_id, ended))
        case StoreTurn(turn=turn, ended=over, completed=completed):
            _write_turn(db, turn, over, completed)
        case StoreCapabilities(capabilities=capabilities):
            db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('capabilities', ?)",
                (capabilities.model_dump_json(),),
            )


def _write_prompt(db: sqlite3.Connection, prompt: Prompt) -> None:
    db.execute(
        "INSERT INTO prompts (prompt_id, fate, at, reason, content, digest) "
        "VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (prompt_id) DO UPDATE SET fate = excluded.fate, reason = excluded.reason, "
        "content = excluded.content",
        (
            prompt.prompt_id,
            prompt.fate.value,
            prompt.at,
            prompt.reason,
            _json(prompt.content),
            prompt.digest,
        ),
    )
    db.execute(
        "DELETE FROM prompts WHERE place <= (SELECT max(place) FROM prompts) - ? "
        "AND fate NOT IN ('queued', 'sending')",
        (PROMPT_MEMORY,),
    )


def _write_turn(
    db: sqlite3.Connection, turn: Turn | None, ended: EndedTurn | None, completed: int
) -> None:
    db.execute(
        "INSERT INTO turns VALUES (1, ?, ?, ?) ON CONFLICT (place) DO UPDATE SET "
        "live = excluded.live, ended = coalesce(excluded.ended, ended), "
        "completed = excluded.completed",
        (
            turn.model_dump_json() if turn else None,
            ended.model_dump_json() if ended else None,
            completed,
        ),
    )


def key(store: Row) -> tuple[str, str]:
    """What the store is about: a later one with the same key replaces it."""
    match store:
        case StoreOperation(operation=operation):
            return "operation", operation.operation_id
        case StorePrompt(prompt=prompt):
            return "prompt", prompt.prompt_id
        case _:
            return type(store).__name__, ""


def read_events(
    db: sqlite3.Connection, after: int, limit: int, *, messages: bool, states: bool
) -> tuple[list[tuple[int, str, str, str | None, str]], bool]:
    """Rows after a number, and whether a bound cut them off. A gap is told to every reader."""
    kinds = "1"
    if not messages:
        kinds = "kind <> 'message'"
    elif not states:
        kinds = "kind IN ('message', 'gap')"
    rows = db.execute(
        f"SELECT seq, kind, at, execution_id, data FROM events WHERE seq > ? AND {kinds} "
        "ORDER BY seq LIMIT ?",
        (after, limit),
    )
    found: list[tuple[int, str, str, str | None, str]] = []
    size = 0
    for seq, kind, at, execution, data in rows:
        found.append((seq, kind, at, execution, data))
        size += len(data)
        if size > BATCH_BYTES:
            rows.close()
            return found, True
    return found, len(found) == limit


def load(db: sqlite3.Connection, session_id: str) -> Kept:
    """Everything that is kept beside the events."""
    term, epoch = _one(db, "SELECT term, epoch FROM fence") or (0, 0)
    live, ended, completed = _one(db, "SELECT live, ended, completed FROM turns") or (None, None, 0)
    execution, execution_ended = _one(db, "SELECT execution_id, ended FROM executions") or (
        None,
        None,
    )
    token, previous = _load_token(db)
    capabilities = _one(db, "SELECT value FROM meta WHERE name = 'capabilities'")
    operations = db.execute(
        "SELECT body FROM operations ORDER BY place DESC LIMIT ?", (KEPT_OPERATIONS,)
    ).fetchall()
    return Kept(
        session_id=session_id,
        term=term,
        epoch=epoch,
        operations=tuple(Operation.model_validate_json(row[0]) for row in reversed(operations)),
        prompts=_load_prompts(db),
        token=token,
        previous_tokens=previous,
        execution_id=execution,
        execution_ended=execution_ended,
        turn=Turn.model_validate_json(live) if live else None,
        last_turn=EndedTurn.model_validate_json(ended) if ended else None,
        turns_completed=completed,
        capabilities=Capabilities.model_validate_json(capabilities[0]) if capabilities else None,
        unresolved=_unresolved(db, execution),
    )


def _unresolved(db: sqlite3.Connection, execution_id: str | None) -> tuple[tuple[str, str], ...]:
    """(permission, turn) of every request that was told as asked and never as resolved."""
    asked: dict[str, str] = {}
    for kind, text in db.execute(
        "SELECT kind, data FROM events WHERE kind IN ('permission_requested', "
        "'permission_resolved') AND execution_id = ? ORDER BY seq",
        (execution_id,),
    ):
        data = json.loads(text)
        if kind == "permission_resolved":
            asked.pop(data["permission_id"], None)
        else:
            told = data["permission"]
            asked[told["permission_id"]] = told["turn_id"] or ""
    return tuple(asked.items())


def _load_token(db: sqlite3.Connection) -> tuple[Token | None, tuple[str, ...]]:
    row = _one(db, "SELECT value, established, epoch, previous FROM tokens")
    if row is None:
        return None, ()
    value, established, epoch, previous = row
    maker = _one(db, "SELECT value FROM meta WHERE name = 'token_maker'")
    # Older journals do not say who made it.
    agent, profile = json.loads(maker[0]) if maker else (None, None)
    token = None if value is None else Token(value, bool(established), epoch, agent, profile)
    return token, tuple(json.loads(previous))


def _load_prompts(db: sqlite3.Connection) -> tuple[Prompt, ...]:
    rows = db.execute(
        "SELECT prompt_id, fate, at, content, reason, digest FROM prompts WHERE fate IN ('queued', "
        "'sending') OR place > (SELECT max(place) FROM prompts) - ? ORDER BY place",
        (KEPT_PROMPTS,),
    ).fetchall()
    return tuple(
        Prompt(
            prompt_id,
            PromptFate(fate),
            at,
            tuple(json.loads(content)),
            reason,
            len(content),
            digest,
        )
        for prompt_id, fate, at, content, reason, digest in rows
    )


def find_prompt(db: sqlite3.Connection, prompt_id: str) -> Prompt | None:
    """An old prompt that the machine's memory may have let go."""
    row = _one(db, "SELECT fate, at, reason, digest FROM prompts WHERE prompt_id = ?", prompt_id)
    if row is None:
        return None
    fate, at, reason, digest = row
    return Prompt(prompt_id, PromptFate(fate), at, (), reason, digest=digest)


def find_operation(db: sqlite3.Connection, operation_id: str) -> Operation | None:
    """An old operation that the machine's memory may have let go."""
    row = _one(db, "SELECT body FROM operations WHERE operation_id = ?", operation_id)
    return None if row is None else Operation.model_validate_json(row[0])


def _one(db: sqlite3.Connection, query: str, *values: str) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = db.execute(query, values).fetchone()
    return row


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
