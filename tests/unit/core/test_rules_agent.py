"""An agentctl that answers: fences, whose files these are, and the agent that lives."""

from dataclasses import replace
from typing import Any

import pytest

from builders import (
    a_profile_seen,
    a_report,
    a_session,
    a_status,
    a_token,
    a_token_ref,
    ago,
    an_intent,
    an_operation,
    session_observed,
)
from kandev_operator.api.refs import KeyRef
from kandev_operator.api.session import (
    FirstPromptStatus,
    PromptSource,
    PromptSpec,
    TaskSession,
)
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import Found, Missing, SessionObserved, TurnSeen, Unreadable
from plans import action, condition, decide, done, said, truth, waits, with_status, written


def kept(**overrides: Any) -> TaskSession:
    """A session whose token is kept already."""
    return a_session(status=a_status(resume_token_ref=a_token_ref(), **overrides))


def served(session: TaskSession | None = None, **report: Any) -> SessionObserved:
    """That session, and what its agentctl reports."""
    return session_observed(session or kept(), report=a_report(**report))


# ---- fences -----------------------------------------------------------------------------


def test_a_higher_term_is_adopted_before_anything_else() -> None:
    plan = decide(served(kept(intent=an_intent()), phase="none", term=7))
    assert (plan.status, done(plan), waits(plan)) == (None, "AdoptTerm", 0)
    assert action(plan, "AdoptTerm").term == 7


def test_a_lower_term_in_the_journal_is_nothing_to_worry_about() -> None:
    assert said(decide(served(term=0))) == "WAITING_FOR_INPUT True/AgentReady"


def test_a_higher_epoch_is_written_before_the_call_is_repeated() -> None:
    """A restored API server: the workspace remembers more than status does."""
    o = served(kept(intent=an_intent()), phase="none", epoch=5, token=a_token(epoch=5))
    plan = decide(o)
    assert (done(plan), waits(plan), written(plan).epoch) == ("", 0, 5)
    assert written(plan).intent is None, "its outcome came long ago, and nobody lists it any more"
    o = with_status(o, plan.status)
    again = decide(o)
    assert (written(again).intent.kind, written(again).epoch) == ("Resume", 6)


def test_an_intent_that_agentctl_still_lists_survives_the_healing_of_the_epoch() -> None:
    o = served(kept(intent=an_intent()), epoch=5, operations=(an_operation(),))
    assert written(decide(o)).intent == an_intent()


def test_the_epoch_of_another_session_is_not_taken_over() -> None:
    report = a_report("none", session="s-b", epoch=9)
    plan = decide(session_observed(kept(intent=an_intent("Start")), report=report))
    assert (done(plan), written(plan).epoch) == ("ConfigureAgent", 1)


# ---- whose workspace it is --------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(
            a_report("idle", session="s-b"),
            "ERROR False/WorkspaceInUse stalled",
            id="another session's agent lives there",
        ),
        pytest.param(
            a_report("initialized", session="s-b"),
            "ERROR False/WorkspaceInUse stalled",
            id="another session's agent may soon live there",
        ),
        pytest.param(
            a_report("none", journal_state="unreadable", journal_message="disk image malformed"),
            "ERROR False/JournalUnreadable stalled",
            id="the journal is damaged: no agent starts on it",
        ),
    ],
)
def test_files_on_which_no_agent_starts(report: Any, expected: str) -> None:
    plan = decide(session_observed(kept(intent=an_intent()), report=report))
    assert (said(plan), done(plan)) == (expected, "")
    assert waits(plan) in (5, 30), "it is looked at again"
    assert truth(plan, "WorkspaceReady") == expected.split()[1]
    assert written(plan).resume_token_ref.sha256_prefix == a_token_ref().sha256_prefix


def test_a_damaged_journal_does_not_touch_an_agent_that_lives() -> None:
    plan = decide(served(journal_state="unreadable", journal_message="malformed"))
    assert said(plan) == "WAITING_FOR_INPUT True/AgentReady"
    assert truth(plan, "WorkspaceReady") == "False/JournalUnreadable"


@pytest.mark.parametrize("kind", ["Start", "Resume"])
def test_a_session_made_anew_adopts_its_workspace_before_it_does_anything(kind: str) -> None:
    old = a_report("none", session_uid="uid-before", epoch=4)
    o = session_observed(kept(intent=an_intent(kind)), report=old)
    healed = decide(o)
    assert (done(healed), written(healed).epoch) == ("", 4), "first the epoch it remembers"
    plan = decide(with_status(o, healed.status))
    assert done(plan) == "ConfigureAgent"
    assert action(plan, "ConfigureAgent").adopt_from == "uid-before"
    assert action(plan, "ConfigureAgent").epoch == 4


