"""The desired pod: whole pods compared with golden files, and what an overlay may and may not do.

A golden file is written anew with KANDEV_GOLDEN=write; its difference is then read by a person.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import a_profile, a_session, a_task, an_executor, uid_of
from kandev_operator.api.agent import EnvVar, Resources, SecretKeyRef
from kandev_operator.api.executor import PodRuntime, Runtime
from kandev_operator.api.podtemplate import PodOverlay
from kandev_operator.api.refs import NameRef
from kandev_operator.api.sessionspec import AccessMode, WorkspacePolicy, WorkspaceSpec
from kandev_operator.api.task import Repository
from kandev_operator.core.observed import Platform
from kandev_operator.core.pods.claim import claim_name, desired_claim
from kandev_operator.core.pods.desired import Conflict, Wanted, desired_pod, shape_of

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "pods"
IMAGE = "agents.example.com/claude:1"
INSTANCE = f"{uid_of('ex-a')}-3"
PLATFORM = Platform("kandev.example.com/agentctl:1")
Body = dict[str, Any]


def wanted(overlay: Body | None = None, *, repositories: bool = False, **more: Any) -> Wanted:
    template = PodOverlay.model_validate(overlay) if overlay is not None else None
    task = a_task()
    if repositories:
        public = Repository(name="shop", url="https://git.example.com/shop.git", ref="main")
        private = Repository(
            name="parts",
            url="https://git.example.com/parts.git",
            path="libs/parts",
            credentials_secret_ref=NameRef(name="git-credentials"),
        )
        task = task.replacing(spec=task.spec.replacing(repositories=(public, private)))
    secret = SecretKeyRef(name="anthropic", key="api-key")
    env = (EnvVar(name="API_KEY", secret_key_ref=secret), EnvVar(name="MODE", value="quiet"))
    fields: Body = {
        "executor": an_executor(runtime=Runtime.POD, spec={"pod": PodRuntime(template=template)}),
        "session": a_session(),
        "task": task,
        "profile": a_profile(
            image=IMAGE, env=env, resources=Resources(limits={"cpu": 1, "memory": "2Gi"})
        ),
        "platform": PLATFORM,
    }
    return Wanted(**{**fields, **more})


def pod(*arguments: Any, **more: Any) -> Body:
    made = desired_pod(wanted(*arguments, **more), INSTANCE)
    assert isinstance(made, dict), made
    return made


def refused(overlay: Body) -> str:
    made = desired_pod(wanted(overlay), INSTANCE)
    assert isinstance(made, Conflict)
    return made.message


def part(body: Body, kind: str, name: str) -> Body:
    found: Body = next(each for each in body["spec"][kind] if each["name"] == name)
    return found


RICH: Body = {
    "metadata": {
        "labels": {"team": "shop", "kandev.dev/session-uid": "mine"},
        "annotations": {"note": "x", "kandev.dev/instance-id": "mine"},
    },
    "spec": {
        "containers": [
            {
                "name": "agent",
                "image": "agents.example.com/other:2",
                "env": [{"name": "MODE", "value": "loud"}, {"name": "EXTRA", "value": "1"}],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "4Gi"}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                "securityContext": {"readOnlyRootFilesystem": True},
            },
            {"name": "database", "image": "db.example.com/pg:1"},
        ],
        "initContainers": [{"name": "warm-up", "image": "busy.example.com/b:1"}],
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "5Gi"}}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "securityContext": {"runAsUser": 2000, "fsGroup": 2000},
    },
}

WHOLE: dict[str, Body] = {
    "plain": {},
    "repositories": {"repositories": True},
    "overlay": {"overlay": RICH},
    "platform-gives-the-user": {"platform": Platform("agentctl:1", "Never", None)},
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_pod(name: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    made = pod(**WHOLE[name])
    if os.environ.get("KANDEV_GOLDEN") == "write":
        plain = json.loads(json.dumps(made))  # no anchors
        path.write_text(yaml.safe_dump(plain, sort_keys=False, width=100))
    assert made == yaml.safe_load(path.read_text())


def test_labels_of_the_group_and_the_instance_win() -> None:
    meta = pod(RICH)["metadata"]
    assert meta["labels"]["kandev.dev/session-uid"] == uid_of("s-a")
    assert meta["annotations"]["kandev.dev/instance-id"] == INSTANCE
    assert meta["labels"]["team"] == "shop"


def test_a_secret_is_a_reference_and_never_a_value() -> None:
    env = {each["name"]: each for each in part(pod(), "containers", "agent")["env"]}
    source = {"name": "anthropic", "key": "api-key", "optional": True}
    assert env["API_KEY"] == {"name": "API_KEY", "valueFrom": {"secretKeyRef": source}}


def test_a_variable_keeps_one_source() -> None:
    theirs = {"containers": [{"name": "agent", "env": [{"name": "API_KEY", "value": "test"}]}]}
    env = part(pod({"spec": theirs}), "containers", "agent")["env"]
    assert [each for each in env if each["name"] == "API_KEY"] == [
        {"name": "API_KEY", "value": "test"}
    ]


def test_added_containers_are_restricted_too_unless_they_say_otherwise() -> None:
    loose = {"name": "loose", "image": "i", "securityContext": {"allowPrivilegeEscalation": True}}
    made = pod({"spec": {"containers": [{"name": "tight", "image": "i"}, loose]}})
    dropped = {"drop": ["ALL"]}
    tight = part(made, "containers", "tight")["securityContext"]
    assert tight == {"allowPrivilegeEscalation": False, "capabilities": dropped}
    free = part(made, "containers", "loose")["securityContext"]
    assert free == {"allowPrivilegeEscalation": True, "capabilities": dropped}


def test_a_profile_cannot_set_what_agentctl_is_started_with() -> None:
    profile = a_profile(image=IMAGE, env=(EnvVar(name="KANDEV_DETACH", value="1"),))
    env = part(pod(profile=profile), "containers", "agent")["env"]
    assert "KANDEV_DETACH" not in {each["name"] for each in env}


def test_resources_are_merged_one_by_one() -> None:
    found = part(pod(RICH), "containers", "agent")["resources"]
    assert found == {"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "memory": "4Gi"}}


def test_the_step_that_clones_runs_in_the_agents_image() -> None:
    clone = part(pod(RICH, repositories=True), "initContainers", "kandev-workspace")
    assert clone["image"] == "agents.example.com/other:2"


def test_only_the_step_that_clones_sees_credentials() -> None:
    made = pod(repositories=True)
    seen = {
        each["name"]
        for kind in ("initContainers", "containers")
        for each in made["spec"][kind]
        if any("credentials" in mount["name"] for mount in each["volumeMounts"])
    }
    assert seen == {"kandev-workspace"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"containers": [{"name": "agent", "command": ["sh"]}]}, "command and args"),
        ({"containers": [{"name": "agent", "args": ["x"]}]}, "command and args"),
        ({"initContainers": [{"name": "agent", "image": "i"}]}, "the agent's container"),
        ({"containers": [{"name": "kandev-spy", "image": "i"}]}, "are the operator's"),
        ({"initContainers": [{"name": "kandev-install", "image": "i"}]}, "are the operator's"),
        ({"volumes": [{"name": "workspace", "emptyDir": {}}]}, "volume workspace"),
        ({"volumes": [{"name": "kandev-keys", "emptyDir": {}}]}, "volume kandev-keys"),
        (
            {"containers": [{"name": "agent", "env": [{"name": "KANDEV_STATE", "value": "/x"}]}]},
            "variable KANDEV_STATE",
        ),
        *(
            (
                {
                    "containers": [
                        {"name": "agent", "volumeMounts": [{"name": "v", "mountPath": path}]}
                    ]
                },
                "mounts its own",
            )
            for path in (
                "/workspace",
                "/workspace/",
                "/workspace/worktree",
                "/kandev/agentctl",
                "/tmp",
            )
        ),
    ],
)
def test_what_fights_the_operators_own_is_refused(spec: Body, words: str) -> None:
    assert words in refused({"spec": spec})


def test_an_image_must_come_from_somewhere() -> None:
    made = desired_pod(wanted(profile=a_profile()), INSTANCE)
    assert isinstance(made, Conflict)
    assert "names an image" in made.message


def test_the_shape_follows_the_template_and_not_the_instance() -> None:
    plain = pod()
    other = desired_pod(wanted(), f"{uid_of('ex-a')}-9", dead_boot_id="boot-1")
    assert isinstance(other, dict)
    assert shape_of(plain) == shape_of(other)
    assert plain["metadata"]["name"] != other["metadata"]["name"]
    assert shape_of(pod(RICH)) != shape_of(plain)


def claim(*, one_pod: bool = False, **workspace: Any) -> Body:
    session = a_session(spec={"workspace": WorkspaceSpec(**workspace)})
    return desired_claim(session, uid_of("t-1"), "10Gi", one_pod=one_pod)


def test_a_claim_goes_with_its_session_unless_it_is_retained() -> None:
    owner = claim()["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("TaskSession", uid_of("s-a"))
    assert "ownerReferences" not in claim(policy=WorkspacePolicy.RETAIN)["metadata"]


def test_a_claim_is_of_the_size_class_and_mode_that_were_asked_for() -> None:
    assert claim()["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    assert claim(one_pod=True)["spec"]["accessModes"] == ["ReadWriteOncePod"]
    told = claim(size="1Gi", storage_class_name="fast", access_modes=(AccessMode.READ_WRITE_MANY,))
    assert told["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }


def test_an_adopted_claim_is_called_as_it_is() -> None:
    session = a_session(spec={"workspace": WorkspaceSpec(claim_name="old-files")})
    assert claim_name(session) == "old-files"
    assert claim_name(a_session()) == claim()["metadata"]["name"]
