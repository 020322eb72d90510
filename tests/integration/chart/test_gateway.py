"""The gateway's part of the chart, which is left out until it is asked for."""

import json
from pathlib import Path, PurePosixPath

import pytest

from cluster.helm import Helm, HelmError
from kandev_operator.clients.guestkey import KEYS_NAME, SECRET_NAME
from kandev_operator.gateway.options import parse
from stage.rendered import HOME, Rendered, render
from stage.sessions import Body

ON = "--set=gateway.enabled=true"
POSTGRESQL = (ON, "--set=gateway.postgresql.secretName=history")
NAME = "kandev-operator-gateway"


def pod(made: Rendered) -> Body:
    spec: Body = made.one("Deployment", NAME)["spec"]["template"]["spec"]
    return spec


def test_it_is_not_there_by_default(by_default: Rendered) -> None:
    assert [each for each in by_default.bodies if "gateway" in each["metadata"]["name"]] == []
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
    assert "command" not in main, "the image's own"
    assert main["args"] == ["run"]
    assert main["image"] == "kandev-gateway:0.1.0"
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["serviceAccountName"] == NAME
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in made.of(kind):
            (subject,) = binding["subjects"]
            is_its = binding["metadata"]["name"].endswith("gateway")
            assert subject["name"] == (NAME if is_its else "kandev-operator")


