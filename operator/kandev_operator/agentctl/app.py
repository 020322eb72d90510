"""The HTTP face: contract v1 over the engine. It reads, checks, asks the engine, and answers.

Every call but health and metrics carries a token; its scope is checked before its body is read,
the body is bounded, and what does not fit is refused without quoting it. No decision about the
session is made here.
"""

import logging
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kandev_operator.agentctl import report, stream
from kandev_operator.agentctl.auth import Authenticator, Denied, require
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine, Rejected, reject
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract import paths
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    PermissionAnswer,
    PromptAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Claims, Scope
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody

log = logging.getLogger("kandev.agentctl")
Body = TypeVar("Body", bound=BaseModel)
MAX_NUMBER: Final = 2**53
"""Largest term or epoch: what every JSON reader and the journal can hold."""


class Face:
    """The endpoints, bound to one engine."""

    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine, self._authenticator = engine, authenticator

    # ---- open to all -------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        return _json(report.health(self._engine))

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(
            report.metrics(self._engine), media_type="text/plain; version=0.0.4"
        )

    # ---- control -----------------------------------------------------------------------

    async def put_agent(self, request: Request) -> Response:
        claims = self._control(request)
        spec = await _body(request, AgentSpec)
        self._about(claims, spec.session_id)
        # The term first: a leader of the past must not even choose which session is served.
        self._engine.dispatch(ev.FenceSeen(now(), claims.term, None))
        self._engine.switch(spec)
        self._engine.require_journal()
        self._fence(claims)
        changed = self._engine.configure(spec, str(uuid.uuid4()))
        journal = self._engine.journal
        return _json(
            AgentAnswer(
                session_id=spec.session_id,
                journal_id=(journal.journal_id if journal else None) or "",
                profile_hash=spec.profile_hash,
                changed=changed,
            )
        )

    async def start(self, request: Request) -> Response:
        claims = self._control(request)
        body = await _body(request, StartRequest)
        if body.mode == "resume" and body.resume_token is None:
            raise reject(Code.INVALID_REQUEST, "mode resume needs a resume_token")
        self._about(claims, body.session_id)
        self._serves(body.session_id)
        self._fence(claims)
        if known := self._engine.recall_operation(body.operation_id):
            return _json(known, 202)
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
        return self._operation(self._engine.dispatch(event))

    async def stop(self, request: Request) -> Response:
        claims = self._control(request)
        body = await _body(request, StopRequest)
        self._about(claims, body.session_id)
        self._serves(body.session_id)
        self._fence(claims)
        event = ev.StopAsked(now(), body.operation_id, claims.epoch or 0, body.grace_seconds)
        return self._operation(self._engine.dispatch(event))

    def _operation(self, reply: fx.Reply | None) -> Response:
        assert isinstance(reply, fx.OperationReply)
        return _json(reply.operation, 202)

    # ---- prompts -----------------------------------------------------------------------

    async def prompt(self, request: Request) -> Response:
        claims = self._caller(request, Scope.PROMPT)
        body = await _body(request, PromptRequest)
        self._about(claims, body.session_id)
        self._serves(body.session_id)
        self._fence(claims)
        if known := self._engine.recall_prompt(body.prompt_id):
            return _json(PromptAnswer(prompt_id=known.prompt_id, fate=known.fate), 202)
        size = sum(len(str(block)) for block in body.content)
        reply = self._engine.dispatch(ev.PromptAsked(now(), body.prompt_id, body.content, size))
        assert isinstance(reply, fx.PromptReply)
        answer = PromptAnswer(
            prompt_id=body.prompt_id, fate=reply.prompt.fate, position=reply.position
        )
        return _json(answer, 202)

    async def cancel(self, request: Request) -> Response:
        self._fence(self._caller(request, Scope.PROMPT))
        reply = self._engine.dispatch(ev.CancelAsked(now()))
        turn_id = reply.turn_id if isinstance(reply, fx.CancelReply) else None
        return JSONResponse({"turn_id": turn_id}, 202)

    async def list_permissions(self, request: Request) -> Response:
        self._fence(self._caller(request, Scope.READ))
        return JSONResponse([p.model_dump(mode="json") for p in report.permissions(self._engine)])

    async def answer_permission(self, request: Request) -> Response:
        claims = self._caller(request, Scope.PROMPT)
        body = await _body(request, PermissionAnswer)
        self._fence(claims)
        permission_id = str(request.path_params["permission_id"])
        self._engine.dispatch(ev.PermissionChosen(now(), permission_id, body.option_id))
        return JSONResponse({"permission_id": permission_id}, 202)

    # ---- reading -----------------------------------------------------------------------

    async def capabilities(self, request: Request) -> Response:
        self._fence(self._caller(request, Scope.READ))
        return _json(self._engine.state.capabilities)

    async def status(self, request: Request) -> Response:
        claims = self._caller(request, Scope.READ)
        self._fence(claims)
        shows_token = Scope.CONTROL in claims.scopes
        return _json(report.status(self._engine, shows_token=shows_token))

    async def events(self, request: Request) -> Response:
        self._fence(self._caller(request, Scope.READ))
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

    # ---- checks ------------------------------------------------------------------------

    def _claims(self, request: Request, scope: Scope) -> Claims:
        claims = self._authenticator.claims(request.headers)
        require(claims, scope)
        if any(n is not None and not 0 <= n <= MAX_NUMBER for n in (claims.term, claims.epoch)):
            raise reject(Code.INVALID_REQUEST, "terms and epochs are small natural numbers")
        return claims

    def _caller(self, request: Request, scope: Scope) -> Claims:
        claims = self._claims(request, scope)
        # Who is bound to one session, and is not the operator, sees no other one.
        if claims.session is not None and Scope.CONTROL not in claims.scopes:
            self._serves(claims.session)
        return claims

    def _control(self, request: Request) -> Claims:
        claims = self._claims(request, Scope.CONTROL)
        if claims.term is None or claims.epoch is None:
            raise reject(Code.INVALID_REQUEST, "calls of scope control carry a term and an epoch")
        return claims

    def _about(self, claims: Claims, session_id: str) -> None:
        if claims.session not in (None, session_id):
            raise reject(Code.INVALID_REQUEST, "the token is about another session than the body")

    def _serves(self, session_id: str) -> None:
        served = self._engine.state.session_id
        if served is not None and served != session_id:
            raise reject(Code.SESSION_CONFLICT, "another session is served", session_id=served)

    def _fence(self, claims: Claims) -> None:
        """Refuse older terms and epochs; an epoch is of the session that the token is about.

        Only a caller of scope control can raise them: nobody else may lock the operator out.
        """
        state = self._engine.state
        about = state.session_id is not None and claims.session in (None, state.session_id)
        term, epoch = claims.term, claims.epoch if about else None
        if Scope.CONTROL not in claims.scopes:
            term = None if term is None else min(term, state.term)
            epoch = None if epoch is None else min(epoch, state.epoch)
        if term is not None or epoch is not None:
            self._engine.dispatch(ev.FenceSeen(now(), term, epoch))


