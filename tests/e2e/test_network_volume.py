"""A workspace on a file system that other machines write too, on a real node.

The kernel's own network file systems cannot be had everywhere; a FUSE file system can. Two mounts
of one folder are what two machines have of it: neither sees the locks of the other, and only the
owner file tells that somebody else is at work.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.agentctl.harness import Keys, Sidecar
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body


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

    def volume(self, name: str) -> Body:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "64Mi"},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "hostPath": {"path": str(self.point)},
            },
        }


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


async def test_only_the_owner_file_keeps_a_second_writer_away(
    scene: RealPodScene, share: Share
) -> None:
    """The node cannot end the old container, whose agentctl goes on as if nothing had been."""
    name = scene.place.name
    files: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    await scene.apply(share.volume(name), files)
    part = SharedPart(scene, "shared", share)
    await scene.born("shared", workspace={"claimName": "shared"})
    before = await part.with_history()
    await part.in_a_turn()
    old = part.pod_uid
    shim = _parent(part.process("kandev-agentctl run"))
    os.kill(shim, signal.SIGSTOP)
    try:
        share.mount()
        await part.delete_pod("--force", "--grace-period=0")
        said = await part.executor_says("WorkspaceInUse")
        assert "exit code 73" in said
        assert part.pod_uid != old
        assert part.status["state"] == "STARTING"
        assert part.starts == 1, "one writer at a time"
        part.process("kandev-agentctl run", old)
    finally:
        os.kill(shim, signal.SIGCONT)
    await until(lambda: not part.processes(old), "the node has ended the old pod", PATIENCE)
    await part.resumed(before, same_pod=False, pod_uid=old)
    assert part.status["interruptedTurn"]["promptId"] == "long"
    assert (part.starts, part.resumes, part.opened_new) == (2, 1, 1)
    assert part.prompts() == ["alpha", "slow 1000"]
    await part.remembers()


class SharedPart(RealPart):
    """A session whose volume is the share."""

    def __init__(self, scene: RealPodScene, name: str, share: Share) -> None:
        super().__init__(scene, name)
        self._share = share

    @property
    def volume(self) -> Path:
        return self._share.folder


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("PPid:"))
