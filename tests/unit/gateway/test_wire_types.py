"""The page's types are those of the models: the committed file is what would be written now."""

from pathlib import Path

from kandev_operator.gateway.pages import wiretypes
from kandev_operator.gateway.wire import requests

_COMMITTED = Path(wiretypes.__file__).parents[1] / "web" / "src" / "wire.ts"


def test_the_committed_types_are_those_of_the_models() -> None:
    assert _COMMITTED.read_text() == wiretypes.render()


def test_every_action_and_notice_is_a_type_of_the_page() -> None:
    written = wiretypes.render()
    for module in wiretypes.MODULES:
        for name, each in vars(module).items():
            if isinstance(each, type) and each.__module__ == module.__name__:
                assert f" {name} " in written, name


def test_no_prompt_is_in_a_requests_words() -> None:
    made = requests.SessionCreate(
        request_id="r", namespace="n", task_name="t", agent_profile_name="p", prompt="dark words"
    )
    said = requests.Prompt(session_id="s", prompt_id="p", text="dark words")
    assert "dark words" not in f"{made!r} {said!r} {made} {said}"
