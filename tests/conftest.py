"""What every ring shares: the control plane's fixtures, and a marker for each folder."""

import asyncio
from pathlib import Path

import pytest

pytest_plugins = ["cluster.plugin"]

_HERE = Path(__file__).parent

# pytest-asyncio asks for the loop that was set before its own, and where none ever was, asyncio
# makes one that nobody closes: a warning, so an error, if a test without a loop ran first.
asyncio.set_event_loop(None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its ring, so that `-m unit` and the like work."""
    for item in items:
        ring = item.path.relative_to(_HERE).parts[0]
        if ring in ("unit", "integration", "e2e"):
            item.add_marker(ring)
