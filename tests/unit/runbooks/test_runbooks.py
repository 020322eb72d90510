"""Alerts, runbooks and `kubectl kandev why` say the same words, and each alert has its page."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kandev_operator.api.reasons import BY_CONDITION, RESUME_REASON, meaning
from kandev_operator.api.troubles import Problem, Trouble, stuck
from kandev_operator.cli.advice import ADVICE

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = ROOT / "operator" / "runbooks"
HEADINGS: Final = [
    "What it means",
    "What to look at",
    "What to do",
    "When it is harmless",
]
SEVERITIES: Final = {"critical", "warning", "info"}
LINK: Final = re.compile(r"\]\(([^)#]+)\)")


def _rules() -> list[dict[str, Any]]:
    text = (ROOT / "helm/kandev-operator/files/alerts.yaml").read_text("utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


RULES: Final = {rule["alert"]: rule for rule in _rules()}
WORDS: Final = {
    **{each.alert: each.doc for each in Trouble},
    **{f"Kandev{each}Problem": each.doc for each in Problem},
}


def _page(rule: dict[str, Any]) -> str:
    return (ROOT / rule["annotations"]["runbook_url"]).read_text("utf-8")


def test_no_alert_is_there_twice() -> None:
    assert len(_rules()) == len(RULES)


@pytest.mark.parametrize("name", WORDS)
def test_every_trouble_and_problem_has_an_alert_in_its_words(name: str) -> None:
    summary = " ".join(RULES[name]["annotations"]["summary"].split())
    assert summary.endswith(WORDS[name])
    assert f"> {WORDS[name]}" in _page(RULES[name])


@pytest.mark.parametrize("trouble", Trouble)
def test_an_alert_about_a_session_names_it_and_quotes_the_reason(trouble: Trouble) -> None:
    rule = RULES[trouble.alert]
    said = " ".join(rule["annotations"].values())
    assert rule["annotations"]["runbook_url"] == trouble.runbook
    assert f'trouble="{trouble}"' in rule["expr"]
    assert "$labels.session_namespace }}/{{ . }}" in said
    assert "$labels.meaning" in said
    assert "kubectl kandev why" in said


@pytest.mark.parametrize("problem", Problem)
def test_an_alert_about_the_operator_asks_for_its_problem(problem: Problem) -> None:
    assert f'problem="{problem}"' in RULES[f"Kandev{problem}Problem"]["expr"]


@pytest.mark.parametrize("name", RULES)
def test_every_alert_has_a_page_with_its_name_its_words_and_four_answers(name: str) -> None:
    rule, page = RULES[name], _page(RULES[name])
    assert page.startswith(f"# {name}\n")
    summary = " ".join(rule["annotations"]["summary"].split())
    quoted = re.findall(r"^> (.+)$", page, re.MULTILINE)
    assert len(quoted) == 1
    assert summary.endswith(quoted[0])
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    assert parts[1::2] == HEADINGS
    assert all(len(each.strip()) > 5 for each in parts[2::2])
    assert rule["labels"]["severity"] in SEVERITIES


def test_every_page_is_listed_and_belongs_to_an_alert() -> None:
    listed = re.findall(
        r"^\| \[(\w+)\]\(([a-z-]+\.md)\) \| (.+) \|$",
        (PAGES / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert {name: f"operator/runbooks/{page}" for name, page, _ in listed} == {
        name: rule["annotations"]["runbook_url"] for name, rule in RULES.items()
    }
    assert all(f"> {words}" in (PAGES / page).read_text("utf-8") for _, page, words in listed)
    there = {page.name for page in PAGES.glob("*.md")} - {"README.md", "METRICS.md"}
    assert there == {page for _, page, _ in listed}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES.glob("*.md"):
        for target in LINK.findall(page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("reason", RESUME_REASON)
@pytest.mark.parametrize("state", ["ERROR", "STARTING"])
def test_every_reason_that_can_stop_a_session_has_an_alert_its_sentence_and_a_step(
    reason: str, state: str
) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    told = stuck({"metadata": {}, "status": {"state": state, "conditions": [ready]}})
    assert told is not None
    assert told.trouble.alert in RULES
    assert told.meaning == meaning("Ready", reason)
    assert told.meaning in {word.doc for words in BY_CONDITION.values() for word in words}
    assert ADVICE[reason]
