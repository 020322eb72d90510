"""Somebody who calls sessions' agentctls all the time, as the plugin does, with the Secret's key.

Every call that fails is remembered, and so is every word of status that an operator's own calls
were refused. Knows nothing of how keys are replaced.
"""

import asyncio
from typing import Final

from kandev_operator.clients.signing import SECRET_NAME
from kandev_operator.clients.tokens import SigningKey
from stage.reader import Reader
from stage.scene import Part, Scene
from stage.sessions import condition

_REFUSED: Final = ("AuthenticationFailed", "ForeignAgentctl", "AgentctlUnhealthy")


def key_of(scene: Scene) -> SigningKey:
    """The operator's signing key, as its Secret has it now."""
    reader = Reader(scene.place.cluster.kubeconfig)
    try:
        secret = reader.get(f"/api/v1/namespaces/{scene.home}/secrets/{SECRET_NAME}")
    finally:
        reader.close()
    return SigningKey.from_secret_data(secret["data"])


class Caller:
    """Calls these sessions in turn, until it is cancelled."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts
        self.calls = 0
        self.wrong: list[str] = []

    async def run(self) -> None:
        while True:
            for part in self.parts:
                try:
                    async with part.talk() as it:
                        await it.status()
                    self.calls += 1
                except Exception as error:
                    self.wrong.append(f"{part.name}: {error}")
                ready = condition(part.status, "Ready")
                if ready.get("reason") in _REFUSED:
                    self.wrong.append(f"{part.name}: {ready}")
            await asyncio.sleep(0.2)
