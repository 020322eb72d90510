"""The contract's page says every MUST of the suite, and what was seen of each."""

from pathlib import Path

import pytest

from kandev_operator import contract
from kandev_operator.conformance import page
from kandev_operator.conformance.__main__ import main
from kandev_operator.conformance.running import every

README = Path(contract.__file__).with_name("README.md")


def test_the_page_is_that_of_the_suite() -> None:
    text = README.read_text()
    wanted = page.page(text, every(), page.known())
    assert text == wanted, f"run: python -m kandev_operator.conformance --page {README}"
    assert all(must.sentence in text for must in every())


def test_the_results_of_both_forms_are_there_for_every_must() -> None:
    known, every_id = page.known(), {must.id for must in every()}
    assert {name: set(column.results) for name, column in known.items()} == {
        "agentctl": every_id,
        "agentctl --upstream": every_id,
    }
    assert not known["agentctl"].why, "ours leaves nothing out"
    upstream = known["agentctl --upstream"]
    left_out = {id for id, result in upstream.results.items() if result == "not-applicable"}
    assert left_out == set(upstream.why)
    for why in upstream.why.values():
        assert f": {why}." in README.read_text(), "the page says why"


def test_every_model_of_the_contract_is_linked() -> None:
    text = README.read_text()
    rooms = {path.name for path in README.parent.glob("*.py")} - {
        "route.py",
        "workspaceroutes.py",
        "__init__.py",
        "openapi.py",
        "version.py",
        "wire.py",
    }
    assert {name for name in rooms if f"]({name})" not in text} == set()


def test_a_page_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="marks"):
        page.page("# nothing", every(), {})


def test_what_cannot_run_is_said_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["http://127.0.0.1:9"]) == 2
    assert main(["http://127.0.0.1:9", "--tokens", "/no/such/file"]) == 2
    assert main(["--only", "C-999", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.count("cannot run") == 4
    assert main(["--list"]) == 0
    assert "C-001" in capsys.readouterr().out
