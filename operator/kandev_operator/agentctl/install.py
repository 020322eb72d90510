"""`kandev-agentctl install`: put agentctl into a volume that a pod's containers share.

Run from the agentctl image before the agent's container starts, so that any image with the agent
in it will do. What is copied is the folder that this very program runs from; where it runs from
source, a small starter is written instead. It may be run again: a folder that is whole is left
alone. Beside it lies git's configuration for uids that no image knows, and the workspace's folders
are made.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = "agentctl"
PROGRAM: Final = "kandev-agentctl"
WHOLE: Final = ".whole"
GIT_CONFIG: Final = """\
[include]
\tpath = /etc/gitconfig
[safe]
\tdirectory = *
[user]
\tname = kandev agent
\temail = agent@kandev.invalid
[advice]
\tdetachedHead = false
"""


def install(target: Path, workspace: Path) -> None:
    """Fill the target folder, and make the workspace. Raises OSError with what is wrong."""
    workspace.mkdir(parents=True, exist_ok=True)
    place = target / FOLDER
    if not (place / WHOLE).exists():
        part = target / f".{FOLDER}.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        if getattr(sys, "frozen", False):
            shutil.copytree(Path(sys.executable).resolve().parent, part, symlinks=True)
        else:
            part.mkdir(parents=True)
            _write_starter(part / PROGRAM)
        (part / WHOLE).touch()
        part.rename(place)
    (target / "gitconfig").write_text(GIT_CONFIG)


def _write_starter(path: Path) -> None:
    source = Path(__file__).resolve().parents[2]
    python = shlex.quote(sys.executable)
    run = f'exec {python} -m kandev_operator.agentctl "$@"'
    path.write_text(f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(source))}\n{run}\n")
    os.chmod(path, 0o755)
