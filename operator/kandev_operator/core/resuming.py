"""The questions of resuming: for a session that should run and has no live agent.

First the intent that is under way: done under its operation id, however often it takes, then its
outcome. Then, for an agent that is gone: is there a conversation, may it be resumed, and does the
policy (or a person) ask for it? Whether a resume is allowed is asked of `ladder`, what a failure
means of `failures`, when to try again of `backoff`. A live agent never comes here.
"""

from datetime import datetime, timedelta

from kandev_operator.api.conditions import FALSE
from kandev_operator.api.reasons import AgentReadyReason, ResumableReason, StalledReason
from kandev_operator.api.session import (
    Intent,
    IntentKind,
    ResumeFailure,
    ResumePolicy,
    SessionState,
)
from kandev_operator.api.timestamps import moment
from kandev_operator.core import backoff, failures, ladder, lifecycle
from kandev_operator.core.actions import Action, RetireToken, StartAgent
from kandev_operator.core.failures import Handling
from kandev_operator.core.intents import (
    GUARD,
    SETTLED,
    answered,
    attempts,
    begin,
    configuring,
    epoch_of,
    must_stop,
    report_of,
    secret_name,
    stopping,
)
from kandev_operator.core.observed import (
    AgentPhase,
    FailureSeen,
    Found,
    OperationSeen,
    SessionObserved,
    TokenSeen,
)
from kandev_operator.core.stored import told_moment
from kandev_operator.core.verdict import Verdict, failed, underway


def intent_under_way(o: SessionObserved, now: datetime) -> Verdict | None:
    """Do what the intent says, wait for its outcome, or judge its failure."""
    intent = o.session.status.intent
    if intent is None:
        return None
    report = report_of(o)
    operation = report.operation(intent.operation_id) if o.own_report else None
    if operation is None:
        return _carry_out(o, now)
    if operation.state == "running":
        return _waiting(o, requeue=GUARD)
    if operation.state == "failed":
        return _judge(o, operation, now)
    if report.phase in (AgentPhase.OPENING, AgentPhase.STOPPING):
        return _waiting(o, requeue=GUARD)
    return None


def kind_of(intent: Intent) -> IntentKind:
    """The kind of an intent; one that this version does not know resumes nothing by itself."""
    known = {str(kind): kind for kind in IntentKind}
    return known.get(intent.kind, IntentKind.START)


def _carry_out(o: SessionObserved, now: datetime) -> Verdict:
    """The intent is not done yet: configure, ask again what must be asked, then do it."""
    intent = o.session.status.intent
    assert intent is not None, "there is an intent to carry out"
    kind = kind_of(intent)
    if o.own_report is None:
        # The workspace may remember this session under an older UID: first make it ours, then
        # read what it remembers, and only then decide what "start" means.
        return _waiting(o, actions=configuring(o))
    if kind is not IntentKind.RESUME and ladder.had_turn(o):
        # A start that was done before, by a journal that is lost or under an older UID.
        if not _may_resume(o):
            return _left_alone(o, intent=None)
        said = "The workspace holds a conversation of this session: it is resumed."
        return begin(o, IntentKind.RESUME, said, attempt=1)
    retiring = ladder.is_retiring(o)
    if kind is not IntentKind.RESUME and not retiring and ladder.token_unreadable(o):
        return _token_unknown(o)
    if kind is IntentKind.FRESH_START and must_stop(o):
        return stopping(o)
    configure = configuring(o)
    if kind is not IntentKind.RESUME:
        actions: tuple[Action, ...] = configure
        if retiring:
            actions = (*actions, RetireToken(secret_name(o), epoch_of(o)))
        return _waiting(o, actions=(*actions, _start(o, intent.operation_id, None)))
    token = ladder.known_token(o)
    if token is None:
        return _no_token(o, now)
    live = ladder.live_capability(o)
    if live is False:
        return _unable(o)
    if live is None:
        return _ask_capabilities(o, now, token)
    return _waiting(o, actions=(*configure, _start(o, intent.operation_id, token)))


