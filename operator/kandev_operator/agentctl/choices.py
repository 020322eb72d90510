"""The calls that choose among what the agent offers: its mode, and its config options.

Like every call that changes something they are fenced, and known by their operation id: the same
id again asks the agent nothing and answers with the first outcome. What is offered, and what a
choice comes to, is the machine's business.
"""

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kandev_operator.agentctl import recall
from kandev_operator.agentctl.checks import Checks, answer, read_body
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Claims, Scope
from kandev_operator.contract.conversation import ConfigRequest, ModeRequest


@dataclass(frozen=True, slots=True)
class Choices:
    """The endpoints, bound to one engine."""

    engine: Engine
    checks: Checks

    async def mode(self, request: Request) -> Response:
        claims = self.checks.caller(request, Scope.PROMPT)
        body = await read_body(request, ModeRequest)
        return self._choose(claims, body, "mode", "", body.mode_id)

    async def config(self, request: Request) -> Response:
        claims = self.checks.caller(request, Scope.PROMPT)
        body = await read_body(request, ConfigRequest)
        return self._choose(claims, body, "config", body.config_id, body.value)

    def _choose(
        self,
        claims: Claims,
        body: ModeRequest | ConfigRequest,
        kind: Literal["mode", "config"],
        name: str,
        value: str | bool,
    ) -> Response:
        self.checks.about(claims, body.session_id)
        self.checks.serves(body.session_id)
        self.checks.fence(claims)
        epoch = self.engine.state.epoch if claims.epoch is None else claims.epoch
        event = ev.SettingAsked(now(), body.operation_id, epoch, kind, name, value)
        if known := recall.operation(self.engine, event):
            return answer(known, 202)
        reply = self.engine.dispatch(event)
        assert isinstance(reply, fx.OperationReply)
        return answer(reply.operation, 202)


def routes(engine: Engine, checks: Checks) -> list[Route]:
    """What this room answers."""
    choices = Choices(engine, checks)
    return [
        Route(paths.MODE, choices.mode, methods=["POST"]),
        Route(paths.CONFIG, choices.config, methods=["POST"]),
    ]
