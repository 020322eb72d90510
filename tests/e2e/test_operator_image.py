"""The operator's image: small, and at work in a cluster with the role that is written for it."""

import json
from collections.abc import Callable, Iterator

import pytest

from cluster.images import debian, oci, product
from cluster.node import Node
from stage.pods import Pods, fetch, restricted

HOME = "kandev-system"
LEASES = "kube-system"
OF_THE_CLUSTER = (
    "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings"
)
PORT = 8080
LIMIT = 120_000_000


@pytest.fixture
def home(node: Node) -> Iterator[Pods]:
    """The operator's own namespace, with the CRDs and the role; empty of operators afterwards."""
    repository = product.REPOSITORY
    node.kubectl("apply", "--server-side", "--force-conflicts", "-k", repository / "manifests")
    node.kubectl("-n", HOME, "scale", "deployment", "kandev-operator", "--replicas=0")
    node.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", repository / "crds")
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    node.kubectl("label", "--overwrite", "namespace", HOME, enforce)
    yield Pods(node, HOME)
    node.kubectl("-n", HOME, "delete", "pods", "--all", "--timeout=60s", timeout=70)
    node.kubectl(
        "delete", "-k", repository / "manifests/cluster-wide", "--timeout=90s", timeout=100
    )


def test_what_the_image_adds_to_its_base_is_small(operator_image: str) -> None:
    # By place and not by name: a builder may have packed the base's layers anew.
    below = len(oci.layers(debian.python()))
    own = oci.layers(product.operator())[below:]
    assert own
    size = sum(oci.unpacked_size(product.operator(), digest) for digest in own)
    assert size <= LIMIT, f"{size / 1_000_000:.1f} MB"


def test_an_operator_in_the_cluster_leads_and_keeps_status(
    home: Pods, make_namespace: Callable[..., Pods], operator_image: str
) -> None:
    team = make_namespace()
    pod = restricted(
        "operator",
        operator_image,
        [],
        env={"KANDEV_KEY_NAMESPACE": HOME, "KANDEV_LEASE_NAMESPACE": LEASES},
        grace=30,
        serviceAccountName="kandev-operator",
        automountServiceAccountToken=True,
    )
    main = pod["spec"]["containers"][0]
    # The image's own entrypoint and user are what is tried.
    del main["command"]
    del pod["spec"]["securityContext"]["runAsUser"]
    main["args"] = ["run", "--namespace", team.namespace]
    main["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 1}
    home.apply(pod)
    home.wait_ready("operator")
    assert home.execute("operator", "id", "-u").strip() == "65532"
    assert fetch(home.address("operator"), PORT, "/healthz")[0] == 200
    task = {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": "chores"},
        "spec": {"title": "Chores"},
    }
    team.apply(task)
    team.kubectl(
        "wait", "task/chores", "--for=jsonpath={.status.state}=TODO", "--timeout=60s", timeout=70
    )
    lease = json.loads(
        home.node.kubectl("-n", LEASES, "get", "lease", "kandev-operator", "--output=json")
    )
    assert lease["spec"]["holderIdentity"].startswith("operator")
