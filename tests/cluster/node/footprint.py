"""What a node could leave on a machine, as a value to compare: before it came, and after it went.

It looks at the machine and not at the node's own records, so it also sees what the node never knew
that it made. It refuses to clear up; that is `janitor.py`'s business, whose mistakes it is to find.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from cluster.node import janitor
from cluster.node.packages import search_path

_PROGRAMS = {"containerd", "containerd-shim-runc-v2", "runc", "node", "warden.py", "janitor.py"}
_BESIDE = ("/run/containerd", "/run/runc", "/run/netns", "/var/lib/cni", "/var/lib/kubelet")
_LOGS = ("/var/log/pods", "/var/log/containers")
_SETTINGS = (
    *("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"),
    *("net/bridge/bridge-nf-call-iptables", "net/netfilter/nf_conntrack_max"),
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What there is, each by a name that says where to look."""

    mounts: frozenset[str]
    interfaces: frozenset[str]
    rules: frozenset[str]
    cgroups: frozenset[str]
    processes: frozenset[str]
    settings: frozenset[str]
    files: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        return cls(
            mounts=frozenset(janitor.mounts_below(Path("/"))),
            interfaces=frozenset(entry.name for entry in Path("/sys/class/net").iterdir()),
            rules=frozenset(_rules()),
            cgroups=frozenset(map(str, Path("/sys/fs/cgroup").glob("**/kubepods"))),
            processes=frozenset(_processes()),
            settings=frozenset(_settings()),
            files=frozenset(_files()),
        )

    def beyond(self, before: "Footprint") -> list[str]:
        """Return what is here and was not there, and what was there and is gone."""
        differences = []
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(before, field.name)
            differences += [f"{field.name}: {name} is new" for name in sorted(mine - theirs)]
            differences += [f"{field.name}: {name} is gone" for name in sorted(theirs - mine)]
        return differences


def _rules() -> Iterator[str]:
    """Yield iptables' rules, and its chains but for the built-in ones, which come by looking."""
    for command in ("iptables-save", "ip6tables-save"):
        done = subprocess.run(
            [command], env={"PATH": search_path()}, capture_output=True, text=True, timeout=60
        )
        table = ""
        for line in done.stdout.splitlines():
            if line.startswith("*"):
                table = line
            elif line.startswith("-A") or (line.startswith(":") and line.split()[1] == "-"):
                yield f"{command} {table} {line.split(' [')[0]}"


def _processes() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            names = {os.path.basename(os.fsdecode(word)) for word in words[:4]}
            if names & _PROGRAMS and any(b"kandev-node" in word for word in words):
                yield f"{process.name} {b' '.join(words)[:200].decode(errors='replace')}"


def _settings() -> Iterator[str]:
    for name in _SETTINGS:
        path = Path("/proc/sys", name)
        if path.exists():
            yield f"{name}={path.read_text().strip()}"


def _files() -> Iterator[str]:
    for place in (*_BESIDE, *_LOGS):
        yield from map(str, Path(place).glob("**"))
    yield from map(str, Path(tempfile.gettempdir()).glob("kandev-node-*"))
