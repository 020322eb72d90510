"""The install page names what is there."""

import re
from typing import Any

import yaml

from cluster.helm import CHART

PAGE = CHART.parent / "README.md"
REPOSITORY = CHART.parents[1]


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def test_every_value_it_names_can_be_set() -> None:
    known = values()
    named = re.findall(r"(?:`|--set )([a-z]\w*(?:\.\w+)+)(?==|`)", PAGE.read_text())
    assert len(set(named)) > 12
    for name in named:
        place: Any = known
        if name.partition(".")[0] not in known:
            continue  # a file, a module, a path
        for part in name.split("."):
            assert part in place, name
            place = place[part]


def test_every_file_it_names_is_there() -> None:
    text = PAGE.read_text()
    for path in re.findall(r"(?:manifests|helm)/[\w./-]+", text):
        assert (REPOSITORY / path.rstrip(".")).exists(), path
    for path in re.findall(r"\]\(([^)]+)\)", text):
        assert (PAGE.parent / path).exists(), path


def test_every_value_says_what_it_does() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    for name in values():
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{name}:"))
        block = next(i for i in range(at, -1, -1) if i == 0 or not lines[i - 1].strip())
        inside = next((i for i in range(at + 1, len(lines)) if not lines[i].startswith(" ")), None)
        assert any("#" in line for line in lines[block:inside]), name


def test_all_definitions_are_named_where_they_are_deleted() -> None:
    wanted = {path.stem for path in (CHART / "files/crds").glob("*.yaml")}
    for path in (PAGE, CHART / "templates/NOTES.txt"):
        (line,) = (each for each in path.read_text().splitlines() if "delete crd" in each)
        found = {word.removesuffix(".kandev.dev") for word in line.split() if ".kandev.dev" in word}
        assert found == wanted, path
