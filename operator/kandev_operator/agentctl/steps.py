"""The steps that make a pod ready: their command lines, and their end in words and exit code.

What goes wrong is said on stderr in one line, which the kubelet keeps as the container's last
words: so it reaches the session's status.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kandev_operator.agentctl.install import install
from kandev_operator.agentctl.prepare import PrepareFailed, prepare
from kandev_operator.agentctl.settings import steps_help

EXIT_FAILED: Final = 1


def parser() -> argparse.ArgumentParser:
    """The command line of both steps."""
    top = argparse.ArgumentParser(prog="kandev-agentctl")
    commands = top.add_subparsers(dest="command", required=True)
    words = steps_help()
    installing = commands.add_parser("install", help=words["install"])
    installing.add_argument("to", type=Path, help="folder to put it into")
    preparing = commands.add_parser("prepare", help=words["prepare"])
    preparing.add_argument("--plan", type=json.loads, required=True, help="repositories, as JSON")
    for each in (installing, preparing):
        each.add_argument("--workspace", type=Path, required=True, help="folder to work in")
    return top


def main(argv: Sequence[str]) -> int:
    """Do one step; gives the exit code."""
    told = parser().parse_args(argv)
    try:
        if told.command == "install":
            install(told.to, told.workspace)
        else:
            prepare(told.workspace, told.plan)
    except (PrepareFailed, OSError) as error:
        print(f"{told.command}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0
