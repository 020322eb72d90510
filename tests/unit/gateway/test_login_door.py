"""The door as a browser, a program and a proxy meet it; the cluster's word on tokens is played."""

import json
import time
from typing import Any

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from kandev_operator.clients.tokens import SigningKey
from kandev_operator.gateway.door import SOMEBODY, OpenDoor
from kandev_operator.gateway.ports import Person, RightsUnknown
from kandev_operator.gateway.rights.cookie import Seal
from kandev_operator.gateway.rights.login import LoginDoor, Proxy
from kandev_operator.gateway.rights.origins import networks

ANNA = Person("anna", "u-1", ("dev",))
HOME = ("Host", "kandev.dev")
OURS = ("Origin", "https://kandev.dev")
PROXY_AT = "10.0.0.7"


class Played:
    """The API server's word: one token is Anna's."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = False

    def knows(self, token: str) -> bool:
        return token == "kept"

    async def bearer(self, token: str) -> Person | None:
        self.asked += 1
        if self.away:
            raise RightsUnknown("no answer")
        return ANNA if token in ("annas", "kept") else None


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def door(played: Played) -> LoginDoor:
    seal = Seal.of(SigningKey.generate(), time.time)
    proxy = Proxy(networks(["10.0.0.0/24"]))
    return LoginDoor(played, lambda: seal, frozenset({"https://kandev.dev"}), proxy)  # type: ignore[arg-type] # its two questions


def connection(
    *headers: tuple[str, str], kind: str = "http", method: str = "GET", peer: str = "192.0.2.1"
) -> HTTPConnection:
    return HTTPConnection(_scope(headers, kind, method, peer, "/"))


async def post(
    door: LoginDoor,
    path: str,
    *headers: tuple[str, str],
    body: bytes = b"",
    peer: str = "192.0.2.1",
) -> Response:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    (route,) = [each for each in door.routes() if each.path == path]
    answer: Response = await route.endpoint(
        Request(_scope(headers, "http", "POST", peer, path), receive)
    )
    return answer


def _scope(
    headers: tuple[tuple[str, str], ...], kind: str, method: str, peer: str, path: str
) -> dict[str, Any]:
    return {
        "type": kind,
        "method": method,
        "scheme": "https" if kind == "http" else "wss",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": (peer, 4711),
        "server": ("127.0.0.1", 8080),
    }


async def status(door: LoginDoor, asking: HTTPConnection) -> int:
    answer = await door.person(asking)
    return answer.status_code if isinstance(answer, Response) else 200


async def log_in(door: LoginDoor, token: str = "annas") -> str:
    answer = await post(
        door,
        "/login",
        HOME,
        OURS,
        ("Content-Type", "application/json"),
        body=json.dumps({"token": token}).encode(),
    )
    assert answer.status_code == 200
    return answer.headers["set-cookie"]


def pair(set_cookie: str) -> tuple[str, str]:
    return ("Cookie", set_cookie.partition(";")[0])


async def test_a_login_gives_a_cookie_that_only_this_host_gets_and_no_script_reads(
    door: LoginDoor,
) -> None:
    made = await log_in(door)
    attributes = {each.strip().lower() for each in made.split(";")[1:]}
    assert made.startswith("__Host-kandev=")
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= attributes
    assert not any(each.startswith("domain") for each in attributes)
    assert "annas" not in made
    assert await door.person(connection(HOME, pair(made))) == ANNA


async def test_a_cookie_is_dead_after_the_logout(door: LoginDoor) -> None:
    cookie, other = pair(await log_in(door)), pair(await log_in(door))
    answer = await post(door, "/logout", HOME, OURS, cookie)
    assert answer.status_code == 303
    assert await status(door, connection(HOME, cookie)) == 401
    respelled = (cookie[0], cookie[1].replace("-", "+").replace("__Host+", "__Host-"))
    assert await status(door, connection(HOME, respelled)) == 401
    assert await status(door, connection(HOME, other)) == 200


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("origin", [None, "https://evil.dev", "http://kandev.dev", "null"])
async def test_a_cookie_does_not_speak_for_a_page_of_somebody_else(
    door: LoginDoor, kind: str, origin: str | None
) -> None:
    headers = [HOME, pair(await log_in(door))] + ([("Origin", origin)] if origin else [])
    assert await status(door, connection(*headers, kind=kind, method="POST")) == 403
    assert await status(door, connection(*headers[:2], OURS, kind=kind, method="POST")) == 200


async def test_nobody_is_logged_in_by_a_page_of_somebody_else(
    door: LoginDoor, played: Played
) -> None:
    answer = await post(door, "/login", HOME, ("Origin", "https://evil.dev"), body=b"token=annas")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert not played.asked


STRANGERS = [
    "evil.dev",
    "[",
    "",
    "localhost.evil.dev",
    "a@localhost",
    "localhost/..",
    "my_evil.dev",
]


@pytest.mark.parametrize("host", STRANGERS)
async def test_an_open_door_is_open_at_home_alone(host: str) -> None:
    there = (("Host", host), ("Origin", f"https://{host}"))
    assert isinstance(await OpenDoor().person(connection(*there)), Response)
    assert isinstance(await OpenDoor().person(connection(there[0])), Response)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080"])
async def test_at_home_the_open_door_takes_its_own_pages_and_programs(host: str) -> None:
    for more in ((), (("Origin", f"https://{host}"),)):
        assert await OpenDoor().person(connection(("Host", host), *more)) == SOMEBODY
    foreign = connection(("Host", host), ("Origin", "https://evil.dev"))
    assert isinstance(await OpenDoor().person(foreign), Response)


@pytest.mark.parametrize("host", STRANGERS)
async def test_a_foreign_host_is_not_served(door: LoginDoor, host: str) -> None:
    bearer = ("Authorization", "Bearer annas")
    assert await status(door, connection(("Host", host), bearer)) == 403
    assert await status(door, connection(HOME, bearer)) == 200


async def test_who_nobody_can_vouch_for_now_is_neither_let_in_nor_refused(
    door: LoginDoor, played: Played
) -> None:
    played.away = True
    assert await status(door, connection(HOME, ("Authorization", "Bearer annas"))) == 503
    answer = await post(door, "/login", HOME, OURS, body=b"token=annas&next=/sessions/x")
    assert answer.headers["location"] == "/login?why=unknown&next=%2Fsessions%2Fx"


@pytest.mark.parametrize("place", ["//evil.dev", "/\\evil.dev", "https://evil.dev", "/a\nb"])
async def test_a_login_sends_nobody_elsewhere(door: LoginDoor, place: str) -> None:
    body = f"token=annas&next={place}".encode()
    answer = await post(door, "/login", HOME, OURS, body=body)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "token", ["", "x" * 40_000, "a.b.c", "a." + "W" * 9_000 + ".c", "ä", "\x00"]
)
async def test_whatever_is_shown_for_a_token_is_refused_and_no_error(
    door: LoginDoor, token: str
) -> None:
    body = json.dumps({"token": token}).encode()
    kind = ("Content-Type", "application/json")
    assert (await post(door, "/login", HOME, OURS, kind, body=body)).status_code == 401


async def test_logins_are_counted_by_address(door: LoginDoor, played: Played) -> None:
    for _ in range(60):
        answer = await post(door, "/login", HOME, OURS, body=b"token=guess")
    assert "why=limited" in answer.headers["location"]
    assert played.asked < 60
    answer = await post(door, "/login", HOME, OURS, body=b"token=annas", peer="192.0.2.2")
    assert answer.headers["location"] == "/"


async def test_unknown_tokens_do_not_reach_the_api_server_without_end(
    door: LoginDoor, played: Played
) -> None:
    answers = [
        await status(door, connection(HOME, ("Authorization", f"Bearer guess-{number}")))
        for number in range(300)
    ]
    assert set(answers) == {401, 429}
    assert played.asked < 300
    # What is known already costs nothing and is not held up by it.
    assert await status(door, connection(HOME, ("Authorization", "Bearer kept"))) == 200


async def test_one_person_asks_only_so_often(door: LoginDoor) -> None:
    asking = connection(HOME, ("X-Remote-User", "bert"), peer=PROXY_AT)
    answers = {await status(door, asking) for _ in range(2_000)}
    assert answers == {200, 429}


async def test_a_proxy_is_believed_from_its_addresses_alone(door: LoginDoor) -> None:
    headers = (HOME, ("X-Remote-User", "bert"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b"))
    found = await door.person(connection(*headers, peer=PROXY_AT))
    assert found == Person("bert", groups=("a", "b", "system:authenticated"))
    claimed = (*headers, ("X-Forwarded-For", PROXY_AT), ("Forwarded", f"for={PROXY_AT}"))
    for peer in ("192.0.2.1", "127.0.0.1"):
        assert await status(door, connection(*claimed, peer=peer)) == 401


async def test_two_names_from_a_proxy_are_none(door: LoginDoor) -> None:
    headers = (HOME, ("X-Remote-User", "admin"), ("X-Remote-User", "bert"))
    assert await status(door, connection(*headers, peer=PROXY_AT)) == 401


async def test_a_proxys_word_does_not_speak_for_a_page_of_somebody_else(door: LoginDoor) -> None:
    headers = (HOME, ("X-Remote-User", "bert"))
    for more in ((), (("Origin", "https://evil.dev"),)):
        asking = connection(*headers, *more, kind="websocket", peer=PROXY_AT)
        assert await status(door, asking) == 403
    assert await status(door, connection(*headers, OURS, kind="websocket", peer=PROXY_AT)) == 200
