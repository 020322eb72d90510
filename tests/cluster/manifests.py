"""The chart's output for people who do without Helm: a base and two overlays for kustomize.

`python -m cluster.manifests` writes them into manifests/; a test compares. What both ways of
watching have in common is the base; an overlay adds the rest, and the options of the operator. Only
the marks that Helm leaves for itself are other ones.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from cluster.helm import CHART, Helm

Body = dict[str, Any]

FOLDER: Final = CHART.parents[1] / "manifests"
CRD: Final = "CustomResourceDefinition"
RELEASE: Final = "kandev"
HOME: Final = "kandev-system"
TEAM: Final = "team-a"
"""The namespace that the overlay for some namespaces is written for."""
OVERLAYS: Final[dict[str, tuple[str, ...]]] = {
    "cluster-wide": (),
    "namespaced": (f"--set=watch.namespaces={{{TEAM}}}",),
}
_HEAD: Final = "# Generated from helm/kandev-operator by `make manifests`. Do not edit.\n"
_FILES: Final = "../../helm/kandev-operator/files"
_MANAGER: Final = "app.kubernetes.io/managed-by"


def rendered(helm: Helm, *options: str) -> list[Body]:
    """What the chart makes of these options, without the release's tests and Helm's own marks."""
    text = helm("template", RELEASE, CHART, f"--namespace={HOME}", "--no-hooks", *options)
    bodies = [body for body in yaml.safe_load_all(text) if body]
    for body in bodies:
        _unmark(body)
    return [_home(), *bodies]


def texts(helm: Helm) -> dict[str, str]:
    """All files, by their path below manifests/."""
    everywhere, some = (rendered(helm, *options) for options in OVERLAYS.values())
    base = [body for body in everywhere if body in some or body["kind"] == "Deployment"]
    files = {
        "base/operator.yaml": _yaml([body for body in base if body["kind"] != CRD]),
        "base/kustomization.yaml": _kustomization(_FILES, "operator.yaml"),
        "kustomization.yaml": _kustomization("cluster-wide"),
        # Another copy of the definitions is not needed; outside its folder kustomize reads none
        # but such a file.
        f"base/{_FILES}/kustomization.yaml": _kustomization(
            *(f"crds/{path.name}" for path in sorted((CHART / "files/crds").glob("*.yaml")))
        ),
    }
    for name, bodies in zip(OVERLAYS, (everywhere, some), strict=True):
        more = [body for body in bodies if body not in base and body["kind"] != "Deployment"]
        files[f"{name}/rights.yaml"] = _yaml(more)
        patches = [] if name == "cluster-wide" else [_options(bodies)]
        files[f"{name}/kustomization.yaml"] = _kustomization(
            "../base", "rights.yaml", patches=patches
        )
    return files


def _home() -> Body:
    labels = {"app.kubernetes.io/part-of": "kandev-operator"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME, "labels": labels}}


def _unmark(body: Body) -> None:
    for meta in (body["metadata"], body.get("spec", {}).get("template", {}).get("metadata", {})):
        if meta.get("labels", {}).get(_MANAGER) == "Helm":
            meta["labels"][_MANAGER] = "kustomize"
        notes = meta.get("annotations", {})
        for key in [key for key in notes if key.startswith("helm.sh/")]:
            del notes[key]
        if not notes:
            meta.pop("annotations", None)


def _options(bodies: Sequence[Body]) -> Body:
    """A patch that gives the operator the options of another overlay."""
    (deployment,) = (body for body in bodies if body["kind"] == "Deployment")
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/env", "value": env}]
    target = {"kind": "Deployment", "name": deployment["metadata"]["name"]}
    return {"target": target, "patch": yaml.safe_dump(patch, sort_keys=False)}


def _kustomization(*resources: str, patches: Sequence[Body] = ()) -> str:
    body: Body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }
    return _yaml([{**body, "patches": list(patches)} if patches else body])


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they are read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(bodies: Sequence[Body]) -> str:
    return _HEAD + yaml.dump_all(
        bodies, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        files = texts(Helm(Path(scratch)))
    for name, text in files.items():
        path = (FOLDER / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
