"""What the chart makes of its values."""

import shutil
from pathlib import Path

import pytest
import yaml

from cluster.helm import CHART, Helm, HelmError
from stage.rendered import CLUSTERED, HOME, Rendered, render

CRDS = CHART.parents[1] / "crds"
KEEP = {"helm.sh/resource-policy": "keep"}


def test_helm_finds_nothing_to_say(helm: Helm) -> None:
    said = helm("lint", "--strict", CHART)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_b055_the_definitions_are_those_of_crds_and_are_kept(by_default: Rendered) -> None:
    ours = {path.name: path.read_text() for path in CRDS.glob("*.yaml")}
    files = {path.name: path.read_text() for path in (CHART / "files/crds").glob("*.yaml")}
    assert files == ours, "`make manifests` copies crds/ into the chart"
    wanted = [yaml.safe_load(text) for text in ours.values()]
    found = by_default.of("CustomResourceDefinition")
    assert len(found) == len(wanted) == 4
    for body in found:
        assert body["metadata"].pop("annotations") == KEEP
        assert body in wanted


def test_definitions_go_only_where_that_was_asked_for(helm: Helm) -> None:
    for body in render(helm, "--set=crds.keep=false").of("CustomResourceDefinition"):
        assert "annotations" not in body["metadata"]
    assert not render(helm, "--set=crds.install=false").of("CustomResourceDefinition")


def test_no_secret_is_rendered(by_default: Rendered) -> None:
    assert not by_default.of("Secret")


def test_every_container_passes_pod_security_restricted(by_default: Rendered) -> None:
    found = list(by_default.containers())
    assert len(found) == 2, "the operator, and the test of the release"
    for pod, container in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]


def test_two_replicas_one_of_which_is_always_there(by_default: Rendered) -> None:
    spec = by_default.one("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 1
    budget = by_default.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == spec["selector"]
    main = spec["template"]["spec"]["containers"][0]
    assert main["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert main["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_one_prefix_is_before_every_image_and_a_digest_wins(helm: Helm) -> None:
    digest = "sha256:" + "0" * 64
    made = render(
        helm,
        "--set=image.registry=mirror.example.com/kandev/",
        f"--set=image.operator.digest={digest}",
        "--set=image.agentctl.tag=9.9",
    )
    images = {container["image"] for _, container in made.containers()}
    assert images == {f"mirror.example.com/kandev/kandev-operator@{digest}"}
    assert made.env()["KANDEV_AGENTCTL_IMAGE"] == "mirror.example.com/kandev/kandev-agentctl:9.9"


def test_no_image_is_called_latest(by_default: Rendered) -> None:
    for _, container in by_default.containers():
        assert container["image"] == "kandev-operator:0.1.0"
    assert by_default.env()["KANDEV_AGENTCTL_IMAGE"] == "kandev-agentctl:0.1.0"


def test_hosts_of_remote_executors_are_named_or_there_are_none(
    helm: Helm, by_default: Rendered
) -> None:
    assert by_default.env()["KANDEV_ALLOW_REMOTE_HOST"] == "none"
    made = render(helm, "--set=remote.allowedHosts={*.example.com,10.0.0.1}")
    assert made.env()["KANDEV_ALLOW_REMOTE_HOST"] == "*.example.com,10.0.0.1"


def test_every_object_says_its_namespace_and_release(by_default: Rendered) -> None:
    for body in by_default.bodies:
        if body["kind"] in CLUSTERED:
            assert "namespace" not in body["metadata"]
        else:
            assert body["metadata"]["namespace"]
        if body["kind"] != "CustomResourceDefinition":
            assert body["metadata"]["labels"]["app.kubernetes.io/instance"] == "kandev"
            assert body["metadata"]["labels"]["app.kubernetes.io/part-of"] == "kandev-operator"


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        ("operator.replica=3", "/operator", "'replica' not allowed"),
        ("operater.replicas=3", "''", "'operater' not allowed"),
        ("operator.replicas=two", "/operator/replicas", "got string, want integer"),
        ("watch.namespaces={Team_A}", "/watch/namespaces/0", "does not match pattern"),
        ("watch.namespaces=team-a", "/watch/namespaces", "got string, want array"),
        ("image=null", "''", "missing property 'image'"),
        ("image.operator.digest=sha256:12", "/image/operator/digest", "does not match pattern"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy", "value must be one of"),
        ("rbac.clusterReads=maybe", "/rbac/clusterReads", "value must be one of"),
        ("executors.podUser=0", "/executors/podUser", "anyOf"),
    ],
)
def test_b056_wrong_values_are_refused_with_their_path(
    helm: Helm, option: str, path: str, words: str
) -> None:
    with pytest.raises(HelmError) as refused:
        render(helm, f"--set={option}")
    assert path in str(refused.value)
    assert words in str(refused.value)


def test_b056_null_takes_a_default_away(helm: Helm) -> None:
    made = render(
        helm,
        "--set=operator.resources=null",
        "--set=watch.namespaces=null",
        "--set=operator.extraEnv=null",
        "--set=remote.allowedHosts=null",
        "--set=image.pullSecrets=null",
        "--set=operator.affinity=null",
    )
    main = made.one("Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "resources" not in main


def test_b056_a_chart_above_this_one_may_say_more(
    helm: Helm, by_default: Rendered, tmp_path: Path
) -> None:
    umbrella = tmp_path / "umbrella"
    (umbrella / "charts").mkdir(parents=True)
    shutil.copytree(CHART, umbrella / "charts/kandev-operator")
    needs = {"name": "kandev-operator", "version": "0.1.0", "condition": "kandev-operator.enabled"}
    chart = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": [needs]}
    (umbrella / "Chart.yaml").write_text(yaml.safe_dump(chart))
    values = {"global": {"region": "moon"}, "kandev-operator": {"enabled": True}}
    (umbrella / "values.yaml").write_text(yaml.safe_dump(values))
    text = helm("template", "kandev", umbrella, "--namespace", HOME)
    found = [body for body in yaml.safe_load_all(text) if body]
    key = lambda body: (body["kind"], body["metadata"]["name"])  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, by_default.bodies))
