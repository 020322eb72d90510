"""`make demo RUNTIME=pod` as a user plays it: to its end, and stopped on the way. Nothing is left.

The demo starts a node of its own, so the run's node is away meanwhile.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.images import agents, product
from cluster.node import Node
from cluster.node.footprint import Footprint

pytestmark = pytest.mark.timeout(900, func_only=True)

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 400.0
FOLDERS = re.compile(r"/\S*/kandev-(?:demo|node)-\w+")
# These go on until somebody ends them.
ENDLESS = ("--watch", "logs -f", "kandev shell")


class Demo:
    """The demo as a process group of its own, as a shell would start it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._output = folder / "output"
        inherited = {k: v for k, v in os.environ.items() if k not in ("AGENT", "CI")}
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "demo"],
                env={**inherited, "RUNTIME": "pod", "PYTHONPATH": str(TESTS), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def says(self, text: str) -> None:
        """Wait until it has said so."""
        self._until(lambda: text in self.said or self.process.poll() is not None, text)
        assert text in self.said, self.said

    def ends(self) -> int:
        self._until(lambda: self.process.poll() is not None, "its end")
        return int(self.process.returncode)

    def interrupt(self) -> None:
        """Ctrl-C reaches the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def leaves_nothing(self, before: Footprint) -> None:
        assert Footprint.now().beyond(before) == []
        folders = set(FOLDERS.findall(self.said))
        assert folders, self.said
        for folder in folders:
            assert not Path(folder).exists()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"no {what!r}:\n{self.said}"
            time.sleep(0.1)


@pytest.fixture
def play(before: Footprint, tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    """Start the demo. What it builds once is built before: here the play counts."""
    Node().prepare()
    product.agentctl()
    agents.scripted()
    started: list[Demo] = []

    def start(**environment: str) -> Demo:
        started.append(Demo(tmp_path, **environment))
        return started[-1]

    yield start
    for demo in started:
        demo.close()


def test_the_pod_demo_plays_to_its_end_and_leaves_nothing(
    play: Callable[..., Demo], before: Footprint
) -> None:
    demo = play(CI="1")
    assert demo.ends() == 0, demo.said
    assert demo.said.count("it remembers: kiwi-") == 2
    assert "0 resume calls" in demo.said
    assert "on the same volume" in demo.said
    demo.leaves_nothing(before)


def test_the_pod_demo_stays_until_ctrl_c_and_its_commands_work(
    play: Callable[..., Demo], before: Footprint
) -> None:
    demo = play()
    demo.says("Ctrl-C ends it")
    _, _, tips = demo.said.partition("Try it yourself\n")
    lines = [line.strip() for line in tips.partition("\n\n")[0].splitlines()]
    shown = [line for line in lines if not any(word in line for word in ENDLESS)]
    assert len(shown) >= 8, lines
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(shown)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WAITING_FOR_INPUT" in done.stdout
    assert "kiwi-" in done.stdout, "the prompt was answered"
    assert demo.process.poll() is None, "it stays"
    demo.interrupt()
    assert demo.ends() == 0, demo.said
    demo.leaves_nothing(before)


def test_the_pod_demo_stopped_while_its_pod_starts_leaves_nothing(
    play: Callable[..., Demo], before: Footprint
) -> None:
    demo = play()
    demo.says("A person applies a TaskSession")
    demo.says("STARTING")
    demo.interrupt()
    assert demo.ends() == 0, demo.said
    assert "Stopping." in demo.said
    demo.leaves_nothing(before)
