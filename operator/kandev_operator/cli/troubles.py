"""What went wrong outside, in words for the person at the terminal: which right, which path.

Pure: an error of `clients` and what was being done go in, a `Fault` comes out. The errors' own
texts never hold a token or what a Secret says, so they may be repeated here.
"""

from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from kandev_operator.api.executor import Executor, Runtime
from kandev_operator.cli.clock import span
from kandev_operator.cli.faults import Fault, Passing, Refusal
from kandev_operator.clients import errors
from kandev_operator.clients.resources import Resource
from kandev_operator.clients.signing import SECRET_NAME
from kandev_operator.contract.errors import Code

_CANNOT: Final = frozenset(
    {
        Code.AGENT_NOT_RUNNING,
        Code.NO_AGENT,
        Code.SESSION_CONFLICT,
        Code.UNKNOWN_PERMISSION,
        Code.OPERATION_CONFLICT,
        Code.ID_REUSED,
        Code.WORKSPACE_IN_USE,
        Code.NOT_SERVED,
    }
)
"""Codes that say something about the session, not about the call."""


def of_cluster(error: errors.KubeError) -> Fault:
    """A call to the API server that went wrong whatever it was about."""
    match error:
        case errors.NoCredentials():
            return Fault(
                f"no cluster can be asked: {error.message}",
                "See what kubectl makes of it: kubectl config view",
                "Another file: --kubeconfig FILE, KANDEV_KUBECONFIG or KUBECONFIG; another context "
                "of it: --context NAME (kubectl config get-contexts lists them).",
            )
        case errors.Unauthorized():
            return Fault(
                f"the API server does not know who is asking: {error.message}",
                "Check the kubeconfig and its context; kubectl auth whoami says who you are.",
            )
        case errors.Unavailable():
            return Passing(
                f"the API server gives no answer: {error.message}",
                "Check the kubeconfig's server, and that it can be reached from here.",
            )
        case errors.Throttled():
            return Passing(f"the API server asks for patience: {error.message}")
        case _:
            return Fault(f"{error.call}: {error.message}")


def of_object(
    error: errors.KubeError, verb: str, resource: Resource, namespace: str, name: str
) -> Fault:
    """Reading or changing one object went wrong."""
    group = f".{resource.group}" if resource.group else ""
    where = f"{resource.kind} {name} in namespace {namespace}"
    match error:
        case errors.NotFound() if f'"{name}" not found' in error.message:
            return Fault(
                f"there is no {where}",
                f"See which there are: kubectl get {resource.plural} --all-namespaces",
            )
        case errors.NotFound():
            return Fault(
                f"the cluster does not know {resource.plural}{group}: its definitions are missing",
                "Install them: kubectl apply --server-side -f crds/",
            )
        case errors.Forbidden():
            return Fault(
                f"you may not {verb} {where}",
                f"Needed: verb {verb} on {resource.plural}{group} in that namespace.",
                f"Check: kubectl auth can-i {verb} {resource.plural}{group}/{name} -n {namespace}",
            )
        case errors.Conflict():
            return Fault(f"{where} was changed or made again at this very moment: try once more")
        case _:
            return of_cluster(error)


def of_key(error: errors.ClientError, namespace: str) -> Fault:
    """The operator's signing key could not be read."""
    where = f"Secret {SECRET_NAME} in namespace {namespace}"
    match error:
        case errors.Forbidden():
            return Fault(
                f"you may not read {where}, and without it no call to an agentctl can be signed",
                "Needed: verb get on secrets, for this one name. It is an administrator's right: "
                "whoever reads the key can talk to every session's agent.",
                f"Check: kubectl auth can-i get secrets/{SECRET_NAME} -n {namespace}",
            )
        case errors.NotFound():
            return Fault(
                f"there is no {where}",
                "The operator makes it when it first leads. If it runs in another namespace, say "
                "so: --operator-namespace NAME, or KANDEV_OPERATOR_NAMESPACE.",
            )
        case errors.SigningKeyUnusable():
            return Fault(f"{where} holds no usable key: {error}")
        case errors.KubeError():
            return of_cluster(error)
        case _:
            return Fault(f"{where}: {error}")


def of_agentctl(error: errors.AgentctlError, executor: Executor, *, proxied: bool = False) -> Fault:
    """A call to the executor's agentctl went wrong."""
    name, url = executor.metadata.name, executor.status.agentctl_url or "no address"
    match error:
        case errors.Unreachable() | errors.TimedOut():
            return Fault(
                f"the agentctl of executor {name} does not answer at {url}: {error.message}",
                *_paths(executor),
            )
        case errors.Unauthenticated() if (skew := error.skew_seconds) is not None:
            off = span(timedelta(seconds=skew))
            return Fault(
                f"the clocks of this machine and of executor {name} differ by {off}: its agentctl "
                "refuses the token",
                "Set the clocks right (NTP).",
            )
        case errors.Unauthenticated():
            return Fault(
                f"the agentctl of executor {name} does not accept the token: {error.message}",
                "Its JWKS file must list the operator's key (kubectl kandev jwks), and its "
                f"audience must be {executor.audience}.",
            )
        case errors.Refused() if proxied and not error.code and error.status == 403:
            namespace = executor.metadata.namespace
            return Fault(
                f"you may not reach executor {name} through the API server",
                f"Needed: verbs get and create on pods/proxy in namespace {namespace}.",
                f"Check: kubectl auth can-i create pods/proxy -n {namespace}",
            )
        case errors.Refused():
            kind = Refusal if error.code in _CANNOT else Fault
            return kind(f"agentctl refuses: {error.message}" + _coded(error.code))
        case errors.Foreign():
            return Fault(
                f"another agentctl answers at {url} than the one that the operator pinned",
                f"Look at it: kubectl describe executor {name} -n {executor.metadata.namespace}",
            )
        case _:
            return Fault(
                f"the agentctl of executor {name} cannot be understood: {error.message}",
                "Use a plugin of the operator's own version.",
            )


def _coded(code: str) -> str:
    return f" ({code})" if code else ""


def _paths(executor: Executor) -> tuple[str, ...]:
    """Which network path is missing, by where the agentctl lives."""
    parts = urlsplit(executor.status.agentctl_url or "")
    namespace = executor.metadata.namespace
    match executor.spec.runtime:
        case Runtime.POD:
            return (
                f"Needed: a network path from here to {parts.netloc} (true of a pod in the "
                f"cluster), or the API server's pod proxy: get and create on pods/proxy in "
                f"namespace {namespace}.",
            )
        case Runtime.LOCAL_STANDALONE | Runtime.LOCAL_DOCKER:
            return (
                "It listens on the machine on which the operator runs, and on no other: run this "
                "command there.",
            )
        case _:
            tls = ", and a certificate that is trusted here" if parts.scheme == "https" else ""
            return (f"Needed: a network path from here to {parts.netloc}{tls}.",)
