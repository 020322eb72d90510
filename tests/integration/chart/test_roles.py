"""The chart's roles grant what the operator calls, and nothing else."""

from cluster.helm import Helm
from kandev_operator.controller.rights import NEEDED, SECRETS, Table
from kandev_operator.gateway.desk import _NEEDS
from stage.rendered import HOME, Rendered, render

LEASES = "coordination.k8s.io"
READS = {
    ("", "nodes", "get"),
    ("storage.k8s.io", "csidrivers", "get"),
    ("storage.k8s.io", "storageclasses", "get"),
    ("storage.k8s.io", "storageclasses", "list"),
}
MADE = {("", "secrets", "create"), ("", "configmaps", "create")}
LED = {(LEASES, "leases", "create")}


def flat(*tables: Table) -> set[tuple[str, str, str]]:
    return {(*kind, verb) for table in tables for kind, verbs in table.items() for verb in verbs}


def by_name(made: Rendered, namespace: str) -> set[tuple[str, str, str]]:
    """(resource, name, verb) of what is granted for one object alone."""
    return {
        (resource, name, verb)
        for role in made.of("Role")
        if role["metadata"]["namespace"] == namespace
        for rule in role["rules"]
        for name in rule.get("resourceNames", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_everywhere_it_may_do_what_it_must(by_default: Rendered) -> None:
    neighbours = {(LEASES, "leases", "list")}
    assert by_default.rules("ClusterRole") == flat(NEEDED, SECRETS) | neighbours | READS
    assert by_default.rules("Role", HOME) == MADE
    assert by_name(by_default, HOME) == {
        ("secrets", "kandev-signing-key", "get"),
        ("secrets", "kandev-signing-key", "update"),  # when a person asks for another key
        ("configmaps", "kandev-agentctl-jwks", "get"),
        ("configmaps", "kandev-agentctl-jwks", "update"),
        ("configmaps", "kandev-gateway-keys", "get"),  # a gateway's public key, where there is one
    }
    assert by_default.rules("Role", "kube-system") == LED
    assert by_name(by_default, "kube-system") == {
        ("leases", "kandev-operator", "get"),
        ("leases", "kandev-operator", "update"),
    }


def test_in_some_namespaces_there_is_no_role_of_the_cluster(helm: Helm) -> None:
    made = render(helm, "--set=watch.namespaces={a,b}")
    assert not made.of("ClusterRole")
    assert not made.of("ClusterRoleBinding")
    for namespace in ("a", "b"):
        assert made.rules("Role", namespace) == flat(NEEDED, SECRETS) | LED
    assert made.rules("Role", HOME) == MADE
    assert {each["metadata"]["namespace"] for each in made.of("Role")} == {"a", "b", HOME}
    env = made.env()
    assert env["KANDEV_NAMESPACE"] == env["KANDEV_LEASE_NAMESPACE"] == "a,b"
    assert "KANDEV_EXCLUSIVE" not in env
    assert env["KANDEV_KEY_NAMESPACE"] == HOME


def test_nodes_and_storage_classes_are_opt_in_there(helm: Helm) -> None:
    made = render(helm, "--set=watch.namespaces={a}", "--set=rbac.clusterReads=true")
    assert made.rules("ClusterRole") == READS
    without = render(helm, "--set=rbac.clusterReads=false")
    assert not without.rules("ClusterRole") & READS


def test_secrets_may_be_granted_in_some_namespaces_alone(helm: Helm) -> None:
    made = render(helm, "--set=rbac.secretNamespaces={a,b}")
    assert not [each for each in made.rules("ClusterRole") if each[1] == "secrets"]
    for namespace in ("a", "b"):
        assert made.rules("Role", namespace) == flat(SECRETS)


def test_every_role_is_bound_to_the_operator_alone(helm: Helm, by_default: Rendered) -> None:
    for made in (by_default, render(helm, "--set=watch.namespaces={a,b}")):
        bound = set()
        for kind in ("Role", "ClusterRole"):
            for binding in made.of(f"{kind}Binding"):
                (subject,) = binding["subjects"]
                assert (subject["name"], subject["namespace"]) == ("kandev-operator", HOME)
                assert binding["roleRef"]["kind"] == kind
                place = binding["metadata"].get("namespace")
                bound.add((kind, place, binding["roleRef"]["name"]))
        roles = {
            (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
            for kind in ("Role", "ClusterRole")
            for each in made.of(kind)
            if not each["metadata"]["name"].endswith((".view", ".edit"))
        }
        assert bound == roles


def test_people_get_their_rights_with_the_roles_of_the_cluster(by_default: Rendered) -> None:
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    for role, parts in (("view", {"view", "edit", "admin"}), ("edit", {"edit", "admin"})):
        body = by_default.one("ClusterRole", f"kandev-operator.{HOME}.{role}")
        labels = body["metadata"]["labels"]
        assert {key.removeprefix(aggregate) for key in labels if key.startswith(aggregate)} == parts


def test_people_do_not_write_status_and_talk_only_as_editors(by_default: Rendered) -> None:
    def below(role: str) -> set[tuple[str, str]]:
        body = by_default.one("ClusterRole", f"kandev-operator.{HOME}.{role}")
        return {
            (resource, verb)
            for rule in body["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            if "/" in resource
        }

    assert below("view") == set()
    asked = {tuple(needs) for needs in _NEEDS.values() if "/" in needs[1]}
    assert {(verb, resource) for resource, verb in below("edit")} == asked


def test_no_rule_has_a_wildcard(by_default: Rendered) -> None:
    for role in (*by_default.of("Role"), *by_default.of("ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
