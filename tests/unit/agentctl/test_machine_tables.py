"""The machine's tables: every move, fate and outcome, and the page that is drawn from them."""

from pathlib import Path

import pytest

from kandev_operator.agentctl.machine import diagram, tables
from kandev_operator.agentctl.machine.draft import DECIDED
from kandev_operator.agentctl.machine.tables import ALIVE, MOVES, Cause, IllegalMove, move
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.status import (
    AgentStatus,
    OperationState,
)


@pytest.mark.parametrize("status", AgentStatus)
@pytest.mark.parametrize("cause", Cause)
def test_every_pair_is_a_move_or_a_bug(status: AgentStatus, cause: Cause) -> None:
    if (status, cause) in MOVES:
        assert move(status, cause) is MOVES[status, cause]
    else:
        with pytest.raises(IllegalMove):
            move(status, cause)


def test_the_table_has_no_dead_end() -> None:
    reached = {AgentStatus.NONE}
    while more := {after for (before, _), after in MOVES.items() if before in reached} - reached:
        reached |= more
    assert reached == set(AgentStatus)
    for status in ALIVE - {AgentStatus.STOPPING}:
        assert MOVES[status, Cause.END] is AgentStatus.STOPPING
        assert MOVES[status, Cause.DIED] is AgentStatus.EXITED


def test_the_page_of_the_machine_is_what_runs() -> None:
    """Print it anew: python -m kandev_operator.agentctl.machine.diagram > …/machine/MACHINE.md"""
    page = diagram.page()
    assert page == Path(diagram.__file__).with_name("MACHINE.md").read_text()
    arrows = len(MOVES) + 1 + len(tables.FATES) + len(tables.OUTCOMES)
    assert page.count("-->") == arrows


@pytest.mark.parametrize("before", [None, *PromptFate])
@pytest.mark.parametrize("after", PromptFate)
def test_a_fate_that_is_decided_stays(before: PromptFate | None, after: PromptFate) -> None:
    if (before, after) in tables.FATES:
        tables.check_fate(before, after)
        assert before not in DECIDED
    else:
        with pytest.raises(IllegalMove):
            tables.check_fate(before, after)


@pytest.mark.parametrize("before", [None, *OperationState])
@pytest.mark.parametrize("after", OperationState)
def test_an_outcome_never_changes(before: OperationState | None, after: OperationState) -> None:
    if (before, after) in tables.OUTCOMES:
        tables.check_outcome(before, after)
        assert before in (None, OperationState.RUNNING)
    else:
        with pytest.raises(IllegalMove):
            tables.check_outcome(before, after)
