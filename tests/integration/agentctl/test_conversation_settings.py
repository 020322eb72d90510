"""What an agent offers in a conversation, and choosing among it: modes, options, models, commands.

Idempotent and fenced like every other call that changes something.
"""

import uuid

import pytest

from integration.agentctl.harness import Json, Refused, Sidecar, eventually, kill


def opened(sidecar: Sidecar, *options: str) -> Json:
    sidecar.put(*options)
    sidecar.succeeded(sidecar.open())
    return conversation(sidecar)


def conversation(sidecar: Sidecar) -> Json:
    found: Json = sidecar.status()["conversation"]
    return found


def choose(sidecar: Sidecar, what: str, **body: object) -> Json:
    """Ask for a mode or an option, and wait for the outcome."""
    answer = ask(sidecar, what, **body)
    return sidecar.outcome(answer["operation_id"])


def ask(sidecar: Sidecar, what: str, operation_id: str | None = None, **body: object) -> Json:
    whole = {"session_id": sidecar.session, "operation_id": operation_id or uuid.uuid4().hex}
    answer: Json = sidecar.call("POST", f"/api/v1/{what}", whole | body)
    return answer


def test_modes_options_models_and_commands_are_listed(sidecar: Sidecar) -> None:
    told = opened(sidecar, "--modes", "--config", "--models")
    assert told["mode_id"] == "build"
    assert [mode["mode_id"] for mode in told["modes"]] == ["build", "plan"]
    values = {o["config_id"]: (o["category"], o["value"]) for o in told["config"]}
    assert values == {
        "effort": ("thought_level", "low"),
        "web": (None, False),
        "session/set_model": ("model", "small"),
    }
    told = eventually(lambda: (c := conversation(sidecar))["commands"] and c)
    assert told["commands"] == [
        {"name": "slow", "description": "Answer in N slow chunks", "hint": "N"}
    ]
    newest = [e for e in sidecar.events() if e["kind"] == "conversation"][-1]
    assert newest["data"]["conversation"] == told
    sidecar.stop()
    assert sidecar.status()["conversation"] is None, "what was offered is gone with the process"


def test_a_mode_is_chosen(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes")
    done = sidecar.succeeded(choose(sidecar, "mode", mode_id="plan"))
    assert (done["kind"], done["method"]) == ("mode", "session/set_mode")
    assert conversation(sidecar)["mode_id"] == "plan"
    assert sidecar.heard("session/set_mode")[-1]["params"]["modeId"] == "plan"


@pytest.mark.parametrize(
    ("config_id", "value", "method"),
    [
        ("effort", "high", "session/set_config_option"),
        ("web", True, "session/set_config_option"),
        ("session/set_model", "large", "session/set_model"),
    ],
)
def test_an_option_is_chosen(sidecar: Sidecar, config_id: str, value: object, method: str) -> None:
    opened(sidecar, "--config", "--models")
    sidecar.succeeded(choose(sidecar, "config", config_id=config_id, value=value))
    values = {o["config_id"]: o["value"] for o in conversation(sidecar)["config"]}
    assert values[config_id] == value
    assert len(values) == 3, "no other option is lost by it"
    assert len(sidecar.heard(method)) == 1


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("mode", {"mode_id": "never offered"}),
        ("config", {"config_id": "never offered", "value": "x"}),
        ("config", {"config_id": "effort", "value": "never offered"}),
    ],
)
def test_only_what_is_offered_can_be_chosen(sidecar: Sidecar, what: str, body: Json) -> None:
    opened(sidecar, "--modes", "--config")
    with pytest.raises(Refused) as refused:
        ask(sidecar, what, **body)
    assert refused.value.code == "not_offered"
    assert refused.value.details["offers"]
    assert not sidecar.heard("session/set_mode")
    assert not sidecar.heard("session/set_config_option")


