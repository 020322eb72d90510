"""The part of the machine that a node takes: one lock, one bridge, and some settings of the kernel.

A machine has one set of packet filter chains and one tree of control groups, so it can have one
node. The lock's file says, for whoever holds the lock next, what was taken and how it looked
before. It is held through a file descriptor that the janitor inherits: it stays locked until the
janitor is done, whatever happened to the node's owner.
"""

import fcntl
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from cluster.errors import ControlPlaneError
from cluster.flags import SERVICE_RANGE
from cluster.node import flags, janitor
from cluster.node.packages import search_path

_JANITOR = Path(janitor.__file__)
_LOCK_FOLDERS = (Path("/run/lock"), Path("/run"))
_WAIT_FOR_JANITOR = 180.0
_BRIDGED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


class Ground:
    """What one node has of the machine, from `take` to `give_back`."""

    def __init__(self, lock: IO[str], folder: Path) -> None:
        self.folder = folder
        self._lock = lock
        # Not in the folder, which the janitor removes.
        self._log = Path(lock.name).with_suffix(".log")
        for_janitor, self._end = os.pipe()
        with self._log.open("w") as log:
            self._janitor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_JANITOR), lock.name, str(for_janitor)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(for_janitor, lock.fileno()),
                env={"PATH": search_path()},
            )
        os.close(for_janitor)

    def give_back(self) -> None:
        """Have the janitor clear up, and return when it is done. Raises what it could not do."""
        os.close(self._end)
        try:
            code = self._janitor.wait(_WAIT_FOR_JANITOR)
        except subprocess.TimeoutExpired as error:
            raise ControlPlaneError(f"the node's janitor is still busy in {self.folder}") from error
        finally:
            self._lock.close()
        if code:
            said = self._log.read_text(errors="replace")
            raise ControlPlaneError(f"the node left something behind:\n{said}")


def take(patience: float) -> Ground:
    """Lock the machine, clear what a dead node may have left, and lay the bridge.

    Raises ControlPlaneError when another node runs here: one of ours after so many seconds,
    anybody else's at once.
    """
    lock = _lock("kandev-node.lock", patience, "a machine has one node, and another one runs")
    try:
        problems = janitor.clear(Path(lock.name))
        if problems:
            raise ControlPlaneError("; ".join(["a dead node has left what stays", *problems]))
        _refuse_foreign_node()
        folder = Path(tempfile.mkdtemp(prefix="kandev-node-"))
        folder.chmod(0o755)  # a pod that is not root walks through it to its volumes
        janitor.write_state(Path(lock.name), janitor.State.now(folder, flags.BRIDGE))
        ground = Ground(lock, folder)
    except BaseException:
        lock.close()
        raise
    try:
        _lay_bridge()
    except BaseException:
        ground.give_back()
        raise
    return ground


def wait_for_turn(patience: float) -> IO[str]:
    """Return a file; until it is closed, no other run of the tests has a turn with the machine.

    A run ends nodes and starts new ones, and looks at the machine between them.
    """
    return _lock("kandev-node-turn.lock", patience, "another run of the tests has the machine")


def _lock(name: str, patience: float, taken: str) -> IO[str]:
    """Lock a file for as long as it is open; raise if it is not to be had in so many seconds."""
    folder = next(folder for folder in _LOCK_FOLDERS if folder.is_dir())
    lock = (folder / name).open("a+")
    deadline = time.monotonic() + patience
    told = False
    while not _is_locked(lock):
        if time.monotonic() > deadline:
            lock.close()
            raise ControlPlaneError(taken)
        if not told:
            print(f"node: {taken}: waiting", file=sys.stderr, flush=True)
            told = True
        time.sleep(1)
    return lock


def _is_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refuse_foreign_node() -> None:
    """Raise if the machine is part of a cluster already, or its network has our addresses."""
    if any(path.exists() for path in janitor.pod_cgroups()):
        raise ControlPlaneError("a kubelet that is not ours runs here: it has control groups")
    if any(name.startswith("KUBE-") for name in janitor.chains()):
        raise ControlPlaneError("a kube-proxy that is not ours runs here: it has iptables chains")
    wanted = [ipaddress.ip_network(flags.SUBNET), ipaddress.ip_network(SERVICE_RANGE)]
    for route in json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all")):
        with suppress(ValueError):
            taken = ipaddress.ip_network(route["dst"])
            if any(taken.overlaps(network) for network in wanted):
                raise ControlPlaneError(f"the node's addresses are taken: there is a route {route}")


def _lay_bridge() -> None:
    _run("ip", "link", "add", flags.BRIDGE, "type", "bridge")
    _run("ip", "address", "add", f"{flags.GATEWAY}/{flags.PREFIX}", "dev", flags.BRIDGE)
    _run("ip", "link", "set", flags.BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    if not _BRIDGED.exists():
        with suppress(ControlPlaneError):
            _run("modprobe", "br_netfilter")
    # Without it the answers of a Service in the same bridge would not be translated back.
    if _BRIDGED.exists():
        _BRIDGED.write_text("1")
    # A Docker engine has the machine drop what it forwards; our own bridge's traffic may pass.
    for direction in ("--in-interface", "--out-interface"):
        rule = ["FORWARD", direction, flags.BRIDGE, "--jump", janitor.FORWARD_CHAIN]
        if direction == "--in-interface":
            _run("iptables", "--new-chain", janitor.FORWARD_CHAIN)
            _run("iptables", "--append", janitor.FORWARD_CHAIN, "--jump", "ACCEPT")
        _run("iptables", "--insert", *rule)


def _run(*words: str) -> str:
    done = subprocess.run(
        words,
        env={"PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise ControlPlaneError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
