"""The options of `kubectl kandev files` and `kubectl kandev git`, commands in two words each.

Standard library only, as all of the command line. Paths are relative to the workspace.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final

from kandev_operator.cli import commands

Add = Callable[..., Any]
"""Makes the parser of one command: (where, name, value, about, *examples)."""
_MOST_COMMITS: Final = 200
_MOST_LEVELS: Final = 20


def add(adding: Any, command: Add, everywhere: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add both."""
    about = "list, fetch and write files of the workspace"
    examples = ("files ls demo src", "files get demo README.md", "files put demo notes.md notes.md")
    parser = _group(adding, "files", about, examples)
    everywhere(parser)
    _files(_under(parser), command)
    about = "look at the workspace's repository"
    examples = ("git status demo", "git diff demo --staged", "git log demo -l 3")
    parser = _group(adding, "git", about, examples)
    everywhere(parser)
    _git(_under(parser), command)


def _group(adding: Any, name: str, about: str, examples: Sequence[str]) -> Any:
    return adding.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}; no agent is needed.",
        epilog="\n".join(["examples:", *(f"  kubectl kandev {each}" for each in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _under(parser: argparse.ArgumentParser) -> Any:
    return parser.add_subparsers(dest="what", required=True, metavar="COMMAND")


def _files(adding: Any, command: Add) -> None:
    listing = command(
        adding,
        "ls",
        commands.FilesLs,
        "list a folder, without what git ignores",
        "files ls demo",
        "files ls demo src --depth 3",
    )
    listing.add_argument("path", nargs="?", default="", metavar="PATH", help="folder to list")
    listing.add_argument(
        "--depth", type=_number(_MOST_LEVELS), default=1, metavar="N", help="levels (default: 1)"
    )
    listing.add_argument(
        "-a", "--all", dest="everything", action="store_true", help="with what git ignores"
    )
    listing.add_argument(
        "--json", dest="as_json", action="store_true", help="one entry a line, as JSON"
    )
    fetching = command(
        adding,
        "get",
        commands.FilesGet,
        "fetch a file",
        "files get demo README.md",
        "files get demo build/app.tar -o app.tar",
    )
    fetching.add_argument("path", metavar="PATH", help="file to fetch")
    fetching.add_argument(
        *("-o", "--output"), default="-", metavar="FILE", help="where to (default: standard output)"
    )
    writing = command(
        adding,
        "put",
        commands.FilesPut,
        "write a file, as a whole",
        "files put demo notes.md notes.md",
        "files put demo notes.md --overwrite < notes.md",
    )
    writing.add_argument("path", metavar="PATH", help="file to write")
    writing.add_argument(
        "source", nargs="?", default="-", metavar="FILE", help="from (default: standard input)"
    )
    writing.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def _git(adding: Any, command: Add) -> None:
    status = command(adding, "status", commands.GitStatus, "show what differs", "git status demo")
    status.add_argument("--json", dest="as_json", action="store_true", help="the answer as JSON")
    diff = command(
        adding,
        "diff",
        commands.GitDiff,
        "show the differences",
        "git diff demo",
        "git diff demo src/main.py --base HEAD~3",
    )
    diff.add_argument("--staged", action="store_true", help="what is staged")
    diff.add_argument("--base", metavar="COMMIT", help="compare with this commit")
    log = command(
        adding, "log", commands.GitLog, "show the history", "git log demo", "git log demo -l 3"
    )
    log.add_argument(
        *("-l", "--limit"),
        type=_number(_MOST_COMMITS),
        default=20,
        metavar="N",
        help="commits at most (default: 20)",
    )
    log.add_argument("--ref", metavar="REF", help="where to begin (default: HEAD)")
    for parser in (diff, log):
        parser.add_argument("path", nargs="?", default="", metavar="PATH", help="only this path")
    for parser in (status, diff, log):
        parser.add_argument(
            "--repo", default="", metavar="FOLDER", help="folder of another repository inside"
        )


def _number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return read
