"""What the API server's answers mean: bytes and status codes in, objects and typed errors out.

Pure: no socket, no clock. It refuses to know which call is worth repeating. What a Secret holds
never gets into an error's text: the server quotes values in its messages, so for Secrets only
the names of the refused fields are kept.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kandev_operator.clients.errors import (
    AlreadyExists,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)

_BY_STATUS: Final[Mapping[int, type[KubeError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    429: Throttled,
}
_SECRET_PLURAL: Final = "secrets"
_MAX_CAUSES: Final = 20


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, read to its end."""

    status: int
    body: bytes = field(repr=False)
    retry_after: str | None = None

    @property
    def ok(self) -> bool:
        """Success of any kind. Redirects are not expected of an API server."""
        return 200 <= self.status < 300


def as_json(call: str, answer: Answer) -> Any:
    """The document in a good answer. What is not JSON comes from something in between."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        problem = f"the answer (HTTP {answer.status}) is not JSON"
    raise Unavailable(call, problem, status=answer.status)


def as_error(call: str, plural: str, answer: Answer) -> KubeError:
    """The error that an answer of 300 or more stands for."""
    told = _status_object(answer.body)
    reason = _text(told.get("reason"))
    details = told.get("details")
    details = details if isinstance(details, dict) else {}
    causes = _causes(details, quote=plural != _SECRET_PLURAL)
    message = _text(told.get("message")) or f"HTTP {answer.status}"
    if plural == _SECRET_PLURAL and answer.status in (400, 422):
        fields = ", ".join(cause.field for cause in causes if cause.field)
        message = f"the Secret was refused{f' for {fields}' if fields else ''}"
    return _type_of(answer.status, reason)(
        call,
        message,
        status=answer.status,
        reason=reason,
        causes=causes,
        retry_after=_retry_after(answer, details),
    )


def as_unavailable(call: str, words: str, error: BaseException, secret: str) -> Unavailable:
    """The error for a call that got no answer. `secret` is blotted out, should it be quoted."""
    reason = "Timeout" if isinstance(error, TimeoutError) else "Network"
    return Unavailable(call, words.replace(secret, "…") if secret else words, reason=reason)


def _type_of(status: int, reason: str) -> type[KubeError]:
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return Invalid if 400 <= status < 500 else Unavailable


def _status_object(body: bytes) -> dict[str, Any]:
    """The `Status` that explains a refusal; proxies in between send other things."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) and told.get("kind") == "Status" else {}


def _causes(details: Mapping[str, Any], *, quote: bool) -> tuple[Cause, ...]:
    listed = details.get("causes")
    if not isinstance(listed, list):
        return ()
    return tuple(
        Cause(
            reason=_text(each.get("reason")),
            message=_text(each.get("message")) if quote else "",
            field=_text(each.get("field")),
        )
        for each in listed[:_MAX_CAUSES]
        if isinstance(each, dict)
    )


def _retry_after(answer: Answer, details: Mapping[str, Any]) -> float | None:
    for value in (details.get("retryAfterSeconds"), answer.retry_after):
        try:
            seconds = float(value)  # type: ignore[arg-type]  # None and odd types: refused below
        except (TypeError, ValueError):
            continue
        if 0 < seconds < 24 * 3600:
            return seconds
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
