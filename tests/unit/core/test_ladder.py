"""The questions of the ladder, asked one by one."""

from dataclasses import replace
from typing import Any

import pytest

from builders import (
    a_condition,
    a_profile_seen,
    a_report,
    a_session,
    a_status,
    a_token,
    a_token_ref,
    a_turn,
    an_intent,
    an_operation,
    session_observed,
    some_capabilities,
    some_conditions,
)
from kandev_operator.api.agent import Capabilities
from kandev_operator.core import ladder
from kandev_operator.core.observed import Found, Missing, SessionObserved, Unreadable

UNASKED = some_capabilities(resume=None, profile_hash=None)
PROMISED = a_token(established=False)
YES, NO = (Capabilities(supports_session_resume=each) for each in (True, False))


def observed(*, ref: Any = None, secret: Any = None, **report: Any) -> SessionObserved:
    """A session whose agent is gone, and what is known of its token."""
    more = {key: report.pop(key) for key in ("capabilities_kept", "intent") if key in report}
    status = a_status(
        resume_token_ref=ref, capabilities=more.get("capabilities_kept"), intent=more.get("intent")
    )
    o = session_observed(a_session(status=status), report=a_report("none", **report))
    return replace(o, secret=secret)


def begun_anew(*, kind: str = "Start", **report: Any) -> SessionObserved:
    """A new conversation was begun after the agent died in the first turn of another one."""
    told = {"last_turn": a_turn("interrupted"), "operations": (an_operation(mode="new"),)}
    return observed(token=PROMISED, intent=an_intent(kind), **(told | report))


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(observed(), True, id="profile and agent say yes"),
        pytest.param(observed(capabilities=some_capabilities(resume=False)), False, id="agent no"),
        pytest.param(observed(capabilities=UNASKED), None, id="nobody asked, ever"),
        pytest.param(observed(capabilities=UNASKED, capabilities_kept=YES), True, id="last: yes"),
        pytest.param(observed(capabilities=UNASKED, capabilities_kept=NO), False, id="last: no"),
        pytest.param(
            observed(capabilities=some_capabilities(resume=False), capabilities_kept=YES),
            False,
            id="the live answer stands before the last",
        ),
        pytest.param(
            replace(observed(), profile=a_profile_seen(supports_session_resume=False)),
            False,
            id="the profile forbids it, whatever the agent says",
        ),
        pytest.param(
            replace(observed(), profile=a_profile_seen(hash="hash-2")),
            None,
            id="the answer was about another profile",
        ),
        pytest.param(replace(observed(), profile=Missing()), True, id="the profile is missing"),
    ],
)
def test_can_the_agent_resume(o: SessionObserved, expected: bool | None) -> None:
    assert ladder.supports_resume(o) is expected


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(observed(), True, id="the token is established"),
        pytest.param(observed(token=PROMISED), False, id="the token is only promised"),
        pytest.param(observed(token=PROMISED, ref=a_token_ref()), True, id="status knows better"),
        pytest.param(
            observed(token=PROMISED, ref=a_token_ref("tok-0")),
            False,
            id="what status knows is about another token",
        ),
        pytest.param(observed(token=None), True, id="no token, and the journal counted turns"),
        pytest.param(
            observed(token=None, turns_completed=0, ref=a_token_ref()), True, id="status remembers"
        ),
        pytest.param(
            observed(token=None, turns_completed=0, ref=a_token_ref(established=False)),
            False,
            id="status remembers a promise",
        ),
        pytest.param(observed(token=None, turns_completed=0), False, id="there was nothing"),
        pytest.param(
            observed(intent=an_intent("FreshStart")), False, id="a fresh start leaves it behind"
        ),
    ],
)
def test_is_there_a_history_to_lose(o: SessionObserved, expected: bool) -> None:
    assert ladder.had_turn(o) is expected


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(observed(), (True, "Resumable"), id="profile, agent and token permit it"),
        pytest.param(
            observed(capabilities=some_capabilities(resume=False)),
            (False, "NotResumable"),
            id="the agent cannot",
        ),
        pytest.param(
            observed(capabilities=UNASKED), (None, "CapabilityUnknown"), id="nobody asked"
        ),
        pytest.param(
            observed(token=None, secret=Unreadable("forbidden")),
            (None, "ResumeTokenUnknown"),
            id="the Secret cannot be read",
        ),
        pytest.param(
            observed(token=None, secret=Missing()),
            (False, "MissingResumeToken"),
            id="neither journal nor Secret has a token",
        ),
        pytest.param(
            observed(token=None, turns_completed=0, secret=Missing()),
            (False, "NoConversation"),
            id="nothing was ever said",
        ),
        pytest.param(
            observed(token=None, ref=a_token_ref(), secret=None),
            (True, "Resumable"),
            id="status knows of a token, and nobody has looked",
        ),
        pytest.param(
            observed(token=None, secret=Found(a_token())), (True, "Resumable"), id="in the Secret"
        ),
        pytest.param(
            observed(intent=an_intent(), operations=(an_operation(token_replaced=True),)),
            (True, "HistoryLost"),
            id="the agent answered with another conversation",
        ),
        pytest.param(begun_anew(), (True, "HistoryLost"), id="cut off in its first turn"),
        pytest.param(
            begun_anew(last_turn=a_turn("completed")), (True, "Resumable"), id="one ended well"
        ),
        pytest.param(
            begun_anew(last_turn=a_turn("interrupted", at=30)),
            (True, "Resumable"),
            id="cut off since, in this very conversation",
        ),
        pytest.param(begun_anew(kind="FreshStart"), (True, "Resumable"), id="it was asked for"),
        pytest.param(
            begun_anew(operations=()), (True, "Resumable"), id="agentctl no longer lists the start"
        ),
        pytest.param(
            replace(observed(), profile=Missing()),
            (None, "CapabilityUnknown"),
            id="the profile, which may forbid it, is missing",
        ),
    ],
)
def test_may_it_be_resumed(o: SessionObserved, expected: tuple[bool | None, str]) -> None:
    found = ladder.resumability(o, not_found=False)
    assert (found.answer, found.reason) == expected


def test_a_definite_not_found_stands_before_the_token() -> None:
    found = ladder.resumability(observed(), not_found=True)
    assert (found.answer, found.reason) == (False, "SessionNotFound")


def test_a_fresh_start_is_retiring_until_something_shows_that_it_was_done() -> None:
    fresh = {"intent": an_intent("FreshStart"), "epoch": 1}
    assert ladder.is_retiring(observed(**fresh))
    assert ladder.is_retiring(observed(**fresh, operations=(an_operation(state="running"),)))
    assert not ladder.is_retiring(observed(**fresh, operations=(an_operation(),)))
    assert not ladder.is_retiring(observed(**fresh, ref=a_token_ref()))
    assert not ladder.is_retiring(observed(**fresh, secret=Found(a_token(epoch=1))))
    assert ladder.is_retiring(observed(**fresh, secret=Found(a_token(epoch=0))))
    assert not ladder.is_retiring(observed(intent=an_intent("Start")))


def test_not_found_is_remembered_in_the_condition() -> None:
    told = some_conditions(a_condition("Resumable", "False", "SessionNotFound"))
    assert ladder.was_not_found(a_session(status=a_status(conditions=told)))
    assert not ladder.was_not_found(a_session(status=a_status()))
