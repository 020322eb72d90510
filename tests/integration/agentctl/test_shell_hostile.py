"""Callers that mean ill or know no better: every refusal has its word, and nothing breaks."""

import contextlib
import json
import re
import time
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from integration.agentctl.harness import Keys, Refused, Sidecar, eventually
from integration.agentctl.shellclient import (
    SCOPES,
    SHELL,
    NotAdmitted,
    make,
    shells,
    show,
    viewing,
)


def refused(sidecar: Sidecar, shell_id: str, **how: Any) -> tuple[int, str]:
    """How an upgrade was refused."""
    with pytest.raises(NotAdmitted) as found, viewing(sidecar, shell_id, **how):
        pass
    return found.value.status, found.value.code


def test_an_upgrade_is_refused_as_any_call_is(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    now = int(time.time())
    assert refused(own, shell_id, headers={}) == (401, "unauthorized")
    assert refused(own, shell_id, headers={"Authorization": "Bearer x"}) == (401, "unauthorized")
    assert refused(own, shell_id, aud="another") == (401, "unauthorized")
    assert refused(own, shell_id, iat=now - 9000, exp=now - 8000) == (401, "clock_skew")
    assert refused(own, shell_id, scopes=["read", "prompt"]) == (403, "forbidden_scope")
    none = jwt.encode({"aud": "executor-uid-1", "exp": now + 60}, None, algorithm="none")
    assert refused(own, shell_id, headers={"X-Kandev-Token": none}) == (401, "unauthorized")
    own.keys.add("reader", ["read", "prompt"])
    token = own.keys.token("reader", scopes=SCOPES)
    assert refused(own, shell_id, headers={"X-Kandev-Token": token}) == (403, "forbidden_scope")
    token = own.keys.token(scopes=SCOPES)
    asked = urlencode({"token": token, "access_token": token})
    assert refused(own, shell_id, headers={}, query=asked) == (401, "unauthorized"), "not in a URL"
    assert show(own, shell_id)["viewers"] == 0


def test_every_call_needs_the_scope(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    for method, path, body in (
        ("GET", SHELL, None),
        ("POST", SHELL, {"name": "x"}),
        ("GET", f"{SHELL}/{shell_id}", None),
        ("DELETE", f"{SHELL}/{shell_id}", None),
    ):
        response = own.raw(method, path, body, scopes=["read", "prompt", "files", "control"])
        assert (response.status_code, response.json()["details"]) == (403, {"needs": "shell"})
    assert [s["name"] for s in shells(own)] == ["main"]


def test_tokens_in_every_place_that_the_contract_names(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    token = own.keys.token(scopes=SCOPES)
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-Kandev-Token": token}):
        with viewing(own, shell_id, headers=headers) as viewer:
            viewer.hears("attached")
            assert viewer.socket.subprotocol is None
    offered = ["kandev.shell.v1", f"kandev.token.{token}"]
    with viewing(own, shell_id, headers={}, subprotocols=offered) as viewer:
        viewer.hears("attached")
        assert viewer.socket.subprotocol == "kandev.shell.v1", "the token is not sent back"
    assert token not in own.output()


def test_a_viewer_stays_as_long_as_its_token_and_longer_with_a_new_one(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    with viewing(own, shell_id, **nearly_over(15)) as viewer:
        viewer.runs("echo hello", "mark-one")
        cursor = viewer.cursor
        viewer.rest()
        assert viewer.close_code == 4401
    over = time.time() + 17
    with viewing(own, shell_id, query=f"after={cursor}", **nearly_over(15)) as viewer:
        viewer.controls("token", token="not.a.token")
        assert viewer.hears("error")["code"] == "unauthorized"
        viewer.controls("token", token=own.keys.token(scopes=["read"]))
        assert viewer.hears("error", code="forbidden_scope")
        viewer.controls("token", token=own.keys.token(scopes=SCOPES))
        eventually(lambda: time.time() > over, "its first token is over", 60)
        viewer.runs("echo longer", "mark-two")


def nearly_over(seconds: int) -> dict[str, int]:
    """The times of a token that, with the leeway, is good for so long."""
    now = int(time.time())
    return {"iat": now - 400, "exp": now - 300 + seconds}


@pytest.mark.parametrize(
    "query",
    [
        *("after=x", "after=-1", "after=1.0", "after=" + "9" * 30, "after=99999999", "mode=root"),
        *("cols=80", "rows=24", "cols=0&rows=24", "cols=80&rows=1001", "cols=a&rows=b"),
        *("cols=%00&rows=24", "after=%F0%9F%A6%94"),
    ],
)
def test_queries_that_cannot_be_meant(running: Sidecar, query: str) -> None:
    shell_id = make(running, "queried")["shell_id"]
    assert refused(running, shell_id, query=query) == (400, "invalid_request")


@pytest.mark.parametrize("shell_id", ["0" * 32, "main", "..", "%2e%2e%2f", "x" * 3000])
def test_unknown_shells(running: Sidecar, shell_id: str) -> None:
    status, code = refused(running, shell_id)
    assert (status, code) in ((404, "unknown_shell"), (403, None))


def test_frames_that_are_too_long_close_the_socket(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    for payload in (b"x" * 70_000, "x" * 70_000, b"x" * 20_000_000):
        with viewing(own, shell_id) as viewer:
            viewer.hears("attached")
            with contextlib.suppress(ConnectionClosed):  # it may be closed while this is sent
                viewer.socket.send(payload)
            viewer.rest()
            # What was still under way when it was closed may make the kernel cut the line.
            assert viewer.close_code in (1009, 1006)
    with viewing(own, shell_id) as viewer:
        viewer.runs("echo well", "mark-one")
    assert "Traceback" not in own.output()


def test_nonsense_is_answered_and_at_last_shown_the_door(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    with viewing(own, shell_id) as viewer:
        viewer.socket.send('{"type":"token","token":17,"secret":"s3cret"}')
        complaint = viewer.hears("error")
        assert "s3cret" not in json.dumps(complaint)
        for _ in range(30):
            with contextlib.suppress(ConnectionClosed):
                viewer.socket.send("nonsense")
        viewer.rest()
        assert viewer.close_code == 1008
    assert show(own, shell_id)["exit"] is None
    assert "Traceback" not in own.output()


TEXTS = st.text(max_size=200) | st.builds(
    lambda kind, fields: json.dumps({**fields, "type": kind}),
    st.sampled_from(["resize", "token", "take_input", "release_input", "exit", "attached", ""]),
    st.dictionaries(
        st.sampled_from(["cols", "rows", "token", "owner"]),
        st.integers() | st.text(max_size=20) | st.none() | st.floats(allow_nan=False),
    ),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(said=st.lists(TEXTS | st.binary(max_size=300), max_size=15))
def test_whatever_a_viewer_says_the_shell_goes_on(
    running: Sidecar, said: list[str | bytes]
) -> None:
    before = running.output().count("Traceback")
    shell_id = make(running, "fuzzed", command=["sh", "-c", "stty -isig -icanon; exec cat"])[
        "shell_id"
    ]
    with viewing(running, shell_id) as viewer:
        for frame in said:
            viewer.socket.send(frame)
        viewer.types("mark-the-end")
        viewer.sees("mark-the-end")
    assert running.output().count("Traceback") == before
    assert show(running, shell_id)["exit"] is None


NAMES = st.text(max_size=80) | st.sampled_from(["main", "a.b", "../x", "a/b", "", "a" * 64])
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES,
        "cols": st.integers(-5, 2000) | st.none() | st.text(max_size=5),
        "rows": st.integers(-5, 2000) | st.floats(),
        "command": st.just(["true"]) | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
        "env": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)
        | st.integers(),
        "input": st.sampled_from(["all", "one", "none", 7]),
        "profile_env": st.booleans() | st.text(max_size=5),
    },
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=BODIES)
def test_whatever_is_asked_for_is_made_or_refused(running: Sidecar, body: dict[str, Any]) -> None:
    text = json.dumps({"command": ["true"], **body})
    token = running.keys.token(scopes=SCOPES)
    response = running.http.post(
        running.run["url"] + SHELL, content=text, headers={"X-Kandev-Token": token}
    )
    assert response.status_code in (200, 201, 400, 422, 429)
    told = response.json()
    if response.status_code in (200, 201):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", told["name"])
        assert 1 <= told["cols"] <= 1000
        assert 1 <= told["rows"] <= 1000


def test_shells_are_limited_and_the_ended_make_room(own: Sidecar) -> None:
    for number in range(16):
        make(own, f"s{number}", command=["sleep", "1000"] if number else ["true"])
    ended = shells(own)[0]["shell_id"]
    eventually(lambda: show(own, ended)["exit"], "the first ends")
    make(own, "one-more", command=["sleep", "1000"])
    assert ended not in [s["shell_id"] for s in shells(own)]
    with pytest.raises(Refused) as found:
        make(own, "too-much")
    assert (found.value.status, found.value.code) == (429, "too_many")
    assert found.value.details == {"limit": 16}


def test_b032_no_keystroke_reaches_another_instance_than_it_was_typed_for(
    unstarted: Sidecar, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The place is made anew at the same address: the old shell's id is unknown there, and whoever
    attaches to the new one hears the new instance before anything can be typed."""
    old = unstarted.start()
    port = str(old.run["port"])
    shell = make(old)
    with viewing(old, shell["shell_id"]) as viewer:
        before = viewer.hears("attached")
        viewer.runs("echo here", "mark-one")
        old.kill()
        viewer.rest()
        assert viewer.close_code == 1006, "the line is cut, it does not hang"
    folder = tmp_path_factory.mktemp("replaced")
    new = Sidecar(folder, Keys(folder / "jwks.json"))
    new.keys = old.keys
    try:
        new.start("--port", port)
        assert new.run["url"] == old.run["url"]
        assert refused(new, shell["shell_id"]) == (404, "unknown_shell")
        fresh = make(new)
        assert fresh["created"] is True
        with viewing(new, fresh["shell_id"]) as viewer:
            after = viewer.hears("attached")
            assert after["instance_id"] != before["instance_id"]
            assert after["boot_id"] != before["boot_id"]
            viewer.runs("echo there", "mark-two")
            assert b"mark-one" not in viewer.seen
    finally:
        new.close()


def test_b065_large_frames_many_attempts_and_guessed_ids_leave_a_shell_alone(own: Sidecar) -> None:
    shell_id = make(own)["shell_id"]
    for guess in (shell_id[:-1] + "0", shell_id.upper(), shell_id + " ", "1"):
        if guess != shell_id:
            assert refused(own, guess.replace(" ", "%20"))[0] == 404
    for _ in range(50):
        assert refused(own, shell_id, headers={"Origin": "https://evil.example"})[0] == 401
    with viewing(own, shell_id) as viewer:
        viewer.hears("attached")
        assert show(own, shell_id)["viewers"] == 1
