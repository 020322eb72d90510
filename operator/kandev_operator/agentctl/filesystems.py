"""Which kind of file system a folder is on: whether SQLite's shared memory can be trusted there.

Reads the mount table of this process; a folder that cannot be told is taken for a local one.
"""

from pathlib import Path
from typing import Final

NETWORK: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("gpfs", "beegfs", "ocfs2", "gfs2"),
        "virtiofs",  # a machine's folder in its guests: none sees the others' locks
        "fuse",  # a program that does not say which: it may be anything
    }
)
NETWORK_PREFIXES: Final = ("fuse.",)
LOCAL_FUSE: Final = frozenset({"fuse.fuse-overlayfs", "fuse.ext4", "fuse.ntfs"})


def is_network(folder: Path, mount_table: str | None = None) -> bool:
    """Tell whether other machines may write the same files."""
    kind = kind_of(folder.resolve(), mount_table)
    if kind in LOCAL_FUSE:
        return False
    return kind in NETWORK or kind.startswith(NETWORK_PREFIXES)


def kind_of(folder: Path, mount_table: str | None = None) -> str:
    """The file system type of the mount that holds the folder; "" when it cannot be told."""
    if mount_table is None:
        try:
            mount_table = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mount_table.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = fields[4].replace("\\040", " ")
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount covers an earlier one
            best, kind = point, right.split(" ", 1)[0]
    return kind
