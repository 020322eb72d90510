"""The whole way: LocalHost starts a real agentctl, AgentctlClient leads a real conversation.

The agent is the scripted one; everything between it and us is real.
"""

import asyncio
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import Limits, open_session
from kandev_operator.clients.local import LocalHost, LocalProcess
from kandev_operator.clients.tokens import Minter, SigningKey, jwks
from kandev_operator.contract.agent import AgentSpec, PromptRequest, StartRequest, StopRequest
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import AgentStatus, OperationState, StatusReport

AGENT = Path(__file__).parents[2] / "fakes" / "acp_agent.py"
AUDIENCE = "executor-uid"
SESSION = "session-uid"


@dataclass
class Place:
    """A worktree with a living agentctl, and how to call it."""

    host: LocalHost
    worktree: Path
    process: LocalProcess
    key: SigningKey
    session: aiohttp.ClientSession

    def client(
        self,
        *,
        epoch: int = 1,
        key: SigningKey | None = None,
        clock: Callable[[], float] = time.time,
        instance: str | None = None,
        audience: str = AUDIENCE,
    ) -> AgentctlClient:
        minter = Minter(key or self.key, clock)

        def mint(*scopes: Scope) -> str:
            return minter.mint(audience, scopes, session=SESSION, term=1, epoch=epoch)

        return AgentctlClient(
            self.session,
            self.process.url,
            mint,
            instance or self.process.instance_id,
            limits=Limits(total=10),
        )


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    worktree = tmp_path / "root" / "work"
    worktree.mkdir(parents=True)
    host = LocalHost({"team-a": tmp_path / "root"})
    state = host.state_folder("team-a", worktree)
    key = SigningKey.generate()
    process = await host.start(state, worktree, "instance-1", AUDIENCE, jwks([key]))
    assert isinstance(process, LocalProcess), str(process)
    async with open_session() as session:
        yield Place(host, worktree, process, key, session)
    assert await host.stop(process, grace=20)
    assert host.find(state) is None


def spec() -> AgentSpec:
    return AgentSpec(
        session_id=SESSION,
        session_namespace="team-a",
        session_name="s",
        command=sys.executable,
        args=(str(AGENT),),
        profile_hash="h",
    )


async def until(
    client: AgentctlClient, met: Callable[[StatusReport], bool], seconds: float = 30
) -> StatusReport:
    deadline = time.monotonic() + seconds
    while True:
        report = await client.status()
        if met(report) or time.monotonic() > deadline:
            assert met(report), report
            return report
        await asyncio.sleep(0.05)


async def test_a_conversation_is_led_and_followed(place: Place) -> None:
    client = place.client()
    health = await client.health()
    assert (health.instance_id, health.boot_id) == ("instance-1", place.process.boot_id)
    assert (await client.put_agent(spec())).changed
    assert not (await client.put_agent(spec())).changed
    start = StartRequest(session_id=SESSION, operation_id="start-1", mode="new")
    await client.start(start)
    report = await until(client, lambda r: r.agent.status is AgentStatus.IDLE)
    (operation,) = report.operations
    assert (operation.operation_id, operation.state) == ("start-1", OperationState.SUCCEEDED)
    assert (await client.start(start)).execution_id == operation.execution_id
    assert (await client.capabilities()).supports_session_resume is not None
    assert await client.permissions() == ()

    async with aclosing(client.events(None, ("state", "messages"))) as events:
        prompt = PromptRequest(
            session_id=SESSION,
            prompt_id=str(uuid.uuid4()),
            content=({"type": "text", "text": "hello 🗝"},),
        )
        await client.prompt(prompt)
        seen = []
        async for event in events:
            seen.append(event.kind)
            if event.kind is EventKind.TURN_ENDED:
                break
    assert EventKind.MESSAGE in seen
    report = await until(client, lambda r: r.turn is None)
    assert report.token is not None
    assert report.token.value
    assert (await client.status(with_token=False)).token != report.token

    await client.stop(StopRequest(session_id=SESSION, operation_id="stop-1"))
    await until(client, lambda r: r.agent.status is AgentStatus.NONE)


async def test_every_no_of_a_real_agentctl_has_its_type(place: Place) -> None:
    client = place.client(epoch=5)
    with pytest.raises(errors.Refused) as refused:
        await client.cancel(SESSION)
    assert refused.value.code in {Code.AGENT_NOT_RUNNING, Code.NO_AGENT}
    await client.put_agent(spec())
    with pytest.raises(errors.Refused) as refused:
        await place.client(epoch=4).put_agent(spec())
    assert refused.value.code == Code.STALE_EPOCH
    assert refused.value.details["epoch"] == 5

    with pytest.raises(errors.Unauthenticated) as denied:
        await place.client(key=SigningKey.generate()).status()
    assert denied.value.code == Code.UNAUTHORIZED
    with pytest.raises(errors.Unauthenticated):
        await place.client(audience="another-executor").status()
    with pytest.raises(errors.Unauthenticated) as denied:
        await place.client(clock=lambda: time.time() - 3600).status()
    assert denied.value.code == Code.CLOCK_SKEW
    skew = denied.value.skew_seconds
    assert skew is not None
    assert abs(skew) > 2000

    weak = SigningKey.generate([Scope.READ])
    place.host.refresh_jwks(place.process.state, jwks([place.key, weak]))
    assert await client.status()
    assert await place.client(key=weak, epoch=5).status(with_token=False)
    with pytest.raises(errors.Refused) as refused:
        await place.client(key=weak, epoch=5).put_agent(spec())
    assert refused.value.code == Code.FORBIDDEN_SCOPE

    with pytest.raises(errors.Foreign):
        await place.client(instance="instance-2").health()


async def test_it_is_started_once_and_gone_after_its_end(place: Place) -> None:
    again = await place.host.start(
        place.process.state, place.worktree, "instance-1", AUDIENCE, jwks([place.key])
    )
    assert again == place.process
    assert await place.host.stop(place.process, grace=20)
    with pytest.raises(errors.Unreachable):
        await place.client().health()
