"""Hypothesis's vocabulary: observations of every kind, likely or not, but never impossible ones.

Values are drawn from small pools of few names, so that by chance they agree often enough: a
report may be about this session, about one of the same name under an older UID, or about
another; an operation may be the intent's own. Times lie around `NOW`.
"""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from builders import (
    NAMESPACE,
    a_condition,
    a_probe,
    a_process,
    a_profile,
    a_profile_seen,
    a_session,
    a_task,
    a_template,
    a_token,
    a_token_ref,
    an_executor,
    an_executor_status,
    an_intent,
    some_conditions,
    uid_of,
)
from kandev_operator.api import conditions
from kandev_operator.api.agent import Capabilities
from kandev_operator.api.executor import ExecutorStatus, Runtime
from kandev_operator.api.refs import KeyRef, ObjectRef
from kandev_operator.api.session import (
    FirstPromptStatus,
    IntentKind,
    OperatingMode,
    PinnedProfile,
    PromptSource,
    PromptSpec,
    SessionState,
    TaskSession,
    TaskSessionStatus,
)
from kandev_operator.contract.status import FailureCode
from kandev_operator.core.observed import (
    AgentctlReport,
    AgentPhase,
    Answer,
    CapabilitiesSeen,
    ExecutorObserved,
    Failed,
    FailureSeen,
    Found,
    Missing,
    OperationSeen,
    Probe,
    ProfileSeen,
    RuntimeProblem,
    SessionObserved,
    TurnSeen,
)
from pools import (
    epochs,
    hashes,
    looks,
    maybe,
    moments,
    mostly,
    nowhere,
    one_of,
    some_conditions_of,
    stamps,
    unknown_or,
    wishes,
)

# ---- agentctl ---------------------------------------------------------------------------

tokens = st.builds(a_token, st.sampled_from(["tok-1", "tok-2"]), established=maybe, epoch=epochs)
failures = st.builds(
    FailureSeen, st.sampled_from([*map(str, FailureCode), "from_the_future"]), st.just("no")
)
operations = st.builds(
    OperationSeen,
    st.builds("uid-s-a-{}".format, st.integers(0, 4)),
    kind=st.sampled_from(["start", "start", "stop"]),
    mode=st.sampled_from(["new", "resume"]),
    state=st.sampled_from(["running", "succeeded", "failed"]),
    ended_at=st.none() | moments,
    token_replaced=maybe,
    failure=st.none() | failures,
)
turns = st.builds(
    TurnSeen,
    prompt_id=st.sampled_from(["first", "p-1"]),
    at=mostly(stamps, st.just("soon")),
    outcome=st.sampled_from(["completed", "interrupted", "cancelled", "failed"]),
    awaiting_permission=maybe,
)
capabilities_seen = st.builds(
    CapabilitiesSeen,
    supports_session_resume=unknown_or,
    supports_workspace_only=unknown_or,
    agent_name=st.sampled_from([None, "agent"]),
    profile_hash=st.none() | hashes,
    probed_at=mostly(stamps, st.sampled_from([None, "soon"])),
    failure=mostly(st.none(), failures),
)
served = st.sampled_from(
    [("uid-s-a", "s-a")] * 9 + [("uid-before", "s-a"), ("uid-s-b", "s-b"), (None, None)]
)


@st.composite
def reports(draw: Any) -> AgentctlReport:
    """Whatever an agentctl may say."""
    uid, name = draw(served)
    return AgentctlReport(
        instance_id=draw(st.sampled_from(["uid-ex-a-1", "uid-ex-a-1", "uid-ex-a-2"])),
        boot_id="boot-1",
        phase=draw(st.sampled_from(AgentPhase)),
        session_uid=uid,
        session_namespace=NAMESPACE if name else None,
        session_name=name,
        profile_hash=draw(st.none() | hashes),
        workspace_path="/trees/one",
        term=draw(st.sampled_from([0, 1, 1, 1, 1, 1, 1, 2])),
        epoch=draw(epochs),
        execution_id=draw(st.sampled_from([None, "exec-1"])),
        exit_text=draw(st.sampled_from(["", "It ended with code 1."])),
        exited_at=draw(st.none() | moments),
        capabilities=draw(capabilities_seen),
        token=draw(st.none() | tokens),
        journal_state=draw(st.sampled_from(["ok", "ok", "ok", "absent", "unreadable", "full"])),
        operations=tuple(draw(st.lists(operations, max_size=2, unique_by=_operation_id))),
        turn=draw(st.none() | turns),
        last_turn=draw(st.none() | turns),
        turns_completed=draw(st.integers(0, 1)),
        prompts=draw(st.sampled_from([(), (("first", "queued"),), (("first", "delivered"),)])),
    )


def _operation_id(operation: OperationSeen) -> str:
    return operation.operation_id


