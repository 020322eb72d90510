"""The usual place for executions is ready for its first agent before one is asked for."""

import asyncio
import sys
from typing import cast

import pytest

from kandev_operator import agentctl
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.runs import LocalRuns
from kandev_operator.agentctl.settings import Settings

BRIDGE = "kandev_operator.agentctl.bridge"


async def test_what_speaks_acp_is_loaded_before_an_agent_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, BRIDGE, raising=False)
    monkeypatch.delattr(agentctl, "bridge", raising=False)
    runs = LocalRuns(cast(Settings, None), cast(Redactor, None))
    watching = asyncio.create_task(runs.watch(lambda _: None))
    async with asyncio.timeout(60):
        while True:
            if hasattr(agentctl, "bridge"):  # the last that an import does
                break
            await asyncio.sleep(0)
    watching.cancel()
