"""Frames, environments, marks and tokens of the shell: what is taken in and what never gets out."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kandev_operator.agentctl.auth import Denied, bearer
from kandev_operator.agentctl.shell import frames
from kandev_operator.agentctl.shell.environment import Surroundings, shell_environment
from kandev_operator.agentctl.shell.terminal import Seat
from kandev_operator.contract.shell import (
    Complaint,
    InputOwner,
    NewToken,
    Resize,
    Resized,
    ShellRequest,
    TakeInput,
)

pytestmark = pytest.mark.unit


# ---- frames ----------------------------------------------------------------------------


def test_control_frames_are_read() -> None:
    assert frames.read('{"type":"resize","cols":80,"rows":24,"later":1}') == Resize(
        type="resize", cols=80, rows=24
    )
    assert frames.read('{"type":"take_input"}') == TakeInput(type="take_input")
    assert frames.read('{"type":"token","token":"a.b.c"}') == NewToken(type="token", token="a.b.c")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "7", "resize", "[" * 5000, '{"type":"exit"}', '{"type":[]}'),
        '{"type":"resize"}',
        '{"type":"resize","cols":0,"rows":24}',
        '{"type":"resize","cols":1001,"rows":24}',
        '{"type":"resize","cols":80.5,"rows":24}',
        '{"type":"resize","cols":1e400,"rows":24}',
        '{"type":"token","token":7}',
    ],
)
def test_nonsense_is_answered_and_never_quoted(text: str) -> None:
    said = frames.read(text)
    assert isinstance(said, Complaint)
    assert said.code == "invalid_request"
    assert len(text) < 8 or text not in said.message


def test_long_text_is_not_even_read() -> None:
    said = frames.read('{"type":"token","token":"' + "x" * frames.MAX_TEXT_BYTES + '"}')
    assert isinstance(said, Complaint)
    assert said.code == "too_large"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
KEYS = st.sampled_from(["type", "cols", "rows", "token", "other"])
TYPES = st.sampled_from(["resize", "token", "take_input", "release_input", "attached"])
JSON = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(KEYS, SCALARS | TYPES)


@settings(deadline=None)
@given(JSON)
def test_any_json_is_a_control_frame_or_a_complaint(value: Any) -> None:
    said = frames.read(json.dumps(value))
    assert isinstance(said, Complaint) or said.type == value["type"]


def test_notices_name_their_kind() -> None:
    assert json.loads(frames.write(Resized(cols=3, rows=4))) == {
        "type": "resized",
        "cols": 3,
        "rows": 4,
    }


def test_a_viewer_that_reads_slowly_hears_how_things_are() -> None:
    seat = Seat(1)
    for cols in range(1, 1000):
        seat.tell(Resized(cols=cols, rows=1))
        seat.refuse("not_owner", 2)
    seat.tell(InputOwner(owner=7))
    told = [notice.model_dump() for notice in seat.take()]
    assert told == [
        {"type": "resized", "cols": 999, "rows": 1},
        {"type": "input_refused", "reason": "not_owner", "size": 1998},
        {"type": "input", "owner": 7},
    ]
    assert seat.take() == []


# ---- what a shell sees -------------------------------------------------------------------

OWN = {
    "PATH": "/bin",
    "KANDEV_STATE": "/elsewhere",
    "KANDEV_JWKS": "/keys",
    "AWS_SECRET_ACCESS_KEY": "agentctl's own",
    "TERM": "dumb",
}
AROUND = Surroundings("/w", Path("/s/home"), {"API_KEY": "profile's", "HOME": "/s/other"})


def environment(own: dict[str, str] = OWN, **request: Any) -> dict[str, str]:
    return shell_environment(own, AROUND, ShellRequest(**request), ("/s", "id-1"), "/bin/sh")


def test_a_shell_sees_nothing_of_agentctl_and_no_secret_of_the_profile() -> None:
    seen = environment()
    assert seen == {
        "PATH": "/bin",
        "HOME": "/s/other",
        "TERM": "xterm-256color",
        "SHELL": "/bin/sh",
        "PWD": "/w",
        "LANG": "C.UTF-8",
        "KANDEV_STATE": "/s",
        "KANDEV_SHELL_ID": "id-1",
    }


def test_a_caller_may_ask_for_the_profile_and_add_of_its_own() -> None:
    seen = environment(profile_env=True, env={"TERM": "vt100", "KANDEV_SHELL_ID": "forged"})
    assert seen["API_KEY"] == "profile's"
    assert seen["TERM"] == "vt100"
    assert seen["KANDEV_SHELL_ID"] == "id-1", "the marks cannot be forged"
    assert environment({**OWN, "LC_ALL": "de_DE.UTF-8"}).get("LANG") is None


@pytest.mark.parametrize(
    "request_",
    [
        {"name": ""},
        {"name": "../x"},
        {"name": "a" * 64},
        {"name": "a\n"},
        {"cols": 0},
        {"rows": 1001},
        {"env": {"A=B": "x"}},
        {"env": {"A": "x\0y"}},
        {"env": {f"A{n}": "x" for n in range(65)}},
        {"command": ["a\0b"]},
        {"command": ["x"] * 1025},
        {"input": "some"},
    ],
)
def test_requests_that_cannot_be_meant(request_: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ShellRequest.model_validate(request_)


# ---- a browser's token -------------------------------------------------------------------


def test_a_browser_brings_its_token_among_the_subprotocols() -> None:
    offered = {"sec-websocket-protocol": "kandev.shell.v1, kandev.token.a.b-c.d_e"}
    assert bearer(offered) == "a.b-c.d_e"
    assert bearer({**offered, "x-kandev-token": "own.to.ken"}) == "own.to.ken"


@pytest.mark.parametrize("offered", ["", "kandev.shell.v1", "kandev.token.", "kandev.token.a b"])
def test_other_subprotocols_are_no_token(offered: str) -> None:
    with pytest.raises(Denied):
        bearer({"sec-websocket-protocol": offered})
