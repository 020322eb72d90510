"""What every ring shares: the control plane's fixtures, and a marker for each folder."""

from pathlib import Path

import pytest

pytest_plugins = ["cluster.plugin"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its ring, so that `-m unit` and the like work."""
    for item in items:
        ring = item.path.relative_to(_HERE).parts[0]
        if ring in ("unit", "integration"):
            item.add_marker(ring)
