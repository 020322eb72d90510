"""The gateway's part of the chart, which is left out until it is asked for."""

import pytest

from cluster.helm import Helm, HelmError
from stage.rendered import HOME, Rendered, render
from stage.sessions import Body

ON = "--set=gateway.enabled=true"
POSTGRESQL = (ON, "--set=gateway.postgresql.secretName=history")
NAME = "kandev-operator-gateway"


def pod(made: Rendered) -> Body:
    spec: Body = made.one("Deployment", NAME)["spec"]["template"]["spec"]
    return spec


def test_it_is_not_there_by_default(by_default: Rendered) -> None:
    assert "gateway" not in by_default.text.replace("component: gateway", "")
    assert len(by_default.of("Deployment")) == 1


def test_with_a_file_there_is_one_and_its_volume_outlives_the_release(helm: Helm) -> None:
    made = render(helm, ON, "--set=gateway.replicas=5")
    spec = made.one("Deployment", NAME)["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    claim = made.one("PersistentVolumeClaim", NAME)
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (data,) = (each for each in pod(made)["volumes"] if each["name"] == "data")
    assert data["persistentVolumeClaim"]["claimName"] == NAME
    assert made.env(NAME)["KANDEV_GATEWAY_DATABASE_URL"] == "sqlite:////data/gateway.db"
    assert len(made.of("PodDisruptionBudget")) == 1, "the operator's"


def test_with_a_database_there_are_two_and_its_url_stays_in_its_secret(helm: Helm) -> None:
    made = render(helm, *POSTGRESQL)
    spec = made.one("Deployment", NAME)["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 1
    assert not made.of("PersistentVolumeClaim")
    budget = made.one("PodDisruptionBudget", NAME)["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, spec["selector"])
    (url,) = (
        each["valueFrom"]["secretKeyRef"]
        for each in pod(made)["containers"][0]["env"]
        if each["name"] == "KANDEV_GATEWAY_DATABASE_URL"
    )
    assert url == {"name": "history", "key": "url"}


def test_it_runs_restricted_as_an_account_of_its_own(helm: Helm) -> None:
    made = render(helm, ON)
    spec = pod(made)
    (main,) = spec["containers"]
    assert [*main["command"], *main["args"]] == ["kandev-gateway", "run"]
    assert main["image"] == "kandev-gateway:0.1.0"
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["serviceAccountName"] == NAME
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in made.of(kind):
            (subject,) = binding["subjects"]
            is_its = binding["metadata"]["name"].endswith("gateway")
            assert subject["name"] == (NAME if is_its else "kandev-operator")
    role = made.one("ClusterRole", f"kandev-operator.{HOME}.gateway")
    granted = {each for rule in role["rules"] for each in rule["resources"]}
    assert not granted & {"pods", "secrets", "configmaps"}, "it reaches agents, not pods"


def test_in_some_namespaces_it_has_no_role_of_the_cluster(helm: Helm) -> None:
    made = render(helm, ON, "--set=watch.namespaces={a,b}")
    assert not made.of("ClusterRole")
    assert made.env(NAME)["KANDEV_GATEWAY_NAMESPACE"] == "a b"
    assert {
        each["metadata"]["namespace"]
        for each in made.of("Role")
        if each["metadata"]["name"].endswith(".gateway")
    } == {"a", "b"}


def test_it_is_reached_by_ingress_or_by_a_route(helm: Helm) -> None:
    by_ingress = render(
        helm,
        ON,
        "--set=gateway.ingress.enabled=true",
        "--set=gateway.ingress.host=kandev.example.com",
        "--set=gateway.ingress.tlsSecretName=tls",
    )
    spec = by_ingress.one("Ingress")["spec"]
    (rule,) = spec["rules"]
    assert rule["host"] == "kandev.example.com"
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == NAME
    assert spec["tls"] == [{"hosts": ["kandev.example.com"], "secretName": "tls"}]
    by_route = render(
        helm,
        ON,
        "--set=gateway.httpRoute.enabled=true",
        '--set-json=gateway.httpRoute.parentRefs=[{"name": "public"}]',
    )
    spec = by_route.one("HTTPRoute")["spec"]
    assert spec["parentRefs"] == [{"name": "public"}]
    service = by_route.one("Service", NAME)["spec"]
    assert spec["rules"][0]["backendRefs"] == [{"name": NAME, "port": service["ports"][0]["port"]}]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gateway.ingress.enabled=true", "gateway.ingress.host is needed"),
        ("gateway.httpRoute.enabled=true", "gateway.httpRoute.parentRefs are needed"),
    ],
)
def test_a_way_in_that_leads_nowhere_is_refused(helm: Helm, option: str, words: str) -> None:
    with pytest.raises(HelmError, match=words):
        render(helm, ON, f"--set={option}")


def test_who_may_call_it_can_be_said(helm: Helm) -> None:
    chosen = "--set-json=gateway.allowedFrom="
    rule = '[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]'
    policy = render(helm, ON, chosen + rule).one("NetworkPolicy")["spec"]
    (ingress,) = policy["ingress"]
    assert len(ingress["from"]) == 1
    (everybody,) = render(helm, ON).one("NetworkPolicy")["spec"]["ingress"]
    assert "from" not in everybody
