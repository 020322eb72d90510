"""The gateway killed under many clients in mid-stream: all come back, each by itself."""

import asyncio

from stage.gatewayprocess import GatewayProcess
from stage.scene import Scene
from stage.workingday import Colleague, compare

CLIENTS = 40


async def test_clients_of_a_killed_gateway_come_back_and_miss_nothing(
    scene: Scene, gateway: GatewayProcess
) -> None:
    part = await scene.begin("crowd", "--tick=0.05")
    await part.idle()
    crowd = [Colleague(gateway, part.uid, f"client {number}") for number in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(each.follow()) for each in crowd]
        await crowd[0].prompt("stream", "alpha: slow 60")
        for each in crowd:
            await each.until_pieces(3)
        await asyncio.to_thread(gateway.kill)
        await asyncio.to_thread(gateway.start)
        for each in crowd:
            await each.until_ended("stream")
        for task in following:
            task.cancel()
    for each in crowd:
        assert await compare(part, each.heard) > 2
        assert each.connections >= 2
        assert each.ended == {"stream": 1}
    assert part.prompts() == ["alpha: slow 60"]
