"""Who may do what at the gateway, by the word of a real API server: tokens, roles, cookies.

The gateway runs with the rights that its README lists, and no others. No operator runs: sessions
stay as they were applied, which is all that is asked about here.
"""

import asyncio
import base64
import http.client
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from cluster.controlplane import ControlPlane
from cluster.interface import Cluster
from stage.gatewayprocess import GatewayProcess
from stage.onlooker import RefusedError, onlooker
from stage.sessions import Namespace, profile, session, task

KANDEV = "kandev.dev"
SEE = ["get", "list", "watch"]
Rules = list[tuple[str, list[str], list[str]]]
GATEWAY: Rules = [
    (KANDEV, ["tasks", "tasksessions", "executors", "agentprofiles"], SEE),
    (KANDEV, ["tasks", "tasksessions"], ["create"]),
    (KANDEV, ["tasksessions"], ["patch"]),
    ("", ["secrets"], ["get", "create"]),
    ("", ["configmaps"], ["get", "create", "update"]),
]
ASKS: Rules = [
    ("authentication.k8s.io", ["tokenreviews"], ["create"]),
    ("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
VIEW: Rules = [(KANDEV, ["tasks", "tasksessions", "agentprofiles"], ["get", "list"])]
EDIT: Rules = [
    *VIEW,
    (KANDEV, ["tasksessions"], ["patch"]),
    (
        KANDEV,
        ["tasksessions/prompt", "tasksessions/files", "tasksessions/shell"],
        ["create"],
    ),
]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Visitor:
    """Plain HTTP, with whatever headers."""

    def __init__(self, gateway: GatewayProcess, **headers: str) -> None:
        self._gateway = gateway
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def post(self, path: str, body: Any, **more: str) -> Answer:
        there = urlsplit(self._gateway.url)
        connection = http.client.HTTPConnection(there.hostname or "", there.port, timeout=30)
        headers = {"Content-Type": "application/json", **self._headers, **more}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())
        finally:
            connection.close()

    def act(self, action: str, **payload: Any) -> Answer:
        return self.post(f"/api/v1/actions/{action}", payload)


class House:
    """A namespace with a session, its people, and the gateway before it."""

    def __init__(self, place: Namespace, folder: Path) -> None:
        self.place, self.cluster = place, place.cluster
        place.apply(profile("fake"), task("t1"), session("s1", folder))
        self.uid: str = place.get("tasksession", "s1")["metadata"]["uid"]
        user = f"gateway-of-{place.name}"
        self._grant(f"--user={user}", "gateway", GATEWAY)
        self._apply("ClusterRole", user, rules=_rules(ASKS))
        self.cluster.kubectl(
            "create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}"
        )
        self.user = user
        self.gateway = GatewayProcess(
            self.cluster.kubeconfig_for(user),
            folder,
            namespaces=[place.name],
            operator_namespace=place.name,
            options=("--trust-proxy=10.0.0.0/8",),
        )

    def clear(self) -> None:
        self.cluster.kubectl("delete", "clusterrolebinding,clusterrole", self.user)

    def account(self, name: str, rules: Rules = ()) -> None:  # type: ignore[assignment] # none
        self.place.kubectl("create", "serviceaccount", name)
        if rules:
            self._grant(f"--serviceaccount={self.place.name}:{name}", name, rules)

    def token(self, name: str, *options: str) -> str:
        return self.place.kubectl("create", "token", name, *options).strip()

    def bearer(self, token: str) -> Visitor:
        return Visitor(self.gateway, Authorization=f"Bearer {token}")

    def _grant(self, whom: str, name: str, rules: Rules) -> None:
        self._apply("Role", name, rules=_rules(rules))
        self.place.kubectl("create", "rolebinding", name, f"--role={name}", whom)

    def _apply(self, kind: str, name: str, **parts: Any) -> None:
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            **parts,
        }
        self.place.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def _rules(rules: Rules) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "resources": resources, "verbs": verbs}
        for group, resources, verbs in rules
    ]


