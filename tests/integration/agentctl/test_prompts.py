"""The queue and the turns: what becomes of a prompt when anything dies.

The field cases B001 (operator gone in a turn), B008 (late end), B050 (queue), B067 (child killed).
"""

import random
import sys
import time
import uuid

import pytest

from integration.agentctl.harness import Refused, Sidecar, eventually, kill


def opened(sidecar: Sidecar, *options: str, **changes: object) -> Sidecar:
    sidecar.put(*options, **changes)
    sidecar.succeeded(sidecar.open())
    return sidecar


def test_B001_a_turn_goes_on_and_ends_while_nobody_watches(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05")
    prompt_id = sidecar.prompt("slow 10")["prompt_id"]
    sidecar.becomes("running")
    turn = sidecar.status()["turn"]
    assert turn["prompt_id"] == prompt_id
    ended = sidecar.turn_end(prompt_id)
    assert ended["turn_id"] == turn["turn_id"]
    assert sidecar.said().startswith("word1 word2 ")
    kinds = [e["kind"] for e in sidecar.events()]
    assert kinds.index("turn_started") < kinds.index("message") < kinds.index("turn_ended")


def test_chunks_are_gathered_into_few_events(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.002")
    sidecar.say("slow 200")
    told = [e for e in sidecar.events(kinds="messages") if e["data"]["author"] == "agent"]
    assert len(told) < 60
    assert len({e["data"]["message_id"] for e in told}) == 1
    assert sidecar.said().count("word") == 200


def test_the_same_prompt_id_is_sent_once(sidecar: Sidecar) -> None:
    opened(sidecar)
    prompt_id = uuid.uuid4().hex
    for _ in range(3):
        sidecar.prompt("once", prompt_id)
    sidecar.turn_end(prompt_id)
    assert sidecar.prompt("once", prompt_id)["fate"] == "delivered"
    assert sidecar.prompts_heard() == ["once"]


def test_prompts_wait_for_each_other_in_order(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05", "--busy", "swallow")
    answers = [sidecar.prompt(f"slow 2 number {n}") for n in range(4)]
    assert [a["position"] for a in answers] == [0, 1, 2, 3]
    sidecar.turn_end(answers[-1]["prompt_id"])
    assert sidecar.prompts_heard() == [f"slow 2 number {n}" for n in range(4)]
    assert sidecar.status()["turns_completed"] == 4


def test_B050_prompts_sent_while_the_agent_starts_are_delivered_in_order(sidecar: Sidecar) -> None:
    sidecar.put("--slow-start", "0.4")
    with pytest.raises(Refused) as refused:
        sidecar.prompt("too early")
    assert refused.value.code == "agent_not_running"
    operation = sidecar.begin()
    ids = [sidecar.prompt(f"p{n}")["prompt_id"] for n in range(1, 5)]
    assert {sidecar.fate(i) for i in ids} == {"queued"}
    sidecar.succeeded(sidecar.outcome(operation["operation_id"]))
    sidecar.turn_end(ids[-1])
    assert sidecar.prompts_heard() == ["p1", "p2", "p3", "p4"]
    assert {sidecar.fate(i) for i in ids} == {"delivered"}


def test_B050_the_queue_survives_the_death_of_the_agent(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05", "--save-prompt")
    first = sidecar.prompt("slow 100")["prompt_id"]
    rest = [sidecar.prompt(f"p{n}")["prompt_id"] for n in (2, 3)]
    eventually(lambda: sidecar.fate(first) == "delivered")
    kill(sidecar.agent_pid())
    sidecar.becomes("exited")
    late = sidecar.prompt("p4")["prompt_id"]
    sidecar.succeeded(sidecar.resume())
    sidecar.turn_end(late)
    assert sidecar.prompts_heard() == ["slow 100", "p2", "p3", "p4"]
    assert [sidecar.fate(i) for i in (first, *rest, late)] == ["delivered"] * 4


def test_B050_the_queue_survives_a_restart_of_agentctl(own: Sidecar) -> None:
    opened(own, "--tick", "0.05", "--save-prompt")
    own.say("something to come back to")
    first = own.prompt("slow 100")["prompt_id"]
    rest = [own.prompt(f"p{n}")["prompt_id"] for n in (2, 3)]
    eventually(lambda: own.fate(first) == "delivered")
    own.kill()
    own.start()
    status = own.status()
    assert status["agent"]["status"] == "exited"
    assert status["last_turn"]["prompt_id"] == first
    assert status["last_turn"]["outcome"] == "interrupted"
    assert [own.fate(i) for i in (first, *rest)] == ["delivered", "queued", "queued"]
    own.put_again()
    own.succeeded(own.resume())
    own.turn_end(rest[-1])
    assert own.prompts_heard()[1:] == ["slow 100", "p2", "p3"]


def test_whenever_agentctl_is_killed_no_prompt_is_sent_twice_and_none_is_lost(own: Sidecar) -> None:
    dice = random.Random(7)
    opened(own, "--tick", "0.01", "--save-prompt")
    own.say("something to come back to")
    ids: list[str] = []
    for life in range(3):
        ids += [own.prompt(f"slow 3 life {life} number {n}")["prompt_id"] for n in range(4)]
        # Not before something is under way, then at any moment of it.
        time.sleep(dice.random() * 0.15)
        own.kill()
        own.start()
        own.put_again()
        own.succeeded(own.resume())
    eventually(lambda: not {own.fate(i) for i in ids} & {"queued", "sending"})
    own.becomes("idle")
    heard = own.prompts_heard()[1:]
    assert len(heard) == len(set(heard)), "none is sent twice"
    assert heard == sorted(heard), "and all in their order"
    fates = [own.fate(i) for i in ids]
    assert set(fates) <= {"delivered", "unknown"}
    assert len(heard) >= fates.count("delivered")
    seqs = [e["seq"] for e in own.events()]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_prompt_without_any_sign_of_arrival_has_an_unknown_fate(own: Sidecar) -> None:
    opened(own, "--hang-at", "prompt", "--word-delay", "60")
    # The agent says "Well, " and hangs; here it must not even say that: it is stopped first.
    pid = own.agent_pid()
    kill(pid, 19)  # SIGSTOP
    prompt_id = own.prompt("did this arrive?")["prompt_id"]
    eventually(lambda: own.fate(prompt_id) == "sending")
    own.kill()
    own.start()
    assert own.fate(prompt_id) == "unknown"
    own.put_again()
    assert own.prompt("did this arrive?", prompt_id)["fate"] == "unknown"
    own.succeeded(own.open())
    assert own.prompts_heard() == [], "never sent again"


@pytest.mark.parametrize("in_turn", [True, False])
def test_B067_the_agent_is_killed(sidecar: Sidecar, in_turn: bool) -> None:
    opened(sidecar, "--tick", "0.05", "--save-prompt")
    sidecar.say("something to come back to")
    if in_turn:
        prompt_id = sidecar.prompt("slow 100")["prompt_id"]
        eventually(lambda: sidecar.fate(prompt_id) == "delivered")
    kill(sidecar.agent_pid())
    sidecar.becomes("exited")
    status = sidecar.status()
    assert status["agent"]["exit"]["signal"] == "SIGKILL"
    assert status["agent"]["pid"] is None
    assert status["last_turn"]["outcome"] == ("interrupted" if in_turn else "completed")
    assert sidecar.health()["status"] == "ok"
    assert sidecar.health()["agent_status"] == "exited"
    sidecar.succeeded(sidecar.resume())
    assert sidecar.say("back")["outcome"] == "completed"


def test_a_crash_in_the_turn_keeps_the_half_answer_in_the_journal(sidecar: Sidecar) -> None:
    opened(sidecar)
    sidecar.prompt("crash now")
    sidecar.becomes("exited")
    assert "Half an " in sidecar.said()
    assert sidecar.status()["agent"]["exit"]["code"] == 3


def test_cancel_ends_the_turn_and_the_next_prompt_goes_on(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05")
    assert sidecar.call("POST", "/api/v1/cancel") == {"turn_id": None, "fate": None}
    first = sidecar.prompt("slow 100")["prompt_id"]
    second = sidecar.prompt("then this")["prompt_id"]
    eventually(lambda: sidecar.fate(first) == "delivered")
    turn = sidecar.status()["turn"]
    assert sidecar.call("POST", "/api/v1/cancel") == {"turn_id": turn["turn_id"], "fate": None}
    sidecar.turn_end(second)
    outcomes = [e["data"]["turn"]["outcome"] for e in sidecar.events() if e["kind"] == "turn_ended"]
    assert outcomes == ["cancelled", "completed"]


def test_B008_a_late_end_of_a_cancelled_turn_ends_no_other_turn(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05", "--late-end", "1.0")
    first = sidecar.prompt("slow 100 the old one")["prompt_id"]
    eventually(lambda: sidecar.fate(first) == "delivered")
    sidecar.call("POST", "/api/v1/cancel")
    # The cancel is sat out; agentctl goes on without the answer, which comes in the next turn.
    assert sidecar.turn_end(first)["outcome"] == "cancelled"
    second = sidecar.prompt("slow 30 the new one")["prompt_id"]
    ended = sidecar.turn_end(second)
    assert ended["outcome"] == "completed"
    ends = [e["data"]["turn"] for e in sidecar.events() if e["kind"] == "turn_ended"]
    assert [e["prompt_id"] for e in ends] == [first, second]
    assert "word30" in sidecar.said(), "no text of the new turn is cut off"


def test_a_turn_that_the_agent_refuses_has_failed(sidecar: Sidecar) -> None:
    opened(sidecar, "--busy", "fail")
    script = [
        "import json,sys",
        "for l in sys.stdin:",
        "  m=json.loads(l); r={'sessionId':'s-1','protocolVersion':1}",
        "  a={'result':r} if m['method']!='session/prompt' else "
        "{'error':{'code':-32000,'message':'Authentication required'}}",
        "  print(json.dumps({'jsonrpc':'2.0','id':m.get('id'),**a}),flush=True)",
    ]
    sidecar.stop()
    sidecar.put(command=sys.executable, args=["-E", "-S", "-c", "\n".join(script)])
    sidecar.succeeded(sidecar.open())
    ended = sidecar.say("hello")
    assert ended["outcome"] == "failed"
    assert ended["failure"]["code"] == "authentication_required"
    assert sidecar.agent() == "idle"


def test_stop_in_a_turn_lets_the_agent_store_what_it_has(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05", "--save-delay", "30")
    sidecar.say("kept, though the agent stores late")
    sidecar.prompt("slow 100")
    sidecar.becomes("running")
    assert sidecar.stop()["state"] == "succeeded"
    status = sidecar.status()
    assert status["agent"]["status"] == "none"
    assert status["last_turn"]["outcome"] == "cancelled"
    sidecar.succeeded(sidecar.resume())
    sidecar.say("and now")
    assert "the first was: kept, though" in sidecar.said().rpartition("You said")[2]
