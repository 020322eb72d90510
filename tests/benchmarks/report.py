"""What a benchmark has to say: metrics with goals, as JSON for machines and a table for people.

A goal is a ceiling. A count over its goal is a failure; a time or a size over it is only told,
since it says as much about the machine as about the product. The load average stands beside them
for that reason. What is measured is the business of each benchmark.
"""

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

Kind = Literal["count", "time", "memory"]
RUNS = 5
"""Times are medians of this many runs."""


class NotHere(Exception):
    """This machine lacks what the benchmark measures on; the text says what, for people."""


@dataclass(frozen=True)
class Metric:
    """One number. `ok` is None where there is no goal to compare it with."""

    name: str
    value: float
    unit: str
    kind: Kind
    goal: float | None = None
    baseline: float | None = None
    """The same of whatever does that job in the plainest way, measured in the same run."""
    ok: bool | None = field(init=False)

    def __post_init__(self) -> None:
        ok = None if self.goal is None else self.value <= self.goal
        object.__setattr__(self, "ok", ok)

    @property
    def fails(self) -> bool:
        """Whether the run must not pass with this."""
        return self.kind == "count" and self.ok is False


def middle(values: Sequence[float], digits: int = 3) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)


def save(folder: Path, name: str, metrics: Sequence[Metric]) -> Path:
    """Write a benchmark's result; a whole file or none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    load = [round(each, 2) for each in os.getloadavg()]
    body = {"benchmark": name, "load_average": load, "metrics": [asdict(m) for m in metrics]}
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(body, indent=2) + "\n")
    draft.replace(path)
    return path


def show(console: Console, results: dict[str, Sequence[Metric]]) -> None:
    """The table at the end."""
    table = Table(title="Benchmarks", title_justify="left")
    for column in ("benchmark", "metric"):
        table.add_column(column, overflow="fold")
    for column in ("value", "goal", "baseline"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for name, metrics in results.items():
        for index, metric in enumerate(metrics):
            table.add_row(
                name if index == 0 else "",
                metric.name,
                _number(metric.value, metric.unit),
                _number(metric.goal, metric.unit),
                _number(metric.baseline, metric.unit),
                _mark(metric),
                end_section=index == len(metrics) - 1,
            )
    console.print(table)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    console.print(f"load average {load} on {os.cpu_count()} cores", highlight=False)


def failures(results: Iterable[Sequence[Metric]]) -> list[Metric]:
    """Every count that is over its goal."""
    return [metric for metrics in results for metric in metrics if metric.fails]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    shown = f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
    return f"{shown} {unit}".strip()


def _mark(metric: Metric) -> str:
    if metric.ok is None:
        return ""
    if metric.ok:
        return "[green]ok[/]"
    return "[red]over[/]" if metric.fails else "[yellow]over[/]"
