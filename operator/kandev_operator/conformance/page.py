"""The table of MUSTs for the contract's page, with a column of results for each implementation.

Results are files of `results/`: `{"target": …, "results": {ID: pass|fail|not-applicable}, "why":
{ID: why it is not applicable}}`, written by `--save`. The page keeps its own words; only what
stands between the two marks is made here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kandev_operator.conformance.musts import Finding, Must, Result

BEGIN: Final = "<!-- the table of MUSTs: made by python -m kandev_operator.conformance --page -->"
END: Final = "<!-- the end of the table -->"
RESULTS: Final = Path(__file__).with_name("results")
SHOWN: Final = {"pass": "pass", "fail": "**fail**", "not-applicable": "n/a"}


@dataclass(frozen=True, slots=True)
class Column:
    """What came of one implementation."""

    name: str
    results: Mapping[str, str]
    why: Mapping[str, str]
    """Of each MUST that is not applicable."""


def saved(name: str, findings: Sequence[Finding]) -> str:
    """One implementation's results, as the text of their file."""
    results = {f.must.id: f.result.value for f in findings}
    why = {f.must.id: f.seen for f in findings if f.result is Result.NOT_APPLICABLE}
    told = {"target": name, "results": results, "why": why}
    return json.dumps(told, indent=1, sort_keys=True) + "\n"


def known(folder: Path = RESULTS) -> dict[str, Column]:
    """The results of every implementation that was tried, by name."""
    found: dict[str, Column] = {}
    for path in sorted(folder.glob("*.json")):
        told: Any = json.loads(path.read_bytes())
        name = str(told["target"])
        found[name] = Column(name, dict(told["results"]), dict(told.get("why", {})))
    return found


def table(musts: Sequence[Must], columns: Sequence[Column]) -> str:
    """One row for each MUST, by area; then why what is not applicable is not."""
    lines = [
        f"| id | agentctl MUST keep | {' | '.join(c.name for c in columns)} |",
        f"| --- | --- |{' --- |' * len(columns)}",
    ]
    for area in dict.fromkeys(m.area for m in musts):
        lines.append(f"| | **{area}** |{' |' * len(columns)}")
        for must in (m for m in musts if m.area == area):
            cells = (SHOWN.get(c.results.get(must.id, ""), "not tried") for c in columns)
            sentence = must.sentence.replace("|", "/")
            lines.append(f"| {must.id} | {sentence} | {' | '.join(cells)} |")
    for column in columns:
        for why in dict.fromkeys(column.why.values()):
            ids = ", ".join(sorted(id for id, each in column.why.items() if each == why))
            lines += ["", f"n/a of {column.name}, {ids}: {why}."]
    return "\n".join(lines)


def page(text: str, musts: Sequence[Must], columns: Mapping[str, Column]) -> str:
    """The page with its table made anew; raises ValueError where the marks are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the page lacks the marks of the table")
    return f"{before}{BEGIN}\n\n{table(musts, tuple(columns.values()))}\n\n{END}{after}"
