"""An ACP client for tests, on the official SDK: it starts an agent, talks, and can kill it.

It answers what an agent said and asked, in order, and leaves nothing of it running. It refuses
to judge: what is right is for the test that holds it. Works with any agent command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    Implementation,
    InitializeResponse,
    PromptResponse,
    RequestPermissionResponse,
    TextContentBlock,
)


class Ear:
    """The client's side of the protocol: hears updates, answers permissions as told."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.permissions: list[Any] = []
        self.choose: str | None = "allow_once"  # an option's kind; None leaves the request open
        self.news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        self.permissions.append(tool_call)
        self.news.set()
        if self.choose is None:
            await asyncio.Event().wait()  # never: ended with the connection
        for option in options:
            if option.kind == self.choose:
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None


class Talk:
    """One agent process and the connection to it."""

    def __init__(self, process: asyncio.subprocess.Process, cwd: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.cwd, self.ear = process, str(cwd), Ear()
        self.agent = ClientSideConnection(cast(Client, self.ear), process.stdin, process.stdout)

    async def initialize(self) -> InitializeResponse:
        info = Implementation(name="kandev-tests", version="0")
        return await self.agent.initialize(protocol_version=PROTOCOL_VERSION, client_info=info)

    async def new(self) -> str:
        return (await self.agent.new_session(cwd=self.cwd, mcp_servers=[])).session_id

    async def resume(self, session_id: str) -> Any:
        return await self.agent.resume_session(session_id, cwd=self.cwd, mcp_servers=[])

    async def load(self, session_id: str) -> Any:
        return await self.agent.load_session(cwd=self.cwd, session_id=session_id, mcp_servers=[])

    async def prompt(self, session_id: str, text: str) -> PromptResponse:
        block = TextContentBlock(type="text", text=text)
        return await self.agent.prompt(session_id=session_id, prompt=[block])

    async def ask(self, session_id: str, text: str) -> str:
        """One whole turn: the words that came while it ran."""
        start = len(self.ear.updates)
        await self.prompt(session_id, text)
        return self.said(start)

    def said(self, start: int = 0) -> str:
        return "".join(words for kind, words in self.heard(start) if kind == "agent_message_chunk")

    def heard(self, start: int = 0) -> list[tuple[str, str]]:
        """The updates in order: each kind, and its text where it has one."""
        return [
            (update.session_update, getattr(getattr(update, "content", None), "text", ""))
            for _, update in self.ear.updates[start:]
        ]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for news that make the condition true, as long as news can come."""
        while not condition():
            pipe = self.process.stdout
            ended = self.process.returncode is not None and (pipe is None or pipe.at_eof())
            assert not ended, f"the agent ended ({self.process.returncode}) after: {self.heard()}"
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self.ear.news.wait()
            self.ear.news.clear()

    async def kill(self) -> None:
        """SIGKILL for the agent and all it started, at once, as a dying container does it."""
        while pids := process_tree(self.process.pid):  # again: some may just have been born
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.01)
        await self.process.wait()


@contextlib.asynccontextmanager
async def talk(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncIterator[Talk]:
    """Start the agent with exactly this environment; whatever happens, it does not outlive us."""
    with (cwd / "agent-stderr.txt").open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    it = Talk(process, cwd)
    try:
        yield it
    finally:
        await it.kill()
        await it.agent.close()
        # asyncio has no public way to let go of a pipe that an escaped child still holds open.
        cast(Any, process)._transport.close()


# What test folders call their own fixtures: start with options; make a session with one turn.
Start = Callable[..., AbstractAsyncContextManager[Talk]]
OneTurn = Callable[..., Awaitable[str]]


def process_tree(root: int) -> set[int]:
    """The process, what it started, and what is in their sessions (children may change theirs)."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError):
            state, parent, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if state not in "ZX":  # dead already, only not buried yet
                parents[int(entry.name)] = (int(parent), int(session))
    found = {root} & parents.keys()
    found |= {pid for pid, (_, session) in parents.items() if session == root}
    while more := {pid for pid, (parent, _) in parents.items() if parent in found} - found:
        found |= more
    return found