def test_after_the_adoption_the_conversation_of_the_old_uid_is_resumed() -> None:
    o = session_observed(
        a_session(status=a_status(intent=an_intent("Start", epoch=4), epoch=4)),
        report=a_report("none", epoch=4, token=a_token(epoch=3)),
    )
    plan = decide(o)
    assert written(plan).intent.kind == "Resume"
    assert written(plan).state == "STARTING"


def test_a_journal_that_another_session_left_is_configured_and_never_adopted() -> None:
    o = session_observed(
        a_session(status=a_status(intent=an_intent("Start"))), report=a_report("none", session="b")
    )
    plan = decide(o)
    assert done(plan) == "ConfigureAgent"
    assert action(plan, "ConfigureAgent").adopt_from is None


# ---- the agent that lives ---------------------------------------------------------------

TURN = TurnSeen("p-1", rfc3339(ago(30)))


@pytest.mark.parametrize(
    ("report", "expected", "agent"),
    [
        pytest.param(
            {"phase": "idle"}, "WAITING_FOR_INPUT True/AgentReady", "True/AgentReady", id="idle"
        ),
        pytest.param(
            {"phase": "running", "turn": TURN},
            "RUNNING True/TurnRunning",
            "False/TurnRunning",
            id="in a turn",
        ),
        pytest.param(
            {"phase": "running", "turn": replace(TURN, awaiting_permission=True)},
            "RUNNING True/AwaitingPermission",
            "False/AwaitingPermission",
            id="in a turn that waits for a permission",
        ),
        pytest.param(
            {"phase": "running", "turn": None},
            "RUNNING True/TurnRunning",
            "False/TurnRunning",
            id="in a turn that nobody described",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Auto", "OnRequest", "Never"])
@pytest.mark.parametrize("before", ["STARTING", "RUNNING", "WAITING_FOR_INPUT", "ERROR"])
def test_a_live_agent_is_only_attached_to(
    report: dict[str, Any], expected: str, agent: str, policy: str, before: str
) -> None:
    status = a_status(state=before, resume_token_ref=a_token_ref(), intent=an_intent())
    session = a_session(policy=policy, status=status)
    plan = decide(served(session, **report))
    assert (said(plan), truth(plan, "AgentReady"), done(plan)) == (expected, agent, "")
    now = written(plan)
    assert (now.is_agent_running, now.needs_resume, now.agent_execution_id) == (
        True,
        False,
        "exec-1",
    )
    assert (now.error_message, now.resume_reason, now.intent) == (None, None, an_intent())
    assert (now.turn is not None) == (report.get("turn") is not None)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        pytest.param(
            {"profile": {"supports_session_resume": False}}, "NotResumable", id="cannot resume"
        ),
        pytest.param({"token": None}, "MissingResumeToken", id="has lost its token"),
    ],
)
def test_a_live_agent_is_never_in_error_because_it(overrides: dict[str, Any], reason: str) -> None:
    report = a_report(token=overrides.get("token", a_token()))
    profile = a_profile_seen(**overrides.get("profile", {}))
    o = session_observed(kept(), report=report, profile=profile, secret=Missing())
    plan = decide(o)
    assert said(plan) == "WAITING_FOR_INPUT True/AgentReady"
    assert truth(plan, "Resumable") == f"False/{reason}"


def test_B001_a_turn_that_ended_while_no_operator_ran_is_followed() -> None:
    done_turn = TurnSeen("p-1", rfc3339(ago(3)), outcome="completed")
    session = kept(state="RUNNING", agent_execution_id="exec-1", intent=an_intent())
    plan = decide(served(session, phase="idle", last_turn=done_turn))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/AgentReady", "")


def test_B001_a_turn_that_is_still_open_after_a_restart_stays_running() -> None:
    session = kept(state="RUNNING", agent_execution_id="exec-1", intent=an_intent())
    plan = decide(served(session, phase="running", turn=TURN))
    assert (said(plan), done(plan)) == ("RUNNING True/TurnRunning", "")
    assert written(plan).turn.prompt_id == "p-1"


def test_B008_the_end_of_an_earlier_turn_does_not_end_the_one_under_way() -> None:
    earlier = TurnSeen("p-a", rfc3339(ago(1)), outcome="cancelled")
    plan = decide(served(kept(state="RUNNING"), phase="running", turn=TURN, last_turn=earlier))
    assert said(plan) == "RUNNING True/TurnRunning"
    assert written(plan).turn.prompt_id == "p-1"


def test_B043_a_resume_that_answered_with_another_conversation_says_so() -> None:
    """The new id is current, and the loss is told; never a plain success."""
    replaced = an_operation(token_replaced=True)
    other = a_token("tok-9", established=False)
    o = served(kept(intent=an_intent(), state="STARTING"), token=other, operations=(replaced,))
    plan = decide(o)
    assert truth(plan, "Resumable") == "True/HistoryLost"
    assert action(plan, "StoreToken").token == other
    assert written(plan).resume_token_ref.sha256_prefix == other.sha256[:12]
    later = decide(replace(with_status(o, plan.status), probe=served(token=other).probe))
    assert later.status is None, "it is remembered when agentctl lists the operation no more"


def test_B044_only_an_id_that_came_from_the_agent_is_kept() -> None:
    changed = a_token("tok-y")
    plan = decide(served(token=changed))
    assert action(plan, "StoreToken").token == changed
    assert written(plan).resume_token_ref.sha256_prefix == changed.sha256[:12]


# ---- the first prompt -------------------------------------------------------------------

FROM_SECRET = PromptSpec(from_=PromptSource(secret_key_ref=KeyRef(name="p", key="k")))


def prompted(fate: str | None = None, **o: Any) -> SessionObserved:
    """A session with a first prompt, and what status says became of it."""
    known = FirstPromptStatus(id="first", fate=fate) if fate else None
    status = a_status(resume_token_ref=a_token_ref(), first_prompt=known)
    report = o.pop("report", a_report())
    session = a_session(prompt=o.pop("prompt", "Go"), status=status)
    return session_observed(session, report=report, **{"first_prompt": Found("Go"), **o})


@pytest.mark.parametrize(
    ("o", "sent"),
    [
        pytest.param(prompted(), True, id="it is owed to an idle agent"),
        pytest.param(prompted("accepted"), False, id="it was accepted, says status"),
        pytest.param(prompted("unknown"), False, id="nobody knows whether it was handed over"),
        pytest.param(
            prompted(report=a_report(prompts=(("first", "queued"),))),
            False,
            id="it was accepted, says the journal",
        ),
        pytest.param(
            prompted(report=a_report(prompts=(("another", "delivered"),))),
            True,
            id="another prompt was accepted before it",
        ),
        pytest.param(prompted(first_prompt=Unreadable()), False, id="its text cannot be read"),
        pytest.param(prompted(prompt=None), False, id="there is none"),
    ],
)
def test_the_first_prompt_is_sent_when(o: SessionObserved, sent: bool) -> None:
    plan = decide(o)
    assert ("SendFirstPrompt" in done(plan)) == sent
    assert said(plan) == "WAITING_FOR_INPUT True/AgentReady"


@pytest.mark.parametrize("phase", ["none", "opening", "initialized"])
def test_B050_the_first_prompt_waits_for_an_agent_that_is_ready(phase: str) -> None:
    assert "SendFirstPrompt" not in done(decide(prompted(report=a_report(phase))))


@pytest.mark.parametrize(
    ("fate", "shown"),
    [
        ("queued", "accepted"),
        ("sending", "accepted"),
        ("delivered", "delivered"),
        ("not_delivered", "not_delivered"),
        ("unknown", "unknown"),
    ],
)
def test_B050_what_became_of_the_first_prompt_is_shown(fate: str, shown: str) -> None:
    plan = decide(prompted(report=a_report(prompts=(("first", fate),))))
    assert written(plan).first_prompt == FirstPromptStatus(id="first", fate=shown)


def test_a_first_prompt_that_does_not_exist_stalls_and_the_agent_waits() -> None:
    o = prompted(prompt=FROM_SECRET, first_prompt=Missing())
    plan = decide(o)
    assert said(plan) == "WAITING_FOR_INPUT False/PromptMissing stalled"
    assert condition(plan, "Ready").message.startswith("Key k of Secret p, which")
    assert truth(plan, "AgentReady") == "True/AgentReady"
    assert (waits(plan), written(plan).error_message) == (5, None)
    found = decide(replace(with_status(o, plan.status), first_prompt=Found("Go")))
    assert said(found) == "WAITING_FOR_INPUT True/AgentReady"
    assert done(found) == "SendFirstPrompt"
