"""What can go wrong outside, as one tree of types.

    ClientError
    ├── KubeError             a call to the Kubernetes API
    │   ├── NotFound          404: no such object (or no such kind)
    │   ├── Conflict          409: somebody else wrote in between; read again
    │   ├── AlreadyExists     409: the name is taken
    │   ├── Forbidden         403: RBAC, quota, or a namespace that is going away
    │   ├── Unauthorized      401 after the credentials were read again
    │   │   └── NoCredentials none that can be sent: no kubeconfig, or one that cannot be used
    │   ├── Invalid           400, 405, 413, 415, 422: asking again will not help
    │   ├── Throttled         429: ask again after `retry_after`
    │   ├── Gone              410: a resource version or a continue token has expired
    │   └── Unavailable       no answer, an answer too late, or 5xx: says nothing about the object
    ├── AgentctlError         a call to an agentctl
    │   ├── Unreachable       no connection, or it broke
    │   ├── TimedOut          connected, but no answer in time
    │   ├── Refused           it said no; `code` is the contract's
    │   ├── Unauthenticated   it does not accept the caller's token; `code` says whether by skew
    │   ├── Foreign           another instance answers than the one that was pinned
    │   └── ContractMismatch  it speaks another major version
    │       └── Malformed     it does not speak the contract at all
    ├── EngineError           a call to the Docker engine
    │   ├── EngineSilent      no answer, or one too late: says nothing about what runs there
    │   ├── NoSuchThing       404: the engine says that there is none
    │   ├── InTheWay          409: the name is taken, or the thing is in use
    │   └── EngineRefused     it said no, in its own words
    └── SigningKeyUnusable    the signing key's Secret holds no usable key

An error's text is fit for a condition or a log line: bounded, and never with a token, a
credential or what a Secret holds. Causes are not chained where they could quote a header.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

MAX_MESSAGE_CHARS = 2_000


def bounded(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """The text, cut to the limit with a sign that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class ClientError(Exception):
    """Something outside did not do what was asked of it."""


@dataclass(frozen=True)
class Cause:
    """One of the API server's reasons why it refused an object."""

    reason: str
    message: str
    field: str


class KubeError(ClientError):
    """A call to the Kubernetes API failed. `call` names it: verb, plural, namespace/name."""

    outcome: ClassVar[str] = "error"

    def __init__(
        self,
        call: str,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.call = call
        self.message = bounded(message)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after
        super().__init__(f"{call}: {self.message}")


class NotFound(KubeError):
    """No such object, or the server does not know the kind."""

    outcome = "not_found"


class Conflict(KubeError):
    """Somebody else wrote in between, or the object is another one with the same name."""

    outcome = "conflict"


class AlreadyExists(KubeError):
    """An object of this name is there already."""

    outcome = "already_exists"


class Forbidden(KubeError):
    """Not allowed."""

    outcome = "forbidden"

    @property
    def quota_exceeded(self) -> bool:
        """A quota refused it, not RBAC. The API server tells them apart in words only."""
        return "exceeded quota" in self.message

    @property
    def namespace_terminating(self) -> bool:
        """The namespace is going away, so nothing new is let in."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class Unauthorized(KubeError):
    """The API server does not know who is asking."""

    outcome = "unauthorized"


class NoCredentials(Unauthorized):
    """There are no credentials to send. The message names the file and what is wrong with it."""


class Invalid(KubeError):
    """The request itself is wrong. `causes` says which fields, where the server does."""

    outcome = "invalid"


class Throttled(KubeError):
    """Too many requests; `retry_after` seconds where the server says so."""

    outcome = "throttled"


class Gone(KubeError):
    """The resource version or continue token is too old."""

    outcome = "gone"


class Unavailable(KubeError):
    """No usable answer. It proves nothing: the request may even have been carried out."""

    outcome = "unavailable"


class AgentctlError(ClientError):
    """A call to an agentctl failed. `call` names it: method and path, never the query."""

    outcome: ClassVar[str] = "error"

    def __init__(self, call: str, message: str) -> None:
        self.call = call
        self.message = bounded(message)
        super().__init__(f"{call}: {self.message}")


class Unreachable(AgentctlError):
    """No connection, or it broke before the whole answer was there."""

    outcome = "unreachable"


class TimedOut(AgentctlError):
    """It did not answer, or its event stream fell silent. The request may have been done."""

    outcome = "timed_out"


class _Answered(AgentctlError):
    """It answered with an error body of the contract."""

    def __init__(
        self,
        call: str,
        message: str,
        *,
        status: int,
        code: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(call, message)
        self.status = status
        self.code = code
        self.details: Mapping[str, Any] = details or {}


class Refused(_Answered):
    """It said no. `code` is one of the contract's, or empty where the body was none of its."""

    outcome = "refused"


class Unauthenticated(_Answered):
    """It does not accept the caller's token: `unauthorized`, or `clock_skew` with the skew."""

    outcome = "unauthenticated"

    @property
    def skew_seconds(self) -> float | None:
        """By how much the clocks differ, where that is what is wrong."""
        skew = self.details.get("skew_seconds")
        known = isinstance(skew, int | float) and not isinstance(skew, bool)
        return float(skew) if known and skew is not None else None


class Foreign(AgentctlError):
    """Another agentctl answers at this address than the one that was pinned."""

    outcome = "foreign"

    def __init__(self, call: str, *, expected: str, found: str) -> None:
        super().__init__(call, f"instance {found!r} answers where {expected!r} was expected")
        self.expected = expected
        self.found = found


class ContractMismatch(AgentctlError):
    """It speaks another version of the contract; `version` is its own word for it."""

    outcome = "malformed"

    def __init__(self, call: str, message: str, *, version: str | None = None) -> None:
        super().__init__(call, message)
        self.version = version


class Malformed(ContractMismatch):
    """The answer is nothing the contract knows: not JSON, too large, or of another shape."""


class EngineError(ClientError):
    """A call to the Docker engine failed. `call` names it, never what was sent."""

    def __init__(self, call: str, message: str) -> None:
        self.call = call
        self.message = bounded(message)
        super().__init__(f"{call}: {self.message}")


class EngineSilent(EngineError):
    """No usable answer. It proves nothing: what was asked may even have been done."""


class NoSuchThing(EngineError):
    """The engine answers that there is no such container, image or volume."""


class InTheWay(EngineError):
    """The name is taken, or the thing is in use."""


class EngineRefused(EngineError):
    """It said no: an image that cannot be pulled, a command that cannot be run."""


class SigningKeyUnusable(ClientError):
    """The signing key's Secret is there, but there is no usable key in it."""
