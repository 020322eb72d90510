"""The page about the protocol misses no method of the pinned SDK, and names tests that exist."""

import re
from pathlib import Path

from acp import AGENT_METHODS, CLIENT_METHODS

from kandev_operator import agentctl
from kandev_operator.agentctl import bridge
from kandev_operator.agentctl.clientside import ClientSide

TESTS = Path(__file__).resolve().parents[2]
PAGE = (Path(agentctl.__file__).parent / "ACP.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


def test_every_method_has_its_row() -> None:
    listed = [method for row in ROWS for method in re.findall(r"`([^`]+)`", row[0])]
    assert len(listed) == len(set(listed))
    # Both sides of a tunnelled MCP message have the same name.
    assert set(listed) == {*AGENT_METHODS.values(), *CLIENT_METHODS.values()}


def test_every_test_that_is_named_exists() -> None:
    sources = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    named = {test for row in ROWS for test in re.findall(r"`(test_\w+)`", row[2])}
    assert len(named) > 10
    assert [test for test in named if f"def {test}(" not in sources] == []


def test_what_is_offered_is_what_the_page_says() -> None:
    side = ClientSide(None, "/", {}, lambda terminal: None)
    offered = {method for method in CLIENT_METHODS.values() if side.knows(method)}
    handled = {"session/update", "session/request_permission"}
    said = {
        method
        for row in ROWS
        for method in re.findall(r"`([^`]+)`", row[0])
        if method in CLIENT_METHODS.values() and "not offered" not in row[1]
    }
    assert offered | handled == said
    assert bridge.CLIENT_METHODS is CLIENT_METHODS
