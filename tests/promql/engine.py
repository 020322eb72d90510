"""Prometheus' own engine for alert rules and expressions, as a program that is built once.

`Engine.parse` says which metrics and labels an expression names; `Engine.alerts` plays series, with
all rules of a file evaluated at every interval as a Prometheus would, and says which alerts are
pending or firing at some moments. Series may come from a page that was really scraped
(`lasting`). The program is `main.go` beside this file.
By hand: `python -m promql.engine`, which builds it and prints the path.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from cluster import build

RECIPE: Final = build.Recipe(
    executable="rules-engine",
    source=Path(__file__).resolve().parent,
    inputs=("go.mod", "go.sum", "main.go", "rules.go"),
    components=("promql",),
    cpu_seconds=100,
)

Series = tuple[str, str]
"""A series and its values, in the notation of Prometheus' own tests."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an expression names; or why it is none."""

    error: str
    selectors: tuple[tuple[str, Mapping[str, str]], ...]
    """Metric, and the labels it is selected by with what they are compared with."""
    labels: frozenset[str]
    """Labels that are grouped by or joined on."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that is pending or firing."""

    name: str
    state: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Engine:
    """Asks the program, which is built when first needed."""

    def __init__(self) -> None:
        self._program = build.ensure(recipe=RECIPE)

    def parse(self, expressions: Sequence[str]) -> list[Parsed]:
        """Each expression, taken apart."""
        told = self._ask("parse", {"expressions": list(expressions)})
        return [
            Parsed(
                each["error"],
                tuple(
                    (found["metric"], {m["label"]: m["value"] for m in found["matchers"]})
                    for found in each["selectors"]
                ),
                frozenset(each["labels"])
                | {m["label"] for found in each["selectors"] for m in found["matchers"]},
            )
            for each in told
        ]

    def alerts(
        self, rules: Path, series: Sequence[Series], at: Sequence[str], interval: str = "30s"
    ) -> dict[str, list[Alert]]:
        """What is pending or firing at each of these moments (`10m`), by moment."""
        question = {
            "file": str(rules),
            "interval": interval,
            "series": [{"series": name, "values": values} for name, values in series],
            "at": list(at),
        }
        told = self._ask("rules", question)
        return {
            moment: [
                Alert(each["alert"], each["state"], each["labels"], each["annotations"])
                for each in told[moment]
            ]
            for moment in at
        }

    def _ask(self, what: str, question: object) -> Any:
        done = subprocess.run(
            [self._program, what],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def lasting(page: str, scrapes: int, growing: Mapping[str, int], **target: str) -> list[Series]:
    """What a Prometheus has after so many scrapes of one target, if this page lasts.

    Values stay as they are, but for metrics that grow by so much from scrape to scrape.
    """
    found: list[Series] = []
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(
                f"{name}={json.dumps(text)}" for name, text in {**sample.labels, **target}.items()
            )
            step = growing.get(sample.name, 0)
            found.append((f"{sample.name}{{{labels}}}", f"{sample.value:.6f}+{step}x{scrapes}"))
    return found


if __name__ == "__main__":
    print(build.ensure(recipe=RECIPE))
