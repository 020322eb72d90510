"""What a session's agentctl leaves out, asked before a command needs it.

An agentctl in front of another one has no workspace, hence no files, git and shell; it says so in
its capabilities. One that says nothing of it is asked all the same, and its own answer counts.
"""

from kandev_operator.cli.faults import Refusal
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.reach import Line
from kandev_operator.contract.status import Room

LONGEST_REASON = 200


async def require(line: Line, room: Room) -> None:
    """Raises Refusal where the room is declared as left out, AgentctlError where nobody says."""
    rooms = (await line.client.capabilities()).rooms
    if rooms is None or rooms.serves(room) is not False:
        return
    why = f": {one_line(rooms.reason, LONGEST_REASON)}" if rooms.reason else ""
    raise Refusal(
        f"the agentctl of executor {line.executor.metadata.name} does not serve {room.value}{why}",
        "The conversation is served all the same: kubectl kandev logs, prompt and why.",
    )