def test_an_agent_that_offers_nothing(sidecar: Sidecar) -> None:
    told = opened(sidecar)
    assert (told["modes"], told["config"], told["mode_id"]) == ([], [], None)
    with pytest.raises(Refused) as refused:
        ask(sidecar, "mode", mode_id="plan")
    assert refused.value.code == "not_offered"


def test_the_same_operation_again_asks_the_agent_nothing(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes")
    operation_id = uuid.uuid4().hex
    ask(sidecar, "mode", operation_id, mode_id="plan")
    done = sidecar.succeeded(sidecar.outcome(operation_id))
    assert ask(sidecar, "mode", operation_id, mode_id="plan") == done
    assert len(sidecar.heard("session/set_mode")) == 1


def test_an_older_epoch_chooses_nothing(own: Sidecar) -> None:
    opened(own, "--modes")
    own.call("GET", "/api/v1/status", epoch=7)
    body = {"session_id": own.session, "operation_id": "o-old", "mode_id": "plan"}
    with pytest.raises(Refused) as refused:
        own.call("POST", "/api/v1/mode", body, epoch=6)
    assert refused.value.code == "stale_epoch"
    with pytest.raises(Refused) as refused:
        own.call("POST", "/api/v1/mode", body, scopes=["read"], epoch=7)
    assert refused.value.code == "forbidden_scope"
    assert not own.heard("session/set_mode")


def test_a_refused_choice_is_told_in_the_agents_words(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes", "--setting-error", "-32602:not in this house")
    failure = sidecar.failed(choose(sidecar, "mode", mode_id="plan"), "rejected")
    assert "not in this house" in failure["message"]
    assert conversation(sidecar)["mode_id"] == "build"
    assert sidecar.say("still there")["outcome"] == "completed"


def test_one_choice_at_a_time_and_none_outlives_the_agent(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes", "--hang-at", "set_mode")
    first = ask(sidecar, "mode", mode_id="plan")
    with pytest.raises(Refused) as refused:
        ask(sidecar, "mode", mode_id="build")
    assert refused.value.code == "operation_conflict"
    assert refused.value.details == {"operation_id": first["operation_id"]}
    kill(sidecar.agent_pid())
    sidecar.failed(sidecar.outcome(first["operation_id"]), "agent_exited")
    assert sidecar.status()["conversation"] is None


def test_a_choice_is_made_while_a_turn_runs(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes", "--tick", "0.05")
    prompt_id = sidecar.prompt("slow 400")["prompt_id"]
    sidecar.becomes("running")
    sidecar.succeeded(choose(sidecar, "mode", mode_id="plan"))
    assert sidecar.agent() == "running"
    sidecar.call("POST", "/api/v1/cancel")
    assert sidecar.turn_end(prompt_id)["outcome"] == "cancelled"


def test_a_mode_that_the_agent_changes_by_itself(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes")
    sidecar.say("mode: plan")
    assert conversation(sidecar)["mode_id"] == "plan"


def test_offers_come_back_with_a_resume(sidecar: Sidecar) -> None:
    opened(sidecar, "--modes", "--config", "--no-resume")
    sidecar.say("one")
    sidecar.stop()
    assert sidecar.succeeded(sidecar.resume())["method"] == "session/load"
    told = eventually(lambda: (c := conversation(sidecar))["commands"] and c)
    assert told["mode_id"] == "build"
    assert len(told["config"]) == 2


def test_usage_is_told_of_the_talk_and_of_the_turn(sidecar: Sidecar) -> None:
    opened(sidecar, "--usage")
    ended = sidecar.say("one two three")
    assert ended["usage"]["total_tokens"] > 0
    told = conversation(sidecar)["usage"]
    assert told["used"] == ended["usage"]["total_tokens"]
    assert told["size"] == 200_000
    messages = [e["data"] for e in sidecar.events() if e["kind"] == "message"]
    assert [m["content"]["used"] for m in messages if m["kind"] == "usage"] == [told["used"]]
