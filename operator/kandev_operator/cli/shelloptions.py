"""The options of `kubectl kandev shell`, and how the keys that detach are written.

Standard library only, as all of the command line. Keys are written as people know them from other
tools: `ctrl-],d` is Ctrl-] and then d.
"""

import argparse
import re
from typing import Final

from kandev_operator.cli import commands

DETACH_KEYS: Final = "ctrl-],d"
ABOUT: Final = (
    "shell",
    commands.Shell,
    "open a terminal in the session's workspace, or come back to it; no agent is needed",
    "shell demo",
    "shell demo --name tests -- make test",
    "shell demo --list",
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CONTROL: Final = re.compile(r"ctrl-([a-z@\[\\\]^_])", re.IGNORECASE)


def add(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--name",
        type=_shell_name,
        default="main",
        metavar="SHELL",
        help="which of the workspace's shells; it is made if it does not run (default: main)",
    )
    parser.add_argument(
        "--view",
        dest="view_only",
        action="store_true",
        help="only look: what is typed here goes nowhere, and the window's size does not count",
    )
    parser.add_argument(
        "--detach-keys",
        type=detach_keys,
        default=DETACH_KEYS,
        metavar="KEYS",
        help="what to press to leave it running, with commas between (default: "
        f"{DETACH_KEYS.replace('%', '%%')})",
    )
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument(
        "--list", dest="listing", action="store_true", help="say which shells there are"
    )
    doing.add_argument("--close", action="store_true", help="end the shell and whatever it started")
    parser.add_argument(
        "words",
        nargs="*",
        default=(),
        metavar="COMMAND",
        help="what to run in a new shell, after -- (default: the user's own shell)",
    )


def detach_keys(text: str) -> bytes:
    """The bytes that a terminal sends for these keys."""
    keys = bytearray()
    for key in text.split(","):
        if found := _CONTROL.fullmatch(key):
            keys.append(ord(found[1].upper()) & 0x1F)
        elif len(key) == 1 and key.isascii() and key.isprintable():
            keys += key.encode()
        else:
            raise argparse.ArgumentTypeError(
                f"{key!r} is no key: write ctrl-a to ctrl-z, ctrl-], or one character"
            )
    return bytes(keys)


def _shell_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shell's name")
    return text
