"""A session's workspace where that is a claim: made before anybody is bound, and never twice.

The workspace follows the session, whatever becomes of its executors. A claim that was there and
is gone is said, not replaced; one that the session names is adopted as it is.
"""

from datetime import datetime, timedelta
from typing import Final

from kandev_operator.api.conditions import UNKNOWN
from kandev_operator.api.reasons import ReconcilingReason, WorkspaceReadyReason
from kandev_operator.api.session import SessionState
from kandev_operator.core import lifecycle
from kandev_operator.core.actions import CreateClaim
from kandev_operator.core.observed import Found, Missing, SessionObserved, Unreadable
from kandev_operator.core.pods.claim import claim_name, desired_claim, is_adopted
from kandev_operator.core.verdict import Verdict, failed, hold

CLAIM_AGAIN: Final = timedelta(seconds=10)
"""Claims are not watched."""


def needs_claim(o: SessionObserved) -> bool:
    """The executor that this session has, or will have, is a pod."""
    template = o.session.spec.executor.template
    if template is not None:
        return template.spec.pod is not None
    return isinstance(o.executor, Found) and o.executor.value.spec.pod is not None


def claim(o: SessionObserved, now: datetime) -> Verdict | None:
    """The claim with the session's files. One that was there and is not there any more is never
    replaced by an empty one behind the session's back; only who asks for a fresh start wants it.
    """
    if o.claim is None or not needs_claim(o):
        return None
    if isinstance(o.claim, Unreadable):
        return hold(timedelta(seconds=5))
    if o.failed is not None and o.failed.action == CreateClaim.__name__:
        return not_made(o, now)
    words = lost(o)
    making = making_claim(o) if not words and o.session.status.executor_ref is not None else ()
    if making:  # it waited for its executor, and nobody has made its claim yet
        return Verdict(ready=UNKNOWN, reason="", message="", hold=True, actions=making)
    wants_another = lifecycle.fresh_start_wished(o.session) and not is_adopted(o.session)
    if words and wants_another and isinstance(o.claim, Missing):
        return Verdict(ready=UNKNOWN, reason="", message="", hold=True, actions=making_claim(o))
    if not words or (isinstance(o.claim, Found) and _may_be_in_use(o)):
        return None
    return _no_workspace(words)


def _may_be_in_use(o: SessionObserved) -> bool:
    """A claim that is being deleted stays while the pod does, and the agent in it may live."""
    return isinstance(o.executor, Found) and o.executor.value.status.boot_id is not None


def lost(o: SessionObserved) -> str:
    """That the claim with the session's files is gone, or goes, in words; empty while nobody
    looked, and where there never was one."""
    if not needs_claim(o):
        return ""
    name = claim_name(o.session)
    if isinstance(o.claim, Found):
        going = o.claim.value.is_deleting
        return f"Claim {name} with the session's files is being deleted." if going else ""
    if not isinstance(o.claim, Missing):
        return ""
    if is_adopted(o.session):
        return f"Claim {name}, which workspace.claimName names, does not exist."
    known = o.session.status.workspace_ref
    if known is None or known.uid is None:
        return ""
    return f"Claim {name} with the session's files does not exist any more."


def _no_workspace(message: str) -> Verdict:
    reason = WorkspaceReadyReason.WORKSPACE_MISSING
    return failed(reason, message, retry_at=None, requeue=CLAIM_AGAIN)


def making_claim(o: SessionObserved) -> tuple[CreateClaim, ...]:
    """Make the claim, where there is to be one and there is none."""
    if not needs_claim(o) or not isinstance(o.claim, Missing) or is_adopted(o.session):
        return ()
    task_uid = o.task.value.metadata.uid if isinstance(o.task, Found) else None
    size = o.platform.workspace_size
    manifest = desired_claim(o.session, task_uid, size, one_pod=o.one_pod_claims)
    return (CreateClaim(manifest),)


def not_made(o: SessionObserved, now: datetime) -> Verdict:
    """What was to be made was refused: a quota may free itself, a person must mend the rest."""
    assert o.failed is not None, "something was refused"
    return Verdict(
        ready="False",
        reason=o.failed.reason,
        message=o.failed.message,
        state=SessionState.ERROR,
        stalled=o.failed.fatal,
        progressing=None if o.failed.fatal else ReconcilingReason.RETRYING,
        retry_at=None if o.failed.fatal else now + timedelta(seconds=30),
        requeue=timedelta(seconds=30),
    )
