"""What `why` says of the operator's next step, held against what the operator's own rules decide.

Each row is a situation of `core`: it is decided there, and the status that comes of it is read as
the plugin reads it. So a sentence about time is compared with the time that the rule keeps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_profile_seen,
    a_report,
    a_session,
    a_status,
    a_template,
    ago,
    an_executor,
    an_executor_status,
    an_intent,
    an_operation,
    executor_observed,
    session_observed,
    some_conditions,
)
from kandev_operator.api.agent import EnvVar, SecretKeyRef
from kandev_operator.api.executor import Executor
from kandev_operator.api.session import ResumePolicy
from kandev_operator.api.sessionstatus import TaskSessionStatus
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.cli.explain import explain
from kandev_operator.core.observed import (
    Answer,
    Failed,
    FailureSeen,
    Found,
    Missing,
    RuntimeProblem,
    SessionObserved,
    Unreadable,
)
from kandev_operator.core.session import SESSION_RULES
from kandev_operator.core.status import render
from plans import decide, decide_on, waits, with_status
from situations import NOTHING_YET, gone, in_mode, under_way

AGAIN = "every few seconds, and goes on as soon as the cause is gone"
PERSON = "Nothing by itself: it waits for a person."


@dataclass(frozen=True)
class Row:
    """A situation, what is said of it, and in how many seconds the operator itself looks again."""

    name: str
    o: Callable[[], SessionObserved]
    says: str
    looks: float | None = None


def failing(answer: Answer = Answer.UNREACHABLE, since: float = 20, **status: Any) -> Any:
    """An executor whose agentctl cannot be talked to, as its own pass has written it down."""
    began = an_executor_status(**status)
    probe = a_probe(None, answer=answer, failing_since=ago(since), steady_since=ago(since))
    o = executor_observed(an_executor(status=began), probe=probe)
    written = decide_on(o).status
    assert written is not None
    return {"executor": Found(an_executor(status=written)), "probe": probe}


def broken(reason: str, **more: Any) -> Any:
    """An executor that cannot be had as it is specified."""
    o = executor_observed(an_executor(), problem=RuntimeProblem(reason, "so it is"), **more)
    written = decide_on(o).status
    assert written is not None
    return {"executor": Found(an_executor(status=written)), "probe": a_probe(None)}


def failure(code: str, at: float = 1, **more: Any) -> SessionObserved:
    ended = an_operation(state="failed", ended_at=ago(at), failure=FailureSeen(code, "no"))
    return under_way(report={"operations": (ended,)}, **more)


def ready_since(seconds: float, o: SessionObserved) -> SessionObserved:
    """Its executor has been ready for so long."""
    row = a_condition("ExecutorReady", "True", "ExecutorReady", seconds_ago=seconds)
    status = o.session.status.replacing(conditions=some_conditions(row))
    return replace(o, session=o.session.replacing(status=status))


NEVER = {"boot_id": None, "agentctl": "Unknown", "started_at": rfc3339(ago(100))}
SILENT = some_conditions(
    a_condition("AgentctlReady", "Unknown", "AgentctlUnreachable", seconds_ago=20)
)
UNBOUND = an_executor_status(holds=None)
SECRET_ENV = (EnvVar(name="KEY", secret_key_ref=SecretKeyRef(name="s", key="k")),)
ROWS = [
    Row(
        "a task that is missing",
        lambda: session_observed(a_session(), task=Missing()),
        "It waits a minute for what is missing to be applied, which is over in 1 minute",
        60,
    ),
    Row(
        "a Secret that is missing",
        lambda: session_observed(profile=a_profile_seen(unresolved="Secret s")),
        "It looks every few seconds whether what is missing is there",
        5,
    ),
    Row(
        "an executor that is not bound yet",
        lambda: session_observed(executor=Found(an_executor(status=UNBOUND)), report=None),
        "It goes on with the next step as soon as the one before is done.",
    ),
    Row(
        "a busy executor",
        lambda: session_observed(
            a_session(status=a_status(state="CREATED")),
            executor=Found(an_executor(status=an_executor_status(holds="s-b"))),
            report=None,
        ),
        "This wait has no limit of time.",
    ),
    Row(
        "a drained executor",
        lambda: session_observed(
            executor=Found(an_executor(status=UNBOUND, spec={"drain": True})), report=None
        ),
        PERSON,
    ),
    Row(
        "an executor that is being deleted",
        lambda: replace(
            gone(), executor=Found(an_executor(deleting=True, status=an_executor_status()))
        ),
        "It waits until executor ex-a is gone, and goes on in the next one of that name.",
    ),
    Row(
        "an agentctl that has never answered",
        lambda: session_observed(a_session(status=a_status(state="STARTING")), **failing(**NEVER)),
        "An agentctl that never answers has 600 seconds; they are over in 8 minutes 20 seconds",
    ),
    Row(
        "an agentctl that has never answered, and its time is over",
        lambda: session_observed(**failing(**{**NEVER, "started_at": rfc3339(ago(601))})),
        AGAIN,
    ),
    Row(
        "an agentctl that fell silent",
        lambda: session_observed(**failing(since=20, conditions=SILENT)),
        "unreachableGraceSeconds is over, in 40 seconds",
    ),
    Row("an agentctl that stays silent", lambda: session_observed(**failing(since=61)), AGAIN),
    Row("a stranger", lambda: session_observed(**failing(Answer.FOREIGN)), AGAIN),
    Row("a folder that is gone", lambda: session_observed(**broken("WorktreeMissing")), AGAIN),
    Row("not allowed here", lambda: session_observed(**broken("NotAllowed")), PERSON),
    Row(
        "the workspace is another's",
        lambda: session_observed(report=a_report("idle", session="s-b")),
        AGAIN,
        5,
    ),
    Row(
        "a journal that cannot be read",
        lambda: session_observed(report=a_report("none", journal_state="unreadable")),
        AGAIN,
        30,
    ),
    Row(
        "the agent is being asked",
        lambda: ready_since(20, under_way(status={"intent": an_intent(at=rfc3339(ago(10)))})),
        "120 seconds at most; its time is over in 1 minute 50 seconds",
        5,
    ),
    Row(
        "the agent is asked long after that was decided: its executor took its time",
        lambda: ready_since(5, under_way(status={"intent": an_intent(at=rfc3339(ago(300)))})),
        "120 seconds at most; its time is over in 1 minute 55 seconds",
        5,
    ),
    Row(
        "a token that cannot be read",
        lambda: under_way("Start", **NOTHING_YET, secret=Unreadable("403")),
        "It reads the Secret again every few seconds",
        5,
    ),
    Row("a failure that may pass", lambda: failure("agent_error"), "It tries again in"),
    Row("the agent's own no", lambda: failure("rejected"), PERSON),
    Row("no login", lambda: failure("authentication_required"), PERSON),
    Row(
        "no login, and a Secret may bring one",
        lambda: failure("authentication_required", profile=a_profile_seen(env=SECRET_ENV)),
        "It looks every half minute whether a Secret",
        30,
    ),
    Row("a conversation that is gone", lambda: failure("session_not_found"), PERSON),
    Row(
        "tried often enough",
        lambda: failure("agent_error", status={"attempt": 3}),
        PERSON,
    ),
    Row(
        "gone, and to be asked for",
        lambda: gone(policy=ResumePolicy.ON_REQUEST),
        "Nothing until a resume is asked for: resume.policy is OnRequest.",
    ),
    Row(
        "gone, and never to be resumed",
        lambda: gone(policy=ResumePolicy.NEVER),
        "so only a fresh start brings an agent back",
    ),
    Row(
        "being stopped",
        lambda: in_mode("Suspended"),
        "It waits until the agent has ended",
        5,
    ),
    Row(
        "at rest",
        lambda: in_mode("Suspended", report="none"),
        "Nothing until operatingMode is changed",
    ),
    Row("idle", lambda: session_observed(), "Nothing: what was asked for is reached."),
    Row(
        "idle, with a limit",
        lambda: session_observed(
            a_session(
                lifecycle={"idle_timeout_seconds": 600},
                status=a_status(
                    conditions=some_conditions(
                        a_condition("AgentReady", "True", "AgentReady", seconds_ago=100)
                    )
                ),
            )
        ),
        "It suspends the session in 8 minutes 20 seconds",
        500,
    ),
    Row(
        "a template that is refused",
        lambda: session_observed(
            a_session(template=a_template()),
            executor=Missing(),
            report=None,
            failed=Failed("CreateExecutor", "InvalidTemplate", "no such field", fatal=False),
        ),
        "It tries again in 30 seconds",
        30,
    ),
]


def rendered(o: SessionObserved) -> TaskSessionStatus | None:
    """The status as it will be written, be it that the write itself waits for more news."""
    verdict = next(each for rule in SESSION_RULES if (each := rule(o, NOW)) is not None)
    return None if verdict.hold else render(o, verdict, NOW)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_comes_next_is_what_the_rules_do(row: Row) -> None:
    o = row.o()
    plan = decide(o)
    o = with_status(o, rendered(o))
    executor: Executor | None = o.executor.value if isinstance(o.executor, Found) else None
    profile = o.profile.value.profile if isinstance(o.profile, Found) else None
    told = " ".join(explain(o.session, executor, None, profile, NOW).outlook)
    assert row.says in told, f"{told}\n{o.session.status}"
    if row.looks is not None:
        assert waits(plan) == row.looks
