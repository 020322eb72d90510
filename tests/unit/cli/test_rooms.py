"""What an agentctl leaves out is said plainly, before anything is asked of it."""

import pytest

from kandev_operator.cli.commands import Command, FilesLs, FilesPut, GitStatus, Shell
from kandev_operator.cli.faults import ExitCode, Refusal
from unit.cli.bodies import NAME
from unit.cli.stage import Stage

NONE = {"files": False, "git": False, "shell": False, "reason": "it is on another\x1b machine"}


@pytest.mark.parametrize(
    ("command", "room"),
    [
        (FilesLs(NAME), "files"),
        (FilesPut(NAME, "a", "/dev/null"), "files"),
        (GitStatus(NAME), "git"),
        (Shell(NAME, listing=True), "shell"),
        (Shell(NAME, close=True), "shell"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_room_that_is_left_out(stage: Stage, command: Command, room: str) -> None:
    stage.agentctl.rooms = NONE
    fault = await stage.refused(command)
    assert isinstance(fault, Refusal)
    assert fault.message.startswith(f"the agentctl of executor place does not serve {room}: it is")
    assert "\x1b" not in fault.message
    assert "logs" in fault.hints[0]


@pytest.mark.parametrize("rooms", [None, {}, {**NONE, "shell": True}, {"shell": None}], ids=str)
async def test_one_that_is_served_or_not_spoken_of_is_asked(
    stage: Stage, rooms: dict[str, object] | None
) -> None:
    stage.agentctl.rooms = rooms
    assert await stage.play(Shell(NAME, listing=True)) == ExitCode.OK
    assert "has no shell" in stage.noted


async def test_one_that_refuses_without_having_said_so(stage: Stage) -> None:
    stage.agentctl.refuse["/api/v1/shell"] = (501, "not_served")
    fault = await stage.refused(Shell(NAME, listing=True))
    assert isinstance(fault, Refusal)
    assert "(not_served)" in fault.message
