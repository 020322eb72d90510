"""A backup as a person makes one: the plugin's command, and the file that it writes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from stage.sessions import Namespace

SCRIPT: Final = Path(sys.executable).with_name("kubectl-kandev")


def export(place: Namespace, *options: str) -> str:
    """The objects of a namespace, as YAML. What it says beside it names the volumes."""
    done = subprocess.run(
        [SCRIPT, "export", "-n", place.name, *options],
        env={**os.environ, "KUBECONFIG": str(place.cluster.kubeconfig), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert "Back up beside it" in done.stderr
    return done.stdout
