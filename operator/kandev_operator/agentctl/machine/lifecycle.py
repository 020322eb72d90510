"""What the agent's process does, and what follows for everything that hangs on it.

Each event here belongs to one execution; those of an older one never arrive (see `step`). A
process that was asked to end leaves the status `none`, one that died leaves `exited` and tells
how. Its turn is interrupted, its permission requests are closed, the queue stays.
"""

from kandev_operator.agentctl.machine import (
    messages,
    offers,
    operations,
    permissions,
    settings,
    tokens,
    turns,
)
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import (
    Arm,
    ConfiguredReply,
    Refused,
    Reply,
    StoreCapabilities,
    StoreExecution,
)
from kandev_operator.agentctl.machine.events import (
    Configured,
    Exited,
    Initialized,
    InitializeFailed,
    Opened,
    OpenFailed,
    ShutDown,
    StreamBroken,
    Timer,
    TimerFired,
)
from kandev_operator.agentctl.machine.state import NOTHING_OFFERED
from kandev_operator.agentctl.machine.tables import ALIVE, Cause
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    AgentStatus,
    Capabilities,
    Failure,
    FailureCode,
)

PROBE_GRACE = 5.0
"""Seconds that an unused or unsuited process gets to end."""


def configured(draft: Draft, event: Configured) -> Reply:
    """Another configuration counts from the next launch on; with no process, it is probed."""
    state = draft.state
    if state.session_id is None:
        return Refused(Code.NO_AGENT, "no session is served here yet")
    if state.profile_hash == event.profile_hash:
        return ConfiguredReply(False)
    draft.set(
        profile_hash=event.profile_hash,
        policy=event.policy,
        permission_timeout=event.permission_timeout,
        profile_uid=event.profile_uid,
    )
    if state.shutting_down:
        return ConfiguredReply(True)
    if state.status not in ALIVE:
        operations.launch(draft, event.execution_id)
    else:
        draft.set(probe=event.execution_id)
        if state.status is AgentStatus.INITIALIZED:
            # A probed process of the old configuration: of no use any more.
            operations.end(draft, PROBE_GRACE)
    return ConfiguredReply(True)


def initialized(draft: Draft, event: Initialized) -> None:
    """The probe's answer; a start that waits goes on."""
    if draft.state.status is not AgentStatus.INITIALIZING:
        return
    _learn(draft, event.capabilities)
    draft.move(Cause.INITIALIZED)
    state = draft.state
    if state.running_hash != state.profile_hash:
        operations.end(draft, PROBE_GRACE)
    elif state.wish is not None:
        operations.open_conversation(draft)
    else:
        draft.acts.append(Arm(Timer.PROBE_IDLE, event.execution_id))


def _learn(draft: Draft, capabilities: Capabilities) -> None:
    told = capabilities.model_copy(update={"profile_hash": draft.state.running_hash})
    draft.set(capabilities=told)
    draft.stores.append(StoreCapabilities(told))
    draft.emit(EventKind.CAPABILITIES, {"capabilities": told.model_dump(mode="json")})


def initialize_failed(draft: Draft, event: InitializeFailed) -> None:
    """The probe failed: an outcome to tell, and the end of a start that waited for it."""
    state = draft.state
    if not event.launched:
        if state.status in (AgentStatus.INITIALIZING, AgentStatus.STOPPING):
            stopping = state.status is AgentStatus.STOPPING
            _never_ran(draft, event.failure, told=not stopping)
        return
    if state.status is not AgentStatus.INITIALIZING:
        return
    _probe_failure(draft, event.failure)
    operations.fail(draft, event.failure)
    if event.failure.code != FailureCode.AGENT_EXITED:  # then its exit is on the way
        operations.end(draft, PROBE_GRACE)


def _probe_failure(draft: Draft, failure: Failure) -> None:
    same = draft.state.capabilities.profile_hash == draft.state.running_hash
    # What the same configuration answered before is still the best that is known of it.
    base = draft.state.capabilities if same else draft.state.unprobed
    _learn(draft, base.model_copy(update={"failure": failure, "probed_at": draft.at}))


