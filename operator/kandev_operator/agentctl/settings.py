"""The command line of agentctl and its defaults; every option also comes from the environment.

An option NAME is read from KANDEV_NAME where the command line leaves it out. Nothing here touches
the disk or the network: what the values mean is checked where they are used.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

SCROLLBACK: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Patience:
    """How long agentctl waits for what; the defaults suit real agents."""

    initialize: float = 60.0
    probe_idle: float = 120.0
    cancel_grace: float = 30.0
    choice: float = 30.0
    flush: float = 0.1
    quiet: float = 0.3
    """No replayed update for so long: the replay is over."""
    settle: float = 15.0
    """Longest wait for that."""
    after_turn: float = 0.5
    """An answered turn is not yet a stored turn: so long is left before a planned end."""
    request: float = 150.0
    """From the first byte of a request to its last."""
    shutdown_grace: float = 10.0
    owner_period: float = 2.0
    """Heartbeat of the owner file; a stranger's is watched for two of them."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the past is kept; whichever bound is reached first."""

    events: int = 200_000
    bytes: int = 256 * 1024 * 1024
    days: float = 30.0
    """Reckoned back from the newest event, so that a session that rests loses nothing."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Kandev agentctl that this one stands in front of."""

    url: str
    nonce_file: Path | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What one agentctl process was told."""

    state: Path
    workspace: Path
    audience: str
    jwks: Path
    host: str = "127.0.0.1"
    port: int = 0
    instance_id: str | None = None
    dead_boot_id: str | None = None
    detach: bool = False
    log_level: str = "info"
    journal_max_pages: int | None = None
    journal_keep: Retention = Retention()
    max_line_bytes: int = 16 * 1024 * 1024
    shell_scrollback_bytes: int = SCROLLBACK
    shell_ping_seconds: float = 20.0
    patience: Patience = Patience()
    upstream: Upstream | None = None


STEPS = ("install", "prepare")
"""Commands that make a pod ready before `run` (see `steps`)."""

PATIENCE_HELP = {
    "initialize": "how long the agent may take to answer initialize",
    "probe_idle": "how long a probed agent that nobody starts is kept",
    "cancel_grace": "how long a cancelled turn may take to end",
    "choice": "how long the agent may take to change a mode or a config option",
    "quiet": "silence after which a replay counts as over",
    "after_turn": "how long an answered turn may take to be stored before a planned end",
    "owner_period": "how often the claim on the state folder is renewed",
    "request": "how long a caller may take to send a request",
    "shutdown_grace": "how long the agent may take to end when agentctl ends",
}


UPSTREAM_HELP = (
    "run the agent on the Kandev agentctl at this address (its control port) instead of here; "
    "the workspace is then a folder on that machine"
)


def steps_help() -> dict[str, str]:
    """What each step does."""
    return {
        "install": "put agentctl into a volume that a pod's containers share, and end",
        "prepare": "clone a task's repositories into the workspace, and end",
    }


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Tells defaults, where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_none = action.required or action.default is None
        return action.help if has_none else super()._get_help_string(action)


def parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line; defaults and required options follow the environment."""
    top = argparse.ArgumentParser(
        prog="kandev-agentctl",
        description="Keeps one coding agent's conversation, and serves contract v1 over HTTP.",
    )
    commands = top.add_subparsers(dest="command", required=True)
    for name, words in steps_help().items():
        commands.add_parser(name, help=words)
    run = commands.add_parser(
        "run",
        help="serve until SIGTERM",
        formatter_class=_Help,
        epilog="Each option may also come from the environment: KANDEV_STATE for --state.",
    )

    def option(name: str, default: object, words: str, **kwargs: Any) -> None:
        found = environ.get("KANDEV_" + name.upper().replace("-", "_"))
        value = default if found is None else found
        run.add_argument(f"--{name}", default=value, required=value is ..., help=words, **kwargs)

    option("state", ..., "folder that agentctl owns: journal, agent's HOME, run.json", type=Path)
    option("workspace", ..., "folder that the agent works in", type=Path)
    option("audience", ..., "audience that a caller's token must be for: the executor's UID")
    option("jwks", ..., "file with the callers' public keys and their scopes", type=Path)
    option("host", "127.0.0.1", "address to listen on")
    option("port", 0, "port to listen on; 0 picks a free one, see run.json", type=int)
    option("instance-id", None, "who this is; without it an id is made and kept in the state")
    option("dead-boot-id", None, "an earlier agentctl on this state that is dead for certain")
    option("upstream", None, UPSTREAM_HELP, metavar="URL")
    words = "file with the upstream's bootstrap nonce; without it, none is asked for"
    option("upstream-nonce-file", None, words, type=Path, metavar="FILE")
    words = "instance of the upstream to take over; without it, agentctl makes one of its own"
    option("upstream-instance", None, words, metavar="ID")
    levels = ("debug", "info", "warning", "error")
    option("log-level", "info", "least level that is logged", choices=levels)
    option("journal-max-pages", None, "largest size of a journal, in SQLite pages", type=int)
    keep = Retention()
    option("journal-keep-events", keep.events, "events that a journal keeps at most", type=int)
    option("journal-keep-bytes", keep.bytes, "bytes that a journal keeps at most", type=int)
    option("journal-keep-days", keep.days, "how old a kept event may be", type=float)
    option("max-line-bytes", 16 * 1024 * 1024, "longest line taken from the agent", type=int)
    option("shell-scrollback-bytes", SCROLLBACK, "what a shell keeps of its output", type=_size)
    option("shell-ping-seconds", 20.0, "how often a shell's viewer must show it lives", type=float)
    for name, words in PATIENCE_HELP.items():
        default = getattr(Patience(), name)
        option(f"{name.replace('_', '-')}-seconds", default, words, type=float)
    run.add_argument(
        "--detach",
        action="store_true",
        default=environ.get("KANDEV_DETACH", "") not in ("", "0", "false"),
        help="run in the background; returns once it answers",
    )
    return top