def rules(role: Body) -> set[tuple[str, str, str]]:
    """(resource, name where there is one, verb)."""
    return {
        (resource, name, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


SESSIONS = {
    (kind, "", verb)
    for kind in ("agentprofiles", "executors", "tasks", "tasksessions")
    for verb in ("get", "list", "watch")
} | {("tasks", "", "create"), ("tasksessions", "", "create"), ("tasksessions", "", "patch")}
REVIEWS = {("tokenreviews", "", "create"), ("subjectaccessreviews", "", "create")}
KEY = {
    ("secrets", "", "create"),
    ("configmaps", "", "create"),
    ("secrets", SECRET_NAME, "get"),
    ("configmaps", KEYS_NAME, "get"),
    ("configmaps", KEYS_NAME, "update"),
}


def test_it_may_look_and_make_and_has_a_key_of_its_own(helm: Helm) -> None:
    made = render(helm, ON)
    assert rules(made.one("ClusterRole", f"kandev-operator.{HOME}.gateway")) == SESSIONS | REVIEWS
    key = made.one("Role", NAME)
    assert key["metadata"]["namespace"] == HOME
    assert rules(key) == KEY


def test_in_some_namespaces_it_asks_the_cluster_only_who_somebody_is(helm: Helm) -> None:
    made = render(helm, ON, "--set=watch.namespaces={a,b}")
    assert rules(made.one("ClusterRole")) == REVIEWS
    assert made.env(NAME)["KANDEV_GATEWAY_NAMESPACE"] == "a b"
    own = [each for each in made.of("Role") if each["metadata"]["name"].endswith(".gateway")]
    assert {each["metadata"]["namespace"] for each in own} == {"a", "b"}
    assert all(rules(each) == SESSIONS for each in own)


def test_the_gateway_itself_takes_every_option_that_the_chart_gives_it(
    helm: Helm, tmp_path: Path
) -> None:
    template = {"spec": {"runtime": "Pod", "pod": {}}}
    made = render(
        helm,
        ON,
        "--set=gateway.publicUrls={https://a.example.com,https://b.example.com}",
        "--set=gateway.proxy.trusted={10.1.0.0/16,fd00::/8}",
        "--set=gateway.proxy.userHeader=X-User",
        f"--set-json=gateway.defaultTemplate={json.dumps(template)}",
        "--set=watch.namespaces={a,b}",
    )
    env = made.env(NAME)
    (mount,) = (each for each in pod(made)["containers"][0]["volumeMounts"] if "readOnly" in each)
    path = PurePosixPath(env["KANDEV_GATEWAY_DEFAULT_TEMPLATE"])
    assert str(path.parent) == mount["mountPath"]
    here = tmp_path / path.name
    here.write_text(made.one("ConfigMap", NAME)["data"][path.name])
    settings = parse(["run"], {**env, "KANDEV_GATEWAY_DEFAULT_TEMPLATE": str(here)})
    assert settings.namespaces == ("a", "b")
    assert (settings.host, settings.port) == (
        "0.0.0.0",
        pod(made)["containers"][0]["ports"][0]["containerPort"],
    )
    assert settings.operator_namespace == HOME
    assert settings.login
    assert settings.public_urls == ("https://a.example.com", "https://b.example.com")
    assert [str(each) for each in settings.trusted_proxies] == ["10.1.0.0/16", "fd00::/8"]
    assert (settings.user_header, settings.group_header) == ("X-User", "X-Remote-Group")
    assert settings.template == template


def test_another_template_is_for_other_pods(helm: Helm) -> None:
    def marks(*options: str) -> Body:
        made = render(helm, ON, *options).one("Deployment", NAME)
        found: Body = made["spec"]["template"]["metadata"]["annotations"]
        return found

    value = "--set=gateway.defaultTemplate.spec.runtime="
    assert marks(value + "Pod") != marks(value + "LocalDocker")
    assert "ConfigMap" not in {each["kind"] for each in render(helm, ON).bodies}


def test_it_is_reached_by_ingress_or_by_a_route(helm: Helm) -> None:
    by_ingress = render(
        helm,
        ON,
        "--set=gateway.ingress.enabled=true",
        "--set=gateway.ingress.host=kandev.example.com",
        "--set=gateway.ingress.tlsSecretName=tls",
    )
    assert by_ingress.env(NAME)["KANDEV_GATEWAY_PUBLIC_URL"] == "https://kandev.example.com"
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
        "--set=gateway.publicUrls={https://kandev.example.com}",
        "--set=gateway.httpRoute.timeouts.request=0s",
    )
    spec = by_route.one("HTTPRoute")["spec"]
    assert spec["parentRefs"] == [{"name": "public"}]
    service = by_route.one("Service", NAME)["spec"]
    (rule,) = spec["rules"]
    assert rule["backendRefs"] == [{"name": NAME, "port": service["ports"][0]["port"]}]
    assert rule["timeouts"] == {"request": "0s"}


def test_an_ingress_without_tls_is_reached_by_http_unless_something_before_it_has_it(
    helm: Helm,
) -> None:
    way = (ON, "--set=gateway.ingress.enabled=true", "--set=gateway.ingress.host=a.example.com")
    assert render(helm, *way).env(NAME)["KANDEV_GATEWAY_PUBLIC_URL"] == "http://a.example.com"
    made = render(helm, *way, "--set=gateway.publicUrls={https://a.example.com}")
    assert made.env(NAME)["KANDEV_GATEWAY_PUBLIC_URL"] == "https://a.example.com"
    assert "KANDEV_GATEWAY_PUBLIC_URL" not in render(helm, ON).env(NAME), "a port-forward"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gateway.ingress.enabled=true", "gateway.ingress.host is needed"),
        ("gateway.httpRoute.enabled=true", "gateway.publicUrls are needed"),
        (
            "gateway.httpRoute.enabled=true,gateway.publicUrls={https://a.example.com}",
            "gateway.httpRoute.parentRefs are needed",
        ),
        (
            "gateway.ingress.enabled=true,gateway.ingress.host=*.example.com",
            "gateway.publicUrls are needed",
        ),
        ("gateway.publicUrls={kandev.example.com}", "does not match pattern"),
        ("gateway.publicUrls={https://a.example.com/window}", "does not match pattern"),
        ("gateway.defaultTemplate.runtime=Pod", "'runtime' not allowed"),
        ("gateway.defaultTemplate.spec.pod=null", "missing property 'runtime'"),
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
