"""One socket: the current state first, each word once, and no client can make it grow."""

import asyncio

import pytest

from kandev_operator.api import group
from kandev_operator.gateway import socket as module
from kandev_operator.gateway.actions import table
from kandev_operator.gateway.bucket import BURST
from kandev_operator.gateway.ports import Right
from kandev_operator.gateway.wire.requests import Action
from unit.gateway.played import PATIENCE, Window, session_body, socket_of, task_body


@pytest.fixture
def window() -> Window:
    made = Window()
    made.session()
    return made


async def test_the_current_state_comes_first_then_every_word_once(window: Window) -> None:
    for number in range(250):
        window.said.say("s-1", f"word {number}")
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: len(client.told("session.message.added")) == 250, "all words")
        window.said.say("s-1", "one more")
        await client.until(lambda: len(client.told("session.message.added")) == 251, "one more")
        notices = [each["action"] for each in client.frames if each["type"] == "notification"]
        assert notices[0] == "session.state"
        seqs = [each["seq"] for each in client.told("session.message.added")]
        assert seqs == list(range(1, 252))


async def test_a_cursor_goes_on_where_it_ended(window: Window) -> None:
    for number in range(5):
        window.said.say("s-1", f"word {number}")
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1", cursor="j-1:3")
        await client.until(lambda: len(client.told("session.message.added")) == 2, "the rest")
        assert [each["seq"] for each in client.told("session.message.added")] == [4, 5]


async def test_state_that_changes_faster_than_a_client_takes_comes_as_the_newest(
    window: Window,
) -> None:
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: client.told("session.state"), "the first state")
        client.takes.clear()
        for version in range(2, 1002):
            window.session(version=version, errorMessage=f"e: {version}")
            if version % 100 == 0:
                await asyncio.sleep(0)
        client.takes.set()
        await client.until(
            lambda: client.told("session.state")[-1].get("error_message") == "e: 1001", "the newest"
        )
        assert len(client.told("session.state")) < 20
        versions = [each["version"] for each in client.told("session.state")]
        assert versions == sorted(set(versions))


async def test_live_words_wait_for_nobody(window: Window) -> None:
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: client.told("session.history"), "the subscription stands")
        client.takes.clear()
        for number in range(10_000):
            window.said.whisper("s-1", f"{number}")
        client.takes.set()
        window.said.say("s-1", "kept")
        await client.until(lambda: client.told("session.message.added"), "what is kept")
        assert len(client.told("session.message.live")) <= 300


async def test_ten_thousand_subscribes_on_one_socket_are_bounded(window: Window) -> None:
    for number in range(400):
        window.session(f"many-{number}")
    async with socket_of(window) as (client, _, _):
        for number in range(10_000):
            client.ask(f"r{number}", "session.subscribe", session_id=f"many-{number % 400}")
        await client.until(lambda: len(client.answers()) == 10_000, "an answer to each")
        codes = [each["payload"].get("code") for each in client.answers().values()]
        assert codes.count(None) == module.SUBSCRIPTIONS
        assert codes.count("too_many") == BURST - module.SUBSCRIPTIONS
        assert codes.count("rate_limited") == 10_000 - BURST
        assert window.hub.subscriptions == module.SUBSCRIPTIONS
    assert window.hub.subscriptions == 0


async def test_the_same_session_again_is_one_subscription(window: Window) -> None:
    async with socket_of(window) as (client, _, _):
        for number in range(50):
            client.ask(f"r{number}", "session.subscribe", session_id="s-1")
        await client.until(lambda: len(client.answers()) == 50, "an answer to each")
        assert (window.hub.subscriptions, window.said.listeners("s-1")) == (1, 1)


@pytest.mark.parametrize("waiting", [75, 300], ids=["all begun", "more than are read"])
async def test_who_goes_with_answers_waiting_leaves_nothing_behind(
    window: Window, waiting: int
) -> None:
    async with socket_of(window) as (client, serving, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: client.told("session.state"), "the subscription stands")
        client.takes.clear()
        for number in range(waiting):
            client.ask(f"r{number}", "task.session.status", session_id="s-1")
        client.go()
        for _ in range(100):
            await asyncio.sleep(0)
        client.closed = 1006
        client.takes.set()
        async with asyncio.timeout(PATIENCE):
            await serving
        assert (window.hub.subscriptions, window.said.listeners("s-1")) == (0, 0)


