"""Start and stop operations: asked once, stored before done, one outcome for ever.

The same operation id gets the same operation. One start at a time: another of the same epoch is a
conflict, one of a higher epoch supersedes it. A start finds a process that fits, or launches one
after the old one is gone for good: two never live at once. A resume that fails never becomes a new
conversation by itself.
"""

from kandev_operator.agentctl.machine import sameness, tokens, turns
from kandev_operator.agentctl.machine.draft import Draft
from kandev_operator.agentctl.machine.effects import (
    Arm,
    CancelTurn,
    End,
    Launch,
    Open,
    OperationReply,
    Refused,
    Reply,
    StoreExecution,
)
from kandev_operator.agentctl.machine.events import StartAsked, StopAsked, Timer
from kandev_operator.agentctl.machine.state import State, Wish
from kandev_operator.agentctl.machine.tables import ALIVE, Cause
from kandev_operator.contract.errors import Code
from kandev_operator.contract.status import (
    AgentStatus,
    Failure,
    FailureCode,
    Operation,
    OperationState,
)

RESTART_GRACE = 10.0
"""Seconds that a process gets to end when a start needs another one in its place."""
STUCK_GRACE = 5.0
"""Seconds that a process gets to end when it did not answer in time."""


def known(state: State, operation_id: str) -> Operation | None:
    return next((o for o in state.operations if o.operation_id == operation_id), None)


def start(draft: Draft, event: StartAsked) -> Reply:
    """Accept a start, or say why not."""
    state = draft.state
    digest = sameness.of(event)
    if found := known(state, event.operation_id):
        return sameness.conflict(found.request_sha256, digest) or OperationReply(found)
    if refused := _refusal(state, event):
        return refused
    if state.wish is not None:
        message = f"a start of epoch {event.epoch} came in between"
        fail(draft, Failure(code=FailureCode.SUPERSEDED, message=message))
    operation = Operation(
        operation_id=event.operation_id,
        kind="start",
        mode=event.mode,
        epoch=event.epoch,
        state=OperationState.RUNNING,
        started_at=event.at,
        request_sha256=digest,
    )
    if event.mode == "resume" and not (event.token or "").strip():
        ended = {"state": OperationState.FAILED, "ended_at": event.at}
        failure = Failure(code=FailureCode.INVALID_TOKEN, message="the resume token is blank")
        operation = operation.model_copy(update={**ended, "failure": failure})
        draft.put_operation(operation)
        return OperationReply(operation)
    draft.put_operation(operation)
    if event.mode == "new":
        tokens.retire(draft, event.epoch)
    draft.set(
        wish=Wish(
            operation_id=event.operation_id,
            mode=event.mode,
            epoch=event.epoch,
            timeout=event.timeout,
            execution_id=event.execution_id,
            token=event.token,
            mcp_servers=event.mcp_servers,
        )
    )
    _pursue(draft)
    return OperationReply(known(draft.state, event.operation_id) or operation)


def _refusal(state: State, event: StartAsked) -> Refused | None:
    if state.session_id is None or state.profile_hash is None:
        return Refused(Code.NO_AGENT, "no agent is configured; PUT it first")
    if state.shutting_down:
        return Refused(Code.WORKSPACE_IN_USE, "this agentctl is about to end")
    if state.wish is not None and event.epoch <= state.wish.epoch:
        details = {"operation_id": state.wish.operation_id}
        return Refused(Code.OPERATION_CONFLICT, "another start is under way", details)
    return None


def _pursue(draft: Draft) -> None:
    """Take the next step towards the wish, from wherever the process is."""
    state = draft.state
    wish = state.wish
    if wish is None:
        return
    fits = state.running_hash == state.profile_hash
    match state.status:
        case AgentStatus.NONE | AgentStatus.EXITED:
            launch(draft, wish.execution_id)
            _limit(draft, wish)
        case AgentStatus.INITIALIZED if fits:
            open_conversation(draft)
        case AgentStatus.INITIALIZING if fits:
            _limit(draft, wish)  # goes on when it has initialized
        case AgentStatus.IDLE | AgentStatus.RUNNING if fits and _is_open(state, wish):
            _succeed(draft, None, replaced=False)
        case AgentStatus.STOPPING:
            pass  # goes on when the old process is gone
        case _:
            end(draft, RESTART_GRACE)


def _limit(draft: Draft, wish: Wish) -> None:
    """The time that a start may take counts from here: its process is at work."""
    draft.acts.append(Arm(Timer.START, wish.operation_id, wish.timeout))


def out_of_time(draft: Draft, operation_id: str) -> None:
    """The start took longer than it may; the process goes, the next try gets a fresh one."""
    state = draft.state
    wish = state.wish
    if wish is None or wish.operation_id != operation_id:
        return
    if state.status is AgentStatus.INITIALIZING:
        message = f"initialize was not answered within {wish.timeout:g} s"
    elif state.status is AgentStatus.OPENING:
        message = f"the conversation was not open within {wish.timeout:g} s"
    else:
        return
    fail(draft, Failure(code=FailureCode.TIMED_OUT, message=message))
    end(draft, STUCK_GRACE)


def _is_open(state: State, wish: Wish) -> bool:
    """The very conversation that is asked for is the one that is open."""
    return wish.mode == "resume" and wish.token == state.opened_token


def launch(draft: Draft, execution_id: str) -> None:
    """Make a process; whatever the last one left is forgotten."""
    state = draft.state
    draft.set(
        execution_id=execution_id,
        silent=False,
        exit=None,
        probe=None,
        running_hash=state.profile_hash,
        running_policy=state.policy,
        running_permission_timeout=state.permission_timeout,
        running_profile_uid=state.profile_uid,
        opened_token=None,
        turns_begun=0,
        messages_begun=0,
        permissions_asked=0,
        replayed=0,
        stray=0,
    )
    draft.stores.append(StoreExecution(execution_id, None))
    draft.move(Cause.LAUNCH)
    draft.acts.append(Launch(execution_id))


