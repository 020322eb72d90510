"""Whole valid objects with overrides by keyword: what a test does not name is unremarkable.

`a_...` makes an object or a value, `..._observed` what a decision reads. Sessions and executors
belong together by default: session `s-a` names executor `ex-a`, both are bound to each other,
and an agentctl answers that serves the session with an idle agent. Names decide UIDs (`uid_of`),
so that two values about one object agree without being told.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from kandev_operator.api import group
from kandev_operator.api import session as sessions
from kandev_operator.api.conditions import Condition, Conditions
from kandev_operator.api.executor import (
    Executor,
    ExecutorSpec,
    ExecutorStatus,
    ExecutorTemplate,
    ExecutorTemplateSpec,
    LocalDockerRuntime,
    LocalStandaloneRuntime,
    PodRuntime,
    RemoteRuntime,
    Runtime,
)
from kandev_operator.api.meta import ObjectMeta
from kandev_operator.api.profile import AgentProfile, AgentProfileSpec
from kandev_operator.api.refs import NameRef, ObjectRef
from kandev_operator.api.session import TaskSession, TaskSessionStatus
from kandev_operator.api.task import Task, TaskSpec, TaskStatus
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import observed as seen

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "team"
HASH = "hash-1"
URL = "http://127.0.0.1:8700"

_UNSAID: Any = object()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def uid_of(name: str) -> str:
    """The UID that objects of this name have unless another is given."""
    return f"uid-{name}"


def a_meta(name: str, **overrides: Any) -> ObjectMeta:
    """Metadata of a stored object."""
    fields: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid_of(name),
        "resource_version": "1",
        "generation": 1,
        "creation_timestamp": rfc3339(ago(3600)),
    }
    if overrides.pop("deleting", False):
        fields["deletion_timestamp"] = rfc3339(ago(1))
    return ObjectMeta(**{**fields, **overrides})


def a_condition(
    type_: str, status: str = "True", reason: str = "Starting", *, seconds_ago: float = 60
) -> Condition:
    """A condition that has had this answer for a while."""
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        observed_generation=1,
        last_transition_time=rfc3339(ago(seconds_ago)),
    )


def some_conditions(*rows: Condition) -> Conditions:
    """Conditions in their order; without rows, those that say an object was seen before."""
    return tuple(sorted(rows or (a_condition("Ready", "False"),), key=lambda each: each.type))


def a_token(value: str = "tok-1", *, established: bool = True, epoch: int = 1) -> seen.TokenSeen:
    """A resume token, with a history unless told otherwise."""
    return seen.TokenSeen(value, sha256(value.encode()).hexdigest(), established, epoch)


def a_token_ref(value: str = "tok-1", *, established: bool = True) -> sessions.ResumeTokenRef:
    """What status says of that token."""
    digest = sha256(value.encode()).hexdigest()
    return sessions.ResumeTokenRef(
        secret_name="s", established=established, sha256_prefix=digest[:12]
    )


# ---- sessions ---------------------------------------------------------------------------


def a_template(worktree: str = "/trees/one") -> ExecutorTemplate:
    """An executor to be made for one session: a local process."""
    local = LocalStandaloneRuntime(worktree_path=worktree)
    return ExecutorTemplate(
        spec=ExecutorTemplateSpec(runtime=Runtime.LOCAL_STANDALONE, local_standalone=local)
    )


_RESUME = ("policy", "max_attempts", "on_failure", "timeout_seconds")


def a_session(
    name: str = "s-a",
    *,
    executor: str | None = "ex-a",
    template: ExecutorTemplate | None = None,
    prompt: sessions.PromptSpec | str | None = None,
    lifecycle: Mapping[str, int] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: TaskSessionStatus | None = None,
    meta: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> TaskSession:
    """A session. `policy`, `max_attempts`, `on_failure` and `timeout_seconds` are of resume;
    every other keyword is a field of metadata (`annotations`, `uid`, `generation`, `deleting`)."""
    resume = {key: overrides.pop(key) for key in _RESUME if key in overrides}
    ref = NameRef(name=executor or "ex-a") if template is None else None
    return TaskSession(
        metadata=a_meta(name, **{**dict(meta or {}), **overrides}),
        spec=sessions.TaskSessionSpec(
            task_ref=NameRef(name="t-1"),
            agent_profile_ref=NameRef(name="claude"),
            executor=sessions.ExecutorChoice(ref=ref, template=template),
            prompt=sessions.PromptSpec(text=prompt) if isinstance(prompt, str) else prompt,
            resume=sessions.ResumeOptions(**resume),
            lifecycle=sessions.LifecycleOptions(**dict(lifecycle or {})),
            **dict(spec or {}),
        ),
        status=status if status is not None else TaskSessionStatus(),
    )


def a_status(**overrides: Any) -> TaskSessionStatus:
    """The status of a session that has come as far as its executor `ex-a`."""
    fields: dict[str, Any] = {
        "observed_generation": 1,
        "state": "STARTING",
        "executor_ref": ObjectRef(name="ex-a", uid=uid_of("ex-a")),
        "epoch": 1,
        "started_at": rfc3339(ago(120)),
        "attempt": 1,
        "profile": sessions.PinnedProfile(uid=uid_of("claude"), generation=1, hash=HASH),
        "conditions": some_conditions(),
    }
    return TaskSessionStatus(**{**fields, **overrides})


def an_intent(
    kind: str = "Resume", *, epoch: int = 1, session: str = "s-a", **more: Any
) -> sessions.Intent:
    """What the operator is about to do for a session."""
    at = more.pop("at", rfc3339(ago(60)))
    return sessions.Intent(operation_id=f"{uid_of(session)}-{epoch}", kind=kind, at=at, **more)


def a_task(name: str = "t-1", *, closed: str | None = None, **overrides: Any) -> Task:
    """A piece of work."""
    status = overrides.pop("status", None) or TaskStatus()
    spec = TaskSpec(title="Faster", closed=closed)
    return Task(metadata=a_meta(name, **overrides), spec=spec, status=status)


def a_profile(name: str = "claude", *, generation: int = 1, **spec: Any) -> AgentProfile:
    """An agent that may do everything."""
    fields: dict[str, Any] = {"command": ("agent",), **spec}
    meta = a_meta(name, generation=generation)
    return AgentProfile(metadata=meta, spec=AgentProfileSpec(**fields))


def a_profile_seen(
    *, hash: str = HASH, unresolved: str = "", **spec: Any
) -> seen.Found[seen.ProfileSeen]:
    """That profile, with everything it names found."""
    return seen.Found(seen.ProfileSeen(a_profile(**spec), hash, unresolved))


# ---- executors --------------------------------------------------------------------------


def an_executor(
    name: str = "ex-a",
    *,
    runtime: Runtime = Runtime.LOCAL_STANDALONE,
    made_for: TaskSession | None = None,
    status: ExecutorStatus | None = None,
    spec: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Executor:
    """An executor; every other keyword is a field of metadata."""
    blocks: dict[Runtime, dict[str, Any]] = {
        Runtime.LOCAL_STANDALONE: {
            "local_standalone": LocalStandaloneRuntime(worktree_path="/trees/one")
        },
        Runtime.REMOTE: {"remote": RemoteRuntime(url="https://build-7.example.com:8443")},
        Runtime.POD: {"pod": PodRuntime()},
        Runtime.LOCAL_DOCKER: {"local_docker": LocalDockerRuntime()},
    }
    meta: dict[str, Any] = {} if runtime is Runtime.POD else {"finalizers": (group.FINALIZER,)}
    if made_for is not None:
        meta["owner_references"] = (made_for.owner_reference(),)
    return Executor(
        metadata=a_meta(name, **{**meta, **overrides}),
        spec=ExecutorSpec(runtime=runtime, **{**blocks[runtime], **dict(spec or {})}),
        status=status if status is not None else ExecutorStatus(),
    )


def an_executor_status(
    *, holds: str | TaskSession | None = "s-a", agentctl: str = "True", **overrides: Any
) -> ExecutorStatus:
    """The status of an executor whose agentctl answers and that holds session `s-a`."""
    reasons = {"True": "AgentctlReady", "False": "AgentctlUnreachable", "Unknown": "Starting"}
    reason = overrides.pop("reason", reasons[agentctl])
    states = {"True": "ready", "False": "error", "Unknown": "starting"}
    fields: dict[str, Any] = {
        "observed_generation": 1,
        "state": states[agentctl],
        "session_ref": ref_to(holds),
        "agentctl_url": URL,
        "instance_id": f"{uid_of('ex-a')}-1",
        "boot_id": "boot-1",
        "pid": 77,
        "started_at": rfc3339(ago(300)),
        "conditions": some_conditions(
            a_condition("AgentctlReady", agentctl, reason), a_condition("Ready", agentctl, reason)
        ),
    }
    return ExecutorStatus(**{**fields, **overrides})


def ref_to(session: str | TaskSession | None) -> ObjectRef | None:
    """A reference to a session."""
    if session is None:
        return None
    if isinstance(session, str):
        return ObjectRef(name=session, uid=uid_of(session))
    return ObjectRef(name=session.metadata.name, uid=session.metadata.uid)


# ---- agentctl ---------------------------------------------------------------------------


def some_capabilities(*, resume: bool | None = True, **overrides: Any) -> seen.CapabilitiesSeen:
    """What the agent of profile `HASH` answered."""
    fields: dict[str, Any] = {
        "supports_session_resume": resume,
        "supports_workspace_only": True,
        "agent_name": "agent",
        "agent_version": "1",
        "profile_hash": HASH,
        "probed_at": rfc3339(ago(200)),
    }
    return seen.CapabilitiesSeen(**{**fields, **overrides})


def a_report(
    phase: seen.AgentPhase | str = seen.AgentPhase.IDLE,
    *,
    session: str | None = "s-a",
    **overrides: Any,
) -> seen.AgentctlReport:
    """The status of an agentctl that serves session `s-a`; its agent is idle."""
    ours = session is not None
    fields: dict[str, Any] = {
        "instance_id": f"{uid_of('ex-a')}-1",
        "boot_id": "boot-1",
        "session_uid": uid_of(session) if session else None,
        "session_namespace": NAMESPACE if ours else None,
        "session_name": session,
        "profile_hash": HASH if ours else None,
        "workspace_path": "/trees/one",
        "epoch": 1 if ours else 0,
        "term": 1 if ours else 0,
        "execution_id": "exec-1" if ours else None,
        "capabilities": some_capabilities() if ours else seen.CapabilitiesSeen(),
        "token": a_token() if ours else None,
        "turns_completed": 1 if ours else 0,
        "journal_state": "ok" if ours else "absent",
    }
    return seen.AgentctlReport(phase=seen.AgentPhase(phase), **{**fields, **overrides})


def an_operation(
    operation_id: str = "uid-s-a-1",
    state: str = "succeeded",
    *,
    code: str | None = None,
    message: str = "the agent's own words",
    **overrides: Any,
) -> seen.OperationSeen:
    """A start that ended a while ago; with `code` it has failed."""
    fields: dict[str, Any] = {
        "kind": "start",
        "mode": "resume",
        "state": "failed" if code else state,
        "ended_at": None if state == "running" and not code else ago(60),
        "failure": seen.FailureSeen(code, message) if code else None,
    }
    return seen.OperationSeen(operation_id, **{**fields, **overrides})


def a_turn(outcome: str | None = None, *, prompt: str = "p-1", at: float = 70) -> seen.TurnSeen:
    """A turn under way since a while ago; with an outcome it has ended then."""
    return seen.TurnSeen(prompt, rfc3339(ago(at)), outcome=outcome)


def a_probe(
    report: seen.AgentctlReport | None = _UNSAID,
    *,
    answer: seen.Answer | None = None,
    **overrides: Any,
) -> seen.Probe:
    """A look at an agentctl. With a report it went well; `None` is an agentctl that is silent."""
    if report is _UNSAID:
        report = a_report()
    told = answer or (seen.Answer.UNREACHABLE if report is None else seen.Answer.WELL)
    bad = told not in (seen.Answer.WELL, seen.Answer.NOT_TRIED)
    fields: dict[str, Any] = {
        "last_seen": None if report is None else ago(5),
        "failing_since": ago(20) if bad else None,
        "message": "connection refused" if bad else "",
        "is_checked": told is seen.Answer.WELL,
    }
    return seen.Probe(answer=told, report=report, **{**fields, **overrides})


# ---- observations -----------------------------------------------------------------------


def session_observed(
    session: TaskSession | None = None,
    *,
    report: seen.AgentctlReport | None = _UNSAID,
    secret: seen.Look[seen.TokenSeen] | None = _UNSAID,
    **overrides: Any,
) -> seen.SessionObserved:
    """What a session's decision reads: everything is there, bound and answers.

    The Secret is looked at as the observer does: when no agent lives and the journal has no token.
    """
    session = session or a_session(status=a_status())
    if report is not _UNSAID:
        overrides["probe"] = a_probe(report)
    fields: dict[str, Any] = {
        "task": seen.Found(a_task()),
        "profile": a_profile_seen(),
        "executor": seen.Found(an_executor(status=an_executor_status(holds=session))),
        "probe": a_probe() if session.status.executor_ref is not None else seen.Probe(),
        "first_prompt": seen.Missing(),
        "term": 1,
    }
    o = seen.SessionObserved(session=session, secret=None, **{**fields, **overrides})
    if secret is _UNSAID:
        own = o.own_report
        asked = o.report is not None and not o.report.is_live and (own is None or own.token is None)
        secret = seen.Missing() if asked else None
    return seen.SessionObserved(session=session, secret=secret, **{**fields, **overrides})


def a_process(instance_id: str = "uid-ex-a-1") -> seen.Found[seen.ProcessSeen]:
    return seen.Found(seen.ProcessSeen(url=URL, pid=77, instance_id=instance_id, boot_id="boot-1"))


def executor_observed(
    executor: Executor | None = None,
    *,
    report: seen.AgentctlReport | None = _UNSAID,
    **overrides: Any,
) -> seen.ExecutorObserved:
    """What an executor's decision reads: it holds session `s-a`, and its agentctl answers."""
    executor = executor or an_executor(status=an_executor_status())
    if report is not _UNSAID:
        overrides["probe"] = a_probe(report)
    local, held = executor.spec.local_standalone is not None, executor.status.session_ref
    bound: seen.Look[TaskSession] = seen.Unreadable("nobody is bound")
    if held is not None:
        ref = ObjectRef(name=executor.metadata.name, uid=executor.metadata.uid)
        bound = seen.Found(a_session(held.name, uid=held.uid, status=a_status(executor_ref=ref)))
    fields: dict[str, Any] = {
        "probe": a_probe(),
        "process": a_process() if local else seen.Missing(),
        "problem": None,
        "claimant": None,
        "owner": seen.Unreadable("made by nobody"),
        "bound": bound,
        "term": 1,
    }
    return seen.ExecutorObserved(executor=executor, **{**fields, **overrides})
