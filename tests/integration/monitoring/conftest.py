"""Prometheus' own engine, built before any test's time begins to count."""

from pathlib import Path

import pytest

from promql.engine import Engine

HERE = Path(__file__).resolve().parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile it now, where a test of this folder will need it."""
    if not session.config.option.collectonly and any(
        item.path.is_relative_to(HERE) for item in session.items
    ):
        Engine()


@pytest.fixture(scope="session")
def promql() -> Engine:
    """The engine that evaluates rules and expressions."""
    return Engine()
