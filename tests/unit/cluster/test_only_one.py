"""Of several processes that come with an empty cache, one makes what is missing."""

import fcntl
from pathlib import Path

import pytest

from cluster import build


def test_what_one_process_does_no_other_does_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock = build.cache_folder() / "prepare.lock"
    with (
        build.only_one("prepare"),
        build.only_one("something else"),
        lock.open() as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_place_is_free_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ZeroDivisionError), build.only_one("prepare"):
        raise ZeroDivisionError
    with (build.cache_folder() / "prepare.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
