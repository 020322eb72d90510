"""Many light agentctls in one process: contract v1 from memory, an identity for each address.

Whoever calls 127.0.1.7 speaks to another agentctl than whoever calls 127.0.1.8; both are made at
their first call. They keep what a caller may rely on (a journal's numbers, operations by id, one
turn at a time, event streams with heartbeats) and lack what costs memory or time: an agent, a
disk, a check of tokens. They count the calls they get, which is what benchmarks ask for.

    python -m benchmarks.sidecars       prints its port, serves until it is killed
    GET /calls, DELETE /calls           the counts, by path and altogether; count anew
"""

import asyncio
import base64
import json
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kandev_operator.contract import paths
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    PromptAnswer,
    PromptFate,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.status import (
    AgentInfo,
    AgentReport,
    AgentStatus,
    Capabilities,
    EndedTurn,
    Health,
    JournalReport,
    JournalState,
    Operation,
    OperationState,
    PromptRecord,
    SessionReport,
    StatusReport,
    TokenReport,
    Turn,
)
from kandev_operator.contract.version import CONTRACT_VERSION
from kandev_operator.contract.wire import Wire

TURN_SECONDS = 1.0
_SHA = "0" * 64


def _now() -> str:
    return datetime.now(UTC).isoformat()


class Sidecar:
    """One agentctl: all that it knows, as the status it would report."""

    def __init__(self, address: str) -> None:
        self.readers: set[asyncio.Queue[Event]] = set()
        self.turns: set[asyncio.Task[None]] = set()
        self.status = StatusReport(
            instance_id=f"light-{address}",
            boot_id=f"boot-{address}",
            contract_version=CONTRACT_VERSION,
            workspace_path="/workspace",
            agent=AgentReport(status=AgentStatus.NONE),
            capabilities=Capabilities(supports_workspace_only=True),
            journal=JournalReport(state=JournalState.ABSENT),
        )

    def change(self, kind: EventKind, **fields: Any) -> None:
        """Take over a change and tell it to every reader."""
        journal = self.status.journal
        journal = journal.model_copy(update={"last_seq": journal.last_seq + 1})
        self.status = self.status.model_copy(update={**fields, "journal": journal})
        session = self.status.session
        if session is None or journal.journal_id is None:
            return
        event = Event(
            journal_id=journal.journal_id,
            seq=journal.last_seq,
            kind=kind,
            at=_now(),
            session_id=session.session_id,
        )
        for reader in self.readers:
            reader.put_nowait(event)

    def configure(self, spec: AgentSpec) -> AgentAnswer:
        changed = self.status.profile_hash != spec.profile_hash
        journal = self.status.journal
        if journal.journal_id is None:
            journal = JournalReport(journal_id=uuid.uuid4().hex, state=JournalState.OK)
            self.status = self.status.model_copy(update={"journal": journal})
        if changed:
            self.change(
                EventKind.CAPABILITIES,
                session=SessionReport(
                    session_id=spec.session_id,
                    namespace=spec.session_namespace,
                    name=spec.session_name,
                    marker_verified=True,
                ),
                profile_hash=spec.profile_hash,
                capabilities=_able(spec.profile_hash),
                agent=AgentReport(status=AgentStatus.INITIALIZED, pid=1),
            )
        return AgentAnswer(
            session_id=spec.session_id,
            journal_id=journal.journal_id or "",
            profile_hash=spec.profile_hash,
            changed=changed,
        )

    def start(self, request: StartRequest, epoch: int, term: int) -> Operation:
        known = [o for o in self.status.operations if o.operation_id == request.operation_id]
        if known:
            return known[0]
        execution = uuid.uuid4().hex
        operation = Operation(
            operation_id=request.operation_id,
            kind="start",
            mode=request.mode,
            epoch=epoch,
            state=OperationState.SUCCEEDED,
            started_at=_now(),
            ended_at=_now(),
            execution_id=execution,
        )
        self.change(
            EventKind.OPERATION,
            epoch=max(epoch, self.status.epoch),
            term=max(term, self.status.term),
            operations=(operation,),
            agent=AgentReport(status=AgentStatus.IDLE, execution_id=execution, pid=1),
            token=TokenReport(value="light", sha256=_SHA, established=True, epoch=epoch),
        )
        return operation

    def stop(self, request: StopRequest) -> Operation:
        operation = Operation(
            operation_id=request.operation_id,
            kind="stop",
            state=OperationState.SUCCEEDED,
            started_at=_now(),
            ended_at=_now(),
        )
        agent = AgentReport(status=AgentStatus.NONE)
        self.change(EventKind.AGENT, operations=(operation,), agent=agent)
        return operation

    def prompt(self, request: PromptRequest) -> PromptAnswer:
        turn = asyncio.ensure_future(self._turn(request.prompt_id))
        self.turns.add(turn)
        turn.add_done_callback(self.turns.discard)
        return PromptAnswer(prompt_id=request.prompt_id, fate=PromptFate.SENDING)

    async def _turn(self, prompt_id: str) -> None:
        execution = self.status.agent.execution_id or ""
        self.change(
            EventKind.TURN_STARTED,
            agent=self.status.agent.model_copy(update={"status": AgentStatus.RUNNING}),
            turn=Turn(
                turn_id=prompt_id,
                prompt_id=prompt_id,
                execution_id=execution,
                started_at=_now(),
            ),
            prompts=(PromptRecord(prompt_id=prompt_id, fate=PromptFate.DELIVERED),),
        )
        await asyncio.sleep(TURN_SECONDS)
        self.change(
            EventKind.TURN_ENDED,
            agent=self.status.agent.model_copy(update={"status": AgentStatus.IDLE}),
            turn=None,
            last_turn=EndedTurn(
                turn_id=prompt_id,
                prompt_id=prompt_id,
                execution_id=execution,
                ended_at=_now(),
                outcome="completed",
            ),
            turns_completed=self.status.turns_completed + 1,
        )


