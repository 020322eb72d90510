"""The table of real agents is what their tests assert, and names tests that exist."""

import ast
from pathlib import Path

import pytest

from fakes import agents_seen, real_agents
from fakes.node_tools import InstallError

TESTS = Path(__file__).resolve().parents[2]


def test_the_table_is_what_is_asserted() -> None:
    """Print it anew, from tests/: python -m fakes.agents_seen > fakes/AGENTS.md"""
    assert (TESTS / "fakes" / "AGENTS.md").read_text() == agents_seen.page()


def test_every_agent_has_its_line_and_every_column_its_test() -> None:
    assert agents_seen.SEEN.keys() == real_agents.RECIPES.keys()
    source = (TESTS / "integration" / "agentctl" / "test_real_agents.py").read_text()
    defined = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)}
    assert {test for _, test, _ in agents_seen.COLUMNS} <= defined


@pytest.mark.parametrize(
    ("asked", "agents"),
    [
        ("", real_agents.EVERY_RUN),
        ("all", tuple(real_agents.RECIPES)),
        ("qwen, cline", ("qwen", "cline")),
    ],
)
def test_which_agents_are_tried(
    asked: str, agents: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KANDEV_TEST_AGENTS", asked)
    assert real_agents.chosen() == agents
    assert len(real_agents.EVERY_RUN) == 5


def test_an_unknown_agent_is_not_left_out_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_TEST_AGENTS", "codex,nobody")
    with pytest.raises(InstallError, match="nobody"):
        real_agents.chosen()
