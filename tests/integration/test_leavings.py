"""A run of pytest leaves nothing in the temporary folder, however it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ONE: list[str] = []
MORE = ["-p", "xdist.plugin", "-p", "xdist.looponfail", "-n", "2"]
processes = pytest.mark.parametrize("options", [ONE, MORE], ids=["one-process", "more"])
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


def begin(folder: Path, end: str, options: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run with our conftest on one test, with a temporary folder of its own."""
    tests, temporary = folder / "tests", folder / "tmp"
    (tests / "unit").mkdir(parents=True)
    temporary.mkdir()
    plugins = 'pytest_plugins = ["lanes"]'
    code, count = re.subn(
        "^pytest_plugins = .*", plugins, (TESTS / "conftest.py").read_text(), flags=re.M
    )
    assert count == 1
    (tests / "conftest.py").write_text(code)
    (tests / "unit" / "test_it.py").write_text(INSIDE.format(end=end))
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "READY": str(folder / "ready"),
        "PYTHONPATH": str(TESTS),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    quiet = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tests), "-W", "ignore", str(tests)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *quiet, *options],
        cwd=tests,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A run in the background may have been told to ignore it; this one is to hear it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    return process, temporary


@processes
@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("assert 0", 1)])
def test_nothing_is_left_by_a_run(tmp_path: Path, end: str, code: int, options: list[str]) -> None:
    process, temporary = begin(tmp_path, end, options)
    assert process.wait(60) == code
    assert (tmp_path / "ready").exists()
    assert [*temporary.iterdir()] == []


@processes
def test_nothing_is_left_by_a_run_that_is_interrupted(tmp_path: Path, options: list[str]) -> None:
    process, temporary = begin(tmp_path, "time.sleep(100)", options)
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert [*temporary.iterdir()], "it is in the middle of it"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(60) == 2
    assert [*temporary.iterdir()] == []