def _able(profile_hash: str) -> Capabilities:
    return Capabilities(
        supports_session_resume=True,
        supports_workspace_only=True,
        agent=AgentInfo(name="light", version="1"),
        load_session=True,
        resume_session=True,
        list_sessions=False,
        profile_hash=profile_hash,
        probed_at=_now(),
    )


class Crowd:
    """All sidecars of this process, by address; and how often each path was called."""

    def __init__(self) -> None:
        self.sidecars: dict[str, Sidecar] = {}
        self.calls: Counter[str] = Counter()
        self.asked: dict[str, float] = {}
        """By address: when its status was first asked for since the counts were begun."""

    def at(self, request: web.Request) -> Sidecar:
        self.calls[f"{request.method} {request.path}"] += 1
        address = request.host.partition(":")[0]
        if address not in self.sidecars:
            self.sidecars[address] = Sidecar(address)
        return self.sidecars[address]

    async def health(self, request: web.Request) -> web.Response:
        told = self.at(request).status
        return _answer(
            Health(
                status="ok",
                instance_id=told.instance_id,
                boot_id=told.boot_id,
                contract_version=told.contract_version,
                agent_status=told.agent.status,
            )
        )

    async def status(self, request: web.Request) -> web.Response:
        found = self.at(request)
        self.asked.setdefault(request.host, time.time())
        return _answer(found.status)

    async def configure(self, request: web.Request) -> web.Response:
        spec = AgentSpec.model_validate_json(await request.read())
        return _answer(self.at(request).configure(spec))

    async def start(self, request: web.Request) -> web.Response:
        body = StartRequest.model_validate_json(await request.read())
        claims = _claims(request)
        epoch, term = int(claims.get("epoch") or 0), int(claims.get("term") or 0)
        return _answer(self.at(request).start(body, epoch, term), 202)

    async def stop(self, request: web.Request) -> web.Response:
        body = StopRequest.model_validate_json(await request.read())
        return _answer(self.at(request).stop(body), 202)

    async def prompt(self, request: web.Request) -> web.Response:
        body = PromptRequest.model_validate_json(await request.read())
        return _answer(self.at(request).prompt(body), 202)

    async def events(self, request: web.Request) -> web.StreamResponse:
        sidecar = self.at(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[Event] = asyncio.Queue()
        sidecar.readers.add(queue)
        try:
            while True:
                try:
                    async with asyncio.timeout(paths.HEARTBEAT_SECONDS):
                        event = await queue.get()
                    line = f"event: {event.kind}\ndata: {event.model_dump_json()}\n\n"
                except TimeoutError:
                    line = ": beat\n\n"
                await response.write(line.encode())
        except ConnectionError:
            return response
        finally:
            sidecar.readers.discard(queue)

    async def counted(self, _request: web.Request) -> web.Response:
        latest = max(self.asked.values(), default=0.0)
        told = {"calls": self.calls, "asked": len(self.asked), "latest": latest}
        return web.json_response(told)

    async def count_anew(self, _request: web.Request) -> web.Response:
        self.calls.clear()
        self.asked.clear()
        return web.json_response({})


def _answer(body: Wire, status: int = 200) -> web.Response:
    text = body.model_dump_json(exclude_none=True)
    return web.Response(text=text, status=status, content_type="application/json")


def _claims(request: web.Request) -> dict[str, Any]:
    """What the caller's token says, unchecked."""
    payload = request.headers.get("Authorization", "").split(".")[1:2]
    if not payload:
        return {}
    padded = payload[0] + "=" * (-len(payload[0]) % 4)
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    return claims


@web.middleware
async def _from_here_alone(request: web.Request, handler: Any) -> web.StreamResponse:
    """All of 127/8 is served, and so every interface listens; nobody else is answered."""
    if not (request.remote or "").startswith("127."):
        raise web.HTTPForbidden
    answer: web.StreamResponse = await handler(request)
    return answer


async def serve() -> None:
    """Serve until the process ends."""
    crowd = Crowd()
    app = web.Application(middlewares=[_from_here_alone])
    app.router.add_get(paths.HEALTH, crowd.health)
    app.router.add_get(paths.STATUS, crowd.status)
    app.router.add_put(paths.AGENT, crowd.configure)
    app.router.add_post(paths.START, crowd.start)
    app.router.add_post(paths.STOP, crowd.stop)
    app.router.add_post(paths.PROMPT, crowd.prompt)
    app.router.add_get(paths.EVENTS, crowd.events)
    app.router.add_get("/calls", crowd.counted)
    app.router.add_delete("/calls", crowd.count_anew)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "0.0.0.0", 0, backlog=4096)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
