"""`kubectl kandev permissions`, `allow`, `deny`, `cancel`."""

import json

import pytest

from kandev_operator.cli.commands import Allow, Cancel, Command, Deny, Permissions
from kandev_operator.cli.faults import ExitCode, Refusal
from unit.cli.bodies import AT, NAME, Json
from unit.cli.stage import Stage


def permission(*kinds: str) -> Json:
    return {
        "permission_id": "e1-p1",
        "turn_id": "t1",
        "title": "rm -rf\nbuild",
        "tool_kind": "execute",
        "options": [{"option_id": f"o-{kind}", "name": kind, "kind": kind} for kind in kinds],
        "requested_at": AT,
    }


ALL = ("allow_always", "allow_once", "reject_once")


@pytest.fixture(autouse=True)
def _asked(stage: Stage) -> None:
    stage.agentctl.permissions = [permission(*ALL)]


async def test_they_are_listed_with_what_answers_them(stage: Stage) -> None:
    assert await stage.play(Permissions(NAME)) == ExitCode.OK
    assert stage.said.startswith("e1-p1 asked ")
    assert "  rm -rf build [execute]\n" in stage.said
    assert "  option o-allow_once: allow_once [allow_once]\n" in stage.said
    assert "  kubectl kandev deny demo e1-p1 -n team-a\n" in stage.said


async def test_as_json(stage: Stage) -> None:
    await stage.play(Permissions(NAME, as_json=True))
    assert json.loads(stage.said)["title"] == "rm -rf\nbuild"


async def test_there_is_none(stage: Stage) -> None:
    stage.agentctl.permissions = []
    assert await stage.play(Permissions(NAME)) == ExitCode.OK
    assert "waits for no permission" in stage.noted


CHOICES = [
    (ALL, None, "o-allow_once"),
    (("reject_once", "allow_always"), None, "o-allow_always"),
    (ALL, "o-allow_always", "o-allow_always"),
]


@pytest.mark.parametrize(("kinds", "option", "chosen"), CHOICES)
async def test_allowing_permits_no_more_than_it_must(
    stage: Stage, kinds: tuple[str, ...], option: str | None, chosen: str
) -> None:
    stage.agentctl.permissions = [permission(*kinds)]
    assert await stage.play(Allow(NAME, "e1-p1", option)) == ExitCode.OK
    assert stage.agentctl.answers == [("e1-p1", {"option_id": chosen})]


async def test_denying_names_no_option(stage: Stage) -> None:
    assert await stage.play(Deny(NAME, "e1-p1")) == ExitCode.OK
    assert stage.agentctl.answers == [("e1-p1", {})]


REFUSED: list[tuple[tuple[str, ...], Command]] = [
    (ALL, Allow(NAME, "e1-p1", "o-nothing")),
    (("reject_once",), Allow(NAME, "e1-p1")),
    ((), Allow(NAME, "e1-p1")),
    (ALL, Allow(NAME, "e1-p")),
    (ALL, Deny(NAME, "p1")),
]


@pytest.mark.parametrize(("kinds", "command"), REFUSED, ids=repr)
async def test_what_the_agent_did_not_offer_cannot_be_chosen(
    stage: Stage, kinds: tuple[str, ...], command: Command
) -> None:
    stage.agentctl.permissions = [permission(*kinds)]
    assert isinstance(await stage.refused(command), Refusal)
    assert stage.agentctl.answers == []


async def test_somebody_else_was_quicker(stage: Stage) -> None:
    stage.agentctl.refuse["/api/v1/permissions/e1-p1"] = (404, "unknown_permission")
    assert isinstance(await stage.refused(Deny(NAME, "e1-p1")), Refusal)


async def test_cancel(stage: Stage) -> None:
    assert await stage.play(Cancel(NAME)) == ExitCode.OK
    assert stage.agentctl.cancels == 0
    stage.agentctl.begin("p1")
    assert await stage.play(Cancel(NAME)) == ExitCode.OK
    assert stage.agentctl.cancels == 1


@pytest.mark.parametrize("command", [Permissions(NAME), Cancel(NAME), Deny(NAME, "e1-p1")])
async def test_nobody_serves_the_session(stage: Stage, command: Command) -> None:
    stage.api.session["status"]["executorRef"] = None
    fault = await stage.refused(command)
    assert isinstance(fault, Refusal)
    assert fault.hints
