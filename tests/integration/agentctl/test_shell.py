"""Shells as a person meets them: typed into, resized, left and found again, without an agent."""

import os
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from integration.agentctl.harness import Refused, Sidecar, alive, eventually
from integration.agentctl.shellclient import (
    SCOPES,
    SHELL,
    close,
    make,
    shells,
    show,
    viewing,
)

CAT = ["sh", "-c", "stty -echo -opost raw; printf ready; exec cat"]


def test_a_shell_works_before_any_agent_was_configured(own: Sidecar) -> None:
    shell = make(own, cols=100, rows=30)
    assert shell["created"] is True
    with viewing(own, shell["shell_id"]) as viewer:
        attached = viewer.hears("attached")
        assert attached["instance_id"] == own.run["instance_id"]
        assert attached["boot_id"] == own.run["boot_id"]
        viewer.types("stty size; tty; pwd\n")
        viewer.sees("30 100\r\n")
        viewer.sees("/dev/pts/")
        viewer.sees(str(own.workspace))
        viewer.types("exit 7\n")
        assert viewer.hears("exit")["exit"]["code"] == 7
        viewer.rest()
        assert viewer.close_code == 1000
    assert own.health()["agent_status"] == "none"


def test_nothing_is_loaded_for_shells_before_there_is_one(own: Sidecar) -> None:
    def maps() -> str:
        return Path(f"/proc/{own.run['pid']}/maps").read_text()

    own.status()
    assert "websockets" not in maps()
    with viewing(own, make(own)["shell_id"]) as viewer:
        viewer.hears("attached")
    assert "websockets" in maps()


def test_it_works_while_the_agent_cannot_start(own: Sidecar) -> None:
    own.put(command="/nowhere/agent", args=[])
    own.begin()
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.runs("echo $HOME", "did-it")
        viewer.sees(f"{own.state}/sessions/{own.session}/home\r\n")
    own.becomes("none", "exited", "failed")
    assert show(own, shell["shell_id"])["exit"] is None, "the agent's end is not the shell's"


def test_a_name_is_one_shell_and_there_may_be_several(own: Sidecar) -> None:
    one = make(own, "one")
    again = make(own, "one", command=["false"], cols=7)
    two = make(own, "two")
    assert again["shell_id"] == one["shell_id"]
    assert (again["created"], again["cols"]) == (False, 80)
    assert [s["name"] for s in shells(own)] == ["one", "two"]
    with viewing(own, two["shell_id"]) as viewer:
        viewer.types("exit\n")
        viewer.hears("exit")
    assert show(own, two["shell_id"])["exit"]["reason"] == "exited"
    fresh = make(own, "two")
    assert fresh["created"] is True
    assert fresh["shell_id"] != two["shell_id"]


