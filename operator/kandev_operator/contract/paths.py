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
STATUS: Final = "/api/v1/status"
EVENTS: Final = "/api/v1/events"

TOKEN_HEADER: Final = "X-Kandev-Token"
"""Carries the caller's token where `Authorization` belongs to somebody else (the pod proxy)."""

HEARTBEAT_SECONDS: Final = 10.0
"""An idle event stream carries a comment line this often; three missed ones mean it is dead."""

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_TEXT_CHARS: Final = 2_000
"""Longest message, stderr tail or failure text that agentctl reports, in characters."""
