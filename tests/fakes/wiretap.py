#!/usr/bin/env python3
"""Stands between a client and an agent, hands every byte on, and notes each line of both.

`wiretap.py FILE COMMAND ...` appends JSON lines to FILE: {"from": "client"|"agent", "line": …}, in
the order in which they passed. It ends as the agent ends. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import IO

noting = threading.Lock()


def pass_on(source: IO[bytes], target: IO[bytes], who: str, notes: IO[str]) -> None:
    for line in source:
        with noting:  # noted before it is handed on: an answer never comes before its question
            notes.write(json.dumps({"from": who, "line": json.loads(line)}) + "\n")
            notes.flush()
        try:
            target.write(line)
            target.flush()
        except OSError:
            return
    try:
        target.close()
    except OSError:
        return


def main() -> None:
    notes = open(sys.argv[1], "a", buffering=1)  # noqa: SIM115 (as long as the process)
    agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    ways = [
        threading.Thread(target=pass_on, args=way, daemon=True)
        for way in (
            (sys.stdin.buffer, agent.stdin, "client", notes),
            (agent.stdout, sys.stdout.buffer, "agent", notes),
        )
    ]
    for way in ways:
        way.start()
    ways[1].join()
    os._exit(agent.wait())


if __name__ == "__main__":
    main()
