"""A token belongs to the agent and the profile that it was made with: the machine by example."""

import pytest

from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract.agent import PermissionPolicy
from kandev_operator.contract.status import AgentInfo, Capabilities, Exit, Failure, FailureCode
from unit.agentctl.play import AT, Play

NOT_FOUND = Failure(code=FailureCode.SESSION_NOT_FOUND, message="gone", agent_code=-32002)


def agent(name: str | None) -> Capabilities:
    info = AgentInfo(name=name, version="1") if name else None
    return Capabilities(load_session=True, agent=info)


def asked_again(name: str | None, profile: str | None) -> Play:
    """A conversation made with agent `one` under profile `u1`; then this agent and profile."""
    play = Play()
    play.on(ev.Configured(AT, "h1", PermissionPolicy.ASK, "x1", None, "u1"))
    play.on(ev.Initialized(AT, "x1", agent("one")))
    play.start()
    play.on(ev.Opened(AT, "x1", "o1", "session/new", "t1"))
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    play.on(ev.Configured(AT, "h2", PermissionPolicy.ASK, "x2", None, profile))
    play.on(ev.Initialized(AT, "x2", agent(name)))
    play.start("resume", "o2", token="t1")
    return play


def failure(play: Play) -> Failure | None:
    return next(o.failure for o in play.state.operations if o.operation_id == "o2")


@pytest.mark.parametrize(
    ("name", "profile", "asked"),
    [
        ("one", "u1", True),
        ("one", "u2", True),  # the profile was made again
        ("two", "u1", True),  # a new version has another name
        ("two", None, True),
        (None, "u2", True),
        ("two", "u2", False),
    ],
)
def test_only_a_token_known_to_be_anothers_is_not_asked_for(
    name: str | None, profile: str | None, asked: bool
) -> None:
    play = asked_again(name, profile)
    assert bool([a for a in play.acts if isinstance(a, fx.Open)]) is asked
    told = failure(play)
    assert (told is None) is asked
    if told is not None:
        assert told.code == "invalid_token"
        assert told.message == "the conversation was made with one, and two is another agent"
    assert play.state.token is not None
    assert (play.state.token.value, play.state.token.agent) == ("t1", "one"), "kept as it is"


@pytest.mark.parametrize(("name", "code"), [("one", "session_not_found"), ("two", "invalid_token")])
def test_a_not_found_of_another_agent_does_not_mean_gone(name: str, code: str) -> None:
    play = asked_again(name, "u1")
    play.on(ev.OpenFailed(AT, "x2", "o2", NOT_FOUND))
    told = failure(play)
    assert told is not None
    assert (told.code, told.agent_code) == (code, -32002)


def test_an_agent_that_takes_it_is_its_agent_from_then_on() -> None:
    play = asked_again("renamed", "u1")
    play.on(ev.Opened(AT, "x2", "o2", "session/load", "t1"))
    assert play.state.token is not None
    assert (play.state.token.agent, play.state.token.profile) == ("renamed", "u1")
