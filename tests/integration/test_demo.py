"""`make demo` as a user plays it: it ends well by itself, and nothing of it is left behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.interface import Cluster

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(300)
def test_the_demo_plays_to_its_end_and_cleans_up(control_plane: Cluster) -> None:
    # The fixture is asked for so that the control plane's binary is there: here the play counts.
    environment = {**os.environ, "CI": "1", "PYTHONPATH": str(TESTS)}
    environment.pop("AGENT", None)
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("it remembers: kiwi-") == 2
    assert "0 resume calls" in done.stdout
    folders = set(re.findall(r"/\S*/kandev-(?:demo|control-plane)-\w+", done.stdout))
    assert len(folders) == 2, folders
    for folder in folders:
        assert not Path(folder).exists()
        assert not _processes_naming(folder)


def _processes_naming(text: str) -> list[str]:
    """Command lines of living processes that name this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found
