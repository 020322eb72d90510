"""Either side is killed, frozen or restarted: nothing acknowledged is lost, nothing said twice."""

import json
import random
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from fakes.kandev_agentctl import KandevAgentctl
from integration.agentctl.harness import Refused, alive, eventually
from integration.upstream.harness import Fronted

pytestmark = [pytest.mark.integration, pytest.mark.agents]
PATIENCE = 60.0


def talking(front: Fronted, *options: str) -> Fronted:
    """With a conversation open, in which one turn was completed."""
    front.put(*options)
    front.succeeded(front.open())
    assert front.say("alpha")["outcome"] == "completed"
    return front


def words(front: Fronted) -> list[str]:
    return re.findall(r"word\d+", front.said())


def test_ours_killed_in_a_turn_goes_on_with_it(front: Fronted) -> None:
    talking(front)
    before = front.status()["agent"]
    prompt_id = front.prompt("slow 20")["prompt_id"]
    eventually(lambda: "word3" in front.said(), "speaks")
    front.kill()
    assert alive(before["pid"]), "the agent goes on without us"
    front.start()
    now = front.status()["agent"]
    assert (now["status"], now["execution_id"]) == ("running", before["execution_id"])
    assert front.turn_end(prompt_id)["outcome"] == "completed"
    said = words(front)
    assert len(said) == len(set(said)), "nothing is said twice"
    # What they wrote into the socket of a process that is dead was read by nobody.
    assert len(said) >= 18
    assert said[-1] == "word20"
    assert front.fate(prompt_id) == "delivered"
    assert front.say("beta")["outcome"] == "completed"
    assert front.prompts_heard() == ["alpha", "slow 20", "beta"]
    assert len(front.heard("initialize")) == 1
    assert front.starts() == 1


def test_a_turn_that_ended_while_we_were_away(front: Fronted) -> None:
    talking(front)
    prompt_id = front.prompt("slow 8")["prompt_id"]
    eventually(lambda: "word2" in front.said(), "speaks")
    front.kill()
    [stored] = (front.kandev.home / ".acp-agent" / "sessions").glob("*.json")
    eventually(lambda: len(json.loads(stored.read_text())["messages"]) == 4, "the turn is over")
    front.start()
    ended = front.turn_end(prompt_id)
    assert (ended["outcome"], ended["stop_reason"]) == ("completed", "end_turn")
    assert "2 things so far; the first was: alpha" in front.said()
    assert front.say("beta")["outcome"] == "completed"
    assert front.prompts_heard() == ["alpha", "slow 8", "beta"]


def test_ours_ended_gently_leaves_the_agent_and_finds_it_again(front: Fronted) -> None:
    talking(front)
    before = front.status()["agent"]
    assert front.process is not None
    front.process.send_signal(signal.SIGTERM)
    assert front.process.wait(30) == 0
    assert alive(before["pid"])
    front.start()
    now = front.status()["agent"]
    assert (now["status"], now["execution_id"]) == ("idle", before["execution_id"])
    # The operator says the same as before, and that changes nothing.
    front.put_again()
    assert front.say("beta")["outcome"] == "completed"
    assert "2 things so far; the first was: alpha" in front.said()
    assert front.starts() == 1
    front.stop()
    assert front.agent() == "none"
    assert not alive(before["pid"])


def test_an_open_permission_is_asked_again_after_a_kill(front: Fronted) -> None:
    talking(front)
    prompt_id = front.prompt("permission please")["prompt_id"]
    [before] = eventually(lambda: front.call("GET", "/api/v1/permissions"), "asked")
    front.kill()
    front.start()
    [asked] = eventually(lambda: front.call("GET", "/api/v1/permissions"), "asked again")
    assert asked["title"] == before["title"]
    assert asked["permission_id"] != before["permission_id"]
    resolved = [e["data"] for e in front.events() if e["kind"] == "permission_resolved"]
    assert [(r["permission_id"], r["outcome"]) for r in resolved] == [
        (before["permission_id"], "cancelled")
    ], "who reads the stream hears that the first asking is over"
    assert front.status()["turn"]["awaiting_permission"] is True
    path = f"/api/v1/permissions/{asked['permission_id']}"
    front.call("POST", path, {"option_id": "reject_once"})
    assert front.turn_end(prompt_id)["outcome"] == "completed"
    assert "I was not allowed to write permitted.txt" in front.said()


def test_queued_prompts_go_on_after_a_kill(front: Fronted) -> None:
    talking(front)
    ids = [front.prompt(text)["prompt_id"] for text in ("slow 5 one", "two", "three")]
    front.kill()
    front.start()
    assert front.turn_end(ids[-1])["outcome"] == "completed"
    assert front.prompts_heard() == ["alpha", "slow 5 one", "two", "three"]


