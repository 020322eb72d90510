"""Where things lie in an executor's pod: paths, names of containers and volumes, the port.

The workspace is one volume at one path for life, because agents file their history under the
folder they work in: the worktree, and beside it agentctl's state with each agent's HOME. The
names here are the operator's; a template that claims one of them is refused (`overlay`).
"""

from typing import Final

from kandev_operator.api import group

WORKSPACE: Final = "/workspace"
"""Where the session's claim is mounted, in every pod it ever gets."""
WORKTREE: Final = "/workspace/worktree"
"""The folder that the agent works in."""
STATE: Final = "/workspace/.kandev"
"""agentctl's journal and marker, and the agent's HOME."""
PROGRAM: Final = "/kandev"
"""The shared volume that agentctl is copied into."""
_FOLDER: Final = f"{PROGRAM}/agentctl"
AGENTCTL: Final = (
    f"{_FOLDER}/_internal/ld-linux.so.2",
    "--library-path",
    f"{_FOLDER}/_internal",
    f"{_FOLDER}/kandev-agentctl",
)
"""How it is started: with the C library that it brings, so that any image will do."""
INSTALL_TARGET: Final = "/target"
"""Where the step that copies it sees the shared volume: the image has its own at the path above."""
GIT_CONFIG: Final = f"{PROGRAM}/gitconfig"
KEYS: Final = "/etc/kandev/keys"
JWKS: Final = f"{KEYS}/jwks.json"
CREDENTIALS: Final = "/etc/kandev/credentials"
"""Credentials of repositories; only the step that clones can see them."""
TMP: Final = "/tmp"
CACHE: Final = "/var/cache/kandev"

RESERVED_PATHS: Final = (WORKSPACE, PROGRAM, "/etc/kandev", TMP, CACHE)
"""Nobody else mounts at or below these, but for parts of /tmp and the cache."""

PORT: Final = 8700


def url(address: str) -> str:
    """Where agentctl listens in the pod with this address."""
    return f"http://{f'[{address}]' if ':' in address else address}:{PORT}"


INSTALL: Final = "kandev-install"
PREPARE: Final = "kandev-workspace"
AGENT: Final = group.AGENT_CONTAINER

VOLUME_WORKSPACE: Final = "workspace"
VOLUME_PROGRAM: Final = "kandev-program"
VOLUME_KEYS: Final = "kandev-keys"
VOLUME_TMP: Final = "kandev-tmp"
VOLUME_CACHE: Final = "kandev-cache"
RESERVED_PREFIX: Final = "kandev-"

KEYS_CONFIG_MAP: Final = "kandev-agentctl-keys"
"""One in each namespace with pods: the public keys that callers sign with."""
KEYS_FILE: Final = "jwks.json"
