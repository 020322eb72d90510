"""An agentctl process, for a test alone or shared, and the keys of its callers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.agentctl.harness import Keys, Sidecar
from integration.agentctl.workbench import Bench


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "jwks.json")


@pytest.fixture
def unstarted(tmp_path: Path, keys: Keys) -> Iterator[Sidecar]:
    sidecar = Sidecar(tmp_path, keys)
    yield sidecar
    sidecar.close()


@pytest.fixture
def own(unstarted: Sidecar) -> Sidecar:
    """A running agentctl for this test alone: it may be killed."""
    return unstarted.start()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("agentctl")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json"))
    sidecar.extra = [
        *("--initialize-seconds", "2"),
        *("--cancel-grace-seconds", "0.5"),
        *("--after-turn-seconds", "0.05"),
    ]
    yield sidecar.start()
    sidecar.close()


@pytest.fixture
def sidecar(running: Sidecar) -> Sidecar:
    """A running agentctl, shared, with a session of this test alone."""
    return running.fresh_session()


@pytest.fixture(scope="session")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("bench")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json"))
    home = folder / "home"
    home.mkdir()
    yield sidecar.start(env={"HOME": str(home), "XDG_CONFIG_HOME": str(home)})
    sidecar.close()


@pytest.fixture
def bench(benched: Sidecar) -> Bench:
    """A running agentctl, shared, with an empty workspace and no session at all."""
    for child in benched.workspace.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
    return Bench(benched)
