"""A session's claim that is gone, or goes: told as it is, and nothing is put in its place."""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_session, a_status, an_executor, an_executor_status, session_observed
from kandev_operator.api.executor import ExecutorTemplate, ExecutorTemplateSpec, PodRuntime, Runtime
from kandev_operator.api.session import OperatingMode, WorkspaceRef
from kandev_operator.core.observed import Found, Look, Missing, SessionObserved, Unreadable
from kandev_operator.core.pods.claim import claim_name
from kandev_operator.core.podseen import ClaimSeen
from plans import condition, decide, done, said, truth, written

POD = ExecutorTemplate(spec=ExecutorTemplateSpec(runtime=Runtime.POD, pod=PodRuntime()))
KNOWN = WorkspaceRef(kind="PersistentVolumeClaim", name="files", uid="uid-claim")
THERE = Found(ClaimSeen("files", "uid-claim", "Bound"))
GOING = Found(ClaimSeen("files", "uid-claim", "Bound", is_deleting=True))


def rests(claim: Look[ClaimSeen], **status: Any) -> SessionObserved:
    """A suspended session that had a claim, in no executor."""
    known = a_status(executor_ref=None, **{"workspace_ref": KNOWN, **status})
    spec = {"operating_mode": OperatingMode.SUSPENDED}
    session = a_session(template=POD, status=known, spec=spec)
    return session_observed(session, claim=claim, executor=Missing())


def runs(claim: Look[ClaimSeen], *, boot_id: str | None, **meta: Any) -> SessionObserved:
    """A session that is to run; its executor's agentctl cannot be asked."""
    session = a_session(template=POD, status=a_status(workspace_ref=KNOWN), **meta)
    status = an_executor_status(holds=session, state="starting", boot_id=boot_id)
    return session_observed(
        session, report=None, claim=claim, executor=Found(an_executor(status=status))
    )


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        pytest.param(Missing(), "does not exist any more", id="gone"),
        pytest.param(GOING, "is being deleted", id="going"),
    ],
)
def test_a_session_at_rest_says_that_its_files_are_lost(claim: Look[ClaimSeen], words: str) -> None:
    o = rests(claim)
    plan = decide(o)
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/Suspended", "")
    assert truth(plan, "WorkspaceReady") == "False/WorkspaceMissing"
    for type_ in ("WorkspaceReady", "Ready"):
        message = condition(plan, type_).message
        assert words in message
        assert claim_name(o.session) in message
        assert "are kept" not in message


@pytest.mark.parametrize("claim", [THERE, Unreadable("Forbidden")], ids=["there", "not known"])
def test_a_session_at_rest_whose_claim_is_not_known_to_be_lost(claim: Look[ClaimSeen]) -> None:
    plan = decide(rests(claim))
    assert truth(plan, "WorkspaceReady") == "Unknown/WorkspaceUnknown"
    assert "are kept" in condition(plan, "Ready").message


def test_a_session_at_rest_that_never_had_a_claim_has_lost_none() -> None:
    plan = decide(rests(Missing(), workspace_ref=None))
    assert truth(plan, "WorkspaceReady") == "Unknown/WorkspaceUnknown"


@pytest.mark.parametrize("boot_id", [None, "boot-1"])
def test_a_claim_that_is_gone_is_an_error_and_makes_no_other(boot_id: str | None) -> None:
    plan = decide(runs(Missing(), boot_id=boot_id))
    assert said(plan) == "ERROR False/WorkspaceMissing stalled"
    assert done(plan) == ""
    assert "does not exist any more" in written(plan).error_message


def test_a_claim_that_goes_is_no_error_while_the_agent_may_live_on_it() -> None:
    plan = decide(runs(GOING, boot_id="boot-1"))
    assert plan.status is None or "WorkspaceMissing" not in said(plan)
    assert said(decide(runs(GOING, boot_id=None))) == "ERROR False/WorkspaceMissing stalled"


def test_only_who_asks_for_a_fresh_start_gets_another_claim() -> None:
    wish = {"kandev.dev/fresh-start-requested": "yes"}
    assert done(decide(runs(Missing(), boot_id=None, annotations=wish))) == "CreateClaim"
    assert done(decide(runs(GOING, boot_id=None, annotations=wish))) == ""


def test_a_session_that_waits_for_a_member_of_a_fleet_has_its_claim_before_its_turn() -> None:
    """The executor takes it in by itself, and its pod needs the files."""
    held = an_executor(runtime=Runtime.POD, status=an_executor_status(holds="s-b"))
    session = a_session(status=a_status(executor_ref=None, state="CREATED"))
    waiting = session_observed(session, claim=Missing(), executor=Found(held))
    assert done(decide(waiting)) == "CreateClaim"
    made = replace(waiting, claim=THERE)
    assert said(decide(made)) == "CREATED False/ExecutorBusy at work"


def test_a_claim_that_was_never_made_is_made_for_a_session_that_points_at_its_executor() -> None:
    free = an_executor(runtime=Runtime.POD, status=an_executor_status(holds=None))
    session = a_session(status=a_status(state="CREATED"))
    o = session_observed(session, claim=Missing(), executor=Found(free), report=None)
    assert done(decide(o)) == "CreateClaim"
    lost = a_session(status=a_status(state="CREATED", workspace_ref=KNOWN))
    assert done(decide(replace(o, session=lost))) == "", "one that was there is not replaced"
