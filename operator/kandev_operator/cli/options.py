"""The command line of `kubectl kandev`: read, checked, and explained with examples.

The cluster's options may stand before or after the command, as kubectl's own do; each has an
environment variable, and what is given wins. Nothing but the standard library is imported here:
`--help` and a mistyped option must not wait for a Kubernetes client to load.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kandev_operator import __version__
from kandev_operator.cli import commands, intermixed, shelloptions, workspaceoptions
from kandev_operator.cli.commands import OPERATOR_NAMESPACE, Command, Where

PROG: Final = "kubectl kandev"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PREFIXES: Final = frozenset(
    {"ts", "tasksession", "tasksessions", "tasksession.kandev.dev", "tasksessions.kandev.dev"}
)
_ID_LIMIT: Final = 128

_ABOUT: Final = """\
Talk to coding agents' sessions that kandev-operator keeps alive, and ask why one is as it is.

prompt, logs, permissions, allow, deny, cancel, shell, files and git talk to the session's agentctl.
For that the plugin signs a token that is good for minutes and for that one executor, so it needs
the right to read the operator's signing key; resume, fresh-start and why need no more than the
session itself.
"""
_AFTER: Final = f"""\
examples:
  {PROG} prompt demo "Make the tests pass"
  {PROG} logs -f demo
  {PROG} why demo

exit codes:
  0    done
  (shell passes on the exit code of what ran in the terminal)
  1    it failed: the turn was cut off or went wrong, something could not be reached or read
  2    wrong usage
  3    refused, because the session cannot as it is (no agent runs, nobody serves it)
  4    it did not come true in the time given
  130  interrupted at the keyboard; a turn that was begun goes on
"""


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Where, Command]:
    """Read the command line after the program's name. Ends the program where it makes no sense."""
    parser = build()
    read, left_over = parser.parse_known_args(argv)
    given = vars(read)
    if left_over:
        # Told by the command's own parser, whose usage says what would be right.
        given["usage"].error(f"unrecognized arguments: {' '.join(left_over)}")
    where = Where(
        namespace=_told(given, environ, "namespace"),
        kubeconfig=_told(given, environ, "kubeconfig"),
        context=_told(given, environ, "context"),
        operator_namespace=_told(given, environ, "operator_namespace") or OPERATOR_NAMESPACE,
    )
    make: Callable[..., Command] = given["make"]
    names = getattr(make, "__dataclass_fields__", {})
    return where, make(**{name: given[name] for name in names if name in given})


def _told(given: Mapping[str, Any], environ: Mapping[str, str], name: str) -> str | None:
    told = given.get(name)
    if told is None:
        told = environ.get(f"KANDEV_{name.upper()}", "").strip()
    return str(told) if told else None


