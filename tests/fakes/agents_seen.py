"""What each real agent was seen to do, as the tests assert it: one truth for tests and people.

`integration/agentctl/test_real_agents.py` tries every agent against its line here; AGENTS.md is
printed from the same lines (`python -m fakes.agents_seen`, from `tests/`) and compared by a test.
So a cell of that table is true, or a test that it names is red. It refuses to know how an agent is
installed and started: that is with `real_agents`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fakes.real_agents import EVERY_RUN, RECIPES


@dataclass(frozen=True, slots=True)
class Seen:
    """One agent, in its pinned version, behind agentctl."""

    way_back: str
    """The ACP method that brings a conversation back."""
    lists: bool
    """It lists its conversations, so one that is missing is known to be gone."""
    takes: tuple[str, ...]
    """What a prompt may hold beside text and links."""
    modes: bool
    """It offers modes; the test chooses another one and goes back."""
    models: bool
    """It offers a choice of models."""
    rejected: str
    """How a turn ends whose command was rejected."""
    unknown: str
    """What agentctl calls its answer to an id that nobody made."""
    unknown_code: int
    """Its own error code for that."""
    login: str
    """Which call wants a login, where there is none; `none` if it works without."""
    minute: bool = False
    """It loses a conversation that is loaded in the clock minute in which it was made or loaded
    last: the test waits for the next one."""


ALL_BUT_AUDIO = ("image", "embedded_context")
EVERYTHING = ("image", "audio", "embedded_context")

SEEN: dict[str, Seen] = {
    "opencode": Seen(
        way_back="session/resume",
        lists=True,
        takes=ALL_BUT_AUDIO,
        modes=False,
        models=True,
        rejected="completed",
        unknown="session_not_found",
        unknown_code=-32603,
        login="none",
    ),
    "codex": Seen(
        way_back="session/resume",
        lists=True,
        takes=ALL_BUT_AUDIO,
        modes=True,
        models=True,
        rejected="cancelled",
        unknown="session_not_found",
        unknown_code=-32603,
        login="session/new",
    ),
    "claude": Seen(
        way_back="session/resume",
        lists=True,
        takes=ALL_BUT_AUDIO,
        modes=True,
        models=True,
        rejected="completed",
        unknown="session_not_found",
        unknown_code=-32002,
        login="session/prompt",
    ),
    "gemini": Seen(
        way_back="session/load",
        lists=False,
        takes=EVERYTHING,
        modes=True,
        models=True,
        rejected="completed",
        unknown="agent_error",
        unknown_code=-32603,
        login="session/new",
        minute=True,
    ),
    "copilot": Seen(
        way_back="session/load",
        lists=True,
        takes=ALL_BUT_AUDIO,
        modes=True,
        models=False,
        rejected="completed",
        unknown="session_not_found",
        unknown_code=-32002,
        login="session/new",
    ),
    "qwen": Seen(
        way_back="session/resume",
        lists=True,
        takes=EVERYTHING,
        modes=True,
        models=True,
        rejected="completed",
        unknown="session_not_found",
        unknown_code=-32002,
        login="session/new",
    ),
    "cline": Seen(
        way_back="session/load",
        lists=False,
        takes=("image",),
        modes=True,
        models=True,
        rejected="completed",
        unknown="session_not_found",
        unknown_code=-32002,
        login="session/new",
    ),
}

Cell = Callable[[Seen], str]
COLUMNS: tuple[tuple[str, str, Cell], ...] = (
    ("initialize", "test_it_says_what_it_can", lambda s: "takes " + ", ".join(s.takes)),
    ("new, prompt", "test_it_talks", lambda s: "talks; the token is established"),
    (
        "modes, models",
        "test_a_mode_is_chosen",
        lambda s: f"modes {_yes(s.modes)}, models {_yes(s.models)}",
    ),
    ("permission", "test_a_command_waits_for_permission", lambda s: "asked before it runs"),
    ("rejected", "test_a_rejected_command_does_not_run", lambda s: f"turn {s.rejected}"),
    (
        "cancel, queue",
        "test_prompts_wait_their_turn_and_a_cancel_ends_one",
        lambda s: "cancelled; the next one runs",
    ),
    ("stop", "test_it_ends_when_its_input_is_closed", lambda s: "ends on closed input, code 0"),
    (
        "resume after kill",
        "test_B041_B046_B050_it_comes_back_from_every_kill",
        lambda s: f"`{s.way_back}`, knows all" + (", in another minute" if s.minute else ""),
    ),
    (
        "unknown id",
        "test_B041_an_unknown_conversation",
        lambda s: f"`{s.unknown}` ({s.unknown_code}{', by its list' if s.lists else ''})",
    ),
    (
        "login needed",
        "test_B049_a_login_that_is_missing",
        lambda s: "no" if s.login == "none" else f"said at `{s.login}`",
    ),
)
HEAD = """\
# Real agents behind agentctl

Printed by `python -m fakes.agents_seen`; a test compares. Every cell is asserted by the test named
below its column, in `integration/agentctl/test_real_agents.py`, offline against a scripted model.
`make agents` tries all of them; every run of the tests tries {every_run}
(KANDEV_TEST_AGENTS=NAME,… chooses others).
"""


def page() -> str:
    """AGENTS.md."""
    heads = ["agent", *(f"{title}" for title, _, _ in COLUMNS)]
    rows = [
        [f"{name} {RECIPES[name].version}", *(cell(seen) for _, _, cell in COLUMNS)]
        for name, seen in SEEN.items()
    ]
    table = "\n".join(_row(row) for row in [heads, ["---"] * len(heads), *rows])
    tests = [_row(["column", "test"]), _row(["---", "---"])]
    tests += [_row([title, f"`{test}`"]) for title, test, _ in COLUMNS]
    head = HEAD.format(every_run=", ".join(EVERY_RUN))
    return "\n".join([head, table, "", *tests, ""])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


if __name__ == "__main__":
    print(page(), end="")
