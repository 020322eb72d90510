"""The Docker engine of a run is private, and leaves nothing behind, however it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster.docker import Engine, engine
from cluster.images import agents
from cluster.node.footprint import Footprint

TESTS = Path(__file__).resolve().parents[1]
KEY = Path("/etc/docker/key.json")
IMAGE = "localhost/agent-scripted:1"
OWNER = """
import sys
from pathlib import Path
from cluster.docker import Engine
own = Engine(Path(sys.argv[1]))
own.start()
print("up", flush=True)
sys.stdin.read()
"""


def processes_of(folder: Path) -> list[str]:
    """Command lines that name this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and each.parent.name != str(os.getpid()):
            found.append(words)
    return found


def left_of(folder: Path, name: str, before: Footprint) -> list[str]:
    """What an engine of ours has left on the machine. A node beside it comes and goes meanwhile."""
    signs = (name, str(folder), "DOCKER", "docker")
    new = [each for each in Footprint.now().beyond(before) if any(sign in each for sign in signs)]
    return new + [str(each) for each in Path("/sys/fs/cgroup").glob(f"*/{name}*")]


def a_container_in(own: Engine) -> None:
    own.load(agents.scripted())
    ports = {"PortBindings": {"8700/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}}
    config = {"Image": IMAGE, "Cmd": ["sleep", "1000"], "HostConfig": ports}
    config |= {"ExposedPorts": {"8700/tcp": {}}}
    body = json.dumps(config).encode()
    made = own.call("POST", "/containers/create?name=one", body)
    own.call("POST", f"/containers/{made['Id']}/start")


def test_an_engine_that_is_stopped_leaves_nothing() -> None:
    before, key = Footprint.now(), KEY.exists()
    own = Engine(Path(tempfile.mkdtemp(prefix="e-")))
    try:
        own.start()
        a_container_in(own)
        assert processes_of(own.folder)
    finally:
        own.stop()
    assert left_of(own.folder, own.name, before) == []
    assert processes_of(own.folder) == []
    assert KEY.exists() == key


def test_an_engine_whose_owner_is_killed_is_cleared_away_by_the_next() -> None:
    before = Footprint.now()
    folder = Path(tempfile.mkdtemp(prefix="e-"))
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        assert owner.stdout.readline() == b"up\n"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    deadline = time.monotonic() + 60
    while processes_of(folder):
        assert time.monotonic() < deadline, processes_of(folder)
        time.sleep(0.1)
    engine.remove_leftovers()
    assert left_of(folder, f"{engine.PREFIX}{owner.pid}-", before) == []
    shutil.rmtree(folder)
