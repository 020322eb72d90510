"""What every call is checked for, whichever room answers it: token, scope, session, fence, body.

A token's scope is checked before the body is read, the body is bounded, and what does not fit is
refused without quoting it. Raises Denied or Rejected, which the face turns into answers. What a
call is about is not known here.
"""

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from kandev_operator.agentctl.auth import Authenticator, require
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine, reject
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Claims, Scope
from kandev_operator.contract.errors import Code

Body = TypeVar("Body", bound=BaseModel)
MAX_NUMBER: Final = 2**53
"""Largest term or epoch: what every JSON reader and the journal can hold."""


class Checks:
    """The checks, against one engine and its keys."""

    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine, self._authenticator = engine, authenticator

    def allow(self, connection: HTTPConnection, scope: Scope) -> Claims:
        """Check a call, or the upgrade to a WebSocket, and its fence."""
        claims = self.caller(connection, scope)
        self.fence(claims)
        return claims

    def renew(self, token: str, scope: Scope) -> Claims:
        """The same for a token that came over an open WebSocket."""
        headers = [(paths.TOKEN_HEADER.lower().encode(), token.encode())]
        return self.allow(HTTPConnection({"type": "http", "headers": headers}), scope)

    def _claims(self, request: HTTPConnection, scope: Scope) -> Claims:
        claims = self._authenticator.claims(request.headers)
        require(claims, scope)
        if any(n is not None and not 0 <= n <= MAX_NUMBER for n in (claims.term, claims.epoch)):
            raise reject(Code.INVALID_REQUEST, "terms and epochs are small natural numbers")
        return claims

    def caller(self, request: HTTPConnection, scope: Scope) -> Claims:
        claims = self._claims(request, scope)
        # Who is bound to one session, and is not the operator, sees no other one.
        if claims.session is not None and Scope.CONTROL not in claims.scopes:
            self.serves(claims.session)
        return claims

    def control(self, request: HTTPConnection) -> Claims:
        claims = self._claims(request, Scope.CONTROL)
        if claims.term is None or claims.epoch is None:
            raise reject(Code.INVALID_REQUEST, "calls of scope control carry a term and an epoch")
        return claims

    def about(self, claims: Claims, session_id: str) -> None:
        if claims.session not in (None, session_id):
            raise reject(Code.INVALID_REQUEST, "the token is about another session than the body")

    def serves(self, session_id: str) -> None:
        served = self._engine.state.session_id
        if served is not None and served != session_id:
            raise reject(Code.SESSION_CONFLICT, "another session is served", session_id=served)

    def fence(self, claims: Claims) -> None:
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


async def read_body(request: Request, model: type[Body]) -> Body:
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


def answer(model: BaseModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status, media_type="application/json")
