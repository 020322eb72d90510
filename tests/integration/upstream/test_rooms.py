"""What `kubectl kandev` says of the rooms that are left out in front of Kandev's agentctl."""

import io
import time

import pytest

from integration.agentctl.harness import AUDIENCE
from integration.upstream.harness import Fronted
from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import Refusal
from kandev_operator.cli.options import parse
from kandev_operator.cli.program import carry_out
from kandev_operator.cli.reach import Line
from kandev_operator.cli.screen import Screen
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.contract.claims import Scope
from unit.cli.bodies import executor_body, session_body

pytestmark = [pytest.mark.integration, pytest.mark.agents]


class Way:
    """The way to the one agentctl there is."""

    def __init__(self, client: AgentctlClient) -> None:
        self._client = client

    async def line(self, name: str) -> Line:
        session = TaskSession.model_validate(session_body())
        return Line(session, Executor.model_validate(executor_body("http://x")), self._client)


@pytest.mark.parametrize(
    ("words", "room"),
    [
        (("files", "ls", "s"), "files"),
        (("files", "get", "s", "a"), "files"),
        (("git", "status", "s"), "git"),
        (("shell", "s", "--list"), "shell"),
    ],
    ids=["files ls", "files get", "git status", "shell --list"],
)
async def test_a_room_that_is_left_out_is_named(
    front: Fronted, words: tuple[str, ...], room: str
) -> None:
    def mint(*scopes: Scope) -> str:
        end = int(time.time()) + 60
        return front.keys.token(aud=AUDIENCE, scopes=[*scopes], term=None, epoch=None, exp=end)

    screen = Screen(io.StringIO(), io.StringIO(), io.StringIO())
    _, command = parse(words, {})
    async with open_session() as http:
        pinned = front.health()["instance_id"]
        way = Way(AgentctlClient(http, front.run["url"], mint, pinned))
        desk = Desk(None, way, screen, "kandev-system")  # type: ignore[arg-type]
        with pytest.raises(Refusal) as fault:
            await carry_out(desk, command)
    wanted = f"does not serve {room}: the workspace is on the upstream's machine"
    assert fault.value.message.endswith(wanted)
