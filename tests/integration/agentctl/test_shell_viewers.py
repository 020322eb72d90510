"""Many viewers of one shell: all see the same, none slows another, and none leaves anything."""

import os
import socket
from pathlib import Path

import pytest

from integration.agentctl.harness import Sidecar, eventually
from integration.agentctl.shellclient import (
    NotAdmitted,
    make,
    show,
    viewing,
)

MIB = 1024 * 1024


def test_two_viewers_see_the_same_and_both_type(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as one, viewing(own, shell["shell_id"]) as two:
        one.runs("echo from-one", "mark-one")
        two.sees("mark-one")
        two.runs("echo from-two", "mark-two")
        one.sees("mark-two")
        length = min(len(one.seen), len(two.seen))
        assert one.seen[:length] == two.seen[:length]
        assert show(own, shell["shell_id"])["viewers"] == 2
    eventually(lambda: show(own, shell["shell_id"])["viewers"] == 0, "both are gone")


def test_with_one_owner_the_others_are_told_that_they_did_not_type(own: Sidecar) -> None:
    shell = make(own, input="one", command=["sh", "-c", "stty -echo; exec cat"])
    with viewing(own, shell["shell_id"]) as one, viewing(own, shell["shell_id"]) as two:
        first = one.hears("attached")["viewer_id"]
        second = two.hears("attached")["viewer_id"]
        one.types("from-one\n")
        two.hears("input", owner=first)
        two.types("not-this\n")
        assert two.hears("input_refused")["size"] == len("not-this\n")
        two.controls("take_input")
        one.hears("input", owner=second)
        two.types("but-this\n")
        one.sees("but-this")
        assert b"not-this" not in one.seen
        with viewing(own, shell["shell_id"], query="mode=view") as third:
            third.types("nor-that\n")
            assert third.hears("input_refused")["reason"] == "view_only"
        two.controls("release_input")
        one.hears("input", owner=None)


def test_a_viewer_that_vanishes_leaves_the_shell_and_the_others_alone(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as stays:
        with viewing(own, shell["shell_id"]) as dies:
            dies.runs("echo hello", "mark-one")
            dies.types('sleep 0.2; echo after-""loss\n')
            dies.socket.socket.shutdown(socket.SHUT_RDWR)
        stays.sees("after-loss")
        eventually(lambda: show(own, shell["shell_id"])["viewers"] == 1, "it is noticed")


def raw_upgrade(sidecar: Sidecar, shell_id: str, window: int = 4096) -> socket.socket:
    """A WebSocket by hand, that answers nothing and reads nothing unless it is told to."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    raw.settimeout(30)
    raw.connect((sidecar.run["host"], sidecar.run["port"]))
    token = sidecar.keys.token(scopes=["shell"])
    lines = [
        f"GET /api/v1/shell/{shell_id} HTTP/1.1",
        "Host: here",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"X-Kandev-Token: {token}",
    ]
    raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += raw.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return raw


def test_a_viewer_that_does_not_read_slows_nobody(own: Sidecar) -> None:
    shell = make(
        own, command=["sh", "-c", "stty -opost; read go; head -c 30000000 /dev/zero; echo end"]
    )
    sleeper = raw_upgrade(own, shell["shell_id"])
    try:
        with viewing(own, shell["shell_id"]) as viewer:
            viewer.types("\n")
            viewer.until(lambda: viewer.cursor >= 30_000_000, "all is written", 60)
            viewer.rest()
            assert viewer.told[-1]["exit"]["code"] == 0
        # It wakes up: a gap, in place of what the ring has forgotten, and then the newest.
        got = bytearray()
        while data := sleeper.recv(1 << 20):
            got += data
        assert b'{"type":"gap","start":' in got
        assert b'"type":"exit"' in got
        assert len(got) < 8 * MIB
    finally:
        sleeper.close()


def test_a_half_open_socket_is_let_go(unstarted: Sidecar) -> None:
    own = unstarted.start("--shell-ping-seconds", "2")
    shell = make(own)
    sleeper = raw_upgrade(own, shell["shell_id"])
    try:
        eventually(lambda: show(own, shell["shell_id"])["viewers"] == 1, "it is there")
        eventually(lambda: show(own, shell["shell_id"])["viewers"] == 0, "it does not answer pings")
        with viewing(own, shell["shell_id"]) as viewer:
            viewer.runs("echo well", "mark-one")
        assert "Traceback" not in own.output()
    finally:
        sleeper.close()


def test_a_terminal_that_takes_no_input_does_not_hold_its_viewer(own: Sidecar) -> None:
    shell = make(own, command=["sh", "-c", "stty raw -echo; printf ready; exec sleep 1000"])
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.sees("ready")
        for _ in range(8):
            viewer.types(b"x" * 60_000)
        viewer.controls("resize", cols=44, rows=11)
        refused = viewer.hears("input_refused", patience=60)
        assert refused["reason"] == "full"
        viewer.hears("resized", patience=60, cols=44, rows=11)


def test_viewers_are_limited(own: Sidecar) -> None:
    shell = make(own)
    raws = [raw_upgrade(own, shell["shell_id"]) for _ in range(32)]
    try:
        with pytest.raises(NotAdmitted) as refused, viewing(own, shell["shell_id"]):
            pass
        assert (refused.value.status, refused.value.code) == (429, "too_many")
        assert refused.value.details == {"limit": 32}
    finally:
        for raw in raws:
            raw.close()
    eventually(lambda: show(own, shell["shell_id"])["viewers"] == 0, "all are gone")


def descriptors(own: Sidecar) -> int:
    return len(os.listdir(f"/proc/{own.run['pid']}/fd"))


def resident(own: Sidecar) -> int:
    status = Path(f"/proc/{own.run['pid']}/statm").read_text().split()
    return int(status[1]) * os.sysconf("SC_PAGE_SIZE")


def attach_and_leave(own: Sidecar, shell_id: str, times: int) -> None:
    for count in range(times):
        raw = raw_upgrade(own, shell_id, 65536)
        if count % 2:
            raw.sendall(b"\x88\x80\x00\x00\x00\x00")  # a close frame, properly masked
            while raw.recv(4096):
                pass
        raw.close()


@pytest.mark.timeout(300)
def test_a_thousand_viewers_one_after_another_leave_nothing(own: Sidecar) -> None:
    shell = make(own, command=["cat"])
    attach_and_leave(own, shell["shell_id"], 100)
    eventually(lambda: show(own, shell["shell_id"])["viewers"] == 0, "all are gone")
    before, memory = descriptors(own), resident(own)
    attach_and_leave(own, shell["shell_id"], 1000)
    eventually(lambda: show(own, shell["shell_id"])["viewers"] == 0, "all are gone")
    eventually(lambda: descriptors(own) <= before, "no descriptor is left")
    assert resident(own) - memory < 16 * MIB
    assert "Exception" not in own.output()
    assert own.terminate(60) == 0


def test_a_hundred_shells_one_after_another_leave_nothing(own: Sidecar) -> None:
    def one() -> None:
        shell = make(own, "turn", command=["sh", "-c", "sleep 100 & exit 3"])
        eventually(lambda: show(own, shell["shell_id"])["exit"], "it ends", 60)

    for _ in range(5):
        one()
    before = descriptors(own)
    for _ in range(100):
        one()
    assert descriptors(own) <= before
    children = Path(f"/proc/{own.run['pid']}/task/{own.run['pid']}/children").read_text().split()
    assert children == []
