"""Every path of contract v1, the headers that travel with a call, and the limits both ends keep."""

from typing import Final

HEALTH: Final = "/health"
METRICS: Final = "/metrics"

AGENT: Final = "/api/v1/agent"
CAPABILITIES: Final = "/api/v1/capabilities"
START: Final = "/api/v1/start"
STOP: Final = "/api/v1/stop"
PROMPT: Final = "/api/v1/prompt"
CANCEL: Final = "/api/v1/cancel"
PERMISSIONS: Final = "/api/v1/permissions"
MODE: Final = "/api/v1/mode"
CONFIG: Final = "/api/v1/config"
STATUS: Final = "/api/v1/status"
EVENTS: Final = "/api/v1/events"
SHELL: Final = "/api/v1/shell"

FILES_TREE: Final = "/api/v1/files/tree"
FILES_CONTENT: Final = "/api/v1/files/content"
FILES_ENTRY: Final = "/api/v1/files/entry"
FILES_FOLDERS: Final = "/api/v1/files/folders"
FILES_RENAME: Final = "/api/v1/files/rename"
FILES_SEARCH: Final = "/api/v1/files/search"
FILES_WATCH: Final = "/api/v1/files/watch"

GIT_STATUS: Final = "/api/v1/git/status"
GIT_DIFF: Final = "/api/v1/git/diff"
GIT_LOG: Final = "/api/v1/git/log"
GIT_BRANCHES: Final = "/api/v1/git/branches"
GIT_STAGE: Final = "/api/v1/git/stage"
GIT_UNSTAGE: Final = "/api/v1/git/unstage"
GIT_COMMIT: Final = "/api/v1/git/commit"
GIT_SWITCH: Final = "/api/v1/git/switch"
GIT_FETCH: Final = "/api/v1/git/fetch"
GIT_PULL: Final = "/api/v1/git/pull"
GIT_PUSH: Final = "/api/v1/git/push"

TOKEN_HEADER: Final = "X-Kandev-Token"
"""Carries the caller's token where `Authorization` belongs to somebody else (the pod proxy)."""
TOKEN_SUBPROTOCOL: Final = "kandev.token."
"""Before the token in a browser's `Sec-WebSocket-Protocol`, where it can set no other header."""

HEARTBEAT_SECONDS: Final = 10.0
"""An idle event stream carries a comment line this often; three missed ones mean it is dead."""

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_FRAME_BYTES: Final = 64 * 1024
"""Longest WebSocket message from a caller; a longer one closes its socket with 1009."""
MAX_TEXT_CHARS: Final = 2_000
"""Longest message, stderr tail or failure text that agentctl reports, in characters."""