def test_a_closed_shell_is_told_why_and_is_gone(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.hears("attached")
        assert close(own, shell["shell_id"])["exit"]["reason"] == "closed"
        assert viewer.hears("exit")["exit"]["reason"] == "closed"
    assert not alive(shell["pid"])
    assert shells(own) == []
    with pytest.raises(Refused) as refused:
        close(own, shell["shell_id"])
    assert (refused.value.status, refused.value.code) == (404, "unknown_shell")


def test_the_terminal_has_the_size_of_its_viewer(own: Sidecar) -> None:
    loop = "trap 'stty size' WINCH; stty size; while :; do sleep 0.1; done"
    shell = make(own, command=["sh", "-c", f"read go; {loop}"])
    with viewing(own, shell["shell_id"], query="cols=120&rows=40") as viewer:
        viewer.types("\n")
        viewer.sees("40 120\r\n")
        viewer.controls("resize", cols=90, rows=25)
        viewer.hears("resized", cols=90, rows=25)
        viewer.sees("25 90\r\n")
    assert (show(own, shell["shell_id"])["cols"], show(own, shell["shell_id"])["rows"]) == (90, 25)


def test_bytes_pass_as_they_are_and_characters_may_be_cut(own: Sidecar) -> None:
    shell = make(own, command=CAT)
    every = bytes(range(256)) * 8
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.sees("ready")
        viewer.seen.clear()
        for index in range(len(every)):
            if index % 64 == 0:
                viewer.types(every[index : index + 64])
        viewer.until(lambda: len(viewer.seen) == len(every), "all came back")
        assert bytes(viewer.seen) == every
        viewer.seen.clear()
        for byte in "grüße 🦔".encode():
            viewer.types(bytes([byte]))
        viewer.sees("grüße 🦔")


def test_who_comes_back_gets_exactly_what_was_missed(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.runs("echo before", "mark-one")
        viewer.types('for n in $(seq 200); do echo line-$n; sleep 0.005; done; echo do""ne\n')
        viewer.sees("line-20\r\n")
        cursor, seen = viewer.cursor, bytes(viewer.seen)
    with viewing(own, shell["shell_id"], query=urlencode({"after": cursor})) as again:
        again.sees("done")
        assert again.hears("attached")["cursor"] == cursor
        whole = seen + bytes(again.seen)
    with viewing(own, shell["shell_id"]) as late:
        late.sees("done")
        both = min(len(late.seen), len(whole))  # the shell's next prompt may have come to one only
        assert bytes(late.seen[:both]) == whole[:both]
    numbers = [int(n) for n in re.findall(rb"line-(\d+)\r", whole)]
    assert numbers == list(range(1, 201)), "each line once, in order"
    assert not [told for told in again.told if told["type"] == "gap"]


def test_what_is_not_kept_any_more_is_an_explicit_gap(unstarted: Sidecar) -> None:
    own = unstarted.start("--shell-scrollback-bytes", "4096")
    shell = make(own, command=["sh", "-c", "seq 5000; exec cat"])
    eventually(lambda: show(own, shell["shell_id"])["cursor"] > 20000, "all is written")
    with viewing(own, shell["shell_id"], query="after=100") as viewer:
        gap = viewer.hears("gap")
        assert gap["start"] == 100
        assert gap["end"] > 20000 - 4096
        viewer.sees("\n5000\r\n")
        assert b"\n100\r" not in viewer.seen
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.sees("\n5000\r\n")
        assert [told["type"] for told in viewer.told] == ["attached"], "no gap for who asks for all"


def test_one_that_ended_can_still_be_read(own: Sidecar) -> None:
    shell = make(own, command=["sh", "-c", "seq 3000; echo last-words; exit 4"])
    eventually(lambda: show(own, shell["shell_id"])["exit"], "it ends")
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.rest()
        assert viewer.seen.endswith(b"last-words\r\n")
        assert viewer.seen.startswith(b"1\r\n2\r\n")
        assert viewer.told[-1]["exit"]["code"] == 4
        assert viewer.close_code == 1000


def test_killed_by_a_signal_is_told_so(own: Sidecar) -> None:
    shell = make(own, command=["sh", "-c", "kill -KILL $$"])
    ended = eventually(lambda: show(own, shell["shell_id"])["exit"], "it ends")
    assert (ended["code"], ended["signal"]) == (None, "SIGKILL")


def test_a_command_and_variables_of_the_callers_own(own: Sidecar) -> None:
    own.put()
    plain = make(own, "plain", command=["env"])
    asked = make(own, "asked", command=["env"], profile_env=True, env={"MINE": "yes"})
    with viewing(own, plain["shell_id"]) as viewer:
        viewer.rest()
        assert b"very-secret-value" not in viewer.seen
        named = set(re.findall(rb"(KANDEV_\w+)=", bytes(viewer.seen)))
        assert named == {b"KANDEV_STATE", b"KANDEV_SHELL_ID"}
    with viewing(own, asked["shell_id"]) as viewer:
        viewer.rest()
        assert b"MODEL_API_KEY=very-secret-value" in viewer.seen
        assert b"MINE=yes" in viewer.seen


@pytest.mark.parametrize("command", [["/nowhere/sh"], ["no-such-command"], ["/etc/passwd"], [""]])
def test_a_command_that_cannot_run_is_refused(own: Sidecar, command: list[str]) -> None:
    before = len(os.listdir(f"/proc/{own.run['pid']}/fd"))
    with pytest.raises(Refused) as refused:
        make(own, command=command)
    assert (refused.value.status, refused.value.code) == (422, "shell_failed")
    assert shells(own) == []
    after = len(os.listdir(f"/proc/{own.run['pid']}/fd"))
    assert after <= before + 1, "no terminal is left open"


def test_a_missing_workspace_is_named(own: Sidecar) -> None:
    own.workspace.rmdir()
    with pytest.raises(Refused, match="working directory does not exist"):
        make(own)
    own.workspace.mkdir()
    assert make(own)["created"]


def test_what_is_typed_and_shown_is_nobodys_record(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    last = own.status()["journal"]["last_seq"]
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.runs("echo typed-and-shown", "mark-two")
    close(own, shell["shell_id"])
    assert own.status()["journal"]["last_seq"] == last
    for path in (own.state / "sessions").rglob("journal.db*"):
        assert b"typed-and-shown" not in path.read_bytes()
    assert "typed-and-shown" not in own.output()


def test_another_session_does_not_see_the_shells_of_this_one(own: Sidecar) -> None:
    early = make(own, "early")
    own.put()
    assert [s["shell_id"] for s in shells(own)] == [early["shell_id"]], "made for whoever comes"
    with viewing(own, early["shell_id"]) as viewer:
        viewer.hears("attached")
        own.becomes("initialized")
        own.fresh_session()
        own.put()
        assert viewer.hears("exit")["exit"]["reason"] == "session_changed"
    assert shells(own) == []
    eventually(lambda: not alive(early["pid"]), "it is ended")


def test_a_caller_of_another_session_is_refused(own: Sidecar) -> None:
    own.put()
    response = own.raw("GET", SHELL, scopes=SCOPES, session="another")
    assert (response.status_code, response.json()["code"]) == (409, "session_conflict")
