"""From the command line and the environment to each option's value: parsing, and refusing.

Which options there are, `options` says; what they mean together, `settings`.
"""

import argparse
import re
from collections.abc import Mapping
from typing import Any

from kandev_operator import __version__
from kandev_operator.controller.options import OPTIONS, Option, is_flag


def parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Build the program's parser and that of its one command, which all errors are told by."""
    parser = argparse.ArgumentParser(
        prog="kandev-operator",
        description="Keeps coding agents' sessions alive as Kubernetes objects.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="run")
    run = commands.add_parser(
        "run",
        help="run the operator until it is told to stop",
        description="Runs the operator. Every option may also be given as an environment "
        "variable, lists separated by commas; the option wins.",
        allow_abbrev=False,
    )
    for option in OPTIONS:
        words = option.default_words or ("off" if option.default is False else option.default)
        about = f"{option.help} (default: {words}; {option.variable})".replace("%", "%%")
        # Texts are checked in `value_of`, so that an option and its variable are refused alike.
        if is_flag(option):
            run.add_argument(option.flag, action="store_const", const="true", help=about)
        elif option.many:
            run.add_argument(
                option.flag, action="extend", nargs="+", metavar=option.metavar, help=about
            )
        else:
            run.add_argument(option.flag, metavar=option.metavar, help=about)
    return parser, run


def value_of(
    option: Option,
    given: Mapping[str, Any],
    environ: Mapping[str, str],
    run: argparse.ArgumentParser,
) -> Any:
    """One option's value: as given, else from the environment, else the default."""
    source, text = option.flag, given[option.dest]
    if text is None:
        source, text = option.variable, environ.get(option.variable, "").strip() or None
    if text is None:
        return option.default
    try:
        if option.many:
            texts = re.split(r"[,\s]+", text.strip(", ")) if isinstance(text, str) else text
            return tuple(dict.fromkeys(option.read(one) for one in texts))
        return option.read(text)
    except ValueError as problem:
        run.error(f"{source}: {problem}")