@pytest.mark.timeout(300)
def test_killed_at_random_moments_of_a_working_day(front: Fronted) -> None:
    dice = random.Random(5)
    talking(front)
    accepted: list[tuple[str, str]] = []
    for number in range(8):
        text = dice.choice(["slow 2 ", "permission ", "think "]) + f"number-{number}"
        accepted.append((text, front.prompt(text)["prompt_id"]))
        pause = dice.random() * 0.7
        eventually_or_not(lambda: False, pause)
        front.kill()
        front.start()
        for asked in front.call("GET", "/api/v1/permissions"):
            path = f"/api/v1/permissions/{asked['permission_id']}"
            front.call("POST", path, {"option_id": "allow_once"})

    def all_over() -> bool:
        for asked in front.call("GET", "/api/v1/permissions"):
            path = f"/api/v1/permissions/{asked['permission_id']}"
            answer(front, path)
        status = front.status()
        if status["turn"] is not None:
            assert status["agent"]["status"] == "running"
        return not status["turn"] and not [p for p in status["prompts"] if p["fate"] == "queued"]

    eventually(all_over, "every prompt was worked on", 90)
    heard = front.prompts_heard()
    assert len(heard) == len(set(heard)), "nothing is prompted twice"
    for text, prompt_id in accepted:
        fate = front.fate(prompt_id)
        assert fate in ("delivered", "unknown")
        if fate == "delivered":
            assert text in heard
    delivered = [t for t, p in accepted if front.fate(p) == "delivered"]
    assert len(delivered) >= 6
    assert front.starts() == 1


def answer(front: Fronted, path: str) -> None:
    response = front.raw("POST", path, {"option_id": "allow_once"})
    assert response.status_code in (202, 404), response.text  # 404: its turn is over meanwhile


def eventually_or_not(look: Callable[[], Any], patience: float) -> None:
    """Let time pass, as a person does."""
    with pytest.raises(AssertionError):
        eventually(look, patience=patience)


def test_a_start_that_was_under_way_is_ended_with_its_process(front: Fronted) -> None:
    talking(front)
    token = front.token()
    front.stop()
    front.put("--hang-at=load")
    begun = front.begin("resume", token)["operation_id"]
    front.becomes("initializing", "opening")
    eventually(lambda: front.starts() == 2, "the process is started")
    front.kill()
    front.start()
    ended = front.failed(front.outcome(begun), "interrupted")
    assert "nothing runs any more" in ended["message"]
    assert front.becomes("none")
    [instance] = front.kandev_instances()
    status = front.kandev.call("GET", "/api/v1/status", port=int(str(instance["port"])))
    assert status["agent_status"] == "stopped", "no process is left that status does not know"
    front.put()
    front.succeeded(front.open("resume", token))
    assert front.say("beta")["outcome"] == "completed"


def test_theirs_killed_in_a_turn_and_started_again(front: Fronted, kandev: KandevAgentctl) -> None:
    talking(front)
    first_token = front.upstream_token()
    prompt_id = front.prompt("slow 500")["prompt_id"]
    eventually(lambda: "word2" in front.said(), "speaks")
    kandev.kill()
    kandev.start()
    assert front.turn_end(prompt_id)["outcome"] == "interrupted"
    assert front.becomes("exited")
    assert front.upstream_token() != first_token, "a new process of theirs gives a new token"
    front.succeeded(front.resume())
    assert front.say("beta")["outcome"] == "completed"
    assert "the first was: alpha" in front.said()
    assert front.prompts_heard() == ["alpha", "slow 500", "beta"]


def test_theirs_away_is_unknown_and_not_dead(front: Fronted, kandev: KandevAgentctl) -> None:
    talking(front)
    with front.stream(kinds="state") as reader:
        kandev.kill()
        eventually(lambda: front.health()["status"] == "degraded", "noticed", PATIENCE)
        eventually(lambda: not reader._thread.is_alive(), "readers look again")
    with pytest.raises(Refused) as refused:
        front.status()
    assert (refused.value.status, refused.value.code) == (503, "upstream_unavailable")
    # What was said can still be read, and what is asked is kept.
    with front.stream() as reader:
        seen = reader.until(lambda e: e["kind"] == "turn_ended")
    assert "exited" not in [e["data"].get("status") for e in seen]
    waiting = front.prompt("beta")
    assert waiting["fate"] == "queued"
    kandev.start()
    eventually(lambda: front.health()["status"] == "ok", "it answers again", PATIENCE)
    assert front.becomes("exited"), "now it is known"
    assert front.fate(waiting["prompt_id"]) == "queued"
    front.succeeded(front.resume())
    assert front.turn_end(waiting["prompt_id"])["outcome"] == "completed"
    assert front.prompts_heard() == ["alpha", "beta"]


def test_theirs_hangs_and_comes_back(front: Fronted, kandev: KandevAgentctl) -> None:
    talking(front)
    before = front.status()["agent"]
    kandev.freeze()
    eventually(lambda: front.health()["status"] == "degraded", "noticed", PATIENCE)
    with pytest.raises(Refused):
        front.status()
    kandev.thaw()
    eventually(lambda: front.health()["status"] == "ok", "it answers again", PATIENCE)
    now = front.status()["agent"]
    assert (now["status"], now["execution_id"]) == ("idle", before["execution_id"])
    assert front.say("beta")["outcome"] == "completed"
    assert front.starts() == 1


def test_both_killed_at_once(front: Fronted, kandev: KandevAgentctl) -> None:
    talking(front)
    front.prompt("slow 500", "cut-off")
    eventually(lambda: "word2" in front.said(), "speaks")
    kandev.kill()
    front.kill()
    kandev.start()
    front.start()
    assert front.becomes("exited")
    assert front.turn_end("cut-off")["outcome"] == "interrupted"
    front.put_again()
    front.succeeded(front.resume())
    assert front.say("beta")["outcome"] == "completed"
    assert front.prompts_heard() == ["alpha", "slow 500", "beta"]