async def test_what_was_asked_before_the_client_went_is_done(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(*_: object) -> dict[str, object]:
        begun.set()
        await may_end.wait()
        done.set()
        return {}

    monkeypatch.setattr(module, "perform", slow)
    async with socket_of(window) as (client, serving, _):
        client.ask("a", "session.prompt", session_id="s-1", prompt_id="p", text="keep me")
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            client.go()
            await asyncio.sleep(0)
            may_end.set()
            await serving
        assert done.is_set()


async def test_who_takes_nothing_is_closed_as_slow(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.05)
    async with socket_of(window) as (client, serving, _):
        client.takes.clear()
        client.ask("a", "session.subscribe", session_id="s-1")
        async with asyncio.timeout(PATIENCE):
            await serving
        assert client.closed == module.CLOSE_SLOW
        assert window.hub.subscriptions == 0


async def test_a_fault_of_ours_costs_one_request(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> dict[str, object]:
        raise LookupError("a secret that nobody shall read")

    monkeypatch.setattr(module, "perform", broken)
    async with socket_of(window) as (client, _, _):
        client.ask("a", "git.status", session_id="s-1")
        client.ask("b", "ping")
        await client.until(lambda: {"a", "b"} <= client.answers().keys(), "both answers")
        assert client.answers()["a"]["payload"]["code"] == "internal"
        assert "secret" not in str(client.answers()["a"])


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{", "\0", '{"id": "a"}', '{"id": 1, "type": "request", "action": "x"}'],
)
async def test_garbage_is_refused_and_the_socket_stays(window: Window, text: str) -> None:
    async with socket_of(window) as (client, _, _):
        client.raw(text)
        client.ask("b", "ping")
        await client.until(lambda: "b" in client.answers(), "an answer to what follows")
        assert client.frames[0]["payload"]["code"] == "invalid_frame"


async def test_a_place_that_is_none_is_refused(window: Window) -> None:
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1", cursor="x")
        client.ask("b", "message.list", session_id="s-1", before="x")
        await client.until(lambda: {"a", "b"} <= client.answers().keys(), "both answers")
        codes = [client.answers()[each]["payload"]["code"] for each in "ab"]
        assert codes == ["invalid_request"] * 2


async def test_a_deleted_session_ends_its_subscription(window: Window) -> None:
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: client.told("session.state"), "the subscription stands")
        window.cache.remove(group.TASK_SESSION, session_body())
        await client.until(lambda: client.told("session.deleted"), "its end")
        assert window.hub.subscriptions == 0


async def test_a_right_that_is_taken_away_ends_the_subscription(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.01)
    async with socket_of(window) as (client, _, _):
        client.ask("a", "session.subscribe", session_id="s-1")
        await client.until(lambda: client.told("session.state"), "the subscription stands")
        window.rights.taken.add(Right.READ)
        await client.until(lambda: client.told("session.deleted"), "its end")
        client.ask("b", "session.subscribe", session_id="s-1")
        client.ask("c", "session.subscribe", session_id="nobody")
        await client.until(lambda: {"b", "c"} <= client.answers().keys(), "both answers")
        assert client.answers()["b"]["payload"] == client.answers()["c"]["payload"]


async def test_a_login_that_ends_closes_the_socket(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.01)
    answers = iter([True, True, False])
    async with socket_of(window, lambda: next(answers)) as (client, serving, _):
        async with asyncio.timeout(PATIENCE):
            await serving
        assert client.closed == module.CLOSE_LOGIN


async def test_who_listed_tasks_hears_of_those_that_change(window: Window) -> None:
    async with socket_of(window) as (client, _, _):
        client.ask("a", "task.list", namespace="team")
        await client.until(lambda: "a" in client.answers(), "the list")
        window.cache.put(group.TASK, task_body("elsewhere", namespace="other"))
        window.cache.put(group.TASK, task_body("more"))
        await client.until(lambda: client.told("task.changed"), "a new task")
        window.session("s-2")
        await client.until(lambda: len(client.told("task.changed")) == 2, "a session of a task")
        window.cache.remove(group.TASK, task_body("more"))
        await client.until(lambda: len(client.told("task.changed")) == 3, "a task that is gone")
        assert [each["name"] for each in client.told("task.changed")] == ["more", "work", "more"]


async def test_a_gateway_that_ends_says_so(window: Window) -> None:
    async with socket_of(window) as (client, serving, ending):
        client.ask("a", "ping")
        await client.until(lambda: "a" in client.answers(), "it is served")
        ending.set()
        async with asyncio.timeout(PATIENCE):
            await serving
        assert client.closed == module.CLOSE_AWAY
        assert client.frames[-1]["action"] == "gateway.going_away"


def test_every_action_is_served_by_the_table_or_the_socket() -> None:
    of_socket = {
        "session.subscribe",
        "session.unsubscribe",
        "shell.subscribe",
        "shell.unsubscribe",
        "shell.input",
        "shell.resize",
        "ping",
    }
    assert {each.value for each in Action} == {*map(str, table.TABLE), *of_socket}
