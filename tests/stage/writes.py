"""What a session costs the API server: its writes, counted from the audit log.

Counted are the requests that were carried out on objects of a session (the TaskSession, its
Executor, the Secret of its token; status too), by whomever. Events, the Task's status and the
Lease stand apart, each with a count of its own. Knows the API server's log alone: it asks neither
the operator nor its metrics.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cluster.audit import AuditEvent, AuditLog
from kandev_operator.clients.signing import SECRET_NAME

QUIET_SECONDS = 2.0
"""Longer than the operator waits before it looks at a task again."""
_OF_A_SESSION = frozenset({"tasksessions", "executors", "secrets"})
_OF_A_POD = frozenset({"pods", "persistentvolumeclaims"})
"""Of these only the object: its status and its node are the cluster's own business."""


@dataclass(frozen=True)
class Written:
    """The writes of one span of time in one namespace."""

    objects: tuple[AuditEvent, ...]
    """To objects of a session."""
    events: tuple[AuditEvent, ...]
    tasks: tuple[AuditEvent, ...]
    """To the status of Tasks."""
    leases: tuple[AuditEvent, ...]
    others: tuple[AuditEvent, ...]
    """To anything else but what a user applied beside the session (profiles, tasks)."""

    @property
    def count(self) -> int:
        """How many writes the budget is about."""
        return len(self.objects)

    def listed(self) -> str:
        """What was written by whom, for a failure's text."""
        rows = Counter(
            f"{each.user.removeprefix('system:')} {each.verb} {each.resource}"
            + (f"/{each.subresource}" if each.subresource else "")
            for each in (*self.objects, *self.events, *self.others)
        )
        return "\n".join(f"{count:4d}  {row}" for row, count in sorted(rows.items())) or "nothing"


def written(log: AuditLog, since: int, namespaces: Iterable[str]) -> Written:
    """What was written in these namespaces after a mark."""
    ours = set(namespaces)
    sorts: dict[str, list[AuditEvent]] = {
        sort: [] for sort in ("object", "event", "task", "lease", "user", "other")
    }
    for each in log.writes(since=since):
        if each.namespace in ours:
            sorts[_sort(each)].append(each)
    return Written(
        objects=tuple(sorts["object"]),
        events=tuple(sorts["event"]),
        tasks=tuple(sorts["task"]),
        leases=tuple(sorts["lease"]),
        others=tuple(sorts["other"]),
    )


def when_quiet(log: AuditLog, since: int, namespaces: Iterable[str]) -> Written:
    """The same, once nothing but the Lease was written for a while."""
    ours = tuple(namespaces)
    known, calm_since = -1, time.monotonic()
    while True:
        seen = written(log, since, ours)
        total = seen.count + len(seen.events) + len(seen.tasks) + len(seen.others)
        if total != known:
            known, calm_since = total, time.monotonic()
        elif time.monotonic() - calm_since > QUIET_SECONDS:
            return seen
        time.sleep(0.2)


def _sort(each: AuditEvent) -> str:
    if each.resource in _OF_A_SESSION and each.name != SECRET_NAME:
        return "object"
    if each.resource in _OF_A_POD and not each.subresource:
        return "object"
    if each.resource == "events":
        return "event"
    if each.resource == "leases":
        return "lease"
    if each.resource == "tasks" and each.subresource == "status":
        return "task"
    if each.resource in ("tasks", "agentprofiles"):
        return "user"
    return "other"
