"""Where the API server is and who we are there: read from files, and read again.

Two sources: a pod's service account, and a kubeconfig (a path, the KUBECONFIG variable, or the
usual place). Loading is the `kubernetes` package's; what it does not do is done here: a token in
a file is read again before it expires, whichever source it came from, and a value that no header
may carry is refused by its length and fault, never by quoting it.

This module knows files and formats. When to read again is decided by `kube`.
"""

import atexit
import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config, kube_config
from kubernetes.aio.config.config_exception import ConfigException

from kandev_operator.clients.errors import NoCredentials

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_FILE_SECONDS: Final = 60.0
"""A token in a file is read again this often; a projected one is renewed long before it ends."""
_EXPIRY_MARGIN_SECONDS: Final = 60.0
_CALL: Final = "credentials"
_TLS_FILES: Final = ("ssl_ca_cert", "cert_file", "key_file")
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Access:
    """Everything needed to call one API server as somebody, at one instant."""

    configuration: Any
    """The `kubernetes` package's Configuration: server, TLS files, proxy."""
    authorization: str | None = field(repr=False)
    """The value of the header; None where a client certificate says who we are."""
    namespace: str
    """The namespace that calls are about unless they say otherwise."""
    reread_after: float | None
    """Seconds after which it should be read again; None for only when it is refused."""
    connection: str = field(repr=False)
    """A fingerprint of server and TLS material: another one needs new connections."""


class Source(Protocol):
    """Something that credentials can be read from, any number of times."""

    async def load(self) -> Access:
        """Read them now; raises NoCredentials with the reason when there are none to send."""


@dataclass(frozen=True)
class InCluster:
    """The service account that the kubelet mounts into a pod."""

    folder: Path = SERVICE_ACCOUNT

    async def load(self) -> Access:
        """Read token, CA and namespace from the mounted folder."""
        configuration = Configuration()
        loader: Any = incluster_config.InClusterConfigLoader
        try:
            loader(
                token_filename=str(self.folder / "token"),
                cert_filename=str(self.folder / "ca.crt"),
                try_refresh_token=False,
            ).load_and_set(configuration)
        except (ConfigException, OSError, ValueError) as error:
            raise NoCredentials(_CALL, f"no service account: {error}") from None
        authorization = await _authorization(configuration)
        if authorization is None:
            # Seen in a release of the library: it loaded the token and then sent none.
            raise NoCredentials(_CALL, "the kubernetes package gives no token for the header")
        return Access(
            configuration,
            authorization,
            namespace=_text(self.folder / "namespace") or "default",
            reread_after=TOKEN_FILE_SECONDS,
            connection=_fingerprint(configuration),
        )


@dataclass(frozen=True)
class Kubeconfig:
    """A context of a kubeconfig; several files may be joined as in KUBECONFIG."""

    path: str
    context: str | None = None

    async def load(self) -> Access:
        """Read the files, and run the credential plugin where the context names one."""
        if not _any_file(self.path):
            raise NoCredentials(_CALL, f"there is no kubeconfig at {self.path}")
        configuration = Configuration()
        load: Any = kube_config.load_kube_config
        try:
            loader = await load(
                config_file=self.path,
                context=self.context,
                client_configuration=configuration,
                persist_config=False,
            )
        except Exception as error:
            words = _damage(error)
            raise NoCredentials(_CALL, f"kubeconfig {self.path} cannot be used: {words}") from None
        _off_the_disk(configuration)
        current = loader.current_context.get("context") or {}
        return Access(
            configuration,
            await _authorization(configuration),
            namespace=current.get("namespace") or "default",
            reread_after=_kubeconfig_lifetime(loader),
            connection=_fingerprint(configuration),
        )


def find_source(kubeconfig: str | Path | None = None, context: str | None = None) -> Source:
    """Choose as kubectl does: what was said, KUBECONFIG, the pod's account, the usual file."""
    if kubeconfig is not None:
        return Kubeconfig(str(kubeconfig), context)
    if named := os.environ.get("KUBECONFIG"):
        return Kubeconfig(named, context)
    if context is None and os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return InCluster()
    return Kubeconfig(str(Path.home() / ".kube" / "config"), context)


