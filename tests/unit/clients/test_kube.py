"""Kube over the wire: paths, bodies, pages, credentials, and every refusal as its type."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kandev_operator import __version__
from kandev_operator.clients import errors, resources
from kandev_operator.clients.credentials import InCluster, Kubeconfig, find_source
from kandev_operator.clients.kube import Kube

SECRET_TOKEN = "sesame-open-0123456789"


def kubeconfig(path: Path, url: str, **user: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def config(peer: Any, tmp_path: Path) -> str:
    return kubeconfig(tmp_path / "config", peer.url, token=SECRET_TOKEN)


@pytest.fixture
def outcomes() -> list[tuple[str, str, str]]:
    return []


@pytest.fixture
async def kube(config: str, outcomes: list[tuple[str, str, str]]) -> AsyncIterator[Kube]:
    async with await Kube.connect(
        config, on_request=lambda verb, plural, outcome: outcomes.append((verb, plural, outcome))
    ) as kube:
        yield kube


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


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


# ── Credentials ──────────────────────────────────────────────────────────────────────────────


def service_account(folder: Path, token: str) -> InCluster:
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(CA)
    (folder / "namespace").write_text("kandev\n")
    return InCluster(folder)


CA = """-----BEGIN CERTIFICATE-----
MIIBVzCB/qADAgECAgEBMAoGCCqGSM49BAMCMA8xDTALBgNVBAMMBHRlc3QwIBcN
-----END CERTIFICATE-----
"""


def with_token(config: str, token: str) -> None:
    document = yaml.safe_load(Path(config).read_text())
    document["users"][0]["user"] = {"token": token}
    Path(config).write_text(yaml.safe_dump(document))


class Rotating:
    """A source that counts, and gives another token each time it is read."""

    def __init__(self, config: str, *tokens: str | Exception) -> None:
        self.config = config
        self.tokens = [*tokens]
        self.read = 0

    async def load(self) -> Any:
        self.read += 1
        token = self.tokens.pop(0)
        if isinstance(token, Exception):
            raise token
        with_token(self.config, token)
        return await Kubeconfig(self.config).load()


def by_token(*good: str) -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") in {f"Bearer {token}" for token in good}:
            return web.json_response({"kind": "Task"})
        return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)

    return handler


async def test_a_refused_token_is_read_again_once_for_all_who_were_refused(
    config: str, peer: Any
) -> None:
    source = Rotating(config, "old", "new")
    peer.answer(by_token("new"))
    async with Kube(source, await source.load()) as kube:
        await asyncio.gather(*(kube.get(resources.TASKS, "a", "t") for _ in range(20)))
    assert source.read == 2


async def test_a_token_refused_twice_is_unauthorized(config: str, peer: Any) -> None:
    source = Rotating(config, "old", "other")
    peer.answer(by_token("new"))
    async with Kube(source, await source.load()) as kube:
        with pytest.raises(errors.Unauthorized):
            await kube.get(resources.TASKS, "a", "t")
    assert len(peer.asked) == 2


async def test_credentials_that_cannot_be_read_again_do_not_end_the_operator(
    config: str, peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    source = Rotating(config, "old", errors.Unauthorized("credentials", "empty"), "new")
    peer.answer(by_token("new"))
    async with Kube(source, await source.load()) as kube:
        with pytest.raises(errors.Unauthorized):
            await kube.get(resources.TASKS, "a", "t")
        await kube.get(resources.TASKS, "a", "t")
    assert "cannot be read again: empty" in caplog.text


async def test_a_rotated_token_file_is_noticed_before_it_is_refused(
    tmp_path: Path, peer: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    config = kubeconfig(tmp_path / "config", peer.url, tokenFile=str(token))
    peer.json({})
    moment = 1000.0
    source = Kubeconfig(config)
    async with Kube(source, await source.load(), clock=lambda: moment) as kube:
        await kube.get(resources.TASKS, "a", "t")
        token.write_text("second\n")
        await kube.get(resources.TASKS, "a", "t")
        moment += 61
        await kube.get(resources.TASKS, "a", "t")
    sent = [asked.headers["Authorization"] for asked in peer.asked]
    assert sent == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_service_account_is_read_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    source = service_account(tmp_path / "sa", "  projected\n")
    access = await source.load()
    assert access.authorization == "Bearer projected"
    assert access.namespace == "kandev"
    assert access.configuration.host == "https://[fd00::1]:443"
    assert access.reread_after == 60
    (tmp_path / "sa" / "ca.crt").write_text(CA + CA)
    assert (await source.load()).connection != access.connection
    assert "projected" not in repr(access)


async def test_a_damaged_ca_is_named_and_does_not_replace_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, peer: Any
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    damaged = service_account(tmp_path / "sa", "projected")
    with pytest.raises(errors.Unauthorized, match="TLS material"):
        Kube(damaged, await damaged.load())
    good = await Kubeconfig(config).load()
    peer.json({})
    async with Kube(
        damaged, replace(good, reread_after=1), clock=itertools.count().__next__
    ) as kube:
        for _ in range(5):
            await kube.get(resources.TASKS, "a", "t")
    assert len(peer.asked) == 5


async def test_another_server_gets_new_connections(config: str, peer: Any) -> None:
    class Moving(Rotating):
        async def load(self) -> Any:
            access = await super().load()
            access.configuration.tls_server_name = f"name-{self.read}"
            return type(access)(
                access.configuration,
                access.authorization,
                access.namespace,
                access.reread_after,
                f"connection {self.read}",
            )

    source = Moving(config, "1", "2", "3", "4")
    async with Kube(source, await source.load()) as kube:
        for token in ("2", "3", "4"):
            peer.answer(by_token(token))
            await kube.get(resources.TASKS, "a", "t")


@pytest.mark.parametrize(
    "value",
    ["a\nb", "a\r\nX-Injected: yes", "nul\0nul", "emoji 🗝", "a b", "ü", "\x7f", "x" * 9 + "\t1"],
)
async def test_a_token_that_no_header_can_carry_is_named_but_not_quoted(
    tmp_path: Path, peer: Any, value: str
) -> None:
    secret = f"hush-{value}-hush"
    config = kubeconfig(tmp_path / "config", peer.url, token=secret)
    with pytest.raises(errors.Unauthorized) as caught:
        await Kube.connect(config)
    assert "hush" not in str(caught.value)
    assert str(len(secret)) in str(caught.value)
    assert peer.asked == []


@pytest.mark.parametrize("value", ["padded\n", "\r\n padded \n\n"])
async def test_blanks_around_a_token_are_left_out(tmp_path: Path, peer: Any, value: str) -> None:
    peer.json({})
    async with await Kube.connect(kubeconfig(tmp_path / "c", peer.url, token=value)) as kube:
        await kube.raw_get("/version")
    assert peer.asked[0].headers["Authorization"] == "Bearer padded"


@pytest.mark.parametrize("size", [10 * 1024, 1024 * 1024])
async def test_an_enormous_token_is_refused_by_the_server_and_not_quoted(
    tmp_path: Path, peer: Any, size: int
) -> None:
    peer.json({})
    config = kubeconfig(tmp_path / "config", peer.url, token="k" * size)
    async with await Kube.connect(config) as kube:
        with pytest.raises(errors.KubeError) as caught:
            await kube.raw_get("/version")
    assert "kkkk" not in str(caught.value)


async def test_no_error_carries_the_header_in_its_chain(tmp_path: Path, peer: Any) -> None:
    config = kubeconfig(tmp_path / "config", peer.url, token=SECRET_TOKEN)
    async with await Kube.connect(config) as kube:
        await peer.server.close()
        with pytest.raises(errors.Unavailable) as caught:
            await kube.raw_get("/version")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


async def test_user_name_and_password_are_sent_as_such(tmp_path: Path, peer: Any) -> None:
    peer.json({})
    config = kubeconfig(tmp_path / "config", peer.url, username="u", password="p")
    async with await Kube.connect(config) as kube:
        await kube.raw_get("/version")
    assert peer.asked[0].headers["Authorization"] == "Basic dTpw"


async def test_a_plugin_is_asked_again_before_what_it_gave_expires(
    tmp_path: Path, peer: Any
) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin", "expirationTimestamp": "2999-01-01T00:00:00Z"},
    }
    config = kubeconfig(
        tmp_path / "config",
        peer.url,
        exec={
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "echo",
            "args": [json.dumps(credential)],
        },
    )
    access = await Kubeconfig(config).load()
    assert access.authorization == "Bearer from-plugin"
    assert access.reread_after is not None
    assert access.reread_after > 3600


@pytest.mark.parametrize(
    "content", ["", "[]", "a: [", "contexts: 5", "current-context: nowhere\ncontexts: []"]
)
async def test_a_damaged_kubeconfig_is_an_error_of_its_own(tmp_path: Path, content: str) -> None:
    damaged = tmp_path / "config"
    damaged.write_text(content)
    with pytest.raises(errors.Unauthorized, match="cannot be used"):
        await Kube.connect(damaged)
    with pytest.raises(errors.Unauthorized, match="there is no kubeconfig"):
        await Kube.connect(tmp_path / "missing")


async def test_the_context_can_be_chosen(config: str) -> None:
    assert (await Kubeconfig(config, "there").load()).namespace == "default"
    with pytest.raises(errors.Unauthorized, match="elsewhere"):
        await Kubeconfig(config, "elsewhere").load()


def test_credentials_are_looked_for_where_kubectl_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert find_source("x") == Kubeconfig("x")
    assert isinstance(find_source(), InCluster)
    monkeypatch.setenv("KUBECONFIG", "a:b")
    assert find_source(None, "c") == Kubeconfig("a:b", "c")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    source = find_source()
    assert isinstance(source, Kubeconfig)
    assert source.path.endswith(".kube/config")