@st.composite
def probes(draw: Any) -> Probe:
    """However a look at an agentctl may end."""
    answer = draw(st.sampled_from([Answer.WELL] * 14 + list(Answer)))
    well = answer is Answer.WELL
    bad = answer not in (Answer.WELL, Answer.NOT_TRIED)
    return Probe(
        answer=answer,
        failing_since=draw(moments) if bad else None,
        last_seen=draw(st.none() | moments),
        message="connection refused" if bad else "",
        steady_since=draw(st.none() | moments) if bad else None,
        report=draw(reports()) if well else draw(st.none() | reports()),
        is_checked=well,
    )


# ---- objects ----------------------------------------------------------------------------

intents = st.builds(
    lambda epoch, kind, at: an_intent(kind, epoch=epoch, at=at),
    st.integers(1, 4),
    st.sampled_from([*map(str, IntentKind), "Teleport"]),
    stamps,
)
here = ObjectRef(name="ex-a", uid=uid_of("ex-a"))
statuses = st.builds(
    TaskSessionStatus,
    observed_generation=st.just(1),
    state=st.sampled_from([None, *map(str, SessionState)]),
    executor_ref=st.sampled_from([here] * 8 + [None, ObjectRef(name="ex-b", uid="uid-ex-b")]),
    is_agent_running=unknown_or,
    agent_execution_id=st.sampled_from([None, "exec-1"]),
    capabilities=st.none() | st.builds(Capabilities, supports_session_resume=unknown_or),
    resume_token_ref=st.sampled_from(
        [None, a_token_ref(), a_token_ref("tok-2", established=False)]
    ),
    epoch=epochs,
    intent=st.none() | intents,
    started_at=st.none() | stamps,
    attempt=st.none() | st.integers(1, 3),
    next_attempt_at=st.none() | stamps,
    profile=st.none() | st.builds(PinnedProfile, uid=st.just("uid-claude"), hash=hashes),
    first_prompt=st.sampled_from([None, FirstPromptStatus(id="first", fate="accepted")]),
    last_handled_resume_request=wishes,
    last_handled_fresh_start_request=wishes,
    conditions=some_conditions_of("TaskSession"),
)
prompts = st.sampled_from(
    [
        None,
        PromptSpec(text="Go"),
        PromptSpec(from_=PromptSource(secret_key_ref=KeyRef(name="p", key="k"))),
    ]
)


templates = one_of([None, a_template()])


@st.composite
def sessions(draw: Any) -> TaskSession:
    """Session `s-a`, in whatever condition."""
    named = {
        "kandev.dev/resume-requested": draw(wishes),
        "kandev.dev/fresh-start-requested": draw(wishes),
        "argocd.argoproj.io/tracking-id": draw(st.sampled_from([None, None, None, "app"])),
    }
    limits = st.sampled_from([None] * 6 + [30, 300])
    lifecycle = {
        "idle_timeout_seconds": draw(limits),
        "max_duration_seconds": draw(limits),
        "ttl_seconds_after_finished": draw(limits),
    }
    modes = [OperatingMode.RUNNING] * 6 + list(OperatingMode)
    return a_session(
        template=draw(templates),
        prompt=draw(prompts),
        lifecycle={key: value for key, value in lifecycle.items() if value is not None},
        spec={"operating_mode": draw(st.sampled_from(modes))},
        status=draw(mostly(statuses, st.just(TaskSessionStatus()))),
        policy=draw(st.sampled_from(["Auto", "Auto", "OnRequest", "Never"])),
        on_failure=draw(st.sampled_from(["Error", "Error", "FreshConversation"])),
        annotations={key: value for key, value in named.items() if value is not None},
        deleting=draw(st.sampled_from([False] * 9 + [True])),
    )


conditions_of_executors = some_conditions_of("Executor")
STATES: dict[str | None, list[str]] = {
    "True": ["ready"],
    "Unknown": ["starting"],
    "False": ["error", "stopped"],
    None: ["starting"],
}
"""What an executor's state can be with each answer of AgentctlReady."""

makers = one_of([None, a_session()])


@st.composite
def executors(draw: Any) -> Any:
    """Executor `ex-a`, of any runtime and in whatever condition."""
    runtime = draw(st.sampled_from([Runtime.LOCAL_STANDALONE] * 3 + [Runtime.REMOTE, Runtime.POD]))
    holder = draw(st.sampled_from(["s-a"] * 8 + [None, "s-b"]))
    told = draw(conditions_of_executors)
    known = conditions.get(told, "AgentctlReady")
    status = ExecutorStatus(
        state=draw(st.sampled_from(STATES[known.status if known else None])),
        session_ref=ObjectRef(name=holder, uid=uid_of(holder)) if holder else None,
        agentctl_url=draw(
            st.sampled_from([None, "http://127.0.0.1:8700", "https://build-7.example.com:8443"])
        ),
        instance_id=draw(st.sampled_from([None, "uid-ex-a-1", "uid-ex-a-1"])),
        boot_id=draw(st.sampled_from([None, "boot-1", "boot-1"])),
        started_at=draw(st.none() | stamps),
        attempt=draw(st.none() | st.integers(1, 4)),
        next_attempt_at=draw(st.none() | stamps),
        error_message=draw(st.sampled_from([None, "oom_killed: too much"])),
        conditions=told,
    )
    meta = {"deleting": draw(st.sampled_from([False] * 5 + [True]))}
    if draw(st.sampled_from([False, False, True])):
        meta["finalizers"] = ()
    spec = {"drain": draw(st.sampled_from([False] * 5 + [True])), "drain_deadline_seconds": 60}
    made_for = draw(makers)
    return an_executor(runtime=runtime, made_for=made_for, status=status, spec=spec, **meta)


