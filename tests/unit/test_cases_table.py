"""The table of field cases: every id that a test carries has its sentence there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (B\d{3}) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"def test_((?:b\d{3}_)+)", re.IGNORECASE)


def test_every_id_in_a_tests_name_has_one_sentence() -> None:
    rows = ROW.findall((TESTS / "CASES.md").read_text("utf-8"))
    ids = [each for each, _ in rows]
    assert ids == sorted(set(ids)), "each once, in order"
    carried = {
        each.upper()
        for path in TESTS.rglob("test_*.py")
        for name in NAMED.findall(path.read_text("utf-8"))
        for each in name.strip("_").split("_")
    }
    assert len(carried) > 20, "the tests are found"
    assert carried - set(ids) == set()
