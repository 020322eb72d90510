"""What an agentctl's answers mean: bytes in, contract values or typed errors out.

Pure, and written for a peer that may say anything: every body is checked against the contract,
other major versions are named before they are misread, and no input is quoted in an error.
"""

from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from kandev_operator.clients.errors import (
    AgentctlError,
    ContractMismatch,
    Foreign,
    Malformed,
    Refused,
    Unauthenticated,
    Unreachable,
)
from kandev_operator.contract.agent import Permission
from kandev_operator.contract.errors import ErrorBody
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.paths import MAX_TEXT_CHARS
from kandev_operator.contract.status import Health, StatusReport
from kandev_operator.contract.version import CONTRACT_VERSION, is_compatible
from kandev_operator.contract.wire import Wire

Body = TypeVar("Body", bound=Wire)
Identified = TypeVar("Identified", Health, StatusReport)

_GATEWAY_FAILURES: Final = frozenset({502, 503, 504})
_SHOWN_FAULTS: Final = 3


class _Identity(Wire):
    """What is read first of a body that says who answers: it is the same in every version."""

    contract_version: str | None = None
    instance_id: str | None = None


class _Kind(Wire):
    """What is read first of an event: kinds of a later minor version are skipped."""

    kind: str


class _PermissionList(Wire):
    permissions: tuple[Permission, ...]


_PERMISSIONS: Final = TypeAdapter(_PermissionList | tuple[Permission, ...])
_KNOWN_KINDS: Final = frozenset(EventKind)


def parse(call: str, model: type[Body], body: bytes) -> Body:
    """Read a body as a value of the contract; raises Malformed with the fields at fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problem = _faults(error)
    raise Malformed(call, problem)


def parse_identified(
    call: str, model: type[Identified], body: bytes, pinned: str | None
) -> Identified:
    """Read a body that says which agentctl answers, and check that it is the one meant.

    The version is looked at first: a body of another version may not fit and still say so.
    """
    told = parse(call, _Identity, body)
    if told.contract_version is not None and not is_compatible(told.contract_version):
        theirs = told.contract_version[:20]
        problem = f"it speaks contract {theirs!r}, and {CONTRACT_VERSION} is spoken here"
        raise ContractMismatch(call, problem, version=theirs)
    report = parse(call, model, body)
    if pinned is not None and report.instance_id != pinned:
        raise Foreign(call, expected=pinned, found=report.instance_id[:128])
    return report


def parse_permissions(call: str, body: bytes) -> tuple[Permission, ...]:
    """Read the open permission requests, listed bare or under their name."""
    try:
        told = _PERMISSIONS.validate_json(body)
    except ValidationError as error:
        problem = _faults(error)
    else:
        return told.permissions if isinstance(told, _PermissionList) else told
    raise Malformed(call, problem)


def parse_event(call: str, data: bytes) -> Event | None:
    """Read one event; None for a kind that this version does not know."""
    if parse(call, _Kind, data).kind not in _KNOWN_KINDS:
        return None
    return parse(call, Event, data)


def as_refusal(call: str, status: int, body: bytes) -> AgentctlError:
    """The error that an answer of 300 or more stands for."""
    try:
        told = ErrorBody.model_validate_json(body)
    except ValidationError:
        # Not agentctl's own word: a proxy in between, or the API server's pod proxy.
        if status in _GATEWAY_FAILURES:
            return Unreachable(call, f"HTTP {status} from something in between")
        told = ErrorBody(code="", message=f"HTTP {status} without a reason")
    kind = Unauthenticated if status == 401 else Refused
    return kind(
        call,
        told.message[:MAX_TEXT_CHARS],
        status=status,
        code=told.code[:64],
        details=told.details,
    )


def _faults(error: ValidationError) -> str:
    """Which fields are wrong, without the values: one might be a resume token."""
    faults = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'body'}: {fault['type']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return f"the answer does not fit the contract ({'; '.join(faults[:_SHOWN_FAULTS])})"
