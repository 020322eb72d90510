"""Which executors and sessions have their files in one folder, however it is spelled."""

from pathlib import Path
from typing import Any

import pytest

from kandev_operator.api import group
from kandev_operator.controller.cache import Cache


def executor(name: str, path: str) -> tuple[str, dict[str, Any]]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    return group.EXECUTOR, {
        "metadata": meta,
        "spec": {"localStandalone": {"worktreePath": path}},
    }


def session(name: str, path: str, kind: str = "Executor") -> tuple[str, dict[str, Any]]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    status = {"worktree": {"path": path}, "workspaceRef": {"kind": kind, "name": "x"}}
    return group.TASK_SESSION, {"metadata": meta, "spec": {}, "status": status}


@pytest.fixture
def cache() -> Cache:
    return Cache(lambda _change: None)


def test_executors_and_sessions_are_told_apart(cache: Cache, tmp_path: Path) -> None:
    mine, inside, other = tmp_path / "mine", tmp_path / "mine" / "inside", tmp_path / "mine-too"
    inside.mkdir(parents=True)
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to(mine)
    for each in (
        executor("e", str(mine)),
        session("by-link", str(link)),
        session("inside", f"{inside}/"),
        session("elsewhere", str(other)),
        session("in-a-pod", str(mine), kind="PersistentVolumeClaim"),
    ):
        cache.put(*each)
    assert [name for _, _, name in cache.sharing(str(mine))] == ["e"]
    assert [name for _, _, name in cache.keeping(str(mine))] == ["by-link", "inside"]
    assert [name for _, _, name in cache.keeping(str(inside))] == ["by-link", "inside"]
    cache.drop(group.TASK_SESSION, "ns", "by-link")
    assert [name for _, _, name in cache.keeping(str(mine))] == ["inside"]
