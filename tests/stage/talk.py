"""Talking to a session as a user's program would: prompts, answers, permissions, agentctl's view.

Uses the same client and signing key that the kubectl plugin uses, with an administrator's
kubeconfig. Answers are put together from the event stream, by message, so that a test can count
what was said and how often.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from kandev_operator.api.executor import Executor
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import EXECUTORS, TASK_SESSIONS
from kandev_operator.clients.signing import read_signing_key
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.agent import PromptAnswer, PromptRequest
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.events import Event, EventKind, cursor
from kandev_operator.contract.status import StatusReport


class Talk:
    """A session to talk to. Made by `talk`."""

    def __init__(self, client: AgentctlClient, session_uid: str) -> None:
        self.client = client
        self.session_uid = session_uid

    async def status(self) -> StatusReport:
        return await self.client.status(with_token=False)

    async def prompt(self, text: str, prompt_id: str | None = None) -> PromptAnswer:
        return await self.client.prompt(
            PromptRequest(
                session_id=self.session_uid,
                prompt_id=prompt_id or uuid.uuid4().hex,
                content=({"type": "text", "text": text},),
            )
        )

    async def ask(self, text: str, seconds: float = 60) -> str:
        """Prompt, wait for the end of that turn, and give back what the agent said in it."""
        prompt_id = uuid.uuid4().hex
        before = (await self.status()).journal
        await self.prompt(text, prompt_id)
        async with asyncio.timeout(seconds):
            await self.turn_ended(prompt_id)
        assert before.journal_id is not None
        said = await self.events(cursor(before.journal_id, before.last_seq))
        return "".join(
            each.data.get("text") or ""
            for each in said
            if each.kind is EventKind.MESSAGE
            and each.data.get("author") == "agent"
            and each.data.get("kind") in ("text", "message", "agent_message")
        )

    async def turn_ended(self, prompt_id: str) -> StatusReport:
        """Wait until the turn of this prompt is over."""
        while True:
            report = await self.status()
            if report.last_turn is not None and report.last_turn.prompt_id == prompt_id:
                return report
            await asyncio.sleep(0.05)

    async def until(
        self, holds: Callable[[StatusReport], Any], seconds: float = 60
    ) -> StatusReport:
        async with asyncio.timeout(seconds):
            while True:
                report = await self.status()
                if holds(report):
                    return report
                await asyncio.sleep(0.05)

    async def events(self, after: str | None = None) -> list[Event]:
        """Everything in the journal after a cursor, up to now."""
        last = (await self.status()).journal.last_seq
        found: list[Event] = []
        stream = cast("Any", self.client.events(after))
        async with aclosing(stream) as events:
            async with asyncio.timeout(20):
                if after is not None and int(after.rpartition(":")[2]) >= last:
                    return found
                async for event in events:
                    found.append(event)
                    if event.seq >= last:
                        return found
        return found

    async def user_messages(self) -> list[str]:
        """The texts of all prompts that reached the conversation, in order."""
        return [
            each.data.get("text") or ""
            for each in await self.events()
            if each.kind is EventKind.MESSAGE and each.data.get("author") == "user"
        ]


@asynccontextmanager
async def talk(
    kubeconfig: Path,
    namespace: str,
    session: str,
    *,
    operator_namespace: str = "kandev-system",
) -> AsyncIterator[Talk]:
    """Open a way to the agentctl that a session's executor names now."""
    async with await Kube.connect(kubeconfig) as kube, open_session() as http:
        body = await kube.get(TASK_SESSIONS, namespace, session)
        uid = body["metadata"]["uid"]
        executor = await kube.get(EXECUTORS, namespace, body["status"]["executorRef"]["name"])
        key = await read_signing_key(kube, operator_namespace)
        minter = Minter(key, time.time)
        audience = Executor.from_body(executor).audience

        def mint(*scopes: Scope) -> str:
            return minter.mint(audience, scopes, uid)

        yield Talk(AgentctlClient(http, executor["status"]["agentctlURL"], mint), uid)