def _start(o: SessionObserved, operation_id: str, token: TokenSeen | None) -> StartAgent:
    seconds = o.session.spec.resume.timeout_seconds
    if token is None:
        seconds = min(seconds, o.session.spec.lifecycle.start_timeout_seconds)
    return StartAgent(
        operation_id=operation_id,
        epoch=epoch_of(o),
        mode="new" if token is None else "resume",
        timeout_seconds=seconds,
        token=token,
    )


def _waiting(o: SessionObserved, **more: object) -> Verdict:
    intent = o.session.status.intent
    resuming = intent is not None and intent.kind == IntentKind.RESUME
    more.setdefault("requeue", GUARD)
    reason = AgentReadyReason.RESUMING if resuming else AgentReadyReason.STARTING
    words = "resumed" if resuming else "started"
    return underway(reason, f"The conversation is being {words}.", SessionState.STARTING, **more)


def _ask_capabilities(o: SessionObserved, now: datetime, token: TokenSeen) -> Verdict:
    """Unknown is not yes and not no: have the agent asked, for as long as a start may take.

    agentctl asks when the configuration is new. Where it asked before and got no answer, nothing
    more would come of waiting: then the resume itself asks, for it begins with the agent's answer
    to `initialize`, and agentctl refuses it where the agent cannot.
    """
    intent, caps = o.session.status.intent, report_of(o).capabilities
    assert intent is not None, "a resume waits for the answer"
    since = moment(intent.at)
    asked = isinstance(o.profile, Found) and caps.profile_hash == o.profile.value.hash
    if asked and caps.failure is not None and _is_newer(caps.probed_at, since):
        return _after_failure(o, caps.failure, since, now)
    limit = since + timedelta(seconds=o.session.spec.lifecycle.start_timeout_seconds)
    if now >= limit:
        return _not_answered(o, limit, now)
    configure = configuring(o)
    if configure or report_of(o).has_process:
        return _waiting(o, actions=configure, requeue=min(GUARD, limit - now))
    return _waiting(o, actions=(_start(o, intent.operation_id, token),))


def _is_newer(text: str | None, since: datetime) -> bool:
    told = told_moment(text)
    return told is not None and told >= since


def _not_answered(o: SessionObserved, limit: datetime, now: datetime) -> Verdict:
    if lifecycle.resume_wished(o.session) or _profile_changed(o):
        return begin(o, IntentKind.RESUME, "Asking the agent again, as was asked for.", attempt=1)
    due = backoff.next_attempt_at(limit, max(1, attempts(o)), o.session.metadata.uid)
    if now >= due:
        return begin(o, IntentKind.RESUME, "Asking the agent again.", attempts(o) + 1)
    return failed(
        ResumableReason.CAPABILITY_UNKNOWN,
        "The agent did not say within the start time whether it can resume.",
        retry_at=due,
        requeue=due - now,
    )


def _judge(o: SessionObserved, operation: OperationSeen, now: datetime) -> Verdict:
    failure = operation.failure or FailureSeen("", "The agent gave no reason.")
    return _after_failure(o, failure, operation.ended_at or _tried_at(o), now)


def _tried_at(o: SessionObserved) -> datetime:
    """When the present intent was decided: the time to count from where agentctl names none."""
    intent = o.session.status.intent
    assert intent is not None, "something was tried"
    return moment(intent.at)