failed = st.builds(
    Failed,
    st.sampled_from(["CreateExecutor", "StartProcess", "StartAgent"]),
    st.sampled_from(["InvalidTemplate", "QuotaExceeded"]),
    st.just("no such thing"),
    maybe,
)


@st.composite
def sessions_observed(draw: Any) -> SessionObserved:
    """Whatever a session's pass may see."""
    profile = a_profile(supports_session_resume=draw(maybe), supports_workspace_only=draw(maybe))
    unresolved = draw(st.sampled_from([*[""] * 8, "Secret keys has no key k."]))
    closed = draw(mostly(st.none(), st.sampled_from(["Completed", "Cancelled"])))
    probe = draw(probes())
    looked_at = probe.answer is Answer.WELL and probe.report and not probe.report.is_live
    secret = looks(tokens) if looked_at else st.none()
    return SessionObserved(
        session=draw(sessions()),
        task=draw(looks(st.just(a_task(closed=closed)))),
        profile=draw(looks(st.builds(ProfileSeen, st.just(profile), hashes, st.just(unresolved)))),
        executor=draw(looks(executors())),
        probe=probe,
        secret=draw(st.none() | secret),
        first_prompt=draw(looks(st.just("Go"))),
        term=1,
        failed=draw(mostly(st.none(), failed)),
    )


others = one_of(
    [
        a_session(name, status=TaskSessionStatus(executor_ref=ref, conditions=told))
        for name in ("s-a", "s-b")
        for ref in (None, here, ObjectRef(name="ex-b", uid="uid-ex-b"))
        for told in (
            (),
            some_conditions(),
            some_conditions(a_condition("Finished", "True", "Completed")),
        )
    ]
)
"""Sessions as far as an executor's pass reads them."""


@st.composite
def ladders_observed(draw: Any) -> SessionObserved:
    """What a session's pass may see where everything but the conversation is in order."""
    o: SessionObserved = draw(sessions_observed())
    session = o.session
    status = session.status.replacing(executor_ref=here, epoch=4)
    unsaid = {} if session.status.conditions else {"conditions": some_conditions()}
    ours = {"session_uid": "uid-s-a", "session_name": "s-a", "session_namespace": NAMESPACE}
    report = replace(draw(reports()), **ours, term=1, epoch=1, journal_state="ok")
    meta = session.metadata.replacing(deletion_timestamp=None)
    return replace(
        o,
        session=session.replacing(metadata=meta, status=status.replacing(**unsaid)),
        task=Found(a_task()),
        profile=a_profile_seen(),
        executor=Found(an_executor(status=an_executor_status())),
        probe=a_probe(report),
        secret=draw(looks(tokens)) if draw(maybe) and not report.is_live else None,
    )


@st.composite
def executors_observed(draw: Any) -> ExecutorObserved:
    """Whatever an executor's pass may see."""
    executor = draw(executors())
    local = executor.spec.runtime is Runtime.LOCAL_STANDALONE
    processes = st.sampled_from(["uid-ex-a-1", "uid-ex-a-1", "uid-gone-1"]).map(a_process)
    problems = st.builds(
        RuntimeProblem, st.sampled_from(["NotAllowed", "WorktreeMissing"]), st.just("no")
    )
    return ExecutorObserved(
        executor=executor,
        probe=draw(probes()),
        process=draw(mostly(processes, nowhere)) if local else Missing(),
        problem=draw(mostly(st.none(), problems)),
        claimant=draw(st.none() | others),
        owner=draw(looks(others)),
        bound=draw(looks(others)),
        term=1,
        task_uid=draw(st.sampled_from([None, "uid-t-1"])),
        failed=draw(mostly(st.none(), failed)),
    )


def tasks_observed() -> st.SearchStrategy[Any]:
    """A task and its sessions."""
    states = st.sampled_from([None, *map(str, SessionState)])
    some = st.lists(states, max_size=4).map(
        lambda all_: [a_session(status=TaskSessionStatus(state=state)) for state in all_]
    )
    closed = st.sampled_from([None, None, "Completed", "Cancelled"])
    return st.tuples(closed.map(lambda each: a_task(closed=each)), some)
