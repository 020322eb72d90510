"""The tables of this room as pictures and lists, read from what runs.

`python -m kandev_operator.agentctl.machine.diagram` prints MACHINE.md, which lies beside it; a test
compares the two. The moves come from `tables`, the events and acts from their unions.
"""

import inspect
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, get_args

from kandev_operator.agentctl.machine import effects, events, tables
from kandev_operator.agentctl.machine.step import OfAnExecution
from kandev_operator.contract.status import AgentStatus

HEAD = """\
# The machine, drawn

Printed by `python -m kandev_operator.agentctl.machine.diagram`; a test compares. Words are
explained in `contract/`, the moves are in `tables.py`, why they happen is in the rest of this room.
"""


def moves() -> str:
    """The agent's process as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {AgentStatus.NONE}"]
    lines += [f"    {one} --> {other}: {cause}" for (one, cause), other in tables.MOVES.items()]
    return "\n".join(lines)


def changes(table: Mapping[tuple[Any, Any], str]) -> str:
    """A table of (from, to) -> why as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {_name(one)} --> {_name(other)}: {why}" for (one, other), why in table.items()]
    return "\n".join(lines)


def _name(state: Enum | None) -> str:
    return "[*]" if state is None else str(state.value)


def listed(union: Any) -> str:
    """The classes of a union as a table: name, fields, first line of what it says of itself."""
    rows = ["| name | carries | |", "| --- | --- | --- |"]
    for each in get_args(union):
        carried = ", ".join(name for name in each.__dataclass_fields__ if name != "at")
        rows.append(f"| {each.__name__} | {carried} | {_first_line(each)} |")
    return "\n".join(rows)


def _first_line(described: type) -> str:
    said = inspect.getdoc(described) or ""
    # A dataclass without words of its own has its signature for a docstring.
    if said.startswith(described.__name__ + "("):
        return ""
    return said.partition("\n\n")[0].replace("\n", " ")


def statuses_of(causes: Iterable[tables.Cause]) -> str:
    """Which cause is legal in which status."""
    rows = ["| status | " + " | ".join(causes) + " |", "| --- " * (len(tables.Cause) + 1) + "|"]
    for status in AgentStatus:
        after = [tables.MOVES.get((status, cause)) for cause in causes]
        rows.append(f"| **{status}** | " + " | ".join(s.value if s else "" for s in after) + " |")
    return "\n".join(rows)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    parts += ["## The agent's process\n", _drawn(moves()), statuses_of(tables.Cause) + "\n"]
    parts += ["## A prompt's fate\n", _drawn(changes(tables.FATES))]
    parts += ["## An operation\n", _drawn(changes(tables.OUTCOMES))]
    parts += ["## What happens to agentctl\n", listed(events.Event) + "\n"]
    dropped = ", ".join(each.__name__ for each in get_args(OfAnExecution))
    parts.append(f"Dropped when they are of an older execution: {dropped}.\n")
    parts += ["## What it stores, before it acts\n", listed(effects.Store) + "\n"]
    parts += ["## What it does\n", listed(effects.Act) + "\n"]
    return "\n".join(parts)


def _drawn(diagram: str) -> str:
    return f"```mermaid\n{diagram}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
