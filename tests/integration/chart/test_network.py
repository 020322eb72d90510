"""The network policy of executors' pods, address by address."""

import ipaddress

import pytest

from cluster.helm import Helm
from kandev_operator.api import group
from kandev_operator.core.pods.layout import PORT
from stage.rendered import HOME, Rendered, render
from stage.sessions import Body


@pytest.fixture(scope="module")
def policy(helm: Helm) -> Body:
    return render(helm, "--set=watch.namespaces={team}").one("NetworkPolicy")["spec"]


def reaches(spec: Body, address: str, port: int) -> bool:
    """Whether a pod may open a TCP connection there."""
    wanted = ipaddress.ip_address(address)
    for rule in spec["egress"]:
        ports = [each["port"] for each in rule.get("ports", []) if each["protocol"] == "TCP"]
        if "ports" in rule and port not in ports:
            continue
        if "to" not in rule:
            return True
        for block in (each["ipBlock"] for each in rule["to"]):
            inside = wanted in ipaddress.ip_network(block["cidr"])
            if inside and not any(
                wanted in ipaddress.ip_network(each) for each in block.get("except", [])
            ):
                return True
    return False


@pytest.mark.parametrize(
    "address", ["140.82.121.4", "1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"]
)
def test_public_addresses_are_reached(policy: Body, address: str) -> None:
    assert reaches(policy, address, 443)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",  # the metadata address of most clouds
        "100.100.100.200",  # and of another
        "fd00:ec2::254",
        "10.96.0.1",
        "172.20.0.1",
        "192.168.1.1",
        "127.0.0.1",
        "100.64.0.1",
        "::1",
        "fe80::1",
        "fd12:3456::1",
        "64:ff9b::a9fe:a9fe",  # the same by NAT64
        "64:ff9b::a00:1",
        "64:ff9b::c0a8:101",
    ],
)
def test_private_addresses_are_not(policy: Body, address: str) -> None:
    assert not reaches(policy, address, 443)
    assert reaches(policy, address, 53), "DNS is wherever it is"


def test_agentctl_is_called_by_operator_and_gateway_alone(policy: Body) -> None:
    (rule,) = policy["ingress"]
    assert [each["port"] for each in rule["ports"]] == [PORT]
    parts = set()
    for each in rule["from"]:
        assert each["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": HOME}
        parts.add(each["podSelector"]["matchLabels"]["app.kubernetes.io/component"])
    assert parts == {"operator", "gateway"}
    (chosen,) = policy["podSelector"]["matchExpressions"]
    assert chosen == {"key": group.LABEL_EXECUTOR_UID, "operator": "Exists"}
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_more_may_be_allowed(helm: Helm) -> None:
    made = render(
        helm,
        "--set=watch.namespaces={team}",
        '--set-json=networkPolicy.extraEgress=[{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]}]',
        "--set=networkPolicy.apiServerCIDRs={10.9.0.1/32}",
    ).one("NetworkPolicy")["spec"]
    assert reaches(made, "10.1.2.3", 443)
    assert not reaches(made, "10.1.2.4", 443)
    assert {"ipBlock": {"cidr": "10.9.0.1/32"}} in made["ingress"][0]["from"]


def test_it_is_where_sessions_are(helm: Helm, by_default: Rendered) -> None:
    def places(*options: str) -> list[str]:
        made = render(helm, *options).of("NetworkPolicy")
        return [each["metadata"]["namespace"] for each in made]

    assert not by_default.of("NetworkPolicy"), "nobody said where"
    assert places("--set=networkPolicy.namespaces={a,b}") == ["a", "b"]
    assert places("--set=watch.namespaces={c}") == ["c"]
    assert places("--set=watch.namespaces={c}", "--set=networkPolicy.enabled=false") == []