def _never_ran(draft: Draft, failure: Failure, *, told: bool) -> None:
    if told:
        _probe_failure(draft, failure)
        operations.fail(draft, failure)
    if draft.state.execution_id is not None:
        draft.stores.append(StoreExecution(draft.state.execution_id, "asked"))
    draft.move(Cause.NEVER_RAN)
    operations.stops_done(draft)
    operations.go_on(draft)


def opened(draft: Draft, event: Opened) -> None:
    """The conversation is open; anything but the running start's own answer is dropped."""
    state = draft.state
    if state.status is not AgentStatus.OPENING or state.wish is None:
        return
    if state.wish.operation_id == event.operation_id:
        told = offers.of_answer(event.answer)
        settings.learn(draft, offers.merged(told, state.conversation))
        operations.opened(draft, event.method, event.token)


def open_failed(draft: Draft, event: OpenFailed) -> None:
    """The start failed. The process goes too: the next try gets a fresh one."""
    state = draft.state
    if state.status is not AgentStatus.OPENING or state.wish is None:
        return
    if state.wish.operation_id != event.operation_id:
        return
    operations.fail(draft, tokens.judged(state, event.failure))
    if event.failure.code != FailureCode.AGENT_EXITED:
        operations.end(draft, PROBE_GRACE)


def stream_broken(draft: Draft, event: StreamBroken) -> None:
    """A living process that cannot be talked to any more: what waits for it fails, it goes."""
    state = draft.state
    if state.status is AgentStatus.STOPPING or state.status not in ALIVE:
        return  # it goes already; a start that waits for that is not about this process
    if state.status is AgentStatus.INITIALIZING:
        _probe_failure(draft, event.failure)
    operations.fail(draft, event.failure)
    turns.over(draft, "failed", failure=event.failure)
    settings.give_up(draft, event.failure)
    operations.end(draft, PROBE_GRACE)


def exited(draft: Draft, event: Exited) -> None:
    """The process is gone."""
    state = draft.state
    if state.status not in ALIVE:
        return
    asked = state.status is AgentStatus.STOPPING
    messages.flush(draft)
    permissions.close_all(draft, "agent_gone")
    turns.over(draft, "interrupted")
    failure = Failure(code=FailureCode.AGENT_EXITED, message=_describe(event))
    settings.give_up(draft, failure)
    if not asked:
        if state.status is AgentStatus.INITIALIZING:
            _probe_failure(draft, failure)
        operations.fail(draft, failure)
    draft.set(exit=event.exit, opened_token=None, speech=None, conversation=NOTHING_OFFERED)
    draft.stores.append(StoreExecution(event.execution_id, "asked" if asked else "unasked"))
    draft.move(Cause.ENDED if asked else Cause.DIED)
    operations.stops_done(draft)
    operations.go_on(draft)


def _describe(event: Exited) -> str:
    how = f"signal {event.exit.signal}" if event.exit.signal else f"code {event.exit.code}"
    tail = event.exit.stderr_tail.strip()[-400:]
    return f"the agent ended with {how}" + (f": {tail}" if tail else "")


def timer_fired(draft: Draft, event: TimerFired) -> None:
    """Act on a timer whose key is still what it was armed for."""
    state = draft.state
    match event.timer:
        case Timer.PROBE_IDLE:
            unused = state.status is AgentStatus.INITIALIZED and state.wish is None
            if unused and state.execution_id == event.key:
                operations.end(draft, PROBE_GRACE)
        case Timer.CANCEL_GRACE:
            turns.cancel_unanswered(draft, event.key)
        case Timer.FLUSH:
            messages.flush_due(draft, event.key)
        case Timer.PERMISSION:
            permissions.unanswered(draft, event.key)
        case Timer.START:
            operations.out_of_time(draft, event.key)


def shut_down(draft: Draft, event: ShutDown) -> Reply | None:
    """agentctl ends: no new process from now on; the one that lives ends gently."""
    failure = Failure(code=FailureCode.INTERRUPTED, message="agentctl is about to end")
    operations.fail(draft, failure)
    cut = draft.state.turn is not None and not draft.state.turn_cancelled
    draft.set(shutting_down=True, turn_cut=cut)
    if draft.state.status in ALIVE:
        operations.end(draft, event.grace)
    return None
