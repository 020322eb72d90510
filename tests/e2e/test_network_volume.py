"""A workspace on a file system that other machines write too, as two machines have it.

The kernel's own network file systems cannot be had everywhere; a FUSE file system can. Two mounts
of one folder are what two machines have of it: neither sees the locks of the other, and only the
owner file tells that somebody else is at work.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.agentctl.harness import Keys, Sidecar


class Share:
    """One folder, mounted at `point` as one machine after the other has it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.point = folder / "export", folder / "mounted"
        for each in (self.folder, self.point):
            each.mkdir()
        self.folder.chmod(0o777)
        self._views: list[Path] = []

    def mount(self) -> None:
        """Another machine's view, over the last one's; what has that open keeps it."""
        view = self.folder.with_name(f"view-{len(self._views)}")
        view.mkdir()
        options = "allow_other,subtype=share"
        subprocess.run(["bindfs", "-o", options, self.folder, view], check=True)
        self._views.append(view)
        subprocess.run(["mount", "--bind", view, self.point], check=True)

    def unmount(self) -> None:
        for view in self._views:
            subprocess.run(["umount", "--lazy", self.point], check=True)
            subprocess.run(["umount", "--lazy", view], check=True)


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    if shutil.which("bindfs") is None:
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "bindfs"]):
            subprocess.run(["apt-get", *words], check=True, capture_output=True, timeout=280)
    share = Share(tmp_path)
    share.mount()
    yield share
    share.unmount()


def test_nothing_is_opened_on_another_machine_while_its_owner_lives(
    share: Share, own_files: Sidecar
) -> None:
    """Without a node: an agentctl on each of the two mounts, one of which is killed at last."""
    period = ("--owner-period-seconds", "0.5")
    own_files.start(*period)
    own_files.put()
    own_files.succeeded(own_files.open())
    own_files.say("alpha")
    own_files.prompt("slow 1000")
    own_files.becomes("running")
    share.mount()  # over the first one, which the process has open
    second = subprocess.run(own_files.command(*period), capture_output=True, timeout=60)
    assert second.returncode == 73
    assert b"another agentctl still owns the state folder" in second.stderr
    own_files.becomes("running")
    own_files.kill()
    own_files.start(*period)
    own_files.put()
    own_files.succeeded(own_files.resume())
    own_files.say("what was the first?")
    assert own_files.said().endswith("the first was: alpha")


@pytest.fixture
def own_files(share: Share, tmp_path: Path) -> Iterator[Sidecar]:
    """An agentctl whose state is on the share."""
    sidecar = Sidecar(tmp_path, Keys(tmp_path / "jwks.json"))
    sidecar.state = share.point / "state"
    yield sidecar
    sidecar.close()
