"""What the chart makes of given values, as objects that a test can ask for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from cluster.helm import CHART, Helm
from stage.sessions import Body

RELEASE: Final = "kandev"
HOME: Final = "kandev-system"
CLUSTERED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


@dataclass(frozen=True)
class Rendered:
    """All objects of one release, in the order of Helm's output."""

    text: str
    bodies: tuple[Body, ...]

    def of(self, kind: str) -> list[Body]:
        return [body for body in self.bodies if body["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Body:
        """The only object of this kind, or of this kind and name."""
        (found,) = (body for body in self.of(kind) if not name or body["metadata"]["name"] == name)
        return found

    def rules(self, kind: str, namespace: str | None = None) -> set[tuple[str, str, str]]:
        """(group, resource, verb) of all Roles of a kind, in a namespace; not those by name."""
        return {
            (group, resource, verb)
            for role in self.of(kind)
            if namespace is None or role["metadata"].get("namespace") == namespace
            if not role["metadata"]["name"].endswith((".view", ".edit"))
            for rule in role["rules"]
            if "resourceNames" not in rule
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def containers(self) -> Iterator[tuple[Body, Body]]:
        """Each pod's spec with each of its containers."""
        for body in self.bodies:
            spec: Any = body.get("spec") or {}
            pod = spec if body["kind"] == "Pod" else (spec.get("template") or {}).get("spec")
            if pod and "containers" in pod:
                for container in [*pod.get("initContainers", []), *pod["containers"]]:
                    yield pod, container

    def env(self, deployment: str = "") -> dict[str, str]:
        """The variables of a Deployment's first container that have a value."""
        pod = self.one("Deployment", deployment)["spec"]["template"]["spec"]
        return {
            each["name"]: each["value"] for each in pod["containers"][0]["env"] if "value" in each
        }


def render(helm: Helm, *options: str, namespace: str = HOME) -> Rendered:
    """`helm template`. Raises HelmError where the values are refused."""
    text = helm("template", RELEASE, CHART, "--namespace", namespace, *options)
    bodies = tuple(body for body in yaml.safe_load_all(text) if body)
    return Rendered(text, bodies)
