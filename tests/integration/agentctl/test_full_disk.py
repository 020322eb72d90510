"""A disk that is really full: a small file system of its own, filled to the last block.

The agent goes on, what must be durable is refused, the loss is told as a gap, and with room again
everything is as before. Mounting needs root and a mount namespace that allows it.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from integration.agentctl.harness import Keys, Refused, Sidecar, eventually

SIZE = "12m"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file system of a few megabytes on it."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only who may mount can fill a disk without harm to others")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take every block that is left."""
    path = folder / "ballast"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    size = 1024 * 1024
    while size >= 1:
        try:
            os.write(file, b"x" * size)
        except OSError:
            size //= 2
    os.close(file)
    return path


@pytest.mark.timeout(180)
def test_a_full_disk_stops_no_agent_and_loses_nothing_in_silence(
    small: Path, tmp_path: Path
) -> None:
    own = Sidecar(tmp_path, Keys(tmp_path / "jwks.json"))
    own.state = small / "state"
    try:
        own.start("--after-turn-seconds", "0.05")
        own.put("--tick", "0.01", "--save-new", env={"HOME": str(tmp_path / "home")})
        own.succeeded(own.open())
        kept = own.say("slow 5 before")["prompt_id"]
        token = own.token()
        during = own.prompt("slow 300 permission during")["prompt_id"]
        eventually(lambda: own.fate(during) == "delivered")
        ballast = fill(small)
        # What comes from the agent finds no room; the turn goes on and asks, and is answered.
        permission = eventually(lambda: own.call("GET", "/api/v1/permissions"), "it asks", 60)[0]
        path = f"/api/v1/permissions/{permission['permission_id']}"
        own.call("POST", path, {"option_id": "allow_once"})
        assert own.turn_end(during)["outcome"] == "completed"
        assert (own.workspace / "permitted.txt").exists(), "the agent worked on"
        assert own.health()["status"] == "degraded"
        assert own.status()["journal"]["state"] == "full"
        with pytest.raises(Refused) as refused:
            own.prompt("x" * 100_000)
        assert (refused.value.status, refused.value.code) == (507, "journal_full")
        assert metric(own, "events_lost_total") > 0
        ballast.unlink()
        after = own.say("after")["prompt_id"]
        assert own.health()["status"] == "ok"
        events = own.events()
        gaps = [e for e in events if e["kind"] == "gap"]
        assert gaps, "the loss is told"
        known = {e["seq"] for e in events}
        missing = set(range(1, max(known) + 1)) - known
        told = {n for g in gaps for n in range(g["data"]["from_seq"], g["data"]["to_seq"] + 1)}
        assert missing <= told, "every number that is missing is told"
        own.kill()
        own.start("--after-turn-seconds", "0.05")
        assert own.token() == token
        assert [own.fate(i) for i in (kept, during, after)] == ["delivered"] * 3
        assert own.status()["turns_completed"] == 3
    finally:
        own.close()


@pytest.mark.timeout(180)
def test_agentctl_starts_on_a_full_disk_and_serves_again_when_there_is_room(
    small: Path, tmp_path: Path
) -> None:
    own = Sidecar(tmp_path, Keys(tmp_path / "jwks.json"))
    own.state = small / "state"
    try:
        own.start()
        own.put("--save-new", env={"HOME": str(tmp_path / "home")})
        own.succeeded(own.open())
        prompt_id = own.say("before")["prompt_id"]
        own.kill()
        ballast = fill(small)
        with (own.folder / "agentctl.out").open("ab") as out:
            command = own.command("--port", str(own.run["port"]))
            own.process = subprocess.Popen(command, stdout=out, stderr=out)
        eventually(lambda: answers(own), "it serves", 60)
        assert own.health()["status"] in ("ok", "degraded")
        assert own.call("GET", "/api/v1/files/tree", scopes=["files"])["entries"] is not None
        ballast.unlink()
        own.put_again()
        own.succeeded(own.resume())
        own.say("after")
        assert own.fate(prompt_id) == "delivered"
    finally:
        own.close()


def answers(sidecar: Sidecar) -> bool:
    assert sidecar.process is not None
    assert sidecar.process.poll() is None, sidecar.output()[-3000:]
    try:
        return bool(sidecar.health())
    except httpx.HTTPError:
        return False


def metric(sidecar: Sidecar, name: str) -> int:
    text = sidecar.http.get(sidecar.run["url"] + "/metrics").text
    line = next(each for each in text.splitlines() if each.startswith(f"kandev_agentctl_{name} "))
    return int(line.split()[1])
