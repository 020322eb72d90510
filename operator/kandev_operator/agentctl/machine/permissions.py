"""Permission requests of the agent: answered by policy, or kept open until somebody answers.

A policy may also limit the time: what nobody answered by then is refused.

A request belongs to the live turn and dies with it, with a cancel, or with the process; no agent
asks again. Only options that the agent offered can be chosen. How many are open is bounded: one
too many is refused at once.
"""

from kandev_operator.agentctl.machine import messages
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import (
    AnswerPermission,
    Arm,
    Done,
    Refused,
    Reply,
)
from kandev_operator.agentctl.machine.events import (
    PermissionAsked,
    PermissionChosen,
    PermissionWithdrawn,
    Timer,
)
from kandev_operator.agentctl.machine.state import MAX_PERMISSIONS, OpenPermission
from kandev_operator.agentctl.machine.tables import OPEN
from kandev_operator.contract.agent import Permission, PermissionOption, PermissionPolicy
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind

Options = tuple[tuple[str, str, str], ...]
"""(option_id, name, kind) of each."""
ALLOW = ("allow_once", "allow_always")
DENY = ("reject_once", "reject_always")


def choice(options: Options, kinds: tuple[str, ...]) -> str | None:
    """The first option of the kinds wanted most; none if the agent offers no such thing."""
    for kind in kinds:
        for option_id, _, offered in options:
            if offered == kind:
                return option_id
    return None


def asked(draft: Draft, event: PermissionAsked) -> None:
    """Answer by policy, or open the request."""
    state = draft.state
    if state.turn is None or state.status not in OPEN or state.turn_cancelled:
        draft.acts.append(AnswerPermission(event.execution_id, event.key, None))
        return
    messages.flush(draft)
    number = state.permissions_asked + 1
    draft.set(permissions_asked=number)
    permission = OpenPermission(
        permission_id=f"{event.execution_id}-p{number}",
        key=event.key,
        turn_id=state.turn.turn_id,
        title=event.title,
        tool_kind=event.tool_kind,
        options=event.options,
        at=event.at,
    )
    described = {"permission": describe(permission).model_dump(mode="json")}
    draft.emit(EventKind.PERMISSION_REQUESTED, described)
    policy = state.running_policy
    if policy is PermissionPolicy.ASK and len(state.permissions) < MAX_PERMISSIONS:
        draft.set(
            permissions=(*state.permissions, permission),
            turn=state.turn.model_copy(update={"awaiting_permission": True}),
        )
        if state.running_permission_timeout is not None:
            seconds = state.running_permission_timeout
            draft.acts.append(Arm(Timer.PERMISSION, permission.permission_id, seconds))
        return
    kinds = ALLOW if policy is PermissionPolicy.ALLOW_ALL else DENY
    by = "policy" if policy is not PermissionPolicy.ASK else "too_many_open"
    _answer(draft, permission, choice(event.options, kinds), by)


def chosen(draft: Draft, event: PermissionChosen) -> Reply:
    """Somebody answers an open request; leaving the option out refuses it."""
    found = [p for p in draft.state.permissions if p.permission_id == event.permission_id]
    if not found:
        return Refused(Code.UNKNOWN_PERMISSION, "no such permission request is open")
    permission = found[0]
    option_id = event.option_id
    if option_id is None:
        option_id = choice(permission.options, DENY)
    elif option_id not in {o for o, _, _ in permission.options}:
        return Refused(Code.INVALID_REQUEST, "the agent offered no such option")
    _close(draft, permission)
    _answer(draft, permission, option_id, "caller")
    return Done()


def unanswered(draft: Draft, permission_id: str) -> None:
    """The time that the policy gives a request is over: refused, as nobody allowed it."""
    for permission in draft.state.permissions:
        if permission.permission_id == permission_id:
            _close(draft, permission)
            _answer(draft, permission, choice(permission.options, DENY), "timeout")


def withdrawn(draft: Draft, event: PermissionWithdrawn) -> None:
    """Whoever asked waits no more."""
    for permission in draft.state.permissions:
        if permission.key == event.key:
            _close(draft, permission)
            _resolved(draft, permission, None, "withdrawn")


def close_all(draft: Draft, why: str) -> None:
    """Close what is open: cancelled, or the turn or process it belongs to is over."""
    for permission in draft.state.permissions:
        _close(draft, permission)
        _answer(draft, permission, None, why)


def _close(draft: Draft, permission: OpenPermission) -> None:
    left = tuple(p for p in draft.state.permissions if p is not permission)
    turn = draft.state.turn
    if turn is not None:
        turn = turn.model_copy(update={"awaiting_permission": bool(left)})
    draft.set(permissions=left, turn=turn)


def _answer(draft: Draft, permission: OpenPermission, option_id: str | None, by: str) -> None:
    execution_id = draft.state.execution_id
    if execution_id is not None:
        draft.acts.append(AnswerPermission(execution_id, permission.key, option_id))
    _resolved(draft, permission, option_id, by)


def _resolved(draft: Draft, permission: OpenPermission, option_id: str | None, by: str) -> None:
    draft.emit(
        EventKind.PERMISSION_RESOLVED,
        {
            "permission_id": permission.permission_id,
            "turn_id": permission.turn_id,
            "outcome": "selected" if option_id is not None else "cancelled",
            "option_id": option_id,
            "by": by,
        },
    )


def describe(permission: OpenPermission) -> Permission:
    """The request as callers see it."""
    return Permission(
        permission_id=permission.permission_id,
        turn_id=permission.turn_id,
        title=permission.title,
        tool_kind=permission.tool_kind,
        options=tuple(
            PermissionOption(option_id=o, name=n, kind=k) for o, n, k in permission.options
        ),
        requested_at=permission.at,
    )
