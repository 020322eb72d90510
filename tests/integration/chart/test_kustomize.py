"""manifests/ is what the chart makes, for people who do without Helm; an API server takes both."""

import json
from collections.abc import Callable

import pytest
import yaml

from cluster import manifests
from cluster.helm import Helm
from cluster.interface import Cluster
from stage.rendered import HOME, render
from stage.sessions import Body


def key(body: Body) -> tuple[str, str, str]:
    meta = body["metadata"]
    return body["kind"], meta.get("namespace", ""), meta["name"]


def test_the_files_are_those_that_the_chart_makes(helm: Helm) -> None:
    for name, text in manifests.texts(helm).items():
        assert (manifests.FOLDER / name).read_text("utf-8") == text, f"run `make manifests`: {name}"


@pytest.mark.parametrize("overlay", ["", *manifests.OVERLAYS])
def test_an_overlay_is_equal_to_the_charts_output(
    overlay: str, kubectl: Callable[..., str], helm: Helm
) -> None:
    text = kubectl("kustomize", manifests.FOLDER / overlay)
    found = sorted(yaml.safe_load_all(text), key=key)
    wanted = manifests.rendered(helm, *manifests.OVERLAYS[overlay or "cluster-wide"])
    assert found == sorted(wanted, key=key)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--set=networkPolicy.namespaces={team-a}", "--set=rbac.secretNamespaces={team-a}"),
        ("--set=watch.namespaces={team-a}", "--set=rbac.clusterReads=true"),
        (
            "--set=gateway.enabled=true",
            "--set=gateway.postgresql.secretName=history",
            "--set=gateway.defaultTemplate.spec.runtime=Pod",
            "--set=gateway.ingress.enabled=true",
            "--set=gateway.ingress.host=kandev.example.com",
        ),
    ],
)
def test_an_api_server_takes_every_object(
    options: tuple[str, ...], helm: Helm, control_plane: Cluster
) -> None:
    for name in (HOME, "team-a"):
        for kind, meta in (
            ("Namespace", {"name": name}),
            ("ServiceAccount", {"name": "default", "namespace": name}),
        ):
            body = json.dumps({"apiVersion": "v1", "kind": kind, "metadata": meta})
            control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=body)
    bodies = render(helm, *options).bodies
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
    said = control_plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"),
        stdin=listed,
        timeout=120,
    )
    assert len(said.splitlines()) == len(bodies)
    assert "Warning" not in said
