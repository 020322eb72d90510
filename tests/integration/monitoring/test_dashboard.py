"""The dashboard: Grafana's own model knows all of it, and Prometheus' own parser every expression.

The model is that of Grafana 10.1, so it can be imported there and in anything later. What it does
not know is lost on the way through it, and told here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from promql.engine import Engine, Parsed

ROOT: Final = Path(__file__).parents[3]
FILES: Final = ROOT / "helm" / "kandev-operator" / "files"
BOARD: Final[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text("utf-8"))
METRIC: Final = re.compile(r"^\| `(kandev_operator_\w+)` \| (\w+) \| (.*?) \| .+ \|$", re.MULTILINE)
TARGET: Final = {"job", "namespace", "instance", "pod"}
"""Labels that Prometheus gives to what it scrapes."""


def known() -> dict[str, set[str]]:
    """Every series that the operator serves, with its labels, by its page."""
    page = (ROOT / "operator" / "runbooks" / "METRICS.md").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for name, type_, told in METRIC.findall(page):
        labels = set(re.findall(r"\w+", told)) | TARGET | {"__name__"}
        ends = ("_bucket", "_sum", "_count") if type_ == "histogram" else ("",)
        found |= {f"{name}{end}": labels | ({"le"} if end == "_bucket" else set()) for end in ends}
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Each panel's title and expression, and the annotations'."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for note in BOARD["annotations"]["list"]:
        yield note["name"], note["expr"]


def plain(expression: str) -> str:
    """As Grafana sends it, its variables filled in."""
    return expression.replace("$__rate_interval", "5m").replace("$job", ".*")


def unknown(parsed: Parsed) -> Iterator[str]:
    """What an expression names that is not served."""
    served = known()
    if parsed.error:
        yield parsed.error
    may: set[str] = set()
    for metric, matchers in parsed.selectors:
        if metric not in served:
            yield metric
        may |= served.get(metric, set())
        yield from (f"{metric}.{label}" for label in matchers.keys() - served.get(metric, set()))
    yield from parsed.labels - may


def test_every_expression_can_be_evaluated_and_names_only_what_is_served(promql: Engine) -> None:
    asked = list(queries())
    parsed = promql.parse([plain(expression) for _, expression in asked])
    wrong = {title: list(unknown(each)) for (title, _), each in zip(asked, parsed, strict=True)}
    assert not {title: each for title, each in wrong.items() if each}


def test_every_alert_names_only_what_is_served(promql: Engine) -> None:
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text("utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    parsed = promql.parse([rule["expr"] for rule in rules])
    wrong = {rule["alert"]: list(unknown(each)) for rule, each in zip(rules, parsed, strict=True)}
    assert not {name: each for name, each in wrong.items() if each}


@pytest.mark.parametrize(
    "expression", ["sum(", "kandev_operator_nothing", 'kandev_operator_term{colour="red"}']
)
def test_a_wrong_expression_would_be_found(promql: Engine, expression: str) -> None:
    assert list(unknown(promql.parse([expression])[0]))


def test_nothing_that_is_served_is_left_out(promql: Engine) -> None:
    parsed = promql.parse([plain(expression) for _, expression in queries()])
    shown = {metric for each in parsed for metric, _ in each.selectors}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known()}
    shown_families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert families - shown_families == {"kandev_operator_sessions_verified"}


def test_legends_name_labels_that_the_expression_keeps(promql: Engine) -> None:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            parsed = promql.parse([plain(target["expr"])])[0]
            kept = parsed.labels | TARGET
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_grafanas_own_model_knows_all_of_it() -> None:
    plugins.register_default_plugins()
    through = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert list(lost(BOARD, through)) == []
    stranger = {**BOARD, "panels": [{**BOARD["panels"][1], "colour": "red"}]}
    through = json.loads(JSONEncoder().encode(Dashboard.from_json(stranger)))
    assert list(lost(stranger, through)) == [".panels[0].colour"]


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where the second lacks something of the first, or has something else."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from lost(value, theirs[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(value, other, f"{path}[{number}]")
    elif ours != theirs:
        yield path


def test_panels_have_words_and_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in BOARD["panels"]:
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_the_words_for_what_is_wrong_come_from_the_operator() -> None:
    table = next(panel for panel in BOARD["panels"] if panel["type"] == "table")
    assert "meaning" in table["targets"][0]["expr"]
    renamed = table["transformations"][0]["options"]["renameByName"]
    assert renamed["meaning"] == "In words"
