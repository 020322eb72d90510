"""Readers of the event stream: live words, those who never read, and thousands who come and go."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.agentctl.harness import Sidecar, eventually

CYCLES = 1_000


def attach(sidecar: Sidecar, query: str = "", receive: int = 0) -> socket.socket:
    """A reader that has asked and has not read yet."""
    found = socket.socket()
    if receive:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    found.settimeout(30)
    found.connect((sidecar.run["host"], sidecar.run["port"]))
    found.sendall(
        f"GET /api/v1/events{query} HTTP/1.1\r\nHost: x\r\n"
        f"X-Kandev-Token: {sidecar.keys.token()}\r\n\r\n".encode()
    )
    return found


def descriptors(sidecar: Sidecar) -> int:
    assert sidecar.process is not None
    return len(os.listdir(f"/proc/{sidecar.process.pid}/fd"))


def memory(sidecar: Sidecar) -> float:
    """Resident, in MB."""
    assert sidecar.process is not None
    text = Path(f"/proc/{sidecar.process.pid}/status").read_text()
    return float(text.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.timeout(300)
def test_a_thousand_readers_come_and_go_and_leave_nothing(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    own.say("something to read")

    def cycle(number: int) -> None:
        query = "?kinds=state,messages,live" if number % 2 else ""
        with attach(own, query) as reader:
            if number % 3:
                assert reader.recv(65536)  # or gone before the first word

    for number in range(100):
        cycle(number)
    eventually(lambda: metric(own, "readers") == 0, "the first ones are gone", 60)
    before = descriptors(own), memory(own)
    for number in range(CYCLES):
        cycle(number)
    eventually(lambda: metric(own, "readers") == 0, "nobody reads", 60)
    eventually(lambda: descriptors(own) <= before[0] + 3, "no descriptor is left", 60)
    assert memory(own) < before[1] + 15
    assert own.say("still well")["outcome"] == "completed"


def metric(sidecar: Sidecar, name: str) -> int:
    text = sidecar.http.get(sidecar.run["url"] + "/metrics").text
    line = next(each for each in text.splitlines() if each.startswith(f"kandev_agentctl_{name} "))
    return int(line.split()[1])


@pytest.mark.timeout(300)
def test_readers_that_never_read_slow_nobody_and_fill_no_memory(own: Sidecar) -> None:
    own.put("--tick", "0", "--big-line", "400000")
    own.succeeded(own.open())
    stuck = [attach(own, receive=4096) for _ in range(20)]
    try:
        own.say("the first lot")
        before = memory(own)
        for _ in range(10):
            assert own.say("a lot of words")["outcome"] == "completed"
        # Each of them could have 4 MB by now; what is not read stays in the journal.
        assert memory(own) < before + 40
        assert own.health()["status"] == "ok"
        prompts = [e for e in own.events() if e["kind"] == "turn_ended"]
        assert len(prompts) == 11, "a reader that reads has all of it meanwhile"
    finally:
        for each in stuck:
            each.close()


def read_frames(reader: socket.socket, until: float) -> Iterator[dict[str, Any]]:
    rest = b""
    while time.monotonic() < until:
        data = reader.recv(65536)
        if not data:
            return
        *blocks, rest = (rest + data).split(b"\n\n")
        for block in blocks:
            if b"\ndata: " in block:
                event = json.loads(block.partition(b"\ndata: ")[2])
                yield event | {"has_id": b"id: " in block}


def as_a_page_shows(seen: list[dict[str, Any]]) -> tuple[str, str, str]:
    """What is shown at the end, all that came live, all that is kept. Words that were kept before
    this reader was told of them come only in their message."""
    shown = told = whole = ""
    for event in seen:
        data = event["data"]
        if event["kind"] == "live":
            assert data["offset"] <= len(shown), "no word is left out"
            told += data["text"]
            shown = shown[: data["offset"]] + data["text"]
        elif event["kind"] == "message" and data["author"] == "agent":
            whole += data["text"]
            assert whole.startswith(shown) or shown.startswith(whole), "kept as it was told"
            shown = max(shown, whole, key=len)
    return shown, told, whole


def test_words_come_live_and_each_is_kept_once(sidecar: Sidecar) -> None:
    sidecar.put("--tick", "0.02")
    sidecar.succeeded(sidecar.open())
    with attach(sidecar, "?kinds=state,messages,live") as reader:
        prompt_id = sidecar.prompt("slow 40")["prompt_id"]
        seen = []
        for event in read_frames(reader, time.monotonic() + 60):
            seen.append(event)
            data = event["data"]
            if event["kind"] == "turn_ended" and data["turn"]["prompt_id"] == prompt_id:
                break
    live = [e for e in seen if e["kind"] == "live"]
    kept = [e for e in seen if e["kind"] == "message" and e["data"]["author"] == "agent"]
    assert len(live) > len(kept), "gathered for the journal, told at once to who is there"
    assert not any(e["has_id"] for e in live)
    shown, told, whole = as_a_page_shows(seen)
    assert whole.startswith("word1 word2 ")
    assert shown == whole, "what came live is what is kept"
    assert len(told) > len(whole) // 2
    seqs = [e["seq"] for e in seen if e["kind"] != "live"]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


def test_half_a_request_is_not_kept_for_ever(unstarted: Sidecar) -> None:
    own = unstarted.start("--request-seconds", "1")
    own.put()
    own.succeeded(own.open())
    head = b"POST /api/v1/prompt HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
    token = f"X-Kandev-Token: {own.keys.token()}\r\n\r\n".encode()
    begun = [b"", b"GET /hea", head, head + token, head + token + b'{"session_id']
    before = descriptors(own)
    with attach(own) as reader:
        halves = []
        for number in range(200):
            half = socket.create_connection((own.run["host"], own.run["port"]))
            half.sendall(begun[number % len(begun)])
            half.settimeout(30)
            halves.append(half)
        assert own.health()["status"] == "ok"
        for half in halves:
            with contextlib.suppress(ConnectionResetError):
                assert half.recv(65536) == b"", "nothing is said to half a request"
            half.close()
        eventually(lambda: descriptors(own) <= before + 5, "they are let go", 60)
        # A request that was whole has no end by the clock.
        assert reader.recv(65536)
        own.say("still there?")
        assert b"turn_ended" in drained(reader)


def drained(reader: socket.socket) -> bytes:
    data = b""
    while b"turn_ended" not in data:
        more = reader.recv(65536)
        assert more, "the stream ended"
        data += more
    return data


def test_one_connection_too_many_is_closed_and_the_others_stay(own: Sidecar) -> None:
    own.put()
    held = [socket.create_connection((own.run["host"], own.run["port"])) for _ in range(1_050)]
    closed = 0
    for each in held:
        each.settimeout(0.01)
        try:
            closed += each.recv(1) == b""
        except ConnectionResetError:
            closed += 1
        except TimeoutError:
            pass
    assert closed >= 40
    for each in held:
        each.close()
    eventually(lambda: own.health()["status"] == "ok", "and new ones are taken again")
