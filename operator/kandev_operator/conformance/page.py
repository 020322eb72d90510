"""The table of MUSTs for the contract's page, with a column of results for each implementation.

Results are files of `results/`: `{"target": …, "results": {ID: pass|fail|not-applicable}}`, written
by `--save`. The page keeps its own words; only what stands between the two marks is made here.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kandev_operator.conformance.musts import Finding, Must

BEGIN: Final = "<!-- the table of MUSTs: made by python -m kandev_operator.conformance --page -->"
END: Final = "<!-- the end of the table -->"
RESULTS: Final = Path(__file__).with_name("results")
SHOWN: Final = {"pass": "pass", "fail": "**fail**", "not-applicable": "n/a"}


def saved(name: str, findings: Sequence[Finding]) -> str:
    """One implementation's results, as the text of their file."""
    results = {f.must.id: f.result.value for f in findings}
    return json.dumps({"target": name, "results": results}, indent=1, sort_keys=True) + "\n"


def known(folder: Path = RESULTS) -> dict[str, dict[str, str]]:
    """The results of every implementation that was tried, by name."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.json")):
        told: Any = json.loads(path.read_bytes())
        found[str(told["target"])] = dict(told["results"])
    return found


def table(musts: Sequence[Must], results: Mapping[str, Mapping[str, str]]) -> str:
    """One row for each MUST, by area."""
    names = list(results)
    lines = [
        f"| id | agentctl MUST keep | {' | '.join(names)} |",
        f"| --- | --- |{' --- |' * len(names)}",
    ]
    for area in dict.fromkeys(m.area for m in musts):
        lines.append(f"| | **{area}** |{' |' * len(names)}")
        for must in (m for m in musts if m.area == area):
            cells = " | ".join(SHOWN.get(results[n].get(must.id, ""), "not tried") for n in names)
            lines.append(f"| {must.id} | {must.sentence.replace('|', '/')} | {cells} |")
    return "\n".join(lines)


def page(text: str, musts: Sequence[Must], results: Mapping[str, Mapping[str, str]]) -> str:
    """The page with its table made anew; raises ValueError where the marks are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the page lacks the marks of the table")
    return f"{before}{BEGIN}\n\n{table(musts, results)}\n\n{END}{after}"
