"""What the scripted agent can be told on its command line: its misbehaviours, one option each.

It answers which option means what, and is the whole list: `--help` prints it. It refuses to do
any of it. Options may also come from a file that is read at every start (--options), so that
an agent changes its manners between two processes while its command stays the same.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

STAGES = ("initialize", "new", "load", "resume", "prompt")
CHOICES = ("set_mode", "set_config_option")

FLAGS = {
    "no-load": "does not declare or know session/load",
    "no-resume": "does not declare or know session/resume",
    "no-list": "does not declare or know session/list",
    "auth-required": "answers -32000 to all work until `authenticate` was called",
    "forget": "loses its memory: wipes its store at every start",
    "save-new": "stores a session at session/new, before any turn (default: after the first turn)",
    "save-prompt": "stores the prompt when it comes, so that a killed turn leaves its question",
    "one-writer": "locks an open session: -32600 to a second process that wants the same one",
    "replay-on-resume": "replays the history on session/resume, too, which it must not",
    "replay-after-answer": "answers session/load first and replays afterwards",
    "permission-then-hang": "asks a permission in every turn, and the turn never ends",
    "garbage": "puts lines that are no JSON in front of everything it says",
    "garbage-json": "puts lines that are JSON but no objects in front of everything it says",
    "ignore-term": "ignores SIGTERM",
    "ignore-eof": "lives on after its stdin was closed",
    "escape-child": "starts a child in a session of its own, which lives on (ten minutes at most)",
    "child-keeps-stdout": "with --escape-child: the child holds stdout and stderr open",
    "modes": "offers the modes build and plan",
    "config": "offers the options effort (low, high) and web (on or off)",
    "models": "offers the models small and large, in the older way (session/set_model)",
    "usage": "reports token counts, as an update and with every answer",
}

SECONDS = {
    "slow-start": (0.0, "time before initialize is answered"),
    "tick": (0.2, "time before each chunk of `slow N`"),
    "word-delay": (0.0, "time before each word of an answer"),
    "save-delay": (0.0, "time between the answer to a prompt and its reaching the disk"),
    "late-end": (0.0, "time by which the end of a cancelled turn is late; prompts do not wait"),
}

COUNTS = {
    "protocol-version": (1, "the version in the answer to initialize"),
    "page-size": (50, "sessions in one page of session/list"),
    "big-line": (0, "bytes of one huge chunk at the start of every turn, all in one line"),
    "replay-size": (0, "bytes by which each message of --replay-count is longer"),
}


def read(argv: list[str]) -> argparse.Namespace:
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.options and Path(options.options).exists():
        # Bytes: line ends inside of a quoted text are to stay what they are.
        more = shlex.split(Path(options.options).read_bytes().decode(), comments=True)
        options = parser.parse_args(argv + more)
    return options


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acp_agent.py",
        description="A scripted ACP agent on stdin and stdout, with a memory under "
        "$HOME/.acp-agent. It keeps every promise of the protocol but those taken back here.",
        allow_abbrev=False,
    )
    for name, words in FLAGS.items():
        parser.add_argument(f"--{name}", action="store_true", help=words)
    for name, (default, words) in SECONDS.items():
        words = f"{words} (seconds; default {default:g})"
        parser.add_argument(f"--{name}", type=float, default=default, metavar="S", help=words)
    for name, (count, words) in COUNTS.items():
        words = f"{words} (default {count})"
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=words)
    add = parser.add_argument
    add("--exit-at", choices=STAGES + CHOICES, help="the process ends there, with exit code 3")
    add("--hang-at", choices=STAGES + CHOICES, help="that request is never answered")
    add(
        "--load-error",
        metavar="CODE[:MESSAGE[:DETAILS]]",
        help="answers session/load and session/resume with this error; {id} is the session's id",
    )
    add(
        "--takes",
        metavar="KINDS",
        default="",
        help="declares what prompts may hold beside text: image, audio, embeddedContext; and "
        "which MCP servers it reaches beside commands: http, sse (comma between them)",
    )
    add(
        "--setting-error",
        metavar="CODE[:MESSAGE]",
        help="refuses every choice of a mode, option or model with this error",
    )
    add("--name", default="acp-agent", help="its name, as it tells it itself")
    add("--new-id", metavar="ID", help="the id of every new session, whatever characters it has")
    add("--resume-id", metavar="ID", help="load and resume answer this new, empty session instead")
    add("--change-id", metavar="ID", help="stores sessions under this id, told in an update only")
    add("--replay-count", type=int, metavar="N", help="load replays N made-up messages instead")
    add(
        "--busy",
        choices=("queue", "cancel", "fail", "swallow"),
        default="queue",
        help="what a second prompt meets: it waits, it cancels the first, it fails the first, "
        "or it is answered at once without a word (default queue)",
    )
    add("--stderr", metavar="TEXT", help="prints TEXT on stderr at every start")
    add("--log", metavar="FILE", help="appends all that is heard, and start and end, as JSON lines")
    add(
        "--options", metavar="FILE", help="more options, read from FILE at every start if it exists"
    )
    return parser
