"""What a node takes from the distribution: container runtime, network, and tools for images.

`ensure()` looks for the commands, not for the packages, so a machine that has them from elsewhere
is left alone. What is missing is installed where that is possible without asking anybody: as root,
with apt. Everywhere else the error says in one sentence what a person has to type.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from cluster.errors import ControlPlaneError

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

# Each command, plugin or file, and the Debian and Ubuntu package that has it.
NEEDED = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "cni:bridge": "containernetworking-plugins",
    "cni:host-local": "containernetworking-plugins",
    "cni:portmap": "containernetworking-plugins",
    "iptables-save": "iptables",
    "iptables-restore": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "buildah": "buildah",
}
_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
_APT_PATIENCE = 900.0


def ensure(report: TextIO | None = None) -> None:
    """Bring what is missing, or raise with the command that would."""
    missing = missing_packages()
    if not missing:
        return
    words = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ControlPlaneError(
            f"a node needs what these Debian packages hold: apt-get install {words}"
        )
    print(f"node: installing {words}", file=report or sys.stderr, flush=True)
    _apt("update")
    _apt("install", "--yes", "--no-install-recommends", *missing)
    still = missing_packages()
    if still:
        raise ControlPlaneError(f"apt-get installed {words}, and these still lack: {still}")


def missing_packages() -> list[str]:
    """Return the packages whose commands this machine lacks, each once, in a stable order."""
    return sorted({package for tool, package in NEEDED.items() if not _is_there(tool)})


def cni_folder() -> Path:
    return next(folder for folder in CNI_FOLDERS if (folder / "bridge").exists())


def search_path() -> str:
    """Return a PATH with the folders of system programs, which a user's PATH may lack."""
    return f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}"


def _is_there(tool: str) -> bool:
    if tool.startswith("cni:"):
        name = tool.removeprefix("cni:")
        return any((folder / name).exists() for folder in CNI_FOLDERS)
    if tool.startswith("/"):
        return Path(tool).exists()
    return shutil.which(tool, path=search_path()) is not None


def _apt(*words: str) -> None:
    done = subprocess.run(
        ["apt-get", "--quiet", *words],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_APT_PATIENCE,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise ControlPlaneError(f"apt-get {' '.join(words)} failed:\n{tail}")
