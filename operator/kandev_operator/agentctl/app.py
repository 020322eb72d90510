"""The HTTP face: contract v1 over the engine. It reads, checks, asks the engine, and answers.

Every call but health and metrics carries a token; its scope is checked before its body is read,
the body is bounded, and what does not fit is refused without quoting it. No decision about the
session is made here.
"""

import logging
import uuid
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kandev_operator.agentctl import choices, recall, report, stream, unserved, workspace
from kandev_operator.agentctl.auth import Authenticator, Denied
from kandev_operator.agentctl.checks import Checks, answer, read_body
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine, Rejected, reject
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.agentctl.shell.room import Room
from kandev_operator.contract import paths
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    CancelAnswer,
    CancelRequest,
    PermissionAnswer,
    PermissionTaken,
    PromptAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody

log = logging.getLogger("kandev.agentctl")


class Face:
    """The endpoints, bound to one engine."""

    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine, self._checks = engine, Checks(engine, authenticator)

    # ---- open to all -------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        return answer(report.health(self._engine))

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(
            report.metrics(self._engine), media_type="text/plain; version=0.0.4"
        )

    # ---- control -----------------------------------------------------------------------

    async def put_agent(self, request: Request) -> Response:
        claims = self._checks.control(request)
        spec = await read_body(request, AgentSpec)
        self._checks.about(claims, spec.session_id)
        # The term first: a leader of the past must not even choose which session is served.
        self._engine.dispatch(ev.FenceSeen(now(), claims.term, None))
        self._engine.switch(spec)
        self._engine.require_journal()
        self._checks.fence(claims)
        changed = self._engine.configure(spec, str(uuid.uuid4()))
        journal = self._engine.journal
        return answer(
            AgentAnswer(
                session_id=spec.session_id,
                journal_id=(journal.journal_id if journal else None) or "",
                profile_hash=spec.profile_hash,
                changed=changed,
            )
        )

    async def start(self, request: Request) -> Response:
        claims = self._checks.control(request)
        body = await read_body(request, StartRequest)
        if body.mode == "resume" and body.resume_token is None:
            raise reject(Code.INVALID_REQUEST, "mode resume needs a resume_token")
        self._checks.about(claims, body.session_id)
        self._checks.serves(body.session_id)
        self._checks.fence(claims)
        event = ev.StartAsked(
            now(),
            operation_id=body.operation_id,
            mode=body.mode,
            epoch=claims.epoch or 0,
            timeout=body.timeout_seconds,
            execution_id=str(uuid.uuid4()),
            token=body.resume_token,
            mcp_servers=body.mcp_servers,
        )
        return self._operation(event)

    async def stop(self, request: Request) -> Response:
        claims = self._checks.control(request)
        body = await read_body(request, StopRequest)
        self._checks.about(claims, body.session_id)
        self._checks.serves(body.session_id)
        self._checks.fence(claims)
        event = ev.StopAsked(
            now(), body.operation_id, claims.epoch or 0, body.grace_seconds, body.drop_queue
        )
        return self._operation(event)

    def _operation(self, event: ev.StartAsked | ev.StopAsked) -> Response:
        if known := recall.operation(self._engine, event):
            return answer(known, 202)
        reply = self._engine.dispatch(event)
        assert isinstance(reply, fx.OperationReply)
        return answer(reply.operation, 202)

    # ---- prompts -----------------------------------------------------------------------

    async def prompt(self, request: Request) -> Response:
        claims = self._checks.caller(request, Scope.PROMPT)
        body = await read_body(request, PromptRequest)
        self._checks.about(claims, body.session_id)
        self._checks.serves(body.session_id)
        self._checks.fence(claims)
        size = sum(len(str(block)) for block in body.content)
        event = ev.PromptAsked(now(), body.prompt_id, body.content, size)
        if known := recall.prompt(self._engine, event):
            return answer(PromptAnswer(prompt_id=known.prompt_id, fate=known.fate), 202)
        reply = self._engine.dispatch(event)
        assert isinstance(reply, fx.PromptReply)
        accepted = PromptAnswer(
            prompt_id=body.prompt_id, fate=reply.prompt.fate, position=reply.position
        )
        return answer(accepted, 202)

    async def cancel(self, request: Request) -> Response:
        claims = self._checks.caller(request, Scope.PROMPT)
        body = await read_body(request, CancelRequest)
        self._checks.fence(claims)
        reply = self._engine.dispatch(ev.CancelAsked(now(), body.prompt_id))
        assert isinstance(reply, fx.CancelReply)
        return answer(CancelAnswer(turn_id=reply.turn_id, fate=reply.fate), 202)

    async def list_permissions(self, request: Request) -> Response:
        self._checks.fence(self._checks.caller(request, Scope.READ))
        return JSONResponse([p.model_dump(mode="json") for p in report.permissions(self._engine)])

    async def answer_permission(self, request: Request) -> Response:
        claims = self._checks.caller(request, Scope.PROMPT)
        body = await read_body(request, PermissionAnswer)
        self._checks.fence(claims)
        permission_id = str(request.path_params["permission_id"])
        self._engine.dispatch(ev.PermissionChosen(now(), permission_id, body.option_id))
        return answer(PermissionTaken(permission_id=permission_id), 202)

    # ---- reading -----------------------------------------------------------------------

    async def capabilities(self, request: Request) -> Response:
        self._checks.fence(self._checks.caller(request, Scope.READ))
        return answer(report.capabilities(self._engine))

    async def status(self, request: Request) -> Response:
        claims = self._checks.caller(request, Scope.READ)
        self._checks.fence(claims)
        if self._engine.away is not None:
            raise reject(Code.UPSTREAM_UNAVAILABLE, self._engine.away)
        shows_token = Scope.CONTROL in claims.scopes
        return answer(report.status(self._engine, shows_token=shows_token))

    async def events(self, request: Request) -> Response:
        self._checks.fence(self._checks.caller(request, Scope.READ))
        query = request.query_params
        after = query.get("after") or request.headers.get("last-event-id")
        try:
            what = stream.wanted(after, query.get("kinds"))
        except ValueError as exc:
            raise reject(Code.INVALID_REQUEST, str(exc)) from None
        self._engine.require_journal()
        journal = self._engine.journal
        assert journal is not None
        return StreamingResponse(
            stream.events(self._engine, journal, what),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def build(engine: Engine, authenticator: Authenticator, shells: Room) -> Starlette:
    """The ASGI application."""
    face, checks = Face(engine, authenticator), Checks(engine, authenticator)
    rooms = unserved.routes(checks)
    if engine.settings.upstream is None:
        rooms = [*workspace.routes(engine, checks), *shells.routes(checks)]
    routes = [
        Route(paths.HEALTH, face.health, methods=["GET"]),
        Route(paths.METRICS, face.metrics, methods=["GET"]),
        Route(paths.AGENT, face.put_agent, methods=["PUT"]),
        Route(paths.CAPABILITIES, face.capabilities, methods=["GET"]),
        Route(paths.START, face.start, methods=["POST"]),
        Route(paths.STOP, face.stop, methods=["POST"]),
        Route(paths.PROMPT, face.prompt, methods=["POST"]),
        Route(paths.CANCEL, face.cancel, methods=["POST"]),
        Route(paths.PERMISSIONS, face.list_permissions, methods=["GET"]),
        Route(paths.PERMISSIONS + "/{permission_id}", face.answer_permission, methods=["POST"]),
        Route(paths.STATUS, face.status, methods=["GET"]),
        Route(paths.EVENTS, face.events, methods=["GET"]),
        *choices.routes(engine, checks),
        *rooms,
    ]
    handlers: dict[Any, Callable[[Request, Exception], Any]] = {
        Denied: _denied,
        Refusal: _refused,
        Rejected: _rejected,
        HTTPException: _http_error,
        ClientDisconnect: _gone,
        Exception: _broken,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


def _error(code: Code, message: str, details: dict[str, Any]) -> Response:
    return answer(ErrorBody(code=code.value, message=message, details=details), STATUS_OF[code])


async def _denied(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Denied)
    return _error(exc.code, exc.message, exc.details)


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Refusal)
    return _error(exc.code, exc.message, exc.details)


async def _rejected(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Rejected)
    refusal = exc.refusal
    return _error(refusal.code, refusal.message, refusal.details)


async def _http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    known = {404: Code.NOT_FOUND, 405: Code.NOT_FOUND}
    code = known.get(exc.status_code, Code.INVALID_REQUEST)
    body = ErrorBody(code=code.value, message="no such path or method")
    return answer(body, exc.status_code)


async def _gone(request: Request, exc: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _broken(request: Request, exc: Exception) -> Response:
    # The server logs the traceback; a caller hears no inner words.
    return _error(Code.INTERNAL, "agentctl failed at this call; see its log", {})