def build() -> argparse.ArgumentParser:
    """The parser with all its commands."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description=_ABOUT,
        epilog=_AFTER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kubectl-kandev {__version__}")
    _cluster_options(parser)
    adding = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=intermixed.Parser
    )
    _conversation(adding)
    _wishes(adding)
    _permissions(adding)
    shelloptions.add(_command(adding, *shelloptions.ABOUT))
    workspaceoptions.add(adding, _command, _cluster_options)
    _explaining(adding)
    return parser


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    for flags, metavar, about in (
        (("-n", "--namespace"), "NAME", "namespace of the session (default: the context's"),
        (("--kubeconfig",), "FILE", "kubeconfig to use (default: as kubectl"),
        (("--context",), "NAME", "context of the kubeconfig (default: the current one"),
        (
            ("--operator-namespace",),
            "NAME",
            f"where the operator keeps its signing key (default: {OPERATOR_NAMESPACE}",
        ),
    ):
        variable = "KANDEV_" + flags[-1].removeprefix("--").replace("-", "_").upper()
        # Suppressed, because the command's own copy would overwrite what stood before it.
        group.add_argument(
            *flags, metavar=metavar, default=argparse.SUPPRESS, help=f"{about}; {variable})"
        )


def _command(adding: Any, name: str, make: type, about: str, *examples: str) -> Any:
    parser = adding.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog="\n".join(["examples:", *(f"  {PROG} {each}" for each in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(make=make, usage=parser)
    _cluster_options(parser)
    if make not in (commands.Jwks, commands.Export):
        parser.add_argument("session", type=_session, metavar="SESSION", help="name of the session")
    return parser


def _conversation(adding: Any) -> None:
    prompt = _command(
        adding,
        "prompt",
        commands.Prompt,
        "give the agent a prompt and show its answer as it comes",
        'prompt demo "Make the tests pass"',
        "prompt demo - < plan.md > answer.md",
        'prompt demo --id nightly-42 --no-wait "Update the changelog"',
    )
    prompt.add_argument("text", metavar="TEXT", help="the prompt; `-` reads it from standard input")
    prompt.add_argument(
        "--id",
        dest="prompt_id",
        type=_prompt_id,
        metavar="ID",
        help="the prompt's identity: the same id is never given to the agent twice, so a command "
        "whose outcome is not known may be repeated with it (default: a new one)",
    )
    _waiting(prompt, "for the end of the turn", None)
    logs = _command(
        adding,
        "logs",
        commands.Logs,
        "show the conversation: who said what and when, and the tools that were used",
        "logs demo",
        "logs -f demo",
        "logs demo --since-seq 120 --json",
    )
    logs.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on with what comes, over restarts of agentctl, without losing or doubling any",
    )
    logs.add_argument(
        "--since-seq",
        type=_count,
        default=0,
        metavar="N",
        help="only what came after event N; --json shows the numbers (default: from the start)",
    )
    logs.add_argument(
        "--json", dest="as_json", action="store_true", help="one event a line, as JSON"
    )


def _wishes(adding: Any) -> None:
    resume = _command(
        adding,
        "resume",
        commands.Resume,
        "ask the operator to bring the agent back into its conversation, and tell the outcome",
        "resume demo",
        "resume demo --no-wait",
    )
    _waiting(resume, "for the outcome", 600.0)
    fresh = _command(
        adding,
        "fresh-start",
        commands.FreshStart,
        "give the conversation up and begin a new one in the same workspace",
        "fresh-start demo",
        "fresh-start demo --yes --timeout 120",
    )
    fresh.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="do not ask: the agent forgets this conversation, and a turn under way is cut off",
    )
    _waiting(fresh, "for the outcome", 600.0)


def _permissions(adding: Any) -> None:
    listed = _command(
        adding,
        "permissions",
        commands.Permissions,
        "list what the agent waits to be permitted",
        "permissions demo",
        "permissions demo --json",
    )
    listed.add_argument(
        "--json", dest="as_json", action="store_true", help="one request a line, as JSON"
    )
    allow = _command(
        adding,
        "allow",
        commands.Allow,
        "permit what the agent asks for",
        "allow demo 5f0c-p1",
        "allow demo 5f0c-p1 --option allow-always",
    )
    deny = _command(
        adding, "deny", commands.Deny, "refuse what the agent asks for", "deny demo 5f0c-p1"
    )
    for parser in (allow, deny):
        parser.add_argument(
            "permission_id", metavar="ID", help="the request, as `permissions` shows it"
        )
    allow.add_argument(
        "--option",
        metavar="OPTION",
        help="which of the agent's options to choose (default: the one that allows it once)",
    )
    _command(adding, "cancel", commands.Cancel, "cut off the turn that is under way", "cancel demo")


def _explaining(adding: Any) -> None:
    _command(
        adding,
        "why",
        commands.Why,
        "explain a session's status: what is, why, what the operator does next, what you can do",
        "why demo",
    )
    _command(
        adding,
        "jwks",
        commands.Jwks,
        "print the public keys that an agentctl on a machine of your own checks tokens with",
        "jwks > jwks.json",
        "jwks --operator-namespace kandev-system",
    )
    export = _command(
        adding,
        "export",
        commands.Export,
        "write the namespace's objects as YAML, ready to be applied where they are gone",
        "export -n team > backup.yaml",
        "export -n team --secrets > backup.yaml",
    )
    export.add_argument(
        "--secrets",
        action="store_true",
        help="with the Secrets and ConfigMaps that they name; keep the file as you keep these",
    )


def _waiting(parser: argparse.ArgumentParser, what: str, timeout: float | None) -> None:
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=f"wait {what} (default: yes)",
    )
    words = "no limit" if timeout is None else f"{timeout:g}"
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=timeout,
        metavar="SECONDS",
        help=f"how long to wait at most (default: {words})",
    )


def _session(text: str) -> str:
    kind, slash, name = text.rpartition("/")
    if slash and kind.lower() not in _PREFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a TaskSession")
    if not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{name!r} is not an object's name")
    return name


def _prompt_id(text: str) -> str:
    if not 1 <= len(text) <= _ID_LIMIT or not text.isprintable():
        raise argparse.ArgumentTypeError(f"an id is 1 to {_ID_LIMIT} printable characters")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return seconds
