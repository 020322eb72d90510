"""The scripted agent seen from a test: how it is started, and what its diary (--log) tells.

It answers with a command line and with plain entries. It refuses to start or to judge anything.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("acp_agent.py")


def command(*options: str) -> list[str]:
    """The absolute command, with this Python; see `acp_agent.py --help` for the options."""
    return [sys.executable, str(PROGRAM), *options]


def diary(log: Path, event: str = "message", method: str | None = None) -> list[dict[str, Any]]:
    """What all processes with this --log noted, in order: `start`, `message`, `child`, `end`.

    Each entry has `at`, `pid` and `event`; a message also `method`, `id`, `sessionId`, `params`
    and `result`. No file yet is an empty diary, so that a test can wait for the first entry.
    """
    if not log.exists():
        return []
    # A last line without its end is still being written by a process that lives.
    lines = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    entries = [entry for entry in map(json.loads, lines) if entry["event"] == event]
    return [entry for entry in entries if method is None or entry["method"] == method]