def build(engine: Engine, authenticator: Authenticator) -> Starlette:
    """The ASGI application."""
    face = Face(engine, authenticator)
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
    ]
    handlers: dict[Any, Callable[[Request, Exception], Any]] = {
        Denied: _denied,
        Rejected: _rejected,
        HTTPException: _http_error,
        ClientDisconnect: _gone,
        Exception: _broken,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


async def _body(request: Request, model: type[Body]) -> Body:
    """Read a bounded body; what is wrong with it is said without its values."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > paths.MAX_BODY_BYTES:
        raise reject(Code.TOO_LARGE, f"bodies end at {paths.MAX_BODY_BYTES} bytes")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > paths.MAX_BODY_BYTES:
            raise reject(Code.TOO_LARGE, f"bodies end at {paths.MAX_BODY_BYTES} bytes")
    try:
        return model.model_validate_json(bytes(data) or b"{}")
    except ValidationError as exc:
        places = [
            {"at": ".".join(str(p)[:100] for p in e["loc"][:6]), "problem": e["type"]}
            for e in exc.errors(include_url=False, include_input=False, include_context=False)[:20]
        ]
        raise reject(Code.INVALID_REQUEST, "the body does not fit", errors=places) from None


def _json(model: BaseModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status, media_type="application/json")


def _error(code: Code, message: str, details: dict[str, Any]) -> Response:
    return _json(ErrorBody(code=code.value, message=message, details=details), STATUS_OF[code])


async def _denied(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Denied)
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
    return _json(body, exc.status_code)


async def _gone(request: Request, exc: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _broken(request: Request, exc: Exception) -> Response:
    # The server logs the traceback; a caller hears no inner words.
    return _error(Code.INTERNAL, "agentctl failed at this call; see its log", {})
