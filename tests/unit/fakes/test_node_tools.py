"""The agents' cache: a folder is there whole or not at all, and made once."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from fakes import node_tools
from fakes.node_tools import InstallError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kandev-operator" / "agents"


def test_many_who_ask_at_once_wait_for_one_who_brings(cache: Path) -> None:
    brought: list[Path] = []

    def bring(folder: Path) -> None:
        assert not (cache / "thing-1").exists()
        brought.append(folder)
        time.sleep(0.05)
        (folder / "file").write_text("whole")

    def ask() -> None:
        assert (node_tools.cached("thing-1", bring) / "file").read_text() == "whole"

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(brought) == 1


def test_a_failure_leaves_nothing_behind_and_says_why(cache: Path) -> None:
    def bring(folder: Path) -> None:
        (folder / "half").write_text("")
        node_tools.run(sys.executable, "-c", "raise SystemExit('no such package')")

    with pytest.raises(InstallError, match="no such package"):
        node_tools.cached("thing-1", bring)
    assert [path.name for path in cache.iterdir()] == ["thing-1.lock"]


def test_what_a_killed_one_left_is_not_taken_for_whole(cache: Path) -> None:
    (cache / "thing-1.part").mkdir(parents=True)
    (cache / "thing-1.part" / "half").write_text("")
    found = node_tools.cached("thing-1", lambda folder: None)
    assert list(found.iterdir()) == []


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(InstallError, match="no-such-program"):
        node_tools.run("no-such-program")
    assert node_tools.major_version("no-such-program") == 0
