"""Named promises, shared by the tests that play and by those that check one value.

A predicate raises `Broken` with the promise's name; `Broken` is what a mutant must meet.
"""

import re
from typing import Any

from kandev_operator.api.reasons import (
    EXECUTOR_CONDITIONS,
    SESSION_CONDITIONS,
    TASK_CONDITIONS,
    is_documented,
)

ONLY_WHILE_TRUE = ("Reconciling", "Stalled")
OF_KIND = {
    "TaskSession": SESSION_CONDITIONS,
    "Executor": EXECUTOR_CONDITIONS,
    "Task": TASK_CONDITIONS,
}


class Broken(AssertionError):
    """A promise that does not hold. `name` says which."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


def conditions_are_well_formed(about: Any, status: Any) -> None:
    """Each type once, none forgotten, each with a documented reason for the present generation."""
    seen: dict[str, Any] = {}
    for each in status.conditions:
        if each.type in seen:
            raise Broken("conditions", f"two of type {each.type}")
        seen[each.type] = each
        if each.type not in OF_KIND[about.kind]:
            raise Broken("conditions", f"{each.type} is no condition of a {about.kind}")
        if each.status not in ("True", "False", "Unknown"):
            raise Broken("conditions", f"{each.type} is {each.status}")
        if not re.fullmatch(r"[A-Z][A-Za-z]+", each.reason):
            raise Broken("conditions", f"{each.type} gives the reason {each.reason!r}")
        if not is_documented(each.type, each.reason):
            raise Broken("conditions", f"{each.type} may not give {each.reason}")
        if each.observed_generation != about.metadata.generation:
            raise Broken("conditions", f"{each.type} speaks of another generation")
        if not each.last_transition_time:
            raise Broken("conditions", f"{each.type} has no time")
        if each.type in ONLY_WHILE_TRUE and each.status != "True":
            raise Broken("conditions", f"{each.type} is there and not true")
    missing = set(OF_KIND[about.kind]) - set(seen) - set(ONLY_WHILE_TRUE)
    if missing:
        raise Broken("conditions", f"{sorted(missing)} were forgotten")
    if [each.type for each in status.conditions] != sorted(seen):
        raise Broken("conditions", "they are not in order")


def errors_are_said(status: Any) -> None:
    """ERROR comes with Stalled or Reconciling and a message; nothing else has a message."""
    types = {each.type for each in status.conditions}
    failed = status.state in ("ERROR", "error")
    if failed and not types & {"Stalled", "Reconciling"}:
        raise Broken("errors", "in error, and neither stalled nor at work")
    if failed != bool(status.error_message):
        raise Broken("errors", f"{status.state} says {status.error_message!r}")
    if failed and not re.match(r"[a-z0-9_]+: .", status.error_message):
        raise Broken("errors", f"{status.error_message!r} is no word and sentence")


def unknown_is_not_no(status: Any) -> None:
    """Nobody is asked to resume what may be running."""
    if status.is_agent_running is None and status.needs_resume:
        raise Broken("unknown", "needs a resume, and nobody knows whether the agent lives")
    if status.is_agent_running and status.needs_resume:
        raise Broken("unknown", "needs a resume while the agent lives")


def status_is_well_formed(about: Any, status: Any) -> None:
    """All that holds for every status that is ever written."""
    conditions_are_well_formed(about, status)
    if status.observed_generation != about.metadata.generation:
        raise Broken("conditions", "status speaks of another generation")
    if about.kind == "Task":
        return
    errors_are_said(status)
    if about.kind == "TaskSession":
        unknown_is_not_no(status)
    if type(status).model_validate(status.dump()) != status:
        raise Broken("conditions", "what is stored is not what was meant")


def shows_no_token(text: str, token: str) -> None:
    """A resume token is a credential: it stands in no status, Event, message or repr."""
    if token in text:
        raise Broken("secrets", "a resume token is shown")
