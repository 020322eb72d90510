"""Real agents behind a real agentctl, offline: each of them talks, is killed, comes back, knows.

The model server answers from the request alone, so an answer proves what the agent kept. What
differs between agents is in `fakes.agents_seen`: each test asserts it, and the table for people
is printed from it. KANDEV_TEST_AGENTS=all tries all of them; the first run brings them from npm.
Tests of one agent share its process where nothing is killed.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.agents_seen import SEEN, Seen
from fakes.model_server import ModelServer
from fakes.real_agents import RealAgent, chosen, install
from integration.agentctl.harness import Json, Keys, Sidecar, alive, eventually, kill

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

PATIENCE = 90.0
# Seen with Claude: a turn is answered up to 0.2 s before it is on disk.
STORED = 1.0
# What has nothing to do with a login: where the model is, and no searching for it elsewhere.
NO_LOGIN = ("ANTHROPIC_BASE_URL", "OPENCODE_DISABLE_MODELS_FETCH")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(tick=0.1) as server:
        yield server


@pytest.fixture(scope="module")
def agentctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("real-agents")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json"))
    yield sidecar.start()
    sidecar.close()


@dataclass
class Stay:
    """One agent at one agentctl, and what is known of that agent."""

    agent: RealAgent
    sidecar: Sidecar
    model: ModelServer
    folder: Path

    @property
    def seen(self) -> Seen:
        return SEEN[self.agent.name]

    def begin(self, *, login: bool = True) -> Json:
        """A fresh session with a HOME of its own, and its configuration."""
        self.sidecar.fresh_session()
        home = self.folder / f"home-{self.sidecar.session}"
        home.mkdir()
        env = self.agent.furnish(home, self.model.url if login else None)
        if not login:
            offline = self.agent.env(self.model.url)
            env |= {name: offline[name] for name in NO_LOGIN if name in offline}
        command, *args = self.agent.command
        self.told = self.sidecar.spec(command=command, args=args, env=env)
        answer: Json = self.sidecar.call("PUT", "/api/v1/agent", self.told)
        return answer

    def open(self, mode: str = "new", token: str | None = None) -> Json:
        begun = self.sidecar.begin(mode, token, timeout_seconds=PATIENCE)
        return self.outcome(begun["operation_id"])

    def outcome(self, operation_id: str) -> Json:
        def look() -> Json | None:
            for operation in self.sidecar.status()["operations"]:
                if operation["operation_id"] == operation_id and operation["state"] != "running":
                    return dict(operation)
            return None

        found: Json = eventually(look, f"{self.agent.name}: {operation_id} ends", PATIENCE)
        return found

    def turn_end(self, prompt_id: str) -> Json:
        def look() -> Json | None:
            last = self.sidecar.status()["last_turn"]
            return dict(last) if last and last["prompt_id"] == prompt_id else None

        found: Json = eventually(look, f"{self.agent.name}: {prompt_id} ends", PATIENCE)
        return found

    def ask(self, text: str) -> str:
        """One whole turn: the agent's words in it."""
        prompt_id = self.sidecar.prompt(text)["prompt_id"]
        ended = self.turn_end(prompt_id)
        assert ended["outcome"] == "completed", (self.agent.name, ended, self.sidecar.status())
        return self.said(prompt_id)

    def said(self, prompt_id: str) -> str:
        """The words of one turn."""
        turns = {
            e["data"]["turn"]["turn_id"]
            for e in self.sidecar.events()
            if e["kind"] == "turn_started" and e["data"]["turn"]["prompt_id"] == prompt_id
        }
        return "".join(
            e["data"].get("text", "")
            for e in self.sidecar.events()
            if e["kind"] == "message"
            and e["data"]["author"] == "agent"
            and e["data"]["turn_id"] in turns
        )

    def waits_for_permission(self) -> Json:
        look = self.sidecar.call
        found: list[Json] = eventually(
            lambda: look("GET", "/api/v1/permissions"), "a permission is asked", PATIENCE
        )
        return found[0]

    def answer(self, request: Json, *wanted: str) -> None:
        """Choose the first option of a kind."""
        option = next(o for o in request["options"] if o["kind"] in wanted)
        path = f"/api/v1/permissions/{request['permission_id']}"
        self.sidecar.call("POST", path, {"option_id": option["option_id"]})

    def killed(self) -> None:
        """The agent's process dies by SIGKILL; agentctl ends what it leaves."""
        kill(self.sidecar.agent_pid())
        eventually(lambda: self.sidecar.agent() == "exited", "the exit is seen", PATIENCE)


