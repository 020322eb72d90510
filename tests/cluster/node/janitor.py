"""Clears up after a node, however its owner ended.

Started as a script by `ground.py`: `janitor.py LOCK_FILE DESCRIPTOR`. It waits until the
descriptor, one end of a pipe whose other end the owner has, reports the end: closed on purpose, or
by the kernel because the owner is dead. Then it removes all that the state in LOCK_FILE names:
processes, containers' control groups, mounts, network, packet filter rules, kernel settings, the
folder. What it could not do is printed, and makes the exit status 1; it goes on all the same.

It looks for what is there, not for what should be: a node that was killed half way has left things
that nobody wrote down. Standard library only; the interpreter starts it without site-packages.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FORWARD_CHAIN = "KUBE-KANDEV-FORWARD"
_OUR_CHAINS = ("KUBE-", "CNI-")
_PROGRAMS = {"containerd", "containerd-shim-runc-v2", "runc", "ctr", "node"}
_CGROUPS = Path("/sys/fs/cgroup")
_NETWORK_RESULTS = Path("/var/lib/cni/results")
_POD_LOG_LINKS = Path("/var/log/containers")
# Folders that kubelet, runc and the network plugins make outside ours, and leave empty.
_MADE_BESIDE = (
    "/run/containerd/s",
    "/run/containerd/fifo",
    "/run/containerd",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/var/log/containers",
    "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
    "/var/lib/kubelet/device-plugins/kubelet.sock",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
)
_SETTINGS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class State:
    """What the node took, and how the machine looked before."""

    folder: str
    bridge: str
    settings: dict[str, str]
    chains: list[str]
    beside: list[str]

    @classmethod
    def now(cls, folder: Path, bridge: str) -> "State":
        paths = {name: Path("/proc/sys", name) for name in _SETTINGS}
        settings = {name: path.read_text() for name, path in paths.items() if path.exists()}
        beside = [name for name in _MADE_BESIDE if Path(name).exists()]
        return cls(str(folder), bridge, settings, sorted(chains()), beside)


def read_state(lock: Path) -> State | None:
    """Return what the last holder of the lock took, if it has not been given back."""
    text = lock.read_text()
    return State(**json.loads(text)) if text.strip() else None


def write_state(lock: Path, state: State | None) -> None:
    """Write into the file that is locked: replacing it would leave the lock on the old one."""
    with lock.open("r+") as file:
        file.truncate()
        if state is not None:
            json.dump(asdict(state), file)


def clear(lock: Path) -> list[str]:
    """Remove all that the state names; return what could not be removed."""
    state = read_state(lock)
    if state is None:
        return []
    folder = Path(state.folder)
    steps: list[Callable[[], None]] = [
        lambda: _end_programs(folder),
        _end_containers,
        lambda: _unmount(folder),
        lambda: _remove_interfaces(state.bridge),
        lambda: _remove_rules(set(state.chains)),
        lambda: _restore_settings(state.settings),
        lambda: _remove_beside(folder, set(state.beside)),
        lambda: _remove_folder(folder),
    ]
    problems = []
    for step in steps:
        try:
            step()
        except (OSError, subprocess.SubprocessError, RuntimeError) as error:
            problems.append(f"{type(error).__name__}: {error}")
    if not problems:
        write_state(lock, None)
    return problems


# Processes.


def _end_programs(folder: Path) -> None:
    """Kill the node's own programs, and the shims, which survive their containerd."""
    _until(lambda: _kill(_programs_of(folder)), f"programs of {folder} do not end")


def _programs_of(folder: Path) -> Iterator[int]:
    mark = os.fsencode(folder) + b"/"
    for process in _processes():
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            program = Path(os.readlink(process / "exe").removesuffix(" (deleted)")).name
            if mark in words and program in _PROGRAMS:
                yield int(process.name)


def _end_containers() -> None:
    """Kill what is in pods' control groups, then remove these, the innermost first."""
    for root in pod_cgroups():
        if not root.exists():
            continue
        _until(lambda root=root: _kill(_members(root)), f"processes in {root} do not end")
        for folder, _, _ in os.walk(root, topdown=False):
            _until(lambda folder=folder: _still_there(folder), f"{folder} stays busy")


