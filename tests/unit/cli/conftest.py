"""The stage, as a fixture."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from unit.cli.stage import Stage, standing


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with standing(tmp_path) as stage:
        yield stage
