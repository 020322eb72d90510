"""Making an object of ours is no way to pods or Secrets for people who may make no pods."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.controlplane import ControlPlane
from cluster.errors import KubectlError
from cluster.helm import CHART, Helm
from stage.rendered import HOME, Rendered, render
from stage.sessions import Body, profile, session, task

CRDS = CHART.parents[1] / "crds"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
KINDS = ("agentprofiles", "executors", "tasks", "tasksessions")
POD = {"runtime": "Pod", "pod": {}}
REMOTE = {"runtime": "Remote", "remote": {"url": "https://a.example:8700"}}
SECRET = {"name": "s", "key": "k"}
GATEWAY = f"system:serviceaccount:{HOME}:kandev-operator-gateway"
OTHER = "system:serviceaccount:elsewhere:kandev-operator-gateway"


def executor(name: str, spec: Body) -> Body:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": name},
        "spec": spec,
    }


def with_template(name: str, spec: Body) -> Body:
    return session(name, executor={"template": {"spec": spec}})


def with_mode(body: Body, mode: str) -> Body:
    return {**body, "spec": {**body["spec"], "operatingMode": mode}}


def by_ref(name: str, **spec: Any) -> Body:
    return session(name, executor={"ref": {"name": "e"}}, **spec)


REFUSED: dict[str, Body] = {
    "an executor that is a pod": executor("e", POD),
    "a session that makes one": with_template("s", POD),
    "a profile with an image": profile("p", ["a"], image="a:1"),
    "a profile with a Secret": {
        **profile("p", ["a"]),
        "spec": {"command": ["a"], "env": [{"name": "K", "secretKeyRef": SECRET}]},
    },
    "a profile whose tools have a Secret": profile(
        "p",
        ["a"],
        mcpServers=[{"name": "m", "command": "m", "env": [{"name": "K", "secretKeyRef": SECRET}]}],
    ),
    "a prompt from a Secret": by_ref("s", prompt={"from": {"secretKeyRef": SECRET}}),
    "a task with credentials": task(
        "t",
        repositories=[
            {"name": "r", "url": "https://g.example/r", "credentialsSecretRef": {"name": "s"}}
        ],
    ),
}
ALLOWED: dict[str, Body] = {
    "a remote executor": executor("e", REMOTE),
    "a session on an executor that is there": by_ref("s", prompt={"text": "Hello"}),
    "a session on a remote machine": with_template("s", REMOTE),
    "a profile of plain words": profile("p", ["a"], {"MODE": "quiet"}),
    "a task": task("t", repositories=[{"name": "r", "url": "https://g.example/r"}]),
}


class People:
    """Two users who may write our kinds in a namespace; one of them may make pods there too."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.plain, self.trusted = f"plain-of-{namespace}", f"trusted-of-{namespace}"
        ours = ",".join(f"{kind}.kandev.dev" for kind in KINDS)
        self._grant("writers", ["--verb=create,update,patch,get", f"--resource={ours}"], self.plain)
        self._grant(
            "writers-too", ["--verb=create,update,patch,get", f"--resource={ours}"], self.trusted
        )
        self._grant("pods", ["--verb=create", "--resource=pods"], self.trusted)
        self._grant(
            "gateways", ["--verb=create,update,patch,get", f"--resource={ours}"], GATEWAY, OTHER
        )

    def _grant(self, name: str, role: list[str], *users: str) -> None:
        where = ["--namespace", self.namespace]
        self.cluster.kubectl("create", "role", name, *role, *where)
        whom = [f"--user={user}" for user in users]
        self.cluster.kubectl("create", "rolebinding", name, f"--role={name}", *whom, *where)

    def apply(self, user: str, body: Body, *options: str) -> None:
        self.cluster.kubectl(
            *("apply", "--server-side", "-n", self.namespace, *options, "-f", "-"),
            stdin=json.dumps(body),
            kubeconfig=self.cluster.kubeconfig_for(user),
        )

    def refused(self, user: str, body: Body, *options: str) -> str:
        """What is said to this user; empty where nothing is."""
        try:
            self.apply(user, body, "--dry-run=server", *options)
        except KubectlError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
