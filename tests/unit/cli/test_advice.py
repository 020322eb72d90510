"""The table of advice: every documented reason has a row, and every command can be pasted."""

import shlex

import pytest

from kandev_operator.api.reasons import BY_CONDITION, RESUME_REASON, SESSION_CONDITIONS, SPEAKS
from kandev_operator.cli.advice import ADVICE, UNKNOWN_REASON, Step
from kandev_operator.cli.explain import filled, meaning
from kandev_operator.cli.options import parse
from kandev_operator.cli.seen import Seen
from unit.cli.bodies import NOON, a_session, an_executor

STEPS = sorted({step for steps in (*ADVICE.values(), UNKNOWN_REASON) for step in steps}, key=str)
COMMANDS = [step for step in STEPS if step.command]


def test_every_documented_reason_has_advice_and_there_is_no_other() -> None:
    assert set(ADVICE) == set(RESUME_REASON)
    assert all(ADVICE.values())


@pytest.mark.parametrize("type_", SESSION_CONDITIONS)
def test_every_reason_of_a_session_has_its_meaning(type_: str) -> None:
    for home in SPEAKS[type_]:
        for word in BY_CONDITION[home]:
            meanings = [
                each.doc for words in BY_CONDITION.values() for each in words if each == word
            ]
            assert meaning(type_, word.value) in meanings
    own = BY_CONDITION[type_]
    assert all(meaning(type_, word.value) == word.doc for word in own)


def placed(step: Step) -> str:
    seen = Seen(a_session(), an_executor(), None, None, NOON)
    return filled(seen, step).command or ""


@pytest.mark.parametrize("step", COMMANDS, ids=lambda step: step.text)
def test_a_command_can_be_pasted(step: Step) -> None:
    words = shlex.split(placed(step))
    assert words[0] == "kubectl"
    assert "{" not in placed(step).replace('{"spec":{', "")
    assert step.text.endswith(":")


@pytest.mark.parametrize("step", COMMANDS, ids=lambda step: step.text)
def test_a_command_of_ours_is_one(step: Step) -> None:
    words = shlex.split(placed(step))
    if words[1] == "kandev":
        parse(words[2:], {})


@pytest.mark.parametrize("step", COMMANDS, ids=lambda step: step.text)
def test_a_command_about_namespaced_things_names_the_namespace(step: Step) -> None:
    everywhere = "node" in (step.command or "").split() or "jwks" in (step.command or "")
    assert everywhere or " -n " in placed(step)
