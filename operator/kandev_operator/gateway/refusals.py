"""Why something was not done, as the error body that a client gets. Pure.

A `Refusal` ends a request; it is raised by actions and caught where the request came in. Errors of
the clients become refusals here, in one place. An error's own text never holds a token or what a
Secret says, so it may be repeated.
"""

from typing import Any, Final

from kandev_operator.clients import errors
from kandev_operator.gateway.wire.envelope import ErrorBody, ErrorCode

NOBODY: Final = "there is no such session, or you may not read it"


class Refusal(Exception):
    """A request that was not done, and why."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(f"{code}: {message}")
        given = {key: value for key, value in details.items() if value is not None}
        self.body = ErrorBody(code=code, message=message, details=given)


def missing() -> Refusal:
    """The one answer for what does not exist and for what may not be read."""
    return Refusal(ErrorCode.NOT_FOUND, NOBODY)


def of_kube(error: errors.KubeError) -> Refusal:
    """A call to the API server that failed."""
    match error:
        case errors.NotFound():
            return Refusal(ErrorCode.NOT_FOUND, "it is not there any more")
        case errors.AlreadyExists() | errors.Conflict():
            return Refusal(ErrorCode.CONFLICT, error.message)
        case errors.Unavailable() | errors.Throttled():
            words = "the API server does not answer; whether it was done is not known"
            return Refusal(ErrorCode.UNREACHABLE, words)
        case errors.Unauthorized():
            words = "the API server does not know this gateway: see its log"
            return Refusal(ErrorCode.UNREACHABLE, words)
        case _:
            return Refusal(ErrorCode.REFUSED_BY_CLUSTER, error.message)


def of_agentctl(error: errors.AgentctlError) -> Refusal:
    """A call to an agentctl that failed; what it refuses keeps its own code."""
    match error:
        case errors.Refused() if error.code:
            return Refusal(error.code, error.message, **error.details)
        case errors.TimedOut():
            words = "agentctl has not answered in time; the same request again is safe"
            return Refusal(ErrorCode.UNREACHABLE, words)
        case errors.Unreachable():
            return Refusal(ErrorCode.UNREACHABLE, f"agentctl cannot be reached: {error.message}")
        case errors.Unauthenticated() if (skew := error.skew_seconds) is not None:
            words = f"the clocks of gateway and executor differ by {skew:.0f} s"
            return Refusal(ErrorCode.UNREACHABLE, words, skew_seconds=skew)
        case errors.Unauthenticated():
            words = "agentctl does not accept the gateway's key (yet): try again in a minute"
            return Refusal(ErrorCode.UNREACHABLE, words)
        case _:
            return Refusal(ErrorCode.UNREACHABLE, f"agentctl cannot be understood: {error.message}")
