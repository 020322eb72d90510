"""Kube over the wire: paths, bodies, pages, and every refusal as its type."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kandev_operator import __version__
from kandev_operator.clients import errors, resources
from kandev_operator.clients.kube import Kube
from unit.clients.wire import SECRET_TOKEN, status


async def test_a_get_carries_the_token_and_our_name(kube: Kube, peer: Any) -> None:
    peer.json({"kind": "Secret", "metadata": {"name": "x"}})
    assert (await kube.get(resources.SECRETS, "a", "x"))["metadata"]["name"] == "x"
    (asked,) = peer.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/namespaces/a/secrets/x")
    assert asked.headers["Authorization"] == f"Bearer {SECRET_TOKEN}"
    assert asked.headers["User-Agent"] == f"kandev-operator/{__version__}"
    assert kube.namespace == "team-a"
    assert kube.server == peer.url


async def test_names_cannot_leave_their_place_in_the_path(kube: Kube, peer: Any) -> None:
    peer.json({})
    await kube.get(resources.TASK_SESSIONS, "a", "../b?x")
    expected = "/apis/kandev.dev/v1alpha1/namespaces/a/tasksessions/..%2Fb%3Fx"
    assert peer.asked[0].path == expected
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="cannot be the name"):
            await kube.get(resources.TASK_SESSIONS, "a", name)
    with pytest.raises(ValueError, match="needs a namespace"):
        await kube.delete(resources.TASK_SESSIONS, None, "b")


async def test_pages_are_joined_and_items_know_their_kind(
    kube: Kube, peer: Any, json_answer: Any
) -> None:
    peer.answer(
        json_answer({"items": [{"n": 1}], "metadata": {"continue": "t&1", "resourceVersion": "7"}}),
        json_answer({"items": [{"n": 2}], "metadata": {"resourceVersion": "7"}}),
    )
    items, version = await kube.list(resources.EXECUTORS, None, "a=b", limit=1)
    assert [item["n"] for item in items] == [1, 2]
    assert {item["kind"] for item in items} == {"Executor"}
    assert version == "7"
    assert peer.asked[0].path == "/apis/kandev.dev/v1alpha1/executors"
    assert peer.asked[1].query == {"labelSelector": "a=b", "limit": "1", "continue": "t&1"}


async def test_a_list_whose_snapshot_expired_is_started_again_in_one_piece(
    kube: Kube, peer: Any, json_answer: Any
) -> None:
    peer.answer(
        json_answer({"items": [{"n": 1}], "metadata": {"continue": "t"}}),
        json_answer(status(410, "Expired"), 410),
        json_answer({"items": [{"n": 1}, {"n": 2}], "metadata": {"resourceVersion": "9"}}),
    )
    items, version = await kube.list(resources.TASKS, "a")
    assert ([item["n"] for item in items], version) == ([1, 2], "9")
    assert peer.asked[2].query == {}


async def test_replace_status_sends_identity_and_status_alone(kube: Kube, peer: Any) -> None:
    peer.json({"metadata": {"resourceVersion": "6"}})
    read = {
        "metadata": {"uid": "u", "resourceVersion": "5", "labels": {"a": "b"}, "name": "s"},
        "spec": {"big": True},
        "status": {"state": "RUNNING"},
    }
    await kube.replace_status(resources.TASK_SESSIONS, "a", "s", read)
    (asked,) = peer.asked
    assert (asked.method, asked.path) == (
        "PUT",
        "/apis/kandev.dev/v1alpha1/namespaces/a/tasksessions/s/status",
    )
    assert asked.body == {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "metadata": {"name": "s", "namespace": "a", "uid": "u", "resourceVersion": "5"},
        "status": {"state": "RUNNING"},
    }
    assert asked.query["fieldValidation"] == "Strict"


async def test_an_unguarded_replacement_is_never_sent(kube: Kube) -> None:
    body: dict[str, Any] = {"metadata": {"name": "s"}, "status": {}}
    with pytest.raises(ValueError, match="resourceVersion"):
        await kube.replace_status(resources.TASK_SESSIONS, "a", "s", body)
    with pytest.raises(ValueError, match="resourceVersion"):
        await kube.replace(resources.LEASES, "a", "s", body)


async def test_patches_say_which_kind_of_patch_they_are(kube: Kube, peer: Any) -> None:
    peer.json({})
    await kube.merge_patch(resources.EXECUTORS, "a", "e", {"metadata": {"finalizers": None}})
    operation = {"op": "add", "path": "/status", "value": {}}
    await kube.json_patch(resources.EXECUTORS, "a", "e", (operation,), subresource="status")
    merge, json_ = peer.asked
    assert merge.headers["Content-Type"] == "application/merge-patch+json"
    assert merge.body == {"metadata": {"finalizers": None}}
    assert json_.headers["Content-Type"] == "application/json-patch+json"
    assert json_.body == [operation]
    assert json_.path.endswith("/executors/e/status")


async def test_a_delete_can_be_about_one_very_object(kube: Kube, peer: Any) -> None:
    peer.json({"kind": "Status", "status": "Success"})
    await kube.delete(resources.PODS, "a", "p", uid="u", propagation="Background", grace_seconds=0)
    assert peer.asked[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }


async def test_a_dry_run_asks_for_nothing_to_be_kept(kube: Kube, peer: Any) -> None:
    peer.json({"kind": "Pod"})
    await kube.create(resources.PODS, "a", {"metadata": {"name": "p"}}, dry_run=True)
    assert peer.asked[0].query["dryRun"] == "All"
    assert peer.asked[0].body["kind"] == "Pod"


@pytest.mark.parametrize(
    ("code", "reason", "expected", "outcome"),
    [
        (400, "BadRequest", errors.Invalid, "invalid"),
        (403, "Forbidden", errors.Forbidden, "forbidden"),
        (404, "NotFound", errors.NotFound, "not_found"),
        (405, "MethodNotAllowed", errors.Invalid, "invalid"),
        (409, "Conflict", errors.Conflict, "conflict"),
        (409, "AlreadyExists", errors.AlreadyExists, "already_exists"),
        (410, "Expired", errors.Gone, "gone"),
        (415, "UnsupportedMediaType", errors.Invalid, "invalid"),
        (422, "Invalid", errors.Invalid, "invalid"),
        (429, "TooManyRequests", errors.Throttled, "throttled"),
        (500, "InternalError", errors.Unavailable, "unavailable"),
        (503, "ServiceUnavailable", errors.Unavailable, "unavailable"),
        (504, "Timeout", errors.Unavailable, "unavailable"),
    ],
)
async def test_each_refusal_has_its_type(
    kube: Kube,
    peer: Any,
    outcomes: list[tuple[str, str, str]],
    code: int,
    reason: str,
    expected: type[errors.KubeError],
    outcome: str,
) -> None:
    peer.json(status(code, reason, "because of the moon"), code)
    with pytest.raises(errors.KubeError) as caught:
        await kube.get(resources.TASKS, "a", "t")
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.reason) == (code, reason)
    assert str(caught.value) == "get tasks a/t: because of the moon"
    assert outcomes == [("get", "tasks", outcome)]


async def test_a_refusal_names_fields_and_waiting_time(kube: Kube, peer: Any) -> None:
    cause = {"reason": "FieldValueInvalid", "message": "is odd", "field": "spec.x"}
    peer.json(status(422, "Invalid", "is odd", causes=[cause, "nonsense"]), 422)
    with pytest.raises(errors.Invalid) as invalid:
        await kube.create(resources.PODS, "a", {"metadata": {"generateName": "p-"}})
    assert invalid.value.causes == (errors.Cause("FieldValueInvalid", "is odd", "spec.x"),)
    peer.json(status(429, "TooManyRequests", retryAfterSeconds=3), 429)
    with pytest.raises(errors.Throttled) as throttled:
        await kube.get(resources.TASKS, "a", "t")
    assert throttled.value.retry_after == 3
    peer.json({}, 429, **{"Retry-After": "2"})
    with pytest.raises(errors.Throttled) as throttled:
        await kube.get(resources.TASKS, "a", "t")
    assert throttled.value.retry_after == 2
    peer.json(status(403, "Forbidden", "pods p is forbidden: exceeded quota: q"), 403)
    with pytest.raises(errors.Forbidden) as forbidden:
        await kube.create(resources.PODS, "a", {"metadata": {"name": "p"}})
    assert forbidden.value.quota_exceeded
    assert not forbidden.value.namespace_terminating


async def test_what_a_secret_holds_is_not_quoted(kube: Kube, peer: Any) -> None:
    said = f"Secret is invalid: data[token]: Invalid value: {SECRET_TOKEN!r}"
    cause = {"reason": "FieldValueInvalid", "message": said, "field": "data[token]"}
    peer.json(status(422, "Invalid", said, causes=[cause]), 422)
    with pytest.raises(errors.Invalid) as caught:
        await kube.create(resources.SECRETS, "a", {"metadata": {"name": "s"}, "data": {}})
    assert SECRET_TOKEN not in str(caught.value) + repr(caught.value.causes)
    assert "data[token]" in str(caught.value)


async def test_no_answer_says_nothing_about_the_object(
    kube: Kube, peer: Any, outcomes: list[tuple[str, str, str]]
) -> None:
    released = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    peer.answer(silent)
    with pytest.raises(errors.Unavailable) as caught:
        await kube.get(resources.TASKS, "a", "t", timeout=0.05)
    released.set()
    assert caught.value.reason == "Timeout"
    peer.answer(lambda _request: _text("<html>hello</html>"))
    with pytest.raises(errors.Unavailable, match="not JSON"):
        await kube.raw_get("/version")
    await peer.server.close()
    with pytest.raises(errors.Unavailable) as caught:
        await kube.get(resources.TASKS, "a", "t")
    assert caught.value.reason == "Network"
    await kube.close()
    with pytest.raises(errors.Unavailable):
        await kube.get(resources.TASKS, "a", "t")
    assert {outcome for *_, outcome in outcomes} == {"unavailable"}


async def _text(text: str) -> web.StreamResponse:
    return web.Response(text=text)


async def test_a_cancelled_call_is_counted_as_one(
    kube: Kube, peer: Any, outcomes: list[tuple[str, str, str]]
) -> None:
    arrived = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    peer.answer(silent)
    asking = asyncio.create_task(kube.get(resources.TASKS, "a", "t"))
    await arrived.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert outcomes == [("get", "tasks", "cancelled")]
