"""Where the self-contained agentctl begins, before any of its modules is loaded.

`install FOLDER` puts the folder that this program lies in below FOLDER, as an init container does
for the containers beside it. Anything else is agentctl's own command line. Before either, what
PyInstaller set in the environment for this one process is taken out: a program that is started
from here, an agent above all, must find the libraries of its own image and not ours.
"""

import filecmp
import os
import shutil
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path


def clear(environ: MutableMapping[str, str]) -> None:
    """Take PyInstaller's marks and its library path out, and bring back a path that was hidden."""
    for name in [name for name in environ if name.startswith("_PYI_")]:
        del environ[name]
    hidden = environ.pop("LD_LIBRARY_PATH_ORIG", None)
    environ.pop("LD_LIBRARY_PATH", None)
    if hidden is not None:
        environ["LD_LIBRARY_PATH"] = hidden


def install(source: Path, folder: Path) -> None:
    """Put a copy of `source` into `folder` under its own name: whole, or not at all.

    A copy of the same build that is there already is left alone, since it may be running.
    """
    target = folder / source.name
    program = "kandev-agentctl"
    if (target / program).exists() and filecmp.cmp(
        source / program, target / program, shallow=False
    ):
        return
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as unfinished:
        copy = Path(unfinished, "new")
        shutil.copytree(source, copy, symlinks=True)
        if target.exists():
            target.rename(Path(unfinished, "old"))
        copy.rename(target)


def main() -> None:
    clear(os.environ)
    match sys.argv[1:]:
        case ["install", folder]:
            try:
                install(Path(sys.executable).parent, Path(folder))
            except OSError as error:
                sys.exit(f"kandev-agentctl: cannot be installed into {folder}: {error}")
        case _:
            from kandev_operator.agentctl.__main__ import main as agentctl

            agentctl()


if __name__ == "__main__":
    main()
