"""Files and git whatever becomes of the agent: none, dying, hanging. The case B067 among them.

And whatever becomes of the disk: `/health` is answered meanwhile.
"""

import os
import signal
import threading
import time
from pathlib import Path

from integration.agentctl.harness import Keys, Sidecar, eventually, kill
from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract import paths


def all_of_it(bench: Bench, name: str) -> None:
    """A little of everything."""
    bench.put(name, b"text\n")
    assert bench.get(name).content == b"text\n"
    assert name in bench.names()
    bench.post(paths.GIT_STAGE, paths=[name])
    bench.commit(name)
    assert bench.log()["commits"][0]["subject"] == name


def test_without_any_session_all_of_it_is_served(own: Sidecar) -> None:
    bench = Bench(own)
    repository(bench.workspace)
    assert own.health()["session_id"] is None
    all_of_it(bench, "a")


def test_b067_files_and_git_are_served_while_the_agent_is_killed(own: Sidecar) -> None:
    bench = Bench(own)
    repository(bench.workspace)
    own.put()
    own.succeeded(own.open())
    all_of_it(bench, "while-it-runs")
    for number in range(3):
        kill(own.agent_pid(), signal.SIGKILL)
        all_of_it(bench, f"killed-{number}")
        own.becomes("exited")
        all_of_it(bench, f"exited-{number}")
        assert own.health()["status"] == "ok"
        own.epoch += 1
        own.succeeded(own.open())
    own.stop()
    all_of_it(bench, "stopped")


def test_an_agent_that_hangs_or_cannot_start_is_no_matter(own: Sidecar) -> None:
    bench = Bench(own)
    repository(bench.workspace)
    own.put("--hang-at", "new")
    own.begin(timeout_seconds=60)
    own.becomes("opening")
    all_of_it(bench, "while-it-hangs")
    own.stop(grace_seconds=0)
    own.put(command="/nonexistent/agent")
    own.epoch += 1
    assert own.open()["state"] == "failed"
    all_of_it(bench, "cannot-start")


def test_git_lives_on_when_the_agents_leftovers_are_killed(own: Sidecar, tmp_path: Path) -> None:
    """A hook that takes its time, while an agent is killed and swept up."""
    bench = Bench(own)
    repository(bench.workspace)
    hook = bench.workspace / ".git/hooks/pre-commit"
    go = tmp_path / "go"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/began\nwhile [ ! -e {go} ]; do sleep 0.1; done\n")
    hook.chmod(0o755)
    own.put()
    own.succeeded(own.open())
    answers: list[str] = []

    def commit() -> None:
        answers.append(bench.commit("slowly", allow_empty=True, run_hooks=True)["head"])

    thread = threading.Thread(target=commit)
    thread.start()
    eventually((tmp_path / "began").exists, "the hook runs", 30)
    kill(own.agent_pid(), signal.SIGKILL)
    own.becomes("exited")
    own.epoch += 1
    own.succeeded(own.open())  # after the sweep
    go.touch()
    thread.join(30)
    assert answers == [git(bench.workspace, "rev-parse", "HEAD").decode().strip()]


def test_a_session_that_is_not_served_here_reaches_nothing(own: Sidecar) -> None:
    bench = Bench(own)
    own.put()
    mine, other = {"session": own.session}, {"session": "another"}
    files = {"scopes": ["files"]}
    assert bench.send("GET", paths.FILES_TREE, claims=files | mine).status_code == 200
    refused = bench.send("GET", paths.FILES_TREE, claims=files | other)
    assert (refused.status_code, refused.json()["code"]) == (409, "session_conflict")


def test_state_in_the_workspace_is_neither_shown_nor_committed(tmp_path: Path) -> None:
    sidecar = Sidecar(tmp_path, Keys(tmp_path / "jwks.json"))
    repository(sidecar.workspace)
    sidecar.state = sidecar.workspace / ".kandev" / "state"
    try:
        bench = Bench(sidecar.start())
        sidecar.put()
        sidecar.succeeded(sidecar.open())
        assert sidecar.say("hello")["outcome"] == "completed"
        assert bench.names(depth=5, ignored=True).count(".kandev/state") == 0
        assert bench.changes() == {}
        bench.post(paths.GIT_STAGE, all=True)
        assert bench.changes() == {}
        assert code_of(bench.get, ".kandev/state/run.json") == "file_not_found"
        assert code_of(bench.tree, ".kandev/state") == "file_not_found"
        assert code_of(bench.delete, ".kandev", recursive=True) == "outside_workspace"
        found = bench.ask(
            "GET", paths.FILES_SEARCH, {"query": "instance_id", "in": "content", "ignored": True}
        )
        assert found["matches"] == []
    finally:
        sidecar.close()


def test_health_is_answered_while_threads_and_git_are_busy(bench: Bench) -> None:
    """Large files, searches and statuses at once; the ratio is to an idle agentctl, generously."""
    repository(bench.workspace)
    for number in range(300):
        (bench.workspace / f"f{number}").write_bytes(os.urandom(20_000).hex().encode())
    (bench.workspace / "large").write_bytes(b"x" * 15_000_000)
    over = threading.Event()
    failed: list[str] = []

    def load(path: str, query: dict[str, str]) -> None:
        while not over.is_set():
            response = bench.send("GET", path, query)
            if response.status_code >= 500 and response.json()["code"] != "busy":
                failed.append(response.text[:200])

    threads = [
        threading.Thread(target=load, args=args)
        for args in (
            (paths.FILES_CONTENT, {"path": "large"}),
            (paths.FILES_SEARCH, {"query": "zz", "in": "content"}),
            (paths.GIT_STATUS, {}),
            (paths.GIT_DIFF, {"base": "HEAD"}),
        )
    ]
    for thread in threads:
        thread.start()
    delays = []
    try:
        for _ in range(100):
            began = time.monotonic()
            bench.sidecar.health()
            delays.append(time.monotonic() - began)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert sorted(delays)[50] < 1.0
