"""A recorder in a process of its own, to be killed: `python -m stage.recorderprocess URL RUN UID`.

It follows the agentctl whose run file is RUN, with the token on its standard input, until it dies.
"""

import asyncio
import json
import sys
from pathlib import Path

from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.contract.claims import Scope
from kandev_operator.gateway.recorder.recorder import Recorder
from kandev_operator.gateway.recorder.settings import Agent, NotFollowable, RecorderSettings
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store


async def main(url: str, run: Path, uid: str, token: str) -> None:
    def mint(*_scopes: Scope) -> str:
        return token

    async with open_session() as http:

        async def dial() -> Agent:
            try:
                address = json.loads(await asyncio.to_thread(run.read_bytes))["url"]
            except (OSError, ValueError):
                raise NotFollowable("it does not run yet") from None
            return AgentctlClient(http, address, mint)

        settings = RecorderSettings(gather=0.01, first_pause=0.02, longest_pause=0.2)
        recorder = Recorder(Store(url), lambda: "2026-01-01T00:00:00.000Z", settings)
        recorder.follow(SeenSession(uid, "team-a", "s-a", "task-uid-1", "t-a"), dial)
        print("follows", flush=True)
        await recorder.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.stdin.readline().strip()))
