"""Reading and writing objects: what comes from the cluster goes back unharmed, or is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.api import group
from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor, ExecutorStatus, Runtime
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import OperatingMode, PromptSpec, TaskSession, WorkspaceSpec
from kandev_operator.api.task import Task


def a_session(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "metadata": {"name": "demo", "namespace": "team", "uid": "u-1", "generation": 1},
        "spec": {
            "taskRef": {"name": "task"},
            "agentProfileRef": {"name": "agent"},
            "executor": {"ref": {"name": "desk"}},
            **spec,
        },
        "status": {"observedGeneration": -1},
    }


def an_executor(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "desk"}, "spec": spec}


def test_a_session_is_read_with_its_defaults() -> None:
    session = TaskSession.from_body(a_session())
    assert session.spec.operating_mode is OperatingMode.RUNNING
    assert session.spec.resume.timeout_seconds == 120
    assert session.spec.lifecycle.start_timeout_seconds == 600
    assert session.spec.lifecycle.idle_timeout_seconds is None
    assert session.status.observed_generation == -1
    assert session.status.is_agent_running is None


def test_an_object_without_status_has_an_empty_one() -> None:
    executor = Executor.from_body(an_executor(runtime="Pod", pod={}))
    assert executor.status == ExecutorStatus()
    assert executor.status.dump() == {}


def test_fields_of_a_later_version_are_skipped() -> None:
    body = a_session(mood="fine")
    body["status"]["mood"] = "fine"
    assert "mood" not in str(TaskSession.from_body(body).dump())


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (TaskSession, a_session(executor={}), "exactly one of ref and template must be set"),
        (TaskSession, a_session(operatingMode="Asleep"), "spec.operatingMode"),
        (TaskSession, a_session(prompt={"text": "a", "from": None, "id": ""}), "spec.prompt.id"),
        (Executor, an_executor(runtime="Pod"), "exactly one of pod, remote, localDocker and local"),
        (
            Executor,
            an_executor(runtime="Pod", localStandalone={"worktreePath": "/x"}),
            "runtime Pod needs the block pod",
        ),
        (Executor, an_executor(runtime="Moon", pod={}), "spec.runtime"),
        (Task, {"metadata": {"name": "desk"}, "spec": {}}, "spec.title: Field required"),
        (AgentProfile, {"metadata": {"name": "desk"}}, "spec: Field required"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(
    kind: type[Task], body: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        kind.from_body(body)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.kind == kind.kind
    assert caught.value.name == body["metadata"]["name"]


def test_a_refusal_does_not_repeat_what_was_written() -> None:
    secret = "sk-" + "very-secret" * 1000
    body = {
        "metadata": {"name": "agent"},
        "spec": {"command": ["agent"], "env": [{"name": "KEY", "value": secret}]},
    }
    with pytest.raises(InvalidSpec) as caught:
        AgentProfile.from_body(body)
    assert "very-secret" not in str(caught.value)


def test_a_long_list_of_faults_is_cut() -> None:
    body = {
        "metadata": {"name": "agent"},
        "spec": {"command": ["agent"], "env": [{"name": f"N{index}"} for index in range(9)]},
    }
    with pytest.raises(InvalidSpec, match="and 4 more"):
        AgentProfile.from_body(body)


def test_a_manifest_has_names_of_the_cluster_and_no_status() -> None:
    manifest = TaskSession.from_body(a_session()).manifest()
    assert manifest["apiVersion"] == "kandev.dev/v1alpha1"
    assert manifest["kind"] == "TaskSession"
    assert manifest["spec"]["operatingMode"] == "Running"
    assert type(manifest["spec"]["operatingMode"]) is str
    assert "status" not in manifest


def test_what_belongs_to_kubernetes_goes_through_untouched() -> None:
    volumes = [{"name": "cache", "emptyDir": {}}, {"name": "c", "configMap": {"items": []}}]
    pod = {
        "template": {
            "spec": {
                "volumes": volumes,
                "affinity": {"nodeAffinity": {"x": None, "y": []}},
                "containers": [
                    {"name": "agent", "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}
                ],
            }
        }
    }
    executor = Executor.from_body(an_executor(runtime="Pod", pod=pod))
    assert executor.manifest()["spec"]["pod"] == pod


def test_status_says_nothing_about_what_is_unknown() -> None:
    status = ExecutorStatus(state="ready", agentctl_url="http://10.0.0.7:80", worktree=None)
    known = status.replacing(supports_session_resume=False)
    assert known.dump() == {
        "state": "ready",
        "agentctlURL": "http://10.0.0.7:80",
        "supportsSessionResume": False,
    }
    assert ExecutorStatus.model_validate(known.dump()) == known
    with pytest.raises(TypeError, match="no mood"):
        status.replacing(mood="fine")


def test_a_prompt_may_come_from_elsewhere() -> None:
    prompt = PromptSpec.model_validate({"from": {"secretKeyRef": {"name": "s", "key": "k"}}})
    assert prompt.from_ is not None
    assert prompt.id == "first"
    assert prompt.dump()["from"] == {"secretKeyRef": {"name": "s", "key": "k"}}


@pytest.mark.parametrize(
    ("workspace", "retained"),
    [
        ({}, False),
        ({"policy": "Delete"}, False),
        ({"policy": "Retain"}, True),
        ({"claimName": "mine"}, True),
    ],
)
def test_an_adopted_claim_is_always_retained(workspace: dict[str, str], retained: bool) -> None:
    assert WorkspaceSpec.model_validate(workspace).is_retained is retained


def test_each_runtime_has_a_block() -> None:
    blocks = {"remote": {"url": "https://a"}, "localDocker": {"image": "a"}, "pod": {}}
    blocks["localStandalone"] = {"worktreePath": "/a"}
    for runtime in Runtime:
        block = runtime[0].lower() + runtime[1:]
        executor = Executor.from_body(an_executor(runtime=runtime, **{block: blocks[block]}))
        assert executor.spec.runtime is runtime


def test_owners() -> None:
    session = TaskSession.from_body(a_session())
    owner = session.owner_reference()
    assert owner.dump() == {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "name": "demo",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = session.metadata.replacing(owner_references=(owner,))
    assert metadata.controller == owner
    assert not metadata.is_deleting


names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@given(names, st.uuids(), st.sampled_from(["", "pod", "workspace"]))
def test_made_names_are_labels_and_belong_to_one_owner(
    base: str, owner: object, suffix: str
) -> None:
    made = group.made_name(base, str(owner), suffix)
    assert made == group.made_name(base, str(owner), suffix)
    assert len(made) <= group.NAME_LIMIT
    assert all(each.isalnum() or each == "-" for each in made)
    assert made[0].isalnum()
    assert made[-1].isalnum()
    assert suffix in made
    assert made != group.made_name(base, f"{owner}x", suffix)
    assert made != group.made_name(base, str(owner), f"{suffix}2")
