"""What of an object goes into a backup, and what is told beside it."""

from typing import Any

import pytest

from kandev_operator.cli import exporting
from kandev_operator.clients import resources

Object = dict[str, Any]


def an_object(kind: str = "TaskSession", *, spec: Object | None = None, **more: Any) -> Object:
    meta = {"name": "it", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3}
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": kind,
        "metadata": {**meta, "managedFields": [], **more.pop("meta", {})},
        "spec": spec or {},
        **more,
    }


def test_what_the_cluster_and_the_operator_added_is_left_out() -> None:
    owner = [{"kind": "TaskSession", "name": "s", "uid": "u"}]
    meta = {"ownerReferences": owner, "finalizers": ["kandev.dev/cleanup"], "labels": {"a": "b"}}
    status = {"state": "ready", "agentctlURL": "http://10.0.0.1:8700"}
    kept = exporting.bare(an_object("Executor", spec={"runtime": "Pod"}, meta=meta, status=status))
    assert kept == {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "it", "namespace": "team", "labels": {"a": "b"}},
        "spec": {"runtime": "Pod"},
    }


def test_wishes_were_of_their_moment_and_other_annotations_stay() -> None:
    notes = {
        "kandev.dev/resume-requested": "1",
        "kandev.dev/fresh-start-requested": "2",
        "kandev.dev/confirmed-dead": "3",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "team": "shop",
    }
    kept = exporting.bare(an_object(meta={"annotations": notes}))
    assert kept["metadata"]["annotations"] == {"team": "shop"}


@pytest.mark.parametrize(
    ("workspace", "expected"),
    [
        (None, {"claimName": "it-files", "policy": "Retain"}),
        (
            {"size": "20Gi", "storageClassName": "fast", "policy": "Delete"},
            {"claimName": "it-files", "policy": "Retain"},
        ),
        ({"claimName": "it-files"}, {"claimName": "it-files", "policy": "Retain"}),
    ],
)
def test_a_session_names_the_claim_with_its_files(workspace: Object, expected: Object) -> None:
    spec = {"workspace": workspace} if workspace else {}
    status = {"workspaceRef": {"kind": "PersistentVolumeClaim", "name": "it-files", "uid": "c"}}
    assert exporting.bare(an_object(spec=spec, status=status))["spec"]["workspace"] == expected


def test_a_session_without_a_claim_stays_as_it_was_written() -> None:
    status = {"workspaceRef": {"kind": "Executor", "name": "far", "uid": "c"}}
    spec = {"workspace": {"size": "1Gi"}}
    for given in (status, {}):
        assert exporting.bare(an_object(spec=spec, status=given))["spec"] == spec


def test_what_is_made_for_a_session_or_goes_is_no_part_of_it() -> None:
    made = {"ownerReferences": [{"kind": "TaskSession", "controller": True}]}
    assert not exporting.is_worth_keeping(an_object("Executor", meta=made))
    assert not exporting.is_worth_keeping(an_object(meta={"deletionTimestamp": "now"}))
    assert exporting.is_worth_keeping(an_object("Executor"))


def test_secrets_and_config_maps_are_found_wherever_they_are_named() -> None:
    profile = an_object(
        "AgentProfile",
        spec={
            "env": [{"name": "K", "secretKeyRef": {"name": "keys", "key": "k"}}, {"name": "V"}],
            "mcpServers": [{"headers": [{"secretKeyRef": {"name": "tickets", "key": "k"}}]}],
        },
    )
    task = an_object("Task", spec={"repositories": [{"credentialsSecretRef": {"name": "git"}}]})
    pod = {
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"secret": {"secretName": "tls"}}, {"configMap": {"name": "settings"}}],
    }
    executor = an_object("Executor", spec={"pod": {"template": {"spec": pod}}})
    brief = {"from": {"configMapKeyRef": {"name": "brief", "key": "b"}}}
    session = an_object(spec={"prompt": brief})
    assert exporting.named([profile, task, executor, session]) == {
        *((resources.SECRETS, name) for name in ("keys", "tickets", "git", "registry", "tls")),
        *((resources.CONFIG_MAPS, name) for name in ("settings", "brief")),
    }


def test_what_is_missing_from_it_is_told() -> None:
    claim = {"workspaceRef": {"kind": "PersistentVolumeClaim", "name": "files-1"}}
    folder = {"workspaceRef": {"kind": "Executor", "name": "far"}}
    key = {"prompt": {"from": {"secretKeyRef": {"name": "brief", "key": "b"}}}}
    found = [an_object(status=claim, spec=key), an_object(status=folder), an_object("Task")]
    said = "\n".join(exporting.remarks(found, with_secrets=False))
    assert "3 objects, of which 2 are sessions" in said
    assert "the claims files-1." in said
    assert "session it are where executor far works" in said
    assert "--secrets" in said
    assert "--secrets" not in "\n".join(exporting.remarks(found, with_secrets=True))
