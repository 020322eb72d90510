"""What a shell sees of its surroundings: the agent's HOME and paths, and nothing of agentctl's own.

The base is the one that the agent gets (`process.environment`). The agent profile's variables,
which may be secrets, come along only where the caller asks; what the caller names itself wins over
them. Two marks stay: by them the shell's processes are found when it ends (`orphans`).
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kandev_operator.agentctl.orphans import SHELL_MARK, STATE_MARK
from kandev_operator.agentctl.process import environment
from kandev_operator.contract.shell import ShellRequest

TERM: Final = "xterm-256color"
LANG: Final = "C.UTF-8"
_LOCALES: Final = ("LC_ALL", "LC_CTYPE", "LANG")
_NO_SHELLS: Final = frozenset({"nologin", "false", "sync"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where shells live: the workspace, the agent's HOME, and what its profile says."""

    cwd: str
    home: Path
    profile: Mapping[str, str]


def shell_environment(
    own: Mapping[str, str],
    around: Surroundings,
    request: ShellRequest,
    marks: tuple[str, str],
    program: str,
) -> dict[str, str]:
    """The environment of a new shell; `marks` are the state folder and the shell's id."""
    told = dict(around.profile) if request.profile_env else {}
    home = Path(around.profile.get("HOME") or around.home)
    told = {"TERM": TERM, "SHELL": program, "PWD": around.cwd, **told, **request.env}
    if not any(name in told or name in own for name in _LOCALES):
        told["LANG"] = LANG
    state, shell_id = marks
    return environment(own, told, home, {STATE_MARK: state, SHELL_MARK: shell_id})


def default_shell() -> str:
    """The user's own shell, as the system knows it; sh where that is none for people."""
    try:
        found = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        found = ""
    if os.path.basename(found) not in _NO_SHELLS and os.access(found, os.X_OK):
        return found
    return next((path for path in ("/bin/bash", "/bin/sh") if os.access(path, os.X_OK)), "sh")
