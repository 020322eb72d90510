"""The node's executable stands in for the control plane's, so it must be the same and more."""

import re

from cluster import build
from stage.verdicts import VERDICTS

VERSIONED = (
    "k8s.io/kubernetes",
    "k8s.io/kubectl",
    "k8s.io/component-base",
    "go.etcd.io/etcd/server/v3",
)


def versions(recipe: build.Recipe) -> dict[str, str]:
    text = (recipe.source / "go.mod").read_text()
    found = re.findall(r"^\s*(\S+) (?:=> \S+ )?(v\S+)$", text, re.MULTILINE)
    return {name: version for name, version in found if name in VERSIONED}


def test_both_recipes_hold_the_same_versions() -> None:
    assert versions(build.NODE) == versions(build.CONTROL_PLANE)
    assert set(versions(build.NODE)) == set(VERSIONED)


def test_the_node_has_all_that_the_control_plane_has() -> None:
    assert set(build.CONTROL_PLANE.components) < set(build.NODE.components)


def test_a_recipe_names_all_of_its_go_files() -> None:
    for recipe in (build.CONTROL_PLANE, build.NODE, VERDICTS):
        folders = [recipe.source, *(recipe.source / package for _, package in recipe.beside)]
        names = {
            path.relative_to(recipe.source) for folder in folders for path in folder.glob("*.go")
        }
        assert {str(name) for name in names} == {
            name for name in recipe.inputs if name.endswith(".go")
        }