def _after_failure(
    o: SessionObserved, failure: FailureSeen, at: datetime, now: datetime
) -> Verdict:
    """A start or resume failed: try again, begin anew, or say why not and wait."""
    intent = o.session.status.intent
    assert intent is not None, "something was tried"
    kind = kind_of(intent)
    resuming = kind is IntentKind.RESUME
    reason, handling = failures.judge(failure, resuming=resuming)
    asked_for = lifecycle.resume_wished(o.session) or _profile_changed(o)
    if asked_for and (not resuming or _may_resume(o)):
        return begin(o, kind, "Trying again, as was asked for.", attempt=1)
    if handling is Handling.GONE and resuming:
        return _gone(o)
    if handling is Handling.UNABLE and resuming:
        return _unable(o)
    message = failure.message or "The agent gave no reason."
    if handling is Handling.PERSON:
        again = _renewed_secrets(o)
        return failed(reason, message, retry_at=None, requeue=again, changes=answered(o))
    if resuming and o.session.spec.resume.policy is not ResumePolicy.AUTO:
        return failed(reason, message, retry_at=None, changes=answered(o))
    attempt = attempts(o)
    if attempt >= o.session.spec.resume.max_attempts:
        said = f"Gave up after {attempt} attempts: {message}"
        return failed(StalledReason.MAX_ATTEMPTS, said, retry_at=None, changes=answered(o))
    due = backoff.next_attempt_at(at, attempt, o.session.metadata.uid)
    if now >= due:
        return begin(o, kind, message, attempt=attempt + 1)
    return failed(reason, message, retry_at=due, requeue=due - now, changes=answered(o))


def _renewed_secrets(o: SessionObserved) -> timedelta | None:
    """When to see whether a Secret of the profile was renewed: nobody watches Secrets."""
    if not isinstance(o.profile, Found):
        return None
    spec = o.profile.value.profile.spec
    variables = [*spec.env, *(each for server in spec.mcp_servers for each in server.env)]
    variables += [each for server in spec.mcp_servers for each in server.headers]
    named = any(each.secret_key_ref is not None for each in variables)
    return timedelta(seconds=30) if named else None


def _gone(o: SessionObserved) -> Verdict:
    """A definite not-found. Nothing is lost by a promised token; a history is never dropped."""
    if not ladder.had_turn(o):
        return _instead(o, "The agent kept no conversation yet.")
    if o.session.spec.resume.on_failure is ResumeFailure.FRESH_CONVERSATION:
        said = "The agent lost the conversation; a fresh one is begun, as spec asks."
        return begin(o, IntentKind.FRESH_START, said, attempt=1)
    return failed(
        ResumableReason.SESSION_NOT_FOUND,
        "The agent definitely has no such conversation any more; the workspace is kept.",
        retry_at=None,
        not_found=True,
        changes=answered(o),
    )


def _instead(o: SessionObserved, why: str) -> Verdict:
    """A new conversation where none was to be resumed. It counts as part of the same attempt: an
    agent that dies at once and keeps nothing is not restarted without end."""
    return begin(o, IntentKind.START, why, attempt=max(1, attempts(o)))


def _unable(o: SessionObserved) -> Verdict:
    if not ladder.had_turn(o):
        return _instead(o, "There is no conversation to lose.")
    if o.session.spec.resume.on_failure is ResumeFailure.FRESH_CONVERSATION:
        said = "This agent cannot resume; a fresh conversation is begun, as spec asks."
        return begin(o, IntentKind.FRESH_START, said, attempt=1)
    return failed(
        ResumableReason.NOT_RESUMABLE,
        "This agent cannot resume previous sessions; the workspace can still be used.",
        retry_at=None,
        changes=answered(o),
    )


def _no_token(o: SessionObserved, now: datetime) -> Verdict:
    if ladder.token_unreadable(o):
        return _token_unknown(o)
    if o.secret is None:
        return _waiting(o)
    if not ladder.had_turn(o):
        return _instead(o, "No conversation was opened yet.")
    return failed(
        ResumableReason.MISSING_RESUME_TOKEN,
        "Neither the workspace nor the Secret has a resume token; the workspace is kept.",
        retry_at=None,
        changes=answered(o),
    )


def _token_unknown(o: SessionObserved) -> Verdict:
    """A Secret that cannot be read may hold a conversation: nothing new is begun in its place."""
    return underway(
        ResumableReason.RESUME_TOKEN_UNKNOWN,
        "The Secret that keeps the resume token cannot be read at present.",
        SessionState.STARTING,
        requeue=GUARD,
    )


