"""Who wrote what: the API server's audit log, as values a test can count.

The policy leaves out what reads (get, list, watch), unless a service account does, and what the API
server does to itself, and keeps only the metadata of a request. `writes` are the requests that were
carried out; `events` has the refused ones, dry runs, reviews and those reads too.

The API server writes a line after it has answered, so a log read at once may lack the last one.
Every look here therefore begins with `settle`, a request of our own whose line is waited for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_READS = ["get", "list", "watch"]
_ASKING = ("authentication.k8s.io", "authorization.k8s.io")
"""Reviews are created, and nothing is stored."""

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # What a program reads under an account of its own is kept: it tells which rights it needs.
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"], "verbs": _READS},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "verbs": _READS},
        {"level": "None", "verbs": _READS},
        {"level": "None", "users": ["system:apiserver"]},
        # A deletion says in its body, not in its address, that it is only a dry run.
        {"level": "Request", "verbs": ["delete", "deletecollection"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One answered request. `resource` is a plural, as in `tasksessions`.

    `name` is empty where the request had none: a creation by generateName, a whole collection.
    """

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    is_dry_run: bool
    user_agent: str
    received: str
    audit_id: str

    @classmethod
    def from_line(cls, line: str) -> Self:
        event = json.loads(line)
        target = event.get("objectRef", {})
        in_body = event.get("requestObject", {}).get("dryRun", [])
        return cls(
            user=event["user"].get("username", ""),
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            is_dry_run=bool(in_body) or "dryRun=" in event["requestURI"],
            user_agent=event.get("userAgent", ""),
            received=event["requestReceivedTimestamp"],
            audit_id=event["auditID"],
        )

    @property
    def is_write(self) -> bool:
        if self.verb in _READS or self.group.startswith(_ASKING):
            return False
        return 200 <= self.code < 300 and not self.is_dry_run


class AuditLog:
    """The log of one control plane, from its first start; it goes on over restarts."""

    def __init__(self, path: Path, settle: Callable[[], None]) -> None:
        self.path = path
        self._settle = settle

    def mark(self) -> int:
        """Return a place to count from: all requests answered until now are before it."""
        self._settle()
        return self.path.stat().st_size

    def events(self, *, since: int = 0, **wanted: str) -> list[AuditEvent]:
        """Return the requests after a mark whose fields equal those wanted.

        `events(user="alice", verb="patch", resource="tasksessions", subresource="status")`
        """
        self._settle()
        with self.path.open("rb") as log:
            log.seek(since)
            # A line without its end is still being written, and answered after we settled.
            lines = [line for line in log if line.endswith(b"\n")]
        events = [AuditEvent.from_line(line.decode()) for line in lines]
        return [
            event
            for event in events
            if all(getattr(event, field) == value for field, value in wanted.items())
        ]

    def writes(self, *, since: int = 0, **wanted: str) -> list[AuditEvent]:
        """Return those of `events` that the API server carried out."""
        return [event for event in self.events(since=since, **wanted) if event.is_write]