@pytest.fixture(scope="module", params=chosen())
def stay(
    request: pytest.FixtureRequest,
    agentctl: Sidecar,
    model: ModelServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stay:
    """An agent with an open conversation, shared by the tests that leave it alive."""
    made = Stay(install(request.param), agentctl, model, tmp_path_factory.mktemp(request.param))
    made.begin()
    opened = made.open()
    assert opened["state"] == "succeeded", (request.param, opened)
    return made


def test_it_says_what_it_can(stay: Stay) -> None:
    told = stay.sidecar.call("GET", "/api/v1/capabilities")
    resume, load = told["resume_session"], told["load_session"]
    way_back = "session/resume" if resume else "session/load" if load else None
    takes = [kind for kind, taken in told["prompt"].items() if taken]
    assert (way_back, told["list_sessions"], tuple(takes)) == (
        stay.seen.way_back,
        stay.seen.lists,
        stay.seen.takes,
    )
    assert told["agent"]["version"] == stay.agent.version
    offered = stay.sidecar.status()["conversation"]
    assert bool(offered["modes"]) == stay.seen.modes
    assert any(o["category"] == "model" for o in offered["config"]) == stay.seen.models


def test_it_talks(stay: Stay) -> None:
    word = f"alpha-{secrets.token_hex(3)}"
    assert f"I see 1 user messages; the first was: {word}" in stay.ask(word)
    assert stay.sidecar.status()["token"]["established"] is True


def test_a_mode_is_chosen(stay: Stay) -> None:
    offered = stay.sidecar.status()["conversation"]
    assert bool(offered["modes"]) == stay.seen.modes
    if not offered["modes"]:
        return  # then its modes are a config option, or it has none
    others = [m["mode_id"] for m in offered["modes"] if m["mode_id"] != offered["mode_id"]]
    # Planning is what nobody needs to be trusted for: Gemini refuses more in a new folder.
    other = "plan" if "plan" in others else others[0]
    for mode_id in (other, offered["mode_id"]):
        body = {
            "session_id": stay.sidecar.session,
            "operation_id": uuid.uuid4().hex,
            "mode_id": mode_id,
        }
        begun = stay.sidecar.call("POST", "/api/v1/mode", body)
        done = stay.outcome(begun["operation_id"])
        assert done["state"] == "succeeded", done
        assert stay.sidecar.status()["conversation"]["mode_id"] == mode_id


def test_a_command_waits_for_permission(stay: Stay) -> None:
    mark = stay.sidecar.workspace / f"mark-{secrets.token_hex(3)}"
    prompt_id = stay.sidecar.prompt(f"run: touch {mark}")["prompt_id"]
    request = stay.waits_for_permission()
    assert not mark.exists()
    stay.answer(request, "allow_once")
    assert stay.turn_end(prompt_id)["outcome"] == "completed"
    assert mark.exists()


def test_a_rejected_command_does_not_run(stay: Stay) -> None:
    mark = stay.sidecar.workspace / f"mark-{secrets.token_hex(3)}"
    prompt_id = stay.sidecar.prompt(f"run: touch {mark}")["prompt_id"]
    stay.answer(stay.waits_for_permission(), "reject_once", "reject_always")
    assert stay.turn_end(prompt_id)["outcome"] == stay.seen.rejected
    assert not mark.exists()
    assert "user messages" in stay.ask("after the rejection")


def test_prompts_wait_their_turn_and_a_cancel_ends_one(stay: Stay) -> None:
    first = stay.sidecar.prompt("slow 1000")["prompt_id"]
    second = stay.sidecar.prompt("second")["prompt_id"]
    dropped = stay.sidecar.prompt("dropped")["prompt_id"]
    eventually(lambda: "word2" in stay.said(first), "words stream", PATIENCE)
    assert stay.sidecar.fate(second) == "queued"
    stay.sidecar.call("POST", "/api/v1/cancel", {"prompt_id": dropped})
    stay.sidecar.call("POST", "/api/v1/cancel")
    assert stay.turn_end(second)["outcome"] == "completed"
    ended = [
        (e["data"]["turn"]["prompt_id"], e["data"]["turn"]["outcome"])
        for e in stay.sidecar.events()
        if e["kind"] == "turn_ended" and e["data"]["turn"]["prompt_id"] in (first, second)
    ]
    assert ended == [(first, "cancelled"), (second, "completed")]
    assert stay.sidecar.fate(dropped) == "not_delivered"
    asked = [question.newest for question in stay.model.requests]
    assert not [text for text in asked if "dropped" in text], "the model never heard of it"


def test_it_ends_when_its_input_is_closed(stay: Stay) -> None:
    pid = stay.sidecar.agent_pid()
    body = {"session_id": stay.sidecar.session, "operation_id": uuid.uuid4().hex}
    # Half of the grace is for the closed input alone: longer than anybody here waits.
    stopped = stay.sidecar.call("POST", "/api/v1/stop", body | {"grace_seconds": 4 * PATIENCE})
    assert stay.outcome(stopped["operation_id"])["state"] == "succeeded"
    assert not alive(pid)
    assert stay.sidecar.status()["agent"]["exit"]["code"] == 0


class Returning:
    """A conversation whose agent dies again and again, and that must be known after each time."""

    def __init__(self, stay: Stay) -> None:
        self.stay, self.sidecar = stay, stay.sidecar
        self.word = f"alpha-{secrets.token_hex(3)}"
        stay.begin()
        assert stay.open()["state"] == "succeeded"
        assert f"the first was: {self.word}" in stay.ask(self.word)
        self.token = self.sidecar.token()

    def settle(self) -> None:
        """Leave the agent the time that it needs to store what it answered."""
        time.sleep(STORED)
        if self.stay.seen.minute:
            time.sleep(60 - time.time() % 60 + 1)

    def comes_back(self, after: str) -> None:
        """Resume, with a prompt that waits for it: nothing old is shown as new, the prompt arrives
        once, and the first words are known."""
        before = self.sidecar.status()["journal"]
        waiting = self.sidecar.prompt(f"after {after}")["prompt_id"]
        assert self.sidecar.fate(waiting) == "queued"
        operation = self.stay.open("resume", self.token)
        assert (operation["state"], operation["method"]) == (
            "succeeded",
            self.stay.seen.way_back,
        ), operation
        replayed = self.sidecar.status()["details"]["updates_replayed"]
        assert bool(replayed) == (self.stay.seen.way_back == "session/load")
        assert self.stay.turn_end(waiting)["outcome"] == "completed"
        shown = self.sidecar.events(after=f"{before['journal_id']}:{before['last_seq']}")
        kinds = [e["kind"] for e in shown if e["data"].get("kind") != "usage"]
        assert kinds.count("turn_started") == 1
        assert "message" not in kinds[: kinds.index("turn_started")], "no replay is shown"
        said = self.stay.said(waiting)
        assert f"the first was: {self.word}" in said, f"after {after} it said {said!r}"
        assert self.sidecar.token() == self.token

    def dies_idle(self) -> None:
        self.settle()
        self.stay.killed()

    def dies_on_its_way_back(self) -> None:
        begun = self.sidecar.begin("resume", self.token, timeout_seconds=PATIENCE)
        # Wherever it is then: before or after initialize, or in the middle of the load.
        pid = eventually(lambda: self.sidecar.status()["agent"]["pid"], "it is on its way")
        time.sleep(0.5)
        kill(pid)
        operation = self.stay.outcome(begun["operation_id"])
        assert operation["state"] == "succeeded" or operation["failure"]["code"] == "agent_exited"
        assert self.sidecar.becomes("exited")
        assert self.sidecar.token() == self.token, "a lost resume loses no token"

    def dies_in_a_turn(self) -> None:
        prompt_id = self.sidecar.prompt("slow 1000")["prompt_id"]
        eventually(lambda: "word2" in self.stay.said(prompt_id), "words stream", PATIENCE)
        self.settle()
        self.stay.killed()
        assert self.stay.turn_end(prompt_id)["outcome"] == "interrupted"
        assert self.sidecar.fate(prompt_id) == "delivered"

    def dies_at_an_open_permission(self) -> None:
        mark = self.sidecar.workspace / f"mark-{secrets.token_hex(3)}"
        self.sidecar.prompt(f"run: touch {mark}")
        self.stay.waits_for_permission()
        self.settle()
        self.stay.killed()
        assert self.sidecar.call("GET", "/api/v1/permissions") == []
        assert not mark.exists(), "it had not run, and does not run any more"


@pytest.mark.timeout(900)
def test_B041_B046_B050_it_comes_back_from_every_kill(stay: Stay) -> None:
    """Idle, on its way back, in a turn, at an open permission."""
    it = Returning(stay)
    it.dies_idle()
    it.dies_on_its_way_back()
    it.comes_back("two deaths")
    it.dies_in_a_turn()
    it.comes_back("a death in a turn")
    it.dies_at_an_open_permission()
    it.comes_back("a death at an open question")


def test_B041_an_unknown_conversation(stay: Stay) -> None:
    stay.begin()
    operation = stay.open("resume", "00000000-0000-4000-8000-000000000000")
    assert operation["state"] == "failed"
    assert operation["failure"]["code"] == stay.seen.unknown, operation
    assert operation["failure"]["agent_code"] == stay.seen.unknown_code


def test_B061_an_odd_token_is_nobodys_conversation(stay: Stay) -> None:
    stay.begin()
    operation = stay.open("resume", "../../etc/passwd\n")
    assert operation["state"] == "failed", operation
    assert "passwd" not in str(operation["failure"])


def test_B049_a_login_that_is_missing(stay: Stay) -> None:
    stay.begin(login=False)
    operation = stay.open()
    match stay.seen.login:
        case "session/new":
            failure = operation["failure"]
        case "session/prompt":
            assert operation["state"] == "succeeded", operation
            failure = stay.turn_end(stay.sidecar.prompt("hello")["prompt_id"])["failure"]
        case _:
            assert operation["state"] == "succeeded", operation
            return
    assert failure["code"] == "authentication_required", failure
    for login in stay.sidecar.call("GET", "/api/v1/capabilities")["logins"]:
        assert f"[{login['id']}]" in failure["message"]
