"""`make demo` as a user plays it: it ends well by itself, and nothing of it is left behind.

Where pods would run is looked for here too; that they do run is `e2e/test_demo.py`'s business.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.interface import Cluster
from cluster.node import packages
from demo import podground
from demo.show import Broken

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


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A machine with programs that note what they were told, and a user."""
    said = tmp_path / "said"

    def make(*, user: int, missing: tuple[str, ...] = (), **programs: str) -> Path:
        monkeypatch.delenv("KANDEV_KUBECONFIG", raising=False)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if programs else str(tmp_path))
        monkeypatch.setattr(os, "geteuid", lambda: user)
        monkeypatch.setattr(packages, "missing_packages", lambda: list(missing))
        for name, line in programs.items():
            program = tmp_path / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" >> {said}\n{line}\n')
            program.chmod(0o755)
        return said

    return make


def test_where_no_pod_can_run_both_ways_out_are_named(machine: Callable[..., Path]) -> None:
    machine(user=1000)
    with pytest.raises(Broken, match=r"Docker engine(?s:.)*sudo make demo RUNTIME=pod"):
        podground.find()


def test_an_engine_without_kind_asks_for_kind(machine: Callable[..., Path]) -> None:
    machine(user=1000, docker="echo 29.0.1")
    with pytest.raises(Broken, match="install kind"):
        podground.find()


def test_root_without_a_way_to_install_is_told_what(machine: Callable[..., Path]) -> None:
    machine(user=0, missing=("containerd", "runc"))
    with pytest.raises(Broken, match="containerd runc"):
        podground.find()


def test_root_gets_the_real_node_where_no_engine_answers(machine: Callable[..., Path]) -> None:
    machine(user=0, docker="exit 1", kind="exit 0")
    assert isinstance(podground.find(), podground.NodeGround)


def test_in_docker_the_images_are_built_and_loaded_into_kind(machine: Callable[..., Path]) -> None:
    said = machine(user=1000, docker="echo 29.0.1", kind="exit 0", kubectl="exit 0")
    ground = podground.find()
    with ground.cluster:
        names = ground.bring_images(lambda _: None)
    calls = [line.split() for line in said.read_text().splitlines()]
    built = {words[words.index("--tag") + 1]: words for words in calls if words[1] == "build"}
    assert set(built) == set(names)
    for words in built.values():
        dockerfile, context = Path(words[words.index("--file") + 1]), Path(words[-1])
        copied = [
            line.split()[1]
            for line in dockerfile.read_text().splitlines()
            if line.startswith("COPY ") and "--from" not in line
        ]
        assert copied
        assert all((context / each).exists() for each in copied)
    (loaded,) = [words for words in calls if words[:2] == ["kind", "load"]]
    assert loaded[2:5] == ["docker-image", *names]
    assert calls[-1][:3] == ["kind", "delete", "cluster"]


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
