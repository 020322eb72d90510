"""What an agent offers, choosing among it, and what a prompt may hold: the machine by example."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.agentctl.machine import State, contents, offers
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.conversation import ConversationReport
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    Capabilities,
    Exit,
    McpCapabilities,
    OperationState,
    PromptCapabilities,
)
from unit.agentctl.play import AT, FAILURE, HELLO, Play

MODES = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b"}]}
EFFORT = {
    "id": "effort",
    "name": "Effort",
    "type": "select",
    "currentValue": "low",
    "options": [{"name": "group", "options": [{"value": "low"}, {"value": "high"}]}],
}
WEB = {"id": "web", "name": "Web", "type": "boolean", "currentValue": False}
MODELS = {"currentModelId": "s", "availableModels": [{"modelId": "s"}, {"modelId": "l"}]}
ANSWER = {"modes": MODES, "configOptions": [EFFORT, WEB], "models": MODELS}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def asked(kind: Any, value: str | bool, name: str = "", operation: str = "c1") -> ev.SettingAsked:
    return ev.SettingAsked(AT, operation, 1, kind, name, value)


def operation(play: Play, operation_id: str = "c1") -> Any:
    return next(o for o in play.state.operations if o.operation_id == operation_id)


def told(play: Play) -> list[dict[str, Any]]:
    return [e["conversation"] for e in play.appended(EventKind.CONVERSATION)]


# ---- choosing --------------------------------------------------------------------------


def test_a_choice_is_stored_before_it_is_asked_for() -> None:
    play = Play().open(answer=ANSWER)
    reply = play.on(asked("mode", "b"))
    assert isinstance(reply, fx.OperationReply)
    assert [s for s in play.stores if isinstance(s, fx.StoreOperation)]
    assert play.acts == (fx.Choose("x1", "c1", "t1", "session/set_mode", {"modeId": "b"}),)
    assert play.state.conversation.mode_id == "a", "not before the agent says so"
    play.on(ev.SettingAnswered(AT, "x1", "c1"))
    assert operation(play).state is OperationState.SUCCEEDED
    assert told(play)[-1]["mode_id"] == "b"


@pytest.mark.parametrize(
    ("name", "value", "method", "params"),
    [
        ("effort", "high", "session/set_config_option", {"configId": "effort", "value": "high"}),
        (
            "web",
            True,
            "session/set_config_option",
            {"configId": "web", "type": "boolean", "value": True},
        ),
        ("session/set_model", "l", "session/set_model", {"modelId": "l"}),
    ],
)
def test_each_option_is_chosen_by_its_own_method(
    name: str, value: Any, method: str, params: Any
) -> None:
    play = Play().open(answer=ANSWER)
    play.on(asked("config", value, name))
    assert play.acts == (fx.Choose("x1", "c1", "t1", method, params),)
    play.on(ev.SettingAnswered(AT, "x1", "c1"))
    values = {o.config_id: o.value for o in play.state.conversation.config}
    assert values == {"effort": "low", "web": False, "session/set_model": "s"} | {name: value}


@pytest.mark.parametrize(
    ("event", "code", "offered"),
    [
        (asked("mode", "c"), "not_offered", ["a", "b"]),
        (asked("config", "x", "nope"), "not_offered", ["effort", "web", "session/set_model"]),
        (asked("config", "x", "effort"), "not_offered", ["low", "high"]),
        (asked("config", "yes", "web"), "invalid_request", None),
    ],
)
def test_what_is_not_offered(event: ev.SettingAsked, code: str, offered: Any) -> None:
    play = Play().open(answer=ANSWER)
    before = play.state
    reply = play.on(event)
    assert (reply.code, reply.details.get("offers")) == (code, offered)
    assert play.state == before


def test_a_choice_needs_an_open_conversation() -> None:
    assert Play(State()).on(asked("mode", "b")).code == "agent_not_running"
    assert Play().configured().initialized().on(asked("mode", "b")).code == "agent_not_running"


def test_a_choice_that_fails_changes_nothing_that_is_offered() -> None:
    play = Play().open(answer=ANSWER)
    play.on(asked("mode", "b"))
    assert play.on(asked("mode", "a", operation="c2")).details == {"operation_id": "c1"}
    play.on(ev.SettingFailed(AT, "x1", "c1", FAILURE))
    assert operation(play).failure == FAILURE
    assert play.state.conversation.mode_id == "a"
    assert isinstance(play.on(asked("mode", "b", operation="c3")), fx.OperationReply)


@pytest.mark.parametrize("asked_to_end", [True, False])
def test_a_choice_dies_with_its_process(asked_to_end: bool) -> None:
    play = Play().open(answer=ANSWER)
    play.on(asked("mode", "b"))
    if asked_to_end:
        play.on(ev.StopAsked(AT, "stop", 1, 1.0))
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=0)))
    assert operation(play).state is OperationState.FAILED
    assert operation(play).failure.code == "agent_exited"
    assert play.state.conversation == ConversationReport()


def test_an_answer_about_options_tells_all_of_them_anew() -> None:
    play = Play().open(answer=ANSWER)
    play.on(asked("config", "high", "effort"))
    answer = {"configOptions": [EFFORT | {"currentValue": "high"}]}
    play.on(ev.SettingAnswered(AT, "x1", "c1", answer))
    ids = [o.config_id for o in play.state.conversation.config]
    assert ids == ["effort", "session/set_model"], "the models are told in another way"


# ---- being told ------------------------------------------------------------------------


def test_updates_about_the_conversation_count_whenever_they_come() -> None:
    play = Play().configured().initialized()
    play.start()
    commands = {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "go", "description": "d", "input": {"hint": "where"}}],
    }
    play.on(ev.UpdateCame(AT, "x1", "t1", commands))
    play.on(ev.Opened(AT, "x1", "o1", "session/load", "t1", {"modes": MODES}))
    assert [c.name for c in play.state.conversation.commands] == ["go"]
    assert play.state.conversation.mode_id == "a"
    play.on(ev.UpdateCame(AT, "x1", "t1", {"sessionUpdate": "current_mode_update"}))
    assert told(play) == []
    mode = {"sessionUpdate": "current_mode_update", "currentModeId": "b"}
    play.on(ev.UpdateCame(AT, "x1", "a sub-agent", mode))
    assert told(play) == []
    play.on(ev.UpdateCame(AT, "x1", "t1", mode))
    assert [c["mode_id"] for c in told(play)] == ["b"]
    play.on(ev.UpdateCame(AT, "x1", "t1", mode))
    assert told(play) == [], "the same again is no news"


def test_usage_alone_is_a_message_and_no_state() -> None:
    play = Play().open()
    usage = {"sessionUpdate": "usage_update", "used": 7, "size": 9, "cost": {"amount": 0.5}}
    play.on(ev.UpdateCame(AT, "x1", "t1", usage))
    assert told(play) == []
    (message,) = play.appended(EventKind.MESSAGE)
    assert message["content"] == {"used": 7, "size": 9, "cost": 0.5, "currency": None}


def test_a_mode_that_is_an_option_too_changes_in_both_places() -> None:
    option = {
        "id": "mode",
        "category": "mode",
        "currentValue": "a",
        "options": [{"value": "a"}, {"value": "b"}],
    }
    play = Play().open(answer={"modes": MODES, "configOptions": [option]})
    mode = {"sessionUpdate": "current_mode_update", "currentModeId": "b"}
    play.on(ev.UpdateCame(AT, "x1", "t1", mode))
    assert play.state.conversation.config[0].value == "b"
    back = {"sessionUpdate": "config_option_update", "configOptions": [option]}
    play.on(ev.UpdateCame(AT, "x1", "t1", back))
    assert play.state.conversation.mode_id == "a"


def test_a_model_option_makes_the_older_way_needless() -> None:
    option = {"id": "m", "category": "model", "currentValue": "s", "options": [{"value": "s"}]}
    report = offers.of_answer({"configOptions": [option], "models": MODELS})
    assert [o.config_id for o in report.config] == ["m"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("id", "name", "modes", "configOptions", "models", "currentModeId", "value"),
                    *("availableModes", "options", "currentValue", "availableModels", "modelId"),
                    *("currentModelId", "category", "availableCommands", "input", "hint", "used"),
                    *("size", "cost", "amount", "currency", "description", "title"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    answer=st.dictionaries(st.sampled_from(["modes", "configOptions", "models"]), JSON),
    kind=st.sampled_from(
        [
            *("current_mode_update", "config_option_update", "available_commands_update"),
            *("session_info_update", "usage_update"),
        ]
    ),
    update=st.dictionaries(st.text(max_size=3) | st.sampled_from(["title", "used", "size"]), JSON),
)
def test_whatever_is_offered_is_read_or_left_out(
    answer: dict[str, Any], kind: str, update: dict[str, Any]
) -> None:
    report = offers.updated(offers.of_answer(answer), update | {"sessionUpdate": kind})
    again = ConversationReport.model_validate_json(report.model_dump_json())
    assert again == report


def test_what_is_offered_is_bounded() -> None:
    many = [{"id": f"m{n}", "name": "x" * 9000} for n in range(5000)]
    report = offers.of_answer({"modes": {"currentModeId": "m0", "availableModes": many}})
    assert len(report.modes) == offers.ENTRIES
    assert len(report.modes[0].name) == offers.TEXT_CHARS


# ---- contents --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "refused"),
    [(None, False), (PromptCapabilities(), True), (PromptCapabilities(image=True), False)],
)
def test_images_go_to_agents_that_take_them(
    prompt: PromptCapabilities | None, refused: bool
) -> None:
    play = Play().configured().initialized(prompt=prompt)
    play.start()
    reply = play.prompt("p1", *HELLO, IMAGE)
    assert isinstance(reply, fx.Refused) is refused
    if refused:
        assert reply.code == "not_offered"
        assert play.state.prompts == ()


def test_a_queued_prompt_that_the_next_agent_does_not_take_is_never_sent() -> None:
    play = Play().open()
    play.on(ev.Exited(AT, "x1", Exit(at=AT, code=1)))
    play.prompt("p1", *HELLO, IMAGE)
    play.prompt("p2")
    play.start("resume", "o2", token="t1")
    play.on(ev.Initialized(AT, "x-o2", Capabilities(prompt=PromptCapabilities())))
    play.on(ev.Opened(AT, "x-o2", "o2", "session/load", "t1"))
    assert play.fate("p1") is PromptFate.NOT_DELIVERED
    assert play.fate("p2") is PromptFate.SENDING


def test_what_an_agent_takes_is_listed() -> None:
    assert contents.offers(Capabilities()) == list(contents.NEEDED), "nothing is known yet"
    assert contents.offers(Capabilities(prompt=PromptCapabilities())) == ["text", "resource_link"]


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_an_mcp_server_out_of_reach_ends_the_start(kind: str) -> None:
    play = Play().configured().initialized(mcp=McpCapabilities())
    play.start(mcp_servers=({"name": "here", "command": "x"}, {"type": kind, "name": "far"}))
    failure = operation(play, "o1").failure
    assert (failure.code, kind in failure.message) == ("rejected", True)
    assert not [a for a in play.acts if isinstance(a, fx.Open)]
    assert play.acts == (fx.Arm(ev.Timer.PROBE_IDLE, "x1"),)


# ---- permissions in time, prompts cancelled one by one ---------------------------------


def test_each_open_request_has_its_own_time() -> None:
    play = Play().open(timeout=7.0)
    play.prompt()
    options = (("y", "Yes", "allow_once"), ("n", "No", "reject_once"))
    play.on(ev.PermissionAsked(AT, "x1", "k1", "Run", None, options))
    play.on(ev.PermissionAsked(AT, "x1", "k2", "Run", None, options))
    assert play.acts == (fx.Arm(ev.Timer.PERMISSION, "x1-p2", 7.0),)
    play.on(ev.TimerFired(AT, ev.Timer.PERMISSION, "x1-p1"))
    assert play.acts == (fx.AnswerPermission("x1", "k1", "n"),)
    assert [p.permission_id for p in play.state.permissions] == ["x1-p2"]
    before = play.state
    play.on(ev.TimerFired(AT, ev.Timer.PERMISSION, "x1-p1"))
    assert play.state == before


def test_cancelling_one_prompt() -> None:
    play = Play().open()
    for prompt_id in ("p1", "p2", "p3"):
        play.prompt(prompt_id)
    assert play.on(ev.CancelAsked(AT, "p2")) == fx.CancelReply(None, PromptFate.NOT_DELIVERED)
    assert play.acts == ()
    assert play.state.turn is not None
    turn_id = play.state.turn.turn_id
    assert play.on(ev.CancelAsked(AT, "p1")) == fx.CancelReply(turn_id, PromptFate.SENDING)
    assert fx.CancelTurn("x1", "t1") in play.acts
    play.on(ev.TurnAnswered(AT, "x1", turn_id, "cancelled"))
    assert [a.prompt_id for a in play.acts if isinstance(a, fx.SendPrompt)] == ["p3"]
    assert play.on(ev.CancelAsked(AT, "p1")) == fx.CancelReply(None, PromptFate.DELIVERED)
    assert play.on(ev.CancelAsked(AT, "p9")).code == "unknown_prompt"
