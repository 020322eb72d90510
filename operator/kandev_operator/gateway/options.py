"""The options of `kandev-gateway run`, each also an environment variable KANDEV_GATEWAY_…

A text is checked by the same reader wherever it came from. What is refused is refused before
anything starts, with the option's name.
"""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from kandev_operator import __version__
from kandev_operator.gateway.door import LOOPBACK
from kandev_operator.gateway.rights.origins import Network, networks

_PREFIX: Final = "KANDEV_GATEWAY_"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Settings:
    """What the gateway was told."""

    namespaces: tuple[str, ...]
    host: str
    port: int
    database_url: str
    kubeconfig: str | None
    operator_namespace: str
    login: bool
    public_urls: tuple[str, ...]
    trusted_proxies: tuple[Network, ...]
    user_header: str
    group_header: str
    template: Mapping[str, Any] | None
    log_level: str
    keep_days: float


def parse(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the command line. Exits with 2 and one line when something is wrong."""
    parser = _parser(environ)
    told = parser.parse_args(arguments)
    if not told.namespace and not told.all_namespaces:
        parser.error("say what to watch: --namespace NAME (again for more) or --all-namespaces")
    host, _, port = told.listen.rpartition(":")
    host = host.strip("[]") or "0.0.0.0"
    if not port.isdecimal() or int(port) > 65535:
        parser.error(f"--listen {told.listen!r} is not HOST:PORT")
    if told.no_login and host not in LOOPBACK:
        parser.error("--no-login gives every right to everybody: only with --listen 127.0.0.1:PORT")
    try:
        trusted = networks(told.trust_proxy)
    except ValueError as error:
        parser.error(f"--trust-proxy: {error}")
    names = [*told.namespace] if not told.all_namespaces else []
    for name in [*names, told.operator_namespace]:
        if not _NAME.fullmatch(name):
            parser.error(f"{name!r} is not a namespace's name")
    return Settings(
        namespaces=tuple(dict.fromkeys(names)),
        host=host,
        port=int(port),
        database_url=told.database_url,
        kubeconfig=told.kubeconfig,
        operator_namespace=told.operator_namespace,
        login=not told.no_login,
        public_urls=tuple(_public(parser, url) for url in told.public_url),
        trusted_proxies=trusted,
        user_header=told.proxy_user_header,
        group_header=told.proxy_group_header,
        template=_template(parser, told.default_template),
        log_level=told.log_level,
        keep_days=told.keep_days,
    )


def _public(parser: argparse.ArgumentParser, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
        parser.error(f"--public-url {url!r} is not https://HOST[:PORT]")
    return f"{parts.scheme}://{parts.netloc}"


def _template(parser: argparse.ArgumentParser, path: str | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    try:
        found = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        parser.error(f"--default-template {path}: {type(error).__name__}")
    if not isinstance(found, dict) or "spec" not in found:
        parser.error(f"--default-template {path}: it holds what stands under executor.template")
    return found


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kandev-gateway",
        description="The window on sessions of coding agents: page, socket, history.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    run = parser.add_subparsers(required=True).add_parser(
        "run",
        help="serve until stopped",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog=f"Each option can also be given as {_PREFIX}NAME in the environment.",
    )

    def default(name: str, otherwise: str | None = None) -> str | None:
        return environ.get(_PREFIX + name, otherwise)

    flag = ("1", "true", "yes")
    watched = (default("NAMESPACE") or "").split()
    run.add_argument("--namespace", action="append", default=watched, metavar="NAME")
    run.add_argument(
        "--all-namespaces", action="store_true", default=default("ALL_NAMESPACES") in flag
    )
    run.add_argument("--listen", default=default("LISTEN", "127.0.0.1:8080"), metavar="HOST:PORT")
    run.add_argument(
        "--database-url",
        default=default("DATABASE_URL", "sqlite:///kandev-gateway.db"),
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; better in the environment",
    )
    run.add_argument("--kubeconfig", default=default("KUBECONFIG"))
    run.add_argument(
        "--operator-namespace",
        default=default("OPERATOR_NAMESPACE", "kandev-system"),
        metavar="NAME",
        help="where the operator lives, and with it the signing keys",
    )
    run.add_argument(
        "--no-login",
        action="store_true",
        default=default("NO_LOGIN") in flag,
        help="everybody on this machine may do everything; on a loopback address only",
    )
    run.add_argument(
        "--public-url",
        action="append",
        default=(default("PUBLIC_URL") or "").split(),
        metavar="URL",
        help="where people reach it; other hosts are refused, loopback apart; may come again",
    )
    run.add_argument(
        "--trust-proxy",
        action="append",
        default=(default("TRUST_PROXY") or "").split(),
        metavar="RANGE",
        help="addresses of an authenticating proxy whose headers are believed; may come again",
    )
    run.add_argument("--proxy-user-header", default=default("PROXY_USER_HEADER", "X-Remote-User"))
    run.add_argument(
        "--proxy-group-header", default=default("PROXY_GROUP_HEADER", "X-Remote-Group")
    )
    run.add_argument(
        "--default-template",
        default=default("DEFAULT_TEMPLATE"),
        metavar="FILE",
        help="YAML of executor.template for sessions that name none",
    )
    run.add_argument(
        "--keep-days",
        type=float,
        default=float(default("KEEP_DAYS", "90") or 90),
        help="how long a finished or deleted session can still be read",
    )
    run.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default=default("LOG_LEVEL", "info"),
    )
    return parser
