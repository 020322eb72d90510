"""Terminals in full: output and its bound, exits, kill and release, and what is refused."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kandev_operator.agentctl.clientside import ClientSide, Declined
from kandev_operator.agentctl.terminals import MAX_TERMINALS, Terminal, argv_of

ENV = {"PATH": os.environ["PATH"], "KANDEV_STATE": "/nowhere"}


class Desk:
    """The client's side of an agent that asks for terminals alone."""

    def __init__(self, cwd: str) -> None:
        self.ended: list[Terminal] = []
        self.side = ClientSide(None, cwd, ENV, self.ended.append)

    async def ask(self, method: str, **params: object) -> dict[str, object]:
        return await self.side.answer(f"terminal/{method}", params)

    async def create(self, *argv: str, **more: object) -> str:
        made = await self.ask("create", command=argv[0], args=list(argv[1:]), **more)
        return str(made["terminalId"])

    async def first_output(self, terminal_id: str) -> dict[str, object]:
        for _ in range(3000):
            told = await self.ask("output", terminalId=terminal_id)
            if told["output"]:
                return told
            await asyncio.sleep(0.01)
        raise AssertionError("it never wrote a word")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(str(tmp_path))
    yield made
    await made.side.end()


async def test_the_exit_and_all_of_the_output(desk: Desk) -> None:
    made = await desk.create("sh", "-c", "echo out; echo err >&2; exit 5")
    assert await desk.ask("wait_for_exit", terminalId=made) == {"exitCode": 5, "signal": None}
    told = await desk.ask("output", terminalId=made)
    assert told["output"] == "out\nerr\n"
    assert (told["truncated"], told["exitStatus"]) == (False, {"exitCode": 5, "signal": None})
    assert [t.terminal_id for t in desk.ended] == [made]


async def test_output_while_it_runs_has_no_exit(desk: Desk) -> None:
    made = await desk.create("sh", "-c", "echo first; sleep 600")
    assert "exitStatus" not in await desk.first_output(made)


async def test_a_killed_one_is_still_known(desk: Desk) -> None:
    made = await desk.create("sleep", "600")
    await desk.ask("kill", terminalId=made)
    assert await desk.ask("wait_for_exit", terminalId=made) == {
        "exitCode": None,
        "signal": "SIGTERM",
    }
    await desk.ask("release", terminalId=made)
    with pytest.raises(Declined, match="no such terminal"):
        await desk.ask("output", terminalId=made)


async def test_a_command_that_sits_out_a_term_is_killed_for_certain(desk: Desk) -> None:
    made = await desk.create("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    await desk.first_output(made)
    await desk.ask("kill", terminalId=made)
    assert (await desk.ask("wait_for_exit", terminalId=made))["signal"] == "SIGKILL"


async def test_output_keeps_its_end(desk: Desk) -> None:
    code = "import sys; [print('é' * 50, n) for n in range(20000)]; sys.exit(0)"
    made = await desk.create(sys.executable, "-c", code, outputByteLimit=5000)
    await desk.ask("wait_for_exit", terminalId=made)
    told = await desk.ask("output", terminalId=made)
    output = str(told["output"])
    assert told["truncated"] is True
    assert len(output.encode()) <= 5000
    assert output.endswith("19999\n")
    assert "\ufffd" not in output


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"command": 7},
        {"command": "sh", "args": "x"},
        {"command": "sh", "args": [1]},
        {"command": "sh", "cwd": "relative"},
        {"command": "sh", "cwd": "/no/such/folder", "args": ["-c", "true"]},
        {"command": "sh", "env": [{"name": "A=B", "value": "x"}]},
        {"command": "sh", "env": [7]},
        {"command": "sh", "outputByteLimit": -1},
        {"command": "no-such-command", "args": ["x"]},
    ],
)
async def test_what_is_no_command_is_declined(desk: Desk, params: dict[str, object]) -> None:
    with pytest.raises(Declined) as declined:
        await desk.ask("create", **params)
    assert declined.value.code == -32602


async def test_how_many_are_open_is_bounded(desk: Desk) -> None:
    first = await desk.create("sleep", "600")
    for _ in range(MAX_TERMINALS - 1):
        await desk.create("true")
    with pytest.raises(Declined, match="release some"):
        await desk.create("true")
    await desk.ask("release", terminalId=first)
    await desk.create("true")


async def test_the_marks_by_which_it_is_found_cannot_be_taken_away(desk: Desk) -> None:
    env = [{"name": "KANDEV_STATE", "value": "other"}, {"name": "MINE", "value": "yes"}]
    made = await desk.create("sh", "-c", "echo $KANDEV_STATE $MINE", env=env)
    await desk.ask("wait_for_exit", terminalId=made)
    assert (await desk.ask("output", terminalId=made))["output"] == "/nowhere yes\n"


async def test_nobody_serves_files_here(desk: Desk) -> None:
    with pytest.raises(Declined, match="no files"):
        await desk.side.answer("fs/read_text_file", {"path": "/x"})


def test_a_shell_line_in_the_commands_place() -> None:
    path = os.environ["PATH"]
    assert argv_of("sh", ["-c", "x"], path) == ("sh", "-c", "x")
    assert argv_of("sh", [], path) == ("sh",)
    assert argv_of("echo a | wc -l", [], path) == ("/bin/sh", "-c", "echo a | wc -l")