def bearer(token: str) -> str:
    """The header value for a token, stripped; raises NoCredentials for one that cannot be sent."""
    return f"Bearer {_sendable(token, 'token')}"


_held: Final[dict[bytes, str]] = {}
"""Paths in memory, by a hash of what they hold; as many as there were certificates and keys."""


def _off_the_disk(configuration: Any) -> None:
    """Hold in memory what the loader wrote into temporary files.

    It writes the certificate and the private key that a kubeconfig holds inline there, and removes
    them when the process ends by itself; one that is killed would leave them behind.
    """
    loader: Any = kube_config  # which has no public way to ask for these
    written: dict[str, str] = loader._temp_files
    if not written or not hasattr(os, "memfd_create"):
        return
    for name in _TLS_FILES:
        path: str | None = getattr(configuration, name, None)
        if path is not None and path in written.values():
            setattr(configuration, name, _in_memory(Path(path).read_bytes()))
    loader._cleanup_temp_files()
    atexit.unregister(loader._cleanup_temp_files)


def _in_memory(content: bytes) -> str:
    """A path to a file that no disk has, for as long as this process lives."""
    key = hashlib.sha256(content).digest()
    if key not in _held:
        descriptor = os.memfd_create("kubeconfig", os.MFD_CLOEXEC)
        os.write(descriptor, content)
        _held[key] = f"/proc/self/fd/{descriptor}"
    return _held[key]


def _damage(error: Exception) -> str:
    """What is wrong with a kubeconfig. The loader raises whatever a damaged file makes of it, and
    some of that quotes the file: only its own words, and where they stand, are repeated."""
    match error:
        case ConfigException():
            return str(error)
        case OSError(strerror=str(why)):
            return why
        case yaml.MarkedYAMLError(problem_mark=yaml.Mark(line=line)):
            return f"it is not YAML, as line {line + 1} shows"
        case yaml.YAMLError() | UnicodeDecodeError():
            return "it is not YAML"
        case _:
            return f"a part of it is missing or of another kind ({type(error).__name__})"


def _any_file(paths: str) -> bool:
    return any(Path(each).expanduser().is_file() for each in paths.split(os.pathsep) if each)


def _sendable(value: str, what: str) -> str:
    stripped = value.strip()
    if not stripped:
        raise NoCredentials(_CALL, f"the {what} is empty")
    if not _SENDABLE.fullmatch(stripped):
        fault = "a character that a header cannot carry"
        raise NoCredentials(_CALL, f"the {what} ({len(stripped)} characters) holds {fault}")
    return stripped


async def _authorization(configuration: Any) -> str | None:
    value = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if value is None:
        return None
    scheme, _, credential = str(value).partition(" ")
    if scheme.lower() == "basic":
        return f"Basic {_sendable(credential, 'user name and password')}"
    return bearer(credential)


def _kubeconfig_lifetime(loader: Any) -> float | None:
    """How long what this loader read may be used before it is read again."""
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if expiry is not None:
        return max(1.0, float(expiry.timestamp()) - time.time() - _EXPIRY_MARGIN_SECONDS)
    # The loader has no public way to ask whether the token came from a file.
    user = getattr(loader, "_user", None)
    if user is not None and "tokenFile" in user and "token" not in user:
        return TOKEN_FILE_SECONDS
    return None


def _fingerprint(configuration: Any) -> str:
    """Server and TLS material in one hash. Files are read: a CA rotates under its old name."""
    digest = hashlib.sha256()
    for name in ("host", "verify_ssl", "tls_server_name", "proxy"):
        digest.update(f"{getattr(configuration, name, None)}\n".encode())
    for name in _TLS_FILES:
        path = getattr(configuration, name, None)
        digest.update(_bytes(Path(path)) if path else b"-")
    return digest.hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b"unreadable"


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace").strip() if path.is_file() else ""
