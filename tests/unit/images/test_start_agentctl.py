"""The beginning of the self-contained agentctl: a clean environment, and a copy that is whole."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def start() -> ModuleType:
    path = REPOSITORY / "operator/images/start_agentctl.py"
    spec = importlib.util.spec_from_file_location("start_agentctl", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "from/agentctl"
    (folder / "_internal").mkdir(parents=True)
    (folder / "kandev-agentctl").write_text("build one")
    (folder / "_internal/libc.so.6").write_text("library")
    return folder


def test_what_was_set_for_this_process_alone_is_taken_out(start: ModuleType) -> None:
    environ = {"LD_LIBRARY_PATH": "/kandev/_internal", "_PYI_ARCHIVE_FILE": "x", "HOME": "/h"}
    start.clear(environ)
    assert environ == {"HOME": "/h"}


def test_a_library_path_of_the_image_comes_back(start: ModuleType) -> None:
    environ = {"LD_LIBRARY_PATH": "/kandev/_internal", "LD_LIBRARY_PATH_ORIG": "/opt/theirs"}
    start.clear(environ)
    assert environ == {"LD_LIBRARY_PATH": "/opt/theirs"}


def test_an_installed_folder_is_whole_and_alone(
    start: ModuleType, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "to"
    target.mkdir()
    start.install(source, target)
    assert [entry.name for entry in target.iterdir()] == ["agentctl"]
    assert (target / "agentctl/_internal/libc.so.6").read_text() == "library"


def test_the_same_build_is_left_alone_and_another_one_replaces_it(
    start: ModuleType, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "to"
    target.mkdir()
    start.install(source, target)
    before = os.stat(target / "agentctl").st_ino
    start.install(source, target)
    assert os.stat(target / "agentctl").st_ino == before
    (source / "kandev-agentctl").write_text("build two")
    start.install(source, target)
    assert (target / "agentctl/kandev-agentctl").read_text() == "build two"
    assert [entry.name for entry in target.iterdir()] == ["agentctl"]