def people(own_control_plane: ControlPlane, helm: Helm) -> Iterator[People]:
    """Two users in a namespace, on an API server with the chart's policies."""
    cluster = own_control_plane
    cluster.kubectl("apply", "--server-side", "-f", CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", CRDS)
    made = render(helm, "--set=crds.install=false", "--set=gateway.enabled=true")
    bodies = [body for kind in POLICIES for body in made.of(kind)]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=listed)
    namespace = f"admission-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(namespace)
    found = People(cluster, namespace)
    try:
        # The API server takes up each policy by itself, a moment later.
        for words, body in REFUSED.items():
            wait(lambda body=body: found.refused(found.plain, body) != "", words)
        yield found
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=listed)
        cluster.delete_namespace(namespace)


def wait(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"not refused: {what}"
        time.sleep(0.2)


@pytest.mark.parametrize("words", REFUSED)
def test_who_may_make_no_pods_makes_none_by_way_of_ours(people: People, words: str) -> None:
    said = people.refused(people.plain, REFUSED[words])
    assert "Forbidden" in said
    assert f"needs the right to create pods in namespace {people.namespace}" in said
    assert people.refused(people.trusted, REFUSED[words]) == ""


@pytest.mark.parametrize("words", ALLOWED)
def test_what_runs_in_no_pod_needs_no_right_to_pods(people: People, words: str) -> None:
    assert people.refused(people.plain, ALLOWED[words]) == ""


def test_only_the_gateway_makes_sessions_in_pods_for_people_who_were_asked_for(
    people: People,
) -> None:
    theirs = with_template("s", POD)
    assert people.refused(GATEWAY, theirs) == ""
    assert "create pods" in people.refused(OTHER, theirs), "of another namespace"
    # Nothing else that decides on pods, and no prompt that is read from somewhere.
    secretly = {**theirs["spec"], "prompt": {"from": {"secretKeyRef": SECRET}}}
    for words, body in {
        **REFUSED,
        "a session in a pod, with a prompt from a Secret": {**theirs, "spec": secretly},
    }.items():
        if body != theirs:
            assert "create pods" in people.refused(GATEWAY, body), words


def test_the_gateway_stops_a_session_and_cannot_move_it_into_another_pod(people: People) -> None:
    theirs = with_template("moved", POD)
    people.apply(people.trusted, theirs)
    stopped = with_mode(theirs, "Suspended")
    force = "--force-conflicts"
    assert people.refused(GATEWAY, stopped, force) == ""
    assert "create pods" in people.refused(people.plain, stopped, force)
    other = {"runtime": "Pod", "pod": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    assert "create pods" in people.refused(GATEWAY, with_template("moved", other), force)


def test_what_somebody_else_made_can_still_be_labelled_and_not_changed(people: People) -> None:
    people.apply(people.trusted, executor("theirs", POD))
    labelled = {**executor("theirs", POD), "metadata": {"name": "theirs", "labels": {"a": "b"}}}
    assert people.refused(people.plain, labelled) == ""
    changed = executor("theirs", {**POD, "drain": True})
    assert "create pods" in people.refused(people.plain, changed)


def test_in_some_namespaces_only_those_are_meant(helm: Helm) -> None:
    made = render(helm, "--set=watch.namespaces={a,b}")
    for binding in made.of("ValidatingAdmissionPolicyBinding"):
        (rule,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert rule["values"] == ["a", "b"]
    assert not render(helm, "--set=admissionPolicy.enabled=false").of(POLICIES[0])


def test_without_a_gateway_nobody_is_vouched_for(by_default: Rendered) -> None:
    assert len(by_default.of(POLICIES[0])) == 4
    for policy in by_default.of(POLICIES[0]):
        assert "serviceaccount" not in str(policy["spec"])