def pod_cgroups() -> list[Path]:
    """Return where a kubelet's control groups would be: one tree, or one for each controller."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS / "kubepods"]
    return [entry / "kubepods" for entry in sorted(_CGROUPS.iterdir()) if entry.is_dir()]


def _members(root: Path) -> Iterator[int]:
    for listing in root.rglob("cgroup.procs"):
        with suppress(OSError):
            yield from map(int, listing.read_text().split())


def _still_there(folder: str) -> bool:
    with suppress(OSError):
        os.rmdir(folder)
    return os.path.exists(folder)


def _kill(found: Iterator[int]) -> bool:
    """Kill each process; tell whether there was any."""
    some = False
    for pid in found:
        some = True
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return some


def _processes() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


# Mounts and network.


def _unmount(folder: Path) -> None:
    for point in reversed(mounts_below(folder)):
        done = _run("umount", point)
        if done.returncode:
            _run("umount", "--lazy", point)
    left = mounts_below(folder)
    if left:
        raise RuntimeError(f"still mounted: {left}")


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points below a folder, in the order in which they were mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # The kernel writes a blank in a path as \040, and the like.
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if point.startswith(f"{folder}/")]


def _remove_interfaces(bridge: str) -> None:
    """Remove the bridge and the pods' ends of it that outlived their network namespace."""
    links = Path("/sys/class/net")
    ours = [link.name for link in links.glob("*") if (link / "master").exists()]
    ours = [name for name in ours if (links / name / "master").resolve().name == bridge]
    for name in (*ours, bridge):
        if (links / name).exists():
            _run("ip", "link", "delete", name)
    if (links / bridge).exists():
        raise RuntimeError(f"the interface {bridge} stays")


def chains() -> set[str]:
    """Return the names of all chains of iptables, built-in ones too."""
    found = set()
    for save in ("iptables-save", "ip6tables-save"):
        lines = _run(save).stdout.splitlines()
        found |= {line[1:].split()[0] for line in lines if line.startswith(":")}
    return found


def _remove_rules(before: set[str]) -> None:
    """Remove the chains that kube-proxy, kubelet and the network plugins made, and jumps there."""
    for save, restore in (
        ("iptables-save", "iptables-restore"),
        ("ip6tables-save", "ip6tables-restore"),
    ):
        words = "\n".join(removal(_run(save).stdout, before))
        if words:
            done = _run(restore, "--noflush", stdin=words + "\n")
            if done.returncode:
                raise RuntimeError(f"{restore}: {done.stderr.strip()}")


def removal(saved: str, before: set[str]) -> Iterator[str]:
    """Turn what iptables-save printed into what makes iptables-restore remove our chains."""
    for table in re.split(r"^\*", saved, flags=re.MULTILINE)[1:]:
        lines = table.splitlines()
        names = [line[1:].split()[0] for line in lines if line.startswith(":")]
        ours = {name for name in names if name.startswith(_OUR_CHAINS) and name not in before}
        if not ours:
            continue
        yield f"*{lines[0]}"
        # Naming a chain empties it; only an empty chain that nothing jumps to can be deleted.
        yield from (f":{name} - [0:0]" for name in sorted(ours))
        for line in lines:
            words = line.split()
            if words and words[0] == "-A" and words[1] not in ours and ours & set(words):
                yield line.replace("-A", "-D", 1)
        yield from (f"-X {name}" for name in sorted(ours))
        yield "COMMIT"


# Settings and files.


def _restore_settings(settings: dict[str, str]) -> None:
    for name, value in settings.items():
        path = Path("/proc/sys", name)
        if path.exists() and path.read_text() != value:
            path.write_text(value)


def _remove_beside(folder: Path, before: set[str]) -> None:
    """Remove the traces outside our folder: links to pods' logs, sockets, empty folders."""
    if _POD_LOG_LINKS.is_dir():
        for link in _POD_LOG_LINKS.iterdir():
            if link.is_symlink() and os.readlink(link).startswith(f"{folder}/"):
                link.unlink()
    for name in _MADE_BESIDE:
        path = Path(name)
        if name in before or not path.exists():
            continue
        if path.is_dir() and name in ("/var/lib/cni/results", "/run/containerd/s"):
            shutil.rmtree(path)
        elif path.is_dir():
            with suppress(OSError):
                path.rmdir()
        else:
            path.unlink()


def _remove_folder(folder: Path) -> None:
    if mounts_below(folder):
        raise RuntimeError(f"{folder} has mounts, and what they show is not ours to remove")
    if folder.exists():
        shutil.rmtree(folder)


def _until(goes_on: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while goes_on():
        if time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(0.05)


def _run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=_PATIENCE)


def main(arguments: list[str]) -> int:
    lock, descriptor = Path(arguments[0]), int(arguments[1])
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # Nothing is ever written: reading returns when the last holder of the other end is gone.
    os.read(descriptor, 1)
    problems = clear(lock)
    for problem in problems:
        print(problem, flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