def open_conversation(draft: Draft) -> None:
    """The process is initialized and a start waits for it."""
    state = draft.state
    wish, execution_id = state.wish, state.execution_id
    if wish is None or execution_id is None:
        return
    if operation := known(state, wish.operation_id):
        draft.put_operation(operation.model_copy(update={"execution_id": execution_id}))
    if failure := _hopeless(state, wish):
        fail(draft, failure)
        draft.acts.append(Arm(Timer.PROBE_IDLE, execution_id))
        return
    draft.move(Cause.OPEN)
    draft.acts.append(
        Open(execution_id, wish.operation_id, wish.mode, wish.token, wish.mcp_servers, wish.timeout)
    )


def _hopeless(state: State, wish: Wish) -> Failure | None:
    """What is known not to work is not asked of the agent."""
    if (transport := _untaken(state, wish)) is not None:
        message = f"the agent does not connect to MCP servers by {transport}"
        return Failure(code=FailureCode.REJECTED, message=message)
    if wish.mode == "resume" and wish.token is not None:
        return tokens.foreign(state, wish.token)
    return None


def _untaken(state: State, wish: Wish) -> str | None:
    """A way to reach an MCP server that the agent declares not to have."""
    can = state.capabilities.mcp
    if can is None:
        return None
    kinds = (str(server.get("type", "stdio")) for server in wish.mcp_servers)
    taken = {"stdio": True, "http": can.http, "sse": can.sse}
    return next((kind for kind in kinds if not taken.get(kind, True)), None)


def opened(draft: Draft, method: str, token: str) -> None:
    """The agent opened the conversation of the running start, under this id."""
    wish = draft.state.wish
    if wish is None:
        return
    current = draft.state.token
    replaced = wish.mode == "resume" and token != wish.token
    if wish.mode == "new" or replaced:
        # Nothing was ever completed under an id that is new.
        established = False
    else:
        # A conversation that came back from another life was stored by the agent.
        established = current is None or current.value != token or current.established
    draft.set(opened_token=token)
    tokens.adopt(draft, token, established=established, epoch=wish.epoch)
    draft.move(Cause.OPENED)
    _succeed(draft, method, replaced=replaced)


def _succeed(draft: Draft, method: str | None, *, replaced: bool) -> None:
    state = draft.state
    wish = state.wish
    if wish is None:
        return
    draft.set(wish=None)
    if operation := known(state, wish.operation_id):
        draft.put_operation(
            operation.model_copy(
                update={
                    "state": OperationState.SUCCEEDED,
                    "ended_at": draft.at,
                    "execution_id": state.execution_id,
                    "method": method,
                    "token_replaced": replaced,
                }
            )
        )
    turns.pump(draft)


def fail(draft: Draft, failure: Failure) -> None:
    """The running start is over without success."""
    state = draft.state
    if state.wish is None:
        return
    draft.set(wish=None)
    if operation := known(state, state.wish.operation_id):
        ended = {"state": OperationState.FAILED, "ended_at": draft.at, "failure": failure}
        draft.put_operation(operation.model_copy(update=ended))


def stop(draft: Draft, event: StopAsked) -> Reply:
    """Accept a stop; it supersedes a start under way."""
    state = draft.state
    digest = sameness.of(event)
    if found := known(state, event.operation_id):
        return sameness.conflict(found.request_sha256, digest) or OperationReply(found)
    if state.session_id is None:
        return Refused(Code.NO_AGENT, "no session is served here yet")
    fail(draft, Failure(code=FailureCode.SUPERSEDED, message="a stop came in between"))
    operation = Operation(
        operation_id=event.operation_id,
        kind="stop",
        epoch=event.epoch,
        state=OperationState.RUNNING,
        started_at=event.at,
        execution_id=state.execution_id if state.status in ALIVE else None,
        request_sha256=digest,
    )
    draft.put_operation(operation)
    if event.drop_queue:
        turns.drop_queue(draft, "a stop dropped the prompts that waited")
    draft.set(probe=None)
    if state.status in ALIVE:
        end(draft, event.grace)
    else:
        draft.move(Cause.FORGET)
        if state.execution_id is not None:
            draft.stores.append(StoreExecution(state.execution_id, "asked"))
        stops_done(draft)
    return OperationReply(known(draft.state, event.operation_id) or operation)


def end(draft: Draft, grace: float) -> None:
    """Begin to end the process, if that has not begun yet."""
    state = draft.state
    if state.status is AgentStatus.STOPPING or state.execution_id is None:
        return
    draft.move(Cause.END)
    if state.turn is not None and state.opened_token is not None:
        # A turn under way is asked to stop first, so that the agent stores what it has.
        draft.set(turn_cancelled=True)
        draft.acts.append(CancelTurn(state.execution_id, state.opened_token))
    draft.acts.append(End(state.execution_id, grace))


def stops_done(draft: Draft) -> None:
    """No process is left: every stop that waited for that is done."""
    for operation in draft.state.operations:
        if operation.kind == "stop" and operation.state is OperationState.RUNNING:
            ended = {"state": OperationState.SUCCEEDED, "ended_at": draft.at}
            draft.put_operation(operation.model_copy(update=ended))


def go_on(draft: Draft) -> None:
    """No process is left: launch for the start, or the probe, that waited for that."""
    state = draft.state
    if state.shutting_down:
        return
    if state.wish is not None:
        _pursue(draft)
    elif state.probe is not None and state.status is AgentStatus.NONE:
        launch(draft, state.probe)
