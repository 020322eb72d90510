"""A working day: gateway, operator and agentctl killed at random moments, and nothing is missing.

KANDEV_WORKING_DAY_RESTARTS sets how many are killed (12), KANDEV_WORKING_DAY_SEED which and when.
"""

import asyncio
import contextlib
import os
import random
import signal

from stage.gatewayprocess import GatewayProcess
from stage.scene import Part, Scene
from stage.workingday import Colleague, compare, deck

RESTARTS = int(os.environ.get("KANDEV_WORKING_DAY_RESTARTS", "12"))


async def test_nothing_is_missing_or_doubled_after_a_day_of_restarts(
    scene: Scene, gateway: GatewayProcess
) -> None:
    seed = int(os.environ.get("KANDEV_WORKING_DAY_SEED", random.randrange(1 << 30)))
    print(f"KANDEV_WORKING_DAY_SEED={seed}")  # shown when it fails
    dice = random.Random(seed)
    part = await scene.begin("day", "--tick=0.05", resume={"maxAttempts": 100})
    await part.idle()
    one, other = Colleague(gateway, part.uid, "one"), Colleague(gateway, part.uid, "other")
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(each.follow()) for each in (one, other)]
        for number, victim in enumerate(deck(RESTARTS, dice)):
            prompt = f"p-{number}"
            await one.prompt(prompt, f"word {number} é日👩‍💻: slow {dice.randrange(2, 20)}")
            await asyncio.sleep(dice.random())
            await hit(victim, part, gateway)
        await part.idle(120)
        await one.prompt("last", "the last word")
        for each in (one, other):
            await each.until_ended("last")
        late = Colleague(gateway, part.uid, "late")
        following.append(group.create_task(late.follow()))
        await late.until_ended("last")
        for task in following:
            task.cancel()
    for each in (one, other, late):
        assert await compare(part, each.heard) > RESTARTS
        assert set(each.ended.values()) == {1}, "no end of a turn was told twice"
    asked = part.prompts()
    assert len(asked) == len(set(asked)), "no prompt came twice"
    assert one.connections > RESTARTS // 3, "the gateway was killed under it"


async def hit(victim: str, part: Part, gateway: GatewayProcess) -> None:
    """Kill it as a crash would; what nobody else starts again is started again."""
    match victim:
        case "gateway":
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
        case "operator":
            await part.scene.restart_operator()
        case _:
            ref = part.status.get("executorRef") or {}
            pid = part.scene.get("executor", ref["name"])["status"].get("pid") if ref else None
            if pid:
                # Gone: it was hit before, and the operator has not made another yet.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
