"""Rename that never replaces: renameat2 with RENAME_NOREPLACE, which Python does not offer.

Where the kernel or the file system does not know it (some network ones), a look before the rename
has to do: then only our own lock keeps two renames apart.
"""

import ctypes
import errno
import os
from typing import Final

RENAME_NOREPLACE: Final = 1
UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})

_libc = ctypes.CDLL(None, use_errno=True)


def rename_noreplace(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Raises FileExistsError if there is anything at the new name, and OSError."""
    call = getattr(_libc, "renameat2", None)
    if call is not None:
        if call(old_folder, old, new_folder, new, RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in UNKNOWN:
            raise OSError(number, os.strerror(number))
    try:
        os.stat(new, dir_fd=new_folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
