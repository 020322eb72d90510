"""Kube against a real API server: what is written there, and how it refuses.

The custom resources here are the tests' own, with the shapes that matter: a required and an
immutable field in spec, a status with defaults and without open fields. So these tests do not
depend on the kinds of the day.
"""

import asyncio
import base64
import contextlib
import copy
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cluster.interface import Cluster
from kandev_operator.clients import errors, resources
from kandev_operator.clients.credentials import InCluster
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource

WIDGETS = Resource("clients.test.kandev.dev", "v1", "widgets", "Widget")
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [{"rule": "self.size == oldSelf.size"}],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "colour": {"type": "string", "default": "grey"},
            },
        },
        "status": {
            "type": "object",
            "default": {"observedGeneration": -1},
            "properties": {
                "observedGeneration": {"type": "integer"},
                "state": {"type": "string"},
                "note": {"type": "string"},
            },
        },
    },
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": f"{WIDGETS.plural}.{WIDGETS.group}"},
    "spec": {
        "group": WIDGETS.group,
        "scope": "Namespaced",
        "names": {"plural": WIDGETS.plural, "kind": WIDGETS.kind},
        "versions": [
            {
                "name": WIDGETS.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


@pytest.fixture
async def kube(control_plane: Cluster) -> AsyncIterator[Kube]:
    async with await Kube.connect(control_plane.kubeconfig) as kube:
        yield kube


@pytest.fixture
async def widget(kube: Kube, namespace: str) -> dict[str, Any]:
    """An object whose status somebody has written before."""
    with contextlib.suppress(errors.AlreadyExists):
        await kube.create(resources.CRDS, None, DEFINITION)
    body = {"metadata": {"name": "w", "labels": {"a": "b"}}, "spec": {"size": 1}}
    for _ in range(100):
        try:
            made = await kube.create(WIDGETS, namespace, body)
            break
        except errors.NotFound:
            await asyncio.sleep(0.1)  # the new kind is not served yet
    else:
        pytest.fail("the test's own kind is never served")
    made["status"] = {"state": "OLD", "note": "to be gone"}
    return await kube.replace_status(WIDGETS, namespace, "w", made)


async def test_status_is_replaced_whole_and_nothing_else_is(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    body = copy.deepcopy(widget)
    body["spec"] = {"size": 99}
    body["metadata"]["labels"] = {"c": "d"}
    body["status"] = {"state": "NEW"}
    answered = await kube.replace_status(WIDGETS, namespace, "w", body)
    read = await kube.get(WIDGETS, namespace, "w")
    assert answered == read
    assert read["status"] == {"state": "NEW"}
    assert read["spec"] == {"size": 1, "colour": "grey"}
    assert read["metadata"]["labels"] == {"a": "b"}
    assert read["metadata"]["generation"] == widget["metadata"]["generation"]
    assert int(read["metadata"]["resourceVersion"]) > int(widget["metadata"]["resourceVersion"])


async def test_a_status_without_a_field_is_a_status_without_it(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    widget["status"] = {}
    answered = await kube.replace_status(WIDGETS, namespace, "w", widget)
    assert answered.get("status", {}) in ({}, {"observedGeneration": -1})


async def test_an_equal_status_is_no_write(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    again = await kube.replace_status(WIDGETS, namespace, "w", widget)
    assert again["metadata"]["resourceVersion"] == widget["metadata"]["resourceVersion"]


async def test_a_writer_in_between_makes_it_a_conflict(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    await kube.merge_patch(WIDGETS, namespace, "w", {"metadata": {"labels": {"x": "y"}}})
    with pytest.raises(errors.Conflict):
        await kube.replace_status(WIDGETS, namespace, "w", {**widget, "status": {"state": "X"}})
    assert (await kube.get(WIDGETS, namespace, "w"))["status"]["state"] == "OLD"


async def test_another_object_of_the_same_name_is_a_conflict(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    widget["metadata"]["uid"] = str(uuid.uuid4())
    with pytest.raises(errors.Conflict):
        await kube.replace_status(WIDGETS, namespace, "w", widget)
    with pytest.raises(errors.Conflict):
        await kube.delete(WIDGETS, namespace, "w", uid=str(uuid.uuid4()))


async def test_a_field_that_the_served_schema_lacks_is_refused_by_name(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    widget["status"] = {"state": "NEW", "fromTheFuture": 1}
    with pytest.raises(errors.Invalid, match="fromTheFuture"):
        await kube.replace_status(WIDGETS, namespace, "w", widget)
    widget["status"] = {"state": 5}
    with pytest.raises(errors.Invalid) as caught:
        await kube.replace_status(WIDGETS, namespace, "w", widget)
    assert "status.state" in [cause.field for cause in caught.value.causes]


async def test_an_object_that_is_gone_is_not_made_again_by_its_status(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    await kube.delete(WIDGETS, namespace, "w", uid=widget["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await kube.replace_status(WIDGETS, namespace, "w", widget)


async def test_status_of_a_spec_that_the_schema_refuses_today_can_be_written(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    """An object stored under an older schema must not lose its voice."""
    definition = await kube.get(resources.CRDS, None, DEFINITION["metadata"]["name"])
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
    stricter = {"type": "integer", "minimum": 1000}
    await kube.json_patch(
        resources.CRDS,
        None,
        definition["metadata"]["name"],
        [{"op": "replace", "path": f"{path}/properties/size", "value": stricter}],
    )
    try:
        await _until_refused(kube, namespace)
        widget["status"] = {"state": "STILL HEARD"}
        written = await kube.replace_status(WIDGETS, namespace, "w", widget)
        assert written["status"]["state"] == "STILL HEARD"
    finally:
        looser = {"type": "integer", "minimum": 1}
        await kube.json_patch(
            resources.CRDS,
            None,
            definition["metadata"]["name"],
            [{"op": "replace", "path": f"{path}/properties/size", "value": looser}],
        )


async def _until_refused(kube: Kube, namespace: str) -> None:
    for _ in range(100):
        try:
            await kube.create(
                WIDGETS, namespace, {"metadata": {"name": "n"}, "spec": {"size": 2}}, dry_run=True
            )
        except errors.Invalid:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the stricter schema never came to be served")


async def test_replace_is_guarded_and_patches_are_if_they_say_so(
    kube: Kube, namespace: str, widget: dict[str, Any]
) -> None:
    newer = await kube.merge_patch(
        WIDGETS, namespace, "w", {"metadata": {"finalizers": ["kandev.dev/cleanup"]}}
    )
    with pytest.raises(errors.Conflict):
        await kube.replace(WIDGETS, namespace, "w", {**widget, "spec": {"size": 1}})
    stale = {"metadata": {"resourceVersion": widget["metadata"]["resourceVersion"]}}
    with pytest.raises(errors.Conflict):
        await kube.merge_patch(WIDGETS, namespace, "w", {**stale, "status": {}})
    test = {"op": "test", "path": "/metadata/uid", "value": "another"}
    with pytest.raises(errors.Invalid):
        await kube.json_patch(WIDGETS, namespace, "w", [test])
    newer["spec"]["colour"] = "red"
    newer["metadata"]["finalizers"] = []
    assert (await kube.replace(WIDGETS, namespace, "w", newer))["spec"]["colour"] == "red"
    with pytest.raises(errors.Invalid):
        await kube.merge_patch(WIDGETS, namespace, "w", {"spec": {"size": 3}})


async def test_pages_make_one_list(kube: Kube, namespace: str) -> None:
    for number in range(7):
        labels = {"odd": str(number % 2)}
        body = {"metadata": {"name": f"c{number}", "labels": labels}, "data": {}}
        await kube.create(resources.CONFIG_MAPS, namespace, body)
    items, version = await kube.list(resources.CONFIG_MAPS, namespace, "odd=0", limit=2)
    assert [item["metadata"]["name"] for item in items] == ["c0", "c2", "c4", "c6"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "ConfigMap")}
    assert int(version) > 0
    everywhere, _ = await kube.list(resources.CONFIG_MAPS, None, "odd=1", limit=3)
    assert len([i for i in everywhere if i["metadata"]["namespace"] == namespace]) == 3


async def test_the_secret_store_works_and_names_are_taken_once(kube: Kube, namespace: str) -> None:
    data = {"token": base64.b64encode(b"\0any bytes\xff").decode()}
    made = await kube.create(
        resources.SECRETS, namespace, {"metadata": {"name": "s"}, "data": data}
    )
    assert (await kube.get(resources.SECRETS, namespace, "s"))["data"] == data
    with pytest.raises(errors.AlreadyExists):
        await kube.create(resources.SECRETS, namespace, {"metadata": {"name": "s"}})
    with pytest.raises(errors.Invalid) as caught:
        await kube.create(
            resources.SECRETS, namespace, {"metadata": {"name": "t"}, "data": {"k": "%sesame%"}}
        )
    assert "sesame" not in str(caught.value)
    await kube.delete(resources.SECRETS, namespace, "s", uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await kube.get(resources.SECRETS, namespace, "s")


async def test_documents_beside_the_objects_can_be_read(kube: Kube) -> None:
    assert int((await kube.raw_get("/version"))["major"]) >= 1
    assert "paths" in await kube.raw_get("/openapi/v3")
    with pytest.raises(errors.NotFound):
        await kube.get(Resource("none.kandev.dev", "v1", "nones", "None"), "default", "x")


async def test_a_service_account_is_authenticated_also_when_its_token_was_rotated(
    control_plane: Cluster,
    kube: Kube,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = await _service_account(control_plane, kube, namespace, tmp_path, monkeypatch)
    good = (tmp_path / "token").read_text()
    head, _, signature = good.rpartition(".")
    (tmp_path / "token").write_text(f"{head}.{signature[::-1]}")
    stale = await source.load()
    (tmp_path / "token").write_text(good + "\n")
    told: list[tuple[str, str, str, float]] = []
    async with Kube(source, stale, on_request=lambda *call: told.append(call)) as rotated:
        review = await rotated.create(REVIEWS, None, {})
        assert review["status"]["userInfo"]["username"] == (
            f"system:serviceaccount:{namespace}:operator"
        )
        assert rotated.namespace == namespace
        with pytest.raises(errors.Forbidden, match="operator"):
            await rotated.get(resources.SECRETS, namespace, "s")
    known = [("create", REVIEWS.plural, "ok"), ("get", "secrets", "forbidden")]
    assert [call[:3] for call in told] == known
    assert all(0 < call[3] < 60 for call in told)


async def test_a_token_that_stays_bad_is_unauthorized(
    control_plane: Cluster,
    kube: Kube,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = await _service_account(control_plane, kube, namespace, tmp_path, monkeypatch)
    (tmp_path / "token").write_text("sesame\n")
    async with Kube(source, await source.load()) as rejected:
        with pytest.raises(errors.Unauthorized) as caught:
            await rejected.create(REVIEWS, None, {})
    assert "sesame" not in str(caught.value)


REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


async def _service_account(
    control_plane: Cluster,
    kube: Kube,
    namespace: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> InCluster:
    """A folder as the kubelet mounts it, for an account that may do nothing."""
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    await kube.create(accounts, namespace, {"metadata": {"name": "operator"}})
    tokens = Resource("", "v1", "serviceaccounts/operator/token", "TokenRequest")
    asked = {"apiVersion": "authentication.k8s.io/v1", "spec": {}}
    answer = await kube.create(tokens, namespace, asked)
    server = urlsplit(kube.server)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", server.hostname or "")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    (folder / "ca.crt").write_bytes(_authority(control_plane.kubeconfig))
    (folder / "token").write_text(answer["status"]["token"])
    (folder / "namespace").write_text(namespace)
    return InCluster(folder)


def _authority(kubeconfig: Path) -> bytes:
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(data)
    return Path(cluster["certificate-authority"]).read_bytes()
