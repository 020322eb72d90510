"""The definitions in crds/ are those of the models, and keep the promises made to users."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from kandev_operator.api import crd, schema
from kandev_operator.api.meta import Model

CRDS = Path(__file__).parents[3] / "crds"
# kubectl's client-side apply keeps a copy in an annotation, which may have 256 KiB.
LARGEST = 200_000

Node = dict[str, Any]
by_kind = pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.resource.kind)


def root(kind: crd.Kind) -> Node:
    version = crd.definition(kind)["spec"]["versions"][0]
    properties: Node = version["schema"]["openAPIV3Schema"]["properties"]
    return properties


def nodes(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, each in node.get("properties", {}).items():
        yield from nodes(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[]")


def test_committed_files_are_the_generated_ones() -> None:
    found = {path.name: path.read_text("utf-8") for path in CRDS.glob("*.yaml")}
    assert crd.differences(found) == "", "run: python -m kandev_operator.api.crd --write crds/"


def test_check_names_the_file_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crd.main(["--write", str(tmp_path)]) == 0
    assert crd.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "tasks.yaml").write_text("kind: Nonsense\n")
    (tmp_path / "leftover.yaml").write_text("kind: Nonsense\n")
    assert crd.main(["--check", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "committed/tasks.yaml" in told
    assert "committed/leftover.yaml" in told
    assert "executors.yaml" not in told


@by_kind
def test_definition_is_small_enough_for_a_client_side_apply(kind: crd.Kind) -> None:
    assert len(crd.render(kind).encode()) < LARGEST


@by_kind
def test_text_of_a_file_is_the_definition(kind: crd.Kind) -> None:
    text = crd.render(kind)
    assert yaml.safe_load(text) == crd.definition(kind)
    assert "&id" not in text


@by_kind
def test_every_field_is_described(kind: crd.Kind) -> None:
    for part in ("spec", "status"):
        for path, node in nodes(root(kind)[part], part):
            for name, each in node.get("properties", {}).items():
                words = each.get("description", "")
                assert words, f"{path}.{name} has no description"
                assert words.endswith("."), f"{path}.{name}: not a sentence: {words}"


@by_kind
def test_a_status_has_no_rules(kind: crd.Kind) -> None:
    rules = {"enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "maxItems"}
    for path, node in nodes(root(kind)["status"], "status"):
        assert not rules & node.keys(), path
        assert "x-kubernetes-validations" not in node, path


@by_kind
def test_lists_of_conditions_are_merged_by_type(kind: crd.Kind) -> None:
    conditions = root(kind)["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == ["type"]


@by_kind
def test_only_kinds_with_a_pass_start_unobserved(kind: crd.Kind) -> None:
    default = root(kind)["status"].get("default")
    assert default == ({"observedGeneration": -1} if kind.is_reconciled else None)


@by_kind
def test_durations_are_bounded_whole_seconds(kind: crd.Kind) -> None:
    for path, node in nodes(root(kind)["spec"], "spec"):
        if path.endswith("Seconds") and "toleration" not in path:
            assert node["type"] == "integer", path
            assert {"minimum", "maximum"} <= node.keys(), path


@by_kind
def test_lists_and_strings_under_a_rule_are_bounded(kind: crd.Kind) -> None:
    for path, node in nodes(root(kind)["spec"], "spec"):
        if node.get("type") == "array":
            assert "maxItems" in node, path


def test_defaults_are_told_and_only_the_marked_ones_are_stored() -> None:
    stored = {
        f"{kind.resource.kind}:{path}"
        for kind in crd.KINDS
        for path, node in nodes(root(kind)["spec"], "spec")
        if "default" in node
    }
    assert stored == {"TaskSession:spec.operatingMode"}
    session = next(kind for kind in crd.KINDS if kind.resource.kind == "TaskSession")
    resume = root(session)["spec"]["properties"]["resume"]["properties"]
    assert resume["timeoutSeconds"]["description"].endswith("Default: `120`.")


def test_what_no_definition_can_hold_is_refused() -> None:
    class Mixed(Model):
        value: int | list[int] = Field(description="Either.")

    class Endless(Model):
        more: "Endless | None" = Field(default=None, description="And so on.")

    class Fixed(Model):
        value: tuple[int, str] = Field(description="A pair.")

    for model in (Mixed, Endless, Fixed):
        model.model_rebuild(_types_namespace={"Endless": Endless})
        with pytest.raises(schema.NotStructural, match=model.__name__):
            schema.spec_schema(model)
