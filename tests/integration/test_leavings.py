"""A run of pytest leaves nothing in the temporary folder, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
INSIDE = """
import os, pathlib, subprocess, sys, tempfile, time

def test_one(tmp_path, tmp_path_factory):
    (tmp_path / "file").write_text("x")
    tmp_path_factory.mktemp("scene")
    tempfile.mkstemp()
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"], check=True)
    pathlib.Path(os.environ["READY"]).touch()
    {end}
"""


def begin(folder: Path, end: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run with our conftest on one test, with a temporary folder of its own."""
    tests, temporary = folder / "tests", folder / "tmp"
    (tests / "unit").mkdir(parents=True)
    temporary.mkdir()
    code = CONFTEST.read_text().replace('pytest_plugins = ["cluster.plugin"]', "")
    (tests / "conftest.py").write_text(code)
    (tests / "unit" / "test_it.py").write_text(INSIDE.format(end=end))
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "READY": str(folder / "ready"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tests), "-W", "ignore", str(tests)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=tests,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A run in the background may have been told to ignore it; this one is to hear it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    return process, temporary


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("assert 0", 1)])
def test_nothing_is_left_by_a_run(tmp_path: Path, end: str, code: int) -> None:
    process, temporary = begin(tmp_path, end)
    assert process.wait(60) == code
    assert (tmp_path / "ready").exists()
    assert [*temporary.iterdir()] == []


def test_nothing_is_left_by_a_run_that_is_interrupted(tmp_path: Path) -> None:
    process, temporary = begin(tmp_path, "time.sleep(100)")
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert [*temporary.iterdir()], "it is in the middle of it"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 2
    assert [*temporary.iterdir()] == []
