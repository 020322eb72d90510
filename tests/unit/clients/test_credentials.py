"""Who we are to the API server: where it is read, read again, and never quoted."""

import asyncio
import base64
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kandev_operator.clients import errors, resources
from kandev_operator.clients.credentials import InCluster, Kubeconfig, find_source
from kandev_operator.clients.kube import Kube
from unit.clients.wire import SECRET_TOKEN, kubeconfig, status


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


def held(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_key_that_stands_in_the_kubeconfig_is_not_written_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed could not take it away again."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    inline = {
        "client-certificate-data": base64.b64encode(b"a certificate").decode(),
        "client-key-data": base64.b64encode(b"a private key").decode(),
    }
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **inline)
    first, again = [await Kubeconfig(path).load() for _ in range(2)]
    assert [*temporary.iterdir()] == []
    assert held(first.configuration.cert_file) == b"a certificate"
    assert held(first.configuration.key_file) == b"a private key"
    assert first.configuration.key_file == again.configuration.key_file, "read again, held once"
    assert first.connection == again.connection