def _size(text: str) -> int:
    if not 1024 <= (size := int(text)) <= 2**30:
        raise argparse.ArgumentTypeError("from 1 KiB to 1 GiB")
    return size


def read(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Settings:
    """Parse the command line of this process; exits with a message if it does not fit."""
    top = parser(os.environ if environ is None else environ)
    told = top.parse_args(argv)
    waits = {name: getattr(told, f"{name}_seconds") for name in PATIENCE_HELP}
    return Settings(
        state=told.state.absolute(),
        workspace=told.workspace.absolute(),
        audience=told.audience,
        jwks=told.jwks.absolute(),
        host=told.host,
        port=told.port,
        instance_id=told.instance_id,
        dead_boot_id=told.dead_boot_id or None,
        detach=told.detach,
        log_level=told.log_level,
        journal_max_pages=told.journal_max_pages,
        journal_keep=Retention(
            told.journal_keep_events, told.journal_keep_bytes, told.journal_keep_days
        ),
        max_line_bytes=told.max_line_bytes,
        shell_scrollback_bytes=told.shell_scrollback_bytes,
        shell_ping_seconds=told.shell_ping_seconds,
        patience=Patience(**waits),
        upstream=_upstream(top, told),
    )


def _upstream(top: argparse.ArgumentParser, told: argparse.Namespace) -> Upstream | None:
    if not told.upstream:
        return None
    parts = urlsplit(told.upstream)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        top.error("--upstream is the http or https address of a Kandev agentctl's control port")
    if not told.workspace.is_absolute():
        top.error("--workspace is a folder on the upstream's machine: an absolute path")
    nonce_file = told.upstream_nonce_file
    return Upstream(
        url=told.upstream,
        nonce_file=nonce_file.absolute() if nonce_file else None,
        instance=told.upstream_instance or None,
    )
