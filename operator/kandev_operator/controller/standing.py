"""How an operator stands at this moment, for its page of metrics: read from its parts, once.

Only reads. What the numbers are called is `metrics`' business, who is in trouble `census`'s.
"""

import time
from collections import Counter

from kandev_operator.api import group
from kandev_operator.api.troubles import Problem
from kandev_operator.controller import census
from kandev_operator.controller.metrics import Levels
from kandev_operator.controller.reconcile import Reconciler
from kandev_operator.controller.watch import Watch
from kandev_operator.controller.wiring import Wiring


def levels(
    wiring: Wiring, reconciler: Reconciler, watch: Watch | None, problems: frozenset[Problem]
) -> Levels:
    """Everything that is a level and no count, as it is now."""
    now, lease = time.monotonic(), wiring.lease
    sessions = list(wiring.cache.bodies(group.TASK_SESSION))
    troubled = census.troubled(sessions, wiring.clock())
    looks = [at for key, at in reconciler.verified.items() if key.kind == group.TASK_SESSION]
    heard = watch.last_event if watch is not None else {}
    return Levels(
        queue_depth=wiring.queue.depth,
        queue_oldest_seconds=wiring.queue.oldest_seconds(),
        queue_running=wiring.queue.running,
        sessions=census.standings(sessions),
        executors=census.standings(wiring.cache.bodies(group.EXECUTOR)),
        troubled=census.named(troubled, wiring.settings.named_sessions),
        in_trouble=Counter(each.stuck.trouble for each in troubled),
        problems=problems,
        lease_valid=lease.valid(),
        lease_renewed_seconds=lease.renewed_seconds,
        term=lease.term,
        watch_age_seconds={kind: now - at for kind, at in heard.items()},
        oldest_verification_seconds=now - min(looks, default=now) if lease.valid() else 0.0,
        sessions_verified=len(looks),
    )
