"""What every ring shares: the control plane's fixtures, a marker for each folder, and one folder
for all that a run writes, which goes with it."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["cluster.plugin", "lanes"]

_HERE = Path(__file__).parent

# pytest-asyncio asks for the loop that was set before its own, and where none ever was, asyncio
# makes one that nobody closes: a warning, so an error, if a test without a loop ran first.
asyncio.set_event_loop(None)

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile(
    "untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


_folder = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Everything temporary goes into one folder, that of children too: what a process leaves that
    is killed, or a real agent unpacks, is nobody else's to find. `--basetemp=FOLDER` keeps the
    tests' own folders."""
    # Short: paths of sockets lie in it, and may have 107 characters.
    if hasattr(config, "workerinput"):
        # One of several processes: in the run's folder, whose owner named a place for the tests'.
        run = os.environ["TMPDIR"]
        folder = Path(run, config.workerinput["workerid"].removeprefix("gw"))
        folder.mkdir()
        is_ours = Path(config.option.basetemp).is_relative_to(run)
    else:
        folder = Path(tempfile.mkdtemp(prefix="k-"))
        is_ours = config.option.basetemp is None
    config.stash[_folder] = folder
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    if is_ours:
        config.option.basetemp = str(folder / "t")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Also after a failure, and after Ctrl-C."""
    folder = config.stash.get(_folder, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its ring, so that `-m unit` and the like work."""
    for item in items:
        ring = item.path.relative_to(_HERE).parts[0]
        if ring in ("unit", "integration", "e2e", "ui"):
            item.add_marker(ring)