@pytest.fixture(scope="module")
def house(crds: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    name = f"login-{uuid.uuid4().hex[:8]}"
    crds.create_namespace(name)
    made = House(Namespace(crds, name, Path("/nowhere")), tmp_path_factory.mktemp("login"))
    try:
        made.account("viewer", VIEW)
        made.account("editor", EDIT)
        made.account("stranger")
        with made.gateway:
            yield made
    finally:
        made.clear()
        crds.delete_namespace(name)


def until(answer: Callable[[], int], wanted: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while (status := answer()) != wanted:
        assert time.monotonic() < end, f"still {status}"
        time.sleep(0.3)


def test_each_right_is_asked_on_its_own(house: House) -> None:
    viewer, editor = (house.bearer(house.token(name)) for name in ("viewer", "editor"))
    for each in (viewer, editor):
        assert each.act("task.session.status", session_id=house.uid).json["session_id"] == house.uid
    asked: dict[str, dict[str, Any]] = {
        "session.prompt": {"prompt_id": "p", "text": "x"},
        "session.stop": {},
        "file.tree": {"path": ""},
    }
    for action, payload in asked.items():
        refused = viewer.act(action, session_id=house.uid, **payload)
        assert (refused.status, refused.json["code"]) == (403, "forbidden"), action
        # No agentctl serves it; what counts is that it was not a right that was missing.
        assert editor.act(action, session_id=house.uid, **payload).status != 403, action
    assert house.place.get("tasksession", "s1")["spec"]["operatingMode"] == "Suspended"


def test_what_may_not_be_read_is_like_what_does_not_exist(house: House) -> None:
    stranger = house.bearer(house.token("stranger"))
    for action, payload in (
        ("task.session.status", {}),
        ("session.stop", {}),
        ("message.list", {}),
        ("session.prompt", {"prompt_id": "p", "text": "x"}),
    ):
        real = stranger.act(action, session_id=house.uid, **payload)
        none = stranger.act(action, session_id=str(uuid.uuid4()), **payload)
        for each in (real, none):
            each.headers.pop("date", None)
        assert real == none, action
        assert real.status == 404, action
    assert stranger.act("task.list").json == {"tasks": [], "sessions": []}
    theirs = stranger.act("task.list", namespace=house.place.name)
    nobodys = stranger.act("task.list", namespace="no-such-namespace")
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)


def test_tokens_of_others_and_of_the_past_are_nobodys(house: House) -> None:
    assert isinstance(house.cluster, ControlPlane), "its signing key is needed"
    real = house.token("viewer")
    head, claims = (
        jwt.get_unverified_header(real),
        jwt.decode(real, options={"verify_signature": False}),
    )
    key: Any = load_pem_private_key(next(house.cluster.folder.rglob("sa.key")).read_bytes(), None)
    other: Any = (
        rsa.generate_private_key(65537, 2048)
        if isinstance(key, rsa.RSAPrivateKey)
        else ec.generate_private_key(key.curve)
    )

    def signed(by: Any, **changed: Any) -> str:
        return jwt.encode({**claims, **changed}, by, head["alg"], headers={"kid": head["kid"]})

    def status(token: str) -> int:
        return house.bearer(token).act("task.list").status

    now = int(time.time())
    assert status(signed(key, exp=now + 1000)) == 200, "what is signed here is taken"
    assert status(signed(key, iat=now - 900, nbf=now - 900, exp=now - 300)) == 401
    assert status(signed(key, iat=now + 300, nbf=now + 300, exp=now + 900)) == 401
    assert status(signed(other, exp=now + 1000)) == 401, "of another cluster"
    assert status(house.token("viewer", "--audience=elsewhere")) == 401
    plain = f"{_part({'alg': 'none', 'kid': head['kid']})}.{_part(claims)}."
    assert status(plain) == 401


def test_a_login_lasts_until_the_logout_and_leaves_no_token_behind(house: House) -> None:
    token = house.token("viewer")
    program = Visitor(house.gateway)
    origin = {"Origin": house.gateway.url}
    made = program.post("/login", {"token": token}, **origin)
    assert made.status == 200
    cookie = made.headers["set-cookie"].partition(";")[0]
    there = Visitor(house.gateway, Cookie=cookie, **origin)
    assert there.act("task.session.status", session_id=house.uid).status == 200
    assert there.act("session.stop", session_id=house.uid).status == 403
    assert Visitor(house.gateway, Cookie=cookie).act("task.list").status == 403, "no origin"
    foreign = Visitor(house.gateway, Cookie=cookie, Origin="https://evil.dev")
    assert foreign.act("task.list").status == 403
    forged = cookie[:-6] + ("AAAAA=" if not cookie.endswith("AAAAA=") else "BBBBB=")
    assert Visitor(house.gateway, Cookie=forged, **origin).act("task.list").status == 401
    assert there.post("/logout", {}).status == 303
    assert there.act("task.list").status == 401
    assert program.post("/login", {"token": "guess"}, **origin).status == 401
    assert token not in house.gateway.log.read_text()


def test_proxy_headers_of_anybody_are_worth_nothing(house: House) -> None:
    claimed = Visitor(
        house.gateway, X_Remote_User="admin", X_Remote_Group="system:masters",
        X_Forwarded_For="10.0.0.1", Origin=house.gateway.url,
    )  # fmt: skip
    # The peer is loopback, as with a port-forward: it may not say that it is somebody else.
    assert claimed.act("task.list").status == 401


def test_the_gateways_key_is_its_own_and_cannot_control(house: House) -> None:
    secret = house.place.get("secret", "kandev-gateway-signing-key")["data"]
    published = house.place.get("configmap", "kandev-gateway-keys")["data"]["jwks.json"]
    (key,) = json.loads(published)["keys"]
    assert sorted(key["kandev_scopes"]) == ["files", "prompt", "read", "shell"]
    assert (key["kty"], key["crv"]) == ("OKP", "Ed25519")
    assert "d" not in key, "that would be the private half"
    private: Any = load_pem_private_key(base64.b64decode(secret["signing-key.pem"]), None)
    public = base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).rstrip(b"=")
    assert key["x"] == public.decode()


async def test_a_right_that_is_taken_away_ends_an_open_look(house: House) -> None:
    await asyncio.to_thread(house.account, "leaver", VIEW)
    token = await asyncio.to_thread(house.token, "leaver")
    headers = {"Authorization": f"Bearer {token}"}
    async with onlooker(house.gateway.url, additional_headers=headers) as it:
        await it.ask("session.subscribe", session_id=house.uid)
        with pytest.raises(RefusedError) as refused:
            await it.ask("session.stop", session_id=house.uid)
        assert refused.value.code == "forbidden"
        await asyncio.to_thread(house.place.kubectl, "delete", "rolebinding", "leaver")
        await it.until(
            lambda action, body: action == "session.deleted" and body["session_id"] == house.uid,
            "the session is gone for them",
            seconds=90,
        )
        with pytest.raises(RefusedError) as missing:
            await it.ask("task.session.status", session_id=house.uid)
        assert missing.value.code == "not_found"


def test_an_account_that_is_deleted_is_nobody_soon(house: House) -> None:
    house.account("gone", VIEW)
    visitor = house.bearer(house.token("gone"))
    assert visitor.act("task.list").status == 200
    house.place.kubectl("delete", "serviceaccount", "gone")
    until(lambda: visitor.act("task.list").status, 401)


def _part(told: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=").decode()
