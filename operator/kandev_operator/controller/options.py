"""The options of `kandev-operator run`: how each is written, read, explained, and left out.

One table, from which the parser, `--help` and the environment variables are made alike; a text is
checked by the same reader wherever it came from, so an option and its variable are refused in the
same words. What the options mean together is the business of `settings`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from kandev_operator import __version__

ANY_HOST: Final = "*"
NO_HOST: Final = "none"
LOG_FORMATS: Final = ("json", "text")
POD_ACCESS: Final = ("auto", "direct", "proxy")
DOCKER_ACCESS: Final = ("published", "address")
NOBODY: Final = "platform"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LEAST_LEASE_SECONDS: Final = 2


def _namespace(text: str) -> str:
    if not _DNS_LABEL.fullmatch(text):
        raise ValueError(f"{text!r} is not a namespace's name")
    return text


def _name(text: str) -> str:
    if not text or len(text) > 253 or not all(map(_DNS_LABEL.fullmatch, text.split("."))):
        raise ValueError(f"{text!r} is not an object's name")
    return text


def _installation(text: str) -> str:
    if len(text) > 253 or not all(map(_DNS_LABEL.fullmatch, re.split(r"[./]", text))):
        raise ValueError(f"{text!r} is not a name, or names with / between them")
    return text


def _local(text: str) -> tuple[str, Path]:
    namespace, sign, folder = text.partition("=")
    if not sign:
        raise ValueError(f"{text!r} is not NAMESPACE=FOLDER")
    path = PurePosixPath(folder)
    if not path.is_absolute() or path == PurePosixPath("/") or ".." in path.parts:
        raise ValueError(f"{folder!r} is not an absolute path of a folder below /")
    return _namespace(namespace), Path(path)


def _docker(text: str) -> tuple[str, Path | None]:
    if "=" in text:
        return _local(text)
    return _namespace(text), None


def _socket(text: str) -> str:
    path = PurePosixPath(text.removeprefix("unix://"))
    if not text.startswith("unix://") or not path.is_absolute():
        raise ValueError(f"{text!r} is not unix:// and an absolute path")
    return text


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", text):
        raise ValueError(f"{text!r} is not an http or https URL")
    return text


def _address(text: str) -> tuple[str, int]:
    host, sign, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not sign or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host or "0.0.0.0", int(port)


def _host_pattern(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9*?.:_-]+", text.lower()):
        raise ValueError(f"{text!r} is not a host, or a pattern of hosts like *.example.com")
    return text.lower()


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= 1_000_000:
            raise ValueError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1_000_000:
        raise ValueError(f"{text!r} is not a number of seconds above zero")
    return seconds


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text.lower()

    return read


def _image(text: str) -> str:
    if not re.fullmatch(r"[^\s]{1,512}", text):
        raise ValueError(f"{text!r} is not the name of an image")
    return text


def _pull_policy(text: str) -> str:
    known = {"always": "Always", "ifnotpresent": "IfNotPresent", "never": "Never"}
    if text.lower() not in known:
        raise ValueError(f"{text!r} is not one of {', '.join(known.values())}")
    return known[text.lower()]


def _user(text: str) -> int | None:
    if text.lower() == NOBODY:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise ValueError(f"{text!r} is neither a user id above zero nor {NOBODY!r}")
    return int(text)


def _size(text: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i)?", text):
        raise ValueError(f"{text!r} is not a size like 10Gi")
    return text


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"{text!r} is not true or false")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: how it is written, what it means, and how its text becomes a value."""

    flag: str
    read: Callable[[str], Any]
    help: str
    metavar: str = ""
    default: Any = None
    default_words: str = ""
    many: bool = False

    @property
    def dest(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def variable(self) -> str:
        return f"KANDEV_{self.dest.upper()}"


OPTIONS: Final = (
    Option(
        "--namespace",
        _namespace,
        "watch these namespaces only",
        "NS",
        default=(),
        default_words="all namespaces",
        many=True,
    ),
    Option("--all-namespaces", _flag, "watch the whole cluster", default=False),
    Option(
        "--allow-local-executors",
        _local,
        "let Executors of this namespace run commands on this machine, in folders below this "
        "one; refused inside a cluster",
        "NS=FOLDER",
        default=(),
        default_words="none",
        many=True,
    ),
    Option(
        "--allow-docker-executors",
        _docker,
        "let Executors of this namespace be containers of this machine's Docker engine; with a "
        "folder, they may also name folders below it as workspaces",
        "NS[=FOLDER]",
        default=(),
        default_words="none",
        many=True,
    ),
    Option(
        "--docker-host",
        _socket,
        "where that Docker engine is",
        "unix://PATH",
        "unix:///var/run/docker.sock",
    ),
    Option(
        "--docker-access",
        _one_of(DOCKER_ACCESS),
        "how agentctl in a container is reached: at a published port of the loopback, or at the "
        "container's own address",
        "|".join(DOCKER_ACCESS),
        "published",
    ),
    Option(
        "--kubeconfig",
        Path,
        "how to reach the API server",
        "FILE",
        default_words="KUBECONFIG, else the pod's account, else ~/.kube/config",
    ),
    Option(
        "--context",
        str,
        "which context of the kubeconfig",
        "NAME",
        default_words="its current context",
    ),
    Option(
        "--lease-namespace",
        _namespace,
        "where the leader's Lease is; of several, the leader holds one in each",
        "NS",
        default=(),
        default_words="POD_NAMESPACE, else the first --namespace, else 'kandev-system'",
        many=True,
    ),
    Option("--lease-name", _name, "what the leader's Lease is called", "NAME", "kandev-operator"),
    Option(
        "--exclusive",
        _flag,
        "while another operator leads in a namespace, by a Lease of that name there, do not lead; "
        "for operators of all namespaces",
        default=False,
    ),
    Option(
        "--installation",
        _installation,
        "what this process's replicas have in common; it begins their names in the Lease, and a "
        "Lease of others is then said to be theirs",
        "NAME",
        default_words="none",
    ),
    Option(
        "--key-namespace",
        _namespace,
        "where the key is that tokens for agentctl are signed with",
        "NS",
        default_words="the first --lease-namespace",
    ),
    Option(
        "--lease-seconds",
        _whole(_LEAST_LEASE_SECONDS),
        "how long a leader that vanished keeps its place",
        "SECONDS",
        15,
    ),
    Option(
        "--listen",
        _address,
        "where /healthz, /readyz and /metrics are served; port 0 takes a free one",
        "HOST:PORT",
        ("0.0.0.0", 8080),
        "0.0.0.0:8080",
    ),
    Option("--workers", _whole(1), "how many objects are worked on at once", "N", 16),
    Option(
        "--key-settle-seconds",
        _seconds,
        "how long a new signing key is listed before it signs: longer than every agentctl takes to "
        "read the list again",
        "SECONDS",
        180.0,
    ),
    Option("--sweep-seconds", _seconds, "how often everything is listed again", "SECONDS", 300.0),
    Option(
        "--probe-seconds",
        _seconds,
        "how often an executor without a pod is probed",
        "SECONDS",
        10.0,
    ),
    Option(
        "--named-sessions",
        _whole(0),
        "how many sessions in trouble the metrics name, those longest in trouble first; 0 names "
        "none",
        "N",
        50,
    ),
    Option(
        "--otlp-endpoint",
        _url,
        "where traces of sessions are sent by OTLP over HTTP, such as http://host:4318/v1/traces; "
        "needs the extra [tracing]",
        "URL",
        default_words="no traces",
    ),
    Option(
        "--log-format",
        _one_of(LOG_FORMATS),
        "one JSON object a line, or lines for people",
        "json|text",
        default_words="json inside a cluster, else text",
    ),
    Option("--log-level", _one_of(LOG_LEVELS), "how much is logged", "|".join(LOG_LEVELS), "info"),
    Option(
        "--identity",
        str,
        "this process's name in the Lease, before a random suffix",
        "NAME",
        default_words="POD_NAME, else HOSTNAME",
    ),
    Option(
        "--agentctl-image",
        _image,
        "image that agentctl is copied from into the pods of executors",
        "IMAGE",
        f"kandev-agentctl:{__version__}",
    ),
    Option(
        "--agentctl-pull-policy",
        _pull_policy,
        "when to pull that image",
        "Always|IfNotPresent|Never",
        default_words="the cluster's own rule",
    ),
    Option(
        "--pod-user",
        _user,
        "user and group id of executors' pods; 'platform' where the cluster gives each namespace "
        "its own",
        "UID",
        1000,
    ),
    Option(
        "--pod-access",
        _one_of(POD_ACCESS),
        "how agentctl in a pod is reached: at the pod's address, or through the API server",
        "|".join(POD_ACCESS),
        "auto",
        "direct inside a cluster, else proxy",
    ),
    Option(
        "--workspace-size",
        _size,
        "size of a workspace whose session names none",
        "SIZE",
        "10Gi",
    ),
    Option(
        "--allow-remote-host",
        _host_pattern,
        "hosts that Executors of runtime Remote may point at, by https; by http only where the "
        "host is a loopback address; 'none' for no host at all",
        "HOST-PATTERN",
        default=(ANY_HOST,),
        default_words="any host",
        many=True,
    ),
)


def is_flag(option: Option) -> bool:
    """Whether it is given without a value."""
    return option.read is _flag