def agent_gone(o: SessionObserved, now: datetime) -> Verdict:
    """The questions, in their order, for a session that should run and has no live agent."""
    if not ladder.has_conversation(o) or (
        not ladder.had_turn(o) and ladder.supports_resume(o) is False
    ):
        return _again(o, IntentKind.START, now)
    if o.own_report is not None and ladder.known_token(o) is None:
        return _no_token(o, now)
    if ladder.supports_resume(o) is False:
        return _unable(o)
    if ladder.was_not_found(o.session) and not lifecycle.resume_wished(o.session):
        return _gone(o)
    return _again(o, IntentKind.RESUME, now) if _may_resume(o) else _left_alone(o)


def _may_resume(o: SessionObserved) -> bool:
    """The policy resumes by itself, or somebody asks and the policy lets them."""
    policy = o.session.spec.resume.policy
    if policy is ResumePolicy.ON_REQUEST:
        return lifecycle.resume_wished(o.session)
    return policy is ResumePolicy.AUTO


def _again(o: SessionObserved, kind: IntentKind, now: datetime) -> Verdict:
    """One more intent; an agent that dies as soon as it lives is not restarted without end."""
    if lifecycle.resume_wished(o.session) or _profile_changed(o) or _started_well(o):
        return begin(o, kind, _exit_words(o), attempt=1)
    attempt = attempts(o)
    if attempt == 0:
        return begin(o, kind, _exit_words(o), attempt=1)
    if attempt >= o.session.spec.resume.max_attempts:
        said = f"Gave up after {attempt} attempts: {_exit_words(o)}"
        return failed(StalledReason.MAX_ATTEMPTS, said, retry_at=None, changes=answered(o))
    died = report_of(o).exited_at or _tried_at(o)
    due = backoff.next_attempt_at(died, attempt, o.session.metadata.uid)
    if now >= due:
        return begin(o, kind, _exit_words(o), attempt=attempt + 1)
    return failed(AgentReadyReason.AGENT_EXITED, _exit_words(o), retry_at=due, requeue=due - now)


def _left_alone(o: SessionObserved, **changes: None) -> Verdict:
    """Nobody asked for a resume: say that one is needed, and what was cut off."""
    report = report_of(o)
    cut_off = report.last_turn is not None and report.last_turn.outcome == "interrupted"
    if cut_off:
        return failed(
            AgentReadyReason.AGENT_EXITED,
            _exit_words(o),
            retry_at=None,
            changes={**answered(o), **changes},
        )
    never = o.session.spec.resume.policy is ResumePolicy.NEVER
    way = "only a fresh start brings one back" if never else "resume the session to go on"
    return Verdict(
        ready=FALSE,
        reason=AgentReadyReason.AGENT_NOT_RUNNING,
        message=f"The agent is not running; {way}.",
        state=SessionState.WAITING_FOR_INPUT,
        stalled=True,
        changes={**answered(o), **changes},
    )


def _profile_changed(o: SessionObserved) -> bool:
    """The profile is not the one that the failed attempt was made with."""
    pinned = o.session.status.profile
    if pinned is None or pinned.hash is None or not isinstance(o.profile, Found):
        return False
    return pinned.hash != o.profile.value.hash


def _started_well(o: SessionObserved) -> bool:
    """The execution that ended had lived for a while, or had finished a turn."""
    intent, report = o.session.status.intent, report_of(o)
    if intent is None or report.phase is not AgentPhase.EXITED:
        return True  # never started, ended on purpose, or probed since under a new configuration
    operation = report.operation(intent.operation_id)
    if operation is None or operation.ended_at is None:
        return False
    if report.exited_at is not None and report.exited_at - operation.ended_at >= SETTLED:
        return True
    turn = report.last_turn
    return (
        turn is not None
        and turn.outcome == "completed"
        and _is_newer(turn.at, operation.ended_at.replace(microsecond=0))
    )


def _exit_words(o: SessionObserved) -> str:
    return report_of(o).exit_text or "The agent is not running."
