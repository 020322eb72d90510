"""A real API server takes the definitions, keeps their promises, and refuses what it should.

What is refused is tried with a dry run on the server, so nothing is left behind; what may not
change is tried on stored objects in a namespace of its own.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.errors import KubectlError
from cluster.interface import Cluster
from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
REJECTED = ROOT / "tests" / "golden" / "rejected"
EXAMPLES = sorted((ROOT / "manifests" / "examples").glob("*.yaml"))
MANUAL_EXAMPLES = [
    text
    for text in re.findall(r"```yaml\n(.*?)```", (CRDS / "README.md").read_text("utf-8"), re.S)
    if text.startswith("apiVersion:")
]

Body = dict[str, Any]
Kubectl = Callable[..., str]

TEMPLATE: Body = {"template": {"spec": {"runtime": "Pod", "pod": {}}}}
SESSION: Body = {
    "taskRef": {"name": "work"},
    "agentProfileRef": {"name": "agent"},
    "executor": TEMPLATE,
}
PROFILE: Body = {"command": ["agent"]}
TASK: Body = {"title": "Some work"}
REMOTE: Body = {"runtime": "Remote", "remote": {"url": "https://far.example.com"}}
LOCAL: Body = {"runtime": "LocalStandalone", "localStandalone": {"worktreePath": "/trees/one"}}
DOCKER: Body = {"runtime": "LocalDocker"}


@pytest.fixture(scope="module", autouse=True)
def definitions(control_plane: Cluster) -> None:
    control_plane.kubectl("apply", "--server-side", "-f", CRDS)
    names = [f"crd/{plural}.{group.GROUP}" for plural in group.PLURALS.values()]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


def an_object(kind: str, spec: Body, name: str = "it") -> Body:
    return {
        "apiVersion": group.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def apply(kubectl: Kubectl, namespace: str, body: Body, *options: str) -> Body:
    printed = kubectl(
        "apply", "-n", namespace, "-f", "-", "-o", "json", *options, stdin=json.dumps(body)
    )
    stored: Body = json.loads(printed)
    return stored


def test_client_side_apply_works_too(kubectl: Kubectl) -> None:
    kubectl("apply", "--dry-run=server", "-f", CRDS)


def test_nothing_in_a_definition_is_out_of_order(kubectl: Kubectl) -> None:
    for plural in group.PLURALS.values():
        crd = json.loads(kubectl("get", f"crd/{plural}.{group.GROUP}", "-o", "json"))
        found = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
        assert found["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_accepted(kubectl: Kubectl, namespace: str, path: Path) -> None:
    kubectl("apply", "-n", namespace, "-f", path)
    # Git's way: another manager, the same file, and no difference.
    kubectl("apply", "-n", namespace, "--server-side", "--force-conflicts", "-f", path)
    stored = json.loads(kubectl("get", "-n", namespace, "-f", path, "-o", "json"))
    items = stored.get("items", [stored])
    assert {each["metadata"].get("generation", 1) for each in items} == {1}


@pytest.mark.parametrize("text", MANUAL_EXAMPLES, ids=range(len(MANUAL_EXAMPLES)))
def test_every_example_of_the_manual_is_accepted(kubectl: Kubectl, text: str) -> None:
    kubectl("apply", "-n", "default", "--dry-run=server", "-f", "-", stdin=text)


def prompt(**prompt: Any) -> Body:
    return SESSION | {"prompt": prompt}


def workspace(**workspace: Any) -> Body:
    return SESSION | {"workspace": workspace}


@pytest.mark.parametrize(
    ("kind", "spec", "says"),
    [
        pytest.param(kind, case["spec"], case["says"], id=f"{kind}: {case['wrong']}")
        for kind in group.PLURALS
        for case in yaml.safe_load((REJECTED / f"{kind.lower()}.yaml").read_text("utf-8"))
    ],
)
def test_what_is_wrong_is_refused(kubectl: Kubectl, kind: str, spec: Body, says: str) -> None:
    with pytest.raises(KubectlError) as caught:
        apply(kubectl, "default", an_object(kind, spec), "--dry-run=server")
    assert says in str(caught.value)


ACCEPTED: dict[str, tuple[str, Body]] = {
    "loopback in the clear": (
        "Executor",
        {"runtime": "Remote", "remote": {"url": "http://127.0.0.1:8700/agentctl"}},
    ),
    "loopback by name": ("Executor", {"runtime": "Remote", "remote": {"url": "http://localhost"}}),
    "loopback of version 6": (
        "Executor",
        {"runtime": "Remote", "remote": {"url": "http://[::1]:8700"}},
    ),
    "a container that is there": ("Executor", DOCKER | {"localDocker": {"containerId": "abc"}}),
    "numbers as quantities": (
        "AgentProfile",
        PROFILE | {"resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}}},
    ),
    "an adopted claim": ("TaskSession", workspace(claimName="mine", policy="Retain")),
    "the longest prompt": ("TaskSession", prompt(text="x" * 65536)),
}


@pytest.mark.parametrize(("kind", "spec"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_unusual_is_accepted(kubectl: Kubectl, kind: str, spec: Body) -> None:
    apply(kubectl, "default", an_object(kind, spec), "--dry-run=server")


WITH_REF = SESSION | {"executor": {"ref": {"name": "desk"}}}
CHANGES: dict[str, tuple[Body, Body, str | None]] = {
    "another task": (SESSION, {"taskRef": {"name": "other"}}, "taskRef is immutable"),
    "another agent": (
        SESSION,
        {"agentProfileRef": {"name": "other"}},
        "agentProfileRef is immutable",
    ),
    "another executor": (
        WITH_REF,
        {"executor": {"ref": {"name": "other"}}},
        "executor.ref is immutable",
    ),
    "from a ref to a template": (
        WITH_REF,
        {"executor": TEMPLATE | {"ref": None}},
        "executor cannot change between ref and template",
    ),
    "from a template to a ref": (
        SESSION,
        {"executor": {"template": None, "ref": {"name": "desk"}}},
        "executor cannot change between ref and template",
    ),
    "another runtime in the template": (
        SESSION,
        {"executor": {"template": {"spec": REMOTE | {"pod": None}}}},
        "runtime is immutable",
    ),
    "another folder in the template": (
        SESSION | {"executor": {"template": {"spec": LOCAL}}},
        {"executor": {"template": {"spec": {"localStandalone": {"worktreePath": "/other"}}}}},
        "change the Executor that was made from it",
    ),
    "another content of the template": (
        SESSION,
        {"executor": {"template": {"spec": {"pod": {"template": {"spec": {"nodeSelector": {}}}}}}}},
        None,
    ),
    "another prompt": (prompt(text="Go"), {"prompt": {"text": "Stop"}}, "prompt is immutable"),
    "a prompt added": (SESSION, {"prompt": {"text": "Go"}}, "prompt is immutable"),
    "a prompt removed": (prompt(text="Go"), {"prompt": None}, "prompt is immutable"),
    "rest": (SESSION, {"operatingMode": "Suspended"}, None),
    "the end": (SESSION, {"operatingMode": "Finished"}, None),
    "back from the end": (
        SESSION | {"operatingMode": "Finished"},
        {"operatingMode": "Running"},
        "operatingMode Finished cannot be left",
    ),
    "back from the end by forgetting": (
        SESSION | {"operatingMode": "Finished"},
        {"operatingMode": None},
        "operatingMode Finished cannot be left",
    ),
    "other limits": (SESSION, {"resume": {"policy": "Never"}, "lifecycle": None}, None),
}


@pytest.mark.parametrize(("before", "patch", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_what_may_change(
    kubectl: Kubectl, namespace: str, before: Body, patch: Body, message: str | None
) -> None:
    apply(kubectl, namespace, an_object("TaskSession", before))
    change = ("patch", "ts/it", "-n", namespace, "--type=merge", "-p", json.dumps({"spec": patch}))
    if message is None:
        kubectl(*change)
        return
    with pytest.raises(KubectlError) as caught:
        kubectl(*change)
    assert message in str(caught.value)


def test_a_new_object_has_been_seen_by_nobody(kubectl: Kubectl, namespace: str) -> None:
    session = apply(kubectl, namespace, an_object("TaskSession", SESSION))
    assert session["status"] == {"observedGeneration": -1}
    assert session["spec"] == SESSION | {"operatingMode": "Running"}
    executor = apply(kubectl, namespace, an_object("Executor", REMOTE))
    assert executor["status"] == {"observedGeneration": -1}
    task = apply(kubectl, namespace, an_object("Task", TASK))
    assert task["status"] == {"observedGeneration": -1}
    profile = apply(kubectl, namespace, an_object("AgentProfile", PROFILE))
    assert "status" not in profile


def test_the_models_read_what_the_server_stores(kubectl: Kubectl, namespace: str) -> None:
    stored = apply(kubectl, namespace, an_object("TaskSession", prompt(text="Go")))
    session = TaskSession.from_body(stored)
    assert session.metadata.uid == stored["metadata"]["uid"]
    assert session.status.observed_generation == -1
    made = Executor.from_body(
        {"metadata": {"name": "made"}, "spec": {"runtime": "Pod", "pod": {}}}
    ).manifest()
    again = Executor.from_body(apply(kubectl, namespace, made, "--validate=strict"))
    assert again.manifest()["spec"] == made["spec"]


def test_a_status_may_say_what_this_definition_does_not_know(
    kubectl: Kubectl, namespace: str
) -> None:
    apply(kubectl, namespace, an_object("TaskSession", SESSION))
    condition = {"type": "Ready", "status": "Maybe", "reason": "Fog", "message": ""}
    status = {"status": {"state": "DREAMING", "conditions": [condition]}}
    patch = ("patch", "ts/it", "-n", namespace, "--subresource=status", "--type=merge")
    printed = kubectl(*patch, "-p", json.dumps(status), "-o", "json")
    assert json.loads(printed)["status"]["state"] == "DREAMING"


def test_what_get_prints(kubectl: Kubectl, namespace: str) -> None:
    apply(kubectl, namespace, an_object("TaskSession", SESSION, "talk"))
    condition = {"type": "Ready", "status": "False", "reason": "AgentNotRunning", "message": ""}
    status = {
        "state": "WAITING_FOR_INPUT",
        "executorStatus": "ready",
        "isResumable": True,
        "needsResume": True,
        "nodeName": "node-3",
        "epoch": 4,
        "capabilities": {"agent": {"version": "1.2.3"}},
        "conditions": [{"type": "AgentReady", "status": "False", "reason": "No"}, condition],
    }
    patch = ("patch", "ts/talk", "-n", namespace, "--subresource=status", "--type=merge")
    kubectl(*patch, "-p", json.dumps({"status": status}))
    header, row = kubectl("get", "tasksessions", "-n", namespace).splitlines()
    assert header.split() == [
        *("NAME", "TASK", "AGENT", "STATE", "EXECUTOR", "RESUMABLE", "NEEDS-RESUME"),
        *("REASON", "AGE"),
    ]
    assert row.split()[:-1] == [
        *("talk", "work", "agent", "WAITING_FOR_INPUT", "ready", "true", "true"),
        "AgentNotRunning",
    ]
    header, row = kubectl("get", "ts", "-n", namespace, "-o", "wide").splitlines()
    assert header.split()[-4:] == ["NODE", "EPOCH", "AGENT-VERSION", "AGE"]
    assert row.split()[-4:-1] == ["node-3", "4", "1.2.3"]


@pytest.mark.parametrize(
    ("kind", "spec", "columns"),
    [
        ("ap", PROFILE, "NAME DISPLAY COMMAND PROTOCOL RESUME IMAGE PERMISSIONS AGE"),
        ("tk", TASK, "NAME STATE SESSIONS RUNNING WAITING ERROR TITLE AGE"),
        ("exr", REMOTE, "NAME RUNTIME STATE SESSION REASON URL NODE DRAIN AGE"),
    ],
)
def test_columns_of_the_other_kinds(
    kubectl: Kubectl, namespace: str, kind: str, spec: Body, columns: str
) -> None:
    names = {"ap": "AgentProfile", "tk": "Task", "exr": "Executor"}
    apply(kubectl, namespace, an_object(names[kind], spec))
    header, _ = kubectl("get", kind, "-n", namespace, "-o", "wide").splitlines()
    assert header.split() == columns.split()


def test_one_word_for_all_kinds(kubectl: Kubectl, namespace: str) -> None:
    apply(kubectl, namespace, an_object("Task", TASK))
    apply(kubectl, namespace, an_object("TaskSession", SESSION))
    found = kubectl("get", group.CATEGORY, "-n", namespace, "-o", "name").split()
    assert found == ["task.kandev.dev/it", "tasksession.kandev.dev/it"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("tasksession.spec", "The first prompt: sent exactly once"),
        ("tasksession.spec.resume.timeoutSeconds", "Default: `120`"),
        ("ts.spec.operatingMode", "the end, for good"),
        ("executor.status.agentctlURL", "Address of the agentctl"),
        ("agentprofile.spec.env.secretKeyRef", "Take the value from a Secret"),
        ("task.status.state", "a session waits for input"),
    ],
)
def test_explain_is_documentation(kubectl: Kubectl, what: str, words: str) -> None:
    told = " ".join(kubectl("explain", what).split())
    assert words.lower() in told.lower()


def test_rights_of_the_operator_and_of_people(kubectl: Kubectl) -> None:
    bodies = list(yaml.safe_load_all(kubectl("kustomize", ROOT / "manifests")))
    rights = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole")
    for body in bodies:
        if body["kind"] in (*rights, "ClusterRoleBinding"):
            kubectl("apply", "-f", "-", stdin=json.dumps(body))

    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def may(verb: str, resource: str, api_group: str = "", in_namespace: str = "default") -> bool:
        attributes = {"verb": verb, "resource": resource, "group": api_group}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:kandev-system:kandev-operator",
                "resourceAttributes": attributes | {"namespace": in_namespace},
            },
        }
        answer = kubectl("create", "--raw", reviews, "-f", "-", stdin=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    assert may("watch", "tasksessions", group.GROUP)
    assert not may("update", "tasksessions", group.GROUP)
    assert not may("patch", "tasks", group.GROUP)
    assert may("create", "executors", group.GROUP)
    assert may("get", "secrets")
    assert not may("list", "secrets")
    assert not may("delete", "secrets")
    assert not may("delete", "persistentvolumeclaims")
    assert may("delete", "pods")
    assert not may("patch", "pods")
    assert not may("get", "pods/proxy")
    assert may("create", "leases", "coordination.k8s.io", "kube-system")
    assert not may("create", "leases", "coordination.k8s.io")
    assert not may("get", "services")


def test_definitions_in_the_manifests_are_plain_objects() -> None:
    for path in (ROOT / "manifests").rglob("*.yaml"):
        if path.name == "kustomization.yaml":
            continue
        for body in yaml.safe_load_all(path.read_text("utf-8")):
            assert body["apiVersion"], path
            assert body["metadata"]["name"], path
