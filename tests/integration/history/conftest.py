"""Both databases, each test with one of its own: SQLite in a file, and a real PostgreSQL server."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cluster.postgres import PostgresServer
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store

SESSION = SeenSession("session-uid-1", "team-a", "s-a", "task-uid-1", "t-a")
AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that tests share; whoever stops it has one of their own."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'history.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as made:
        yield made


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store that knows one session."""
    made = Store(url)
    await made.open()
    await made.see([SESSION], AT)
    yield made
    await made.close()
