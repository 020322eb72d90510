"""Two sessions never share files, nothing outlives its object, and keys can be lost."""

import asyncio
import os
import time
from collections.abc import Callable

from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk


def test_a_folder_has_one_session_however_it_is_spelled(
    place: Namespace, operator: OperatorProcess
) -> None:
    mine = place.worktree("mine")
    (mine / "inside").mkdir()
    link = place.root / "link"
    link.symlink_to(mine)
    place.apply(profile(), task(), session("s", mine))
    before = place.wait_idle("s")
    spelled = {"trailing": f"{mine}/", "link": str(link), "inside": str(mine / "inside")}
    for name, path in spelled.items():
        place.apply(session(name, path))  # type: ignore[arg-type]
    for name in spelled:
        status = place.wait_state(name, "ERROR")
        assert condition(status, "Ready")["reason"] == "WorkspaceInUse", status
    after = place.wait_idle("s")
    assert after["agentExecutionId"] == before["agentExecutionId"]

    place.apply(session("root", place.root))
    status = place.wait_state("root", "ERROR")
    assert condition(status, "Ready")["reason"] == "NotAllowed", "a worktree lies below the root"


async def test_a_folder_follows_its_session_and_not_the_executor(
    place: Namespace, operator: OperatorProcess
) -> None:
    folder = place.worktree("mine")
    place.apply(profile(), task(), session("s", folder))
    before = place.wait_idle("s")
    name = place.name
    async with talk(place.cluster.kubeconfig, name, "s", operator_namespace=name) as it:
        await it.ask("alpha")
    place.apply(session("rival", folder))
    place.wait("rival", in_use, "waiting for the folder")

    made = before["executorRef"]
    place.kubectl("delete", "executor", made["name"], "--wait=false")
    place.wait(
        "s", lambda now: (now.get("executorRef") or {}).get("uid") != made["uid"], "rehoused"
    )
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, name, "s", operator_namespace=name) as it:
        assert "the first was: alpha" in await it.ask("beta")
    status = place.wait("rival", in_use, "still waiting")
    assert "resumeTokenRef" not in status, "it never ran there"

    # A session that rests keeps its files, and one that has ended leaves them.
    place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
    place.wait("s", lambda now: condition(now, "Suspended").get("status") == "True", "at rest")
    place.kubectl("delete", "executor", made["name"], "--wait=false")
    place.wait("rival", lambda now: in_use(now) and " s " in now["errorMessage"], "waiting for s")
    place.patch("tasksession", "s", {"spec": {"operatingMode": "Finished"}})
    place.wait_state("s", "COMPLETED")
    place.wait_idle("rival")


def test_a_session_that_has_finished_leaves_its_folder_to_the_next(
    place: Namespace, operator: OperatorProcess
) -> None:
    """Its executor is there still, and older."""
    folder = place.worktree("mine")
    place.apply(profile(), task(), session("s", folder))
    made = place.wait_idle("s")["executorRef"]["name"]
    place.patch("tasksession", "s", {"spec": {"operatingMode": "Finished"}})
    place.wait_state("s", "COMPLETED")
    place.apply(session("next", folder))
    place.wait_idle("next")
    assert place.get("executor", made)["status"].get("sessionRef") is None


def in_use(status: Body) -> bool:
    return condition(status, "Ready").get("reason") == "WorkspaceInUse"


def test_a_process_that_its_run_file_does_not_name_goes_with_its_session(
    place: Namespace, operator: OperatorProcess
) -> None:
    place.apply(profile(), task(), session("s", place.worktree("s")))
    place.wait_idle("s")
    pid = place.executor_of("s")["status"]["pid"]
    run = next((place.root / ".kandev").glob("*/run.json"))
    run.unlink()
    place.kubectl("delete", "tasksession", "s", "--wait=false")
    end = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < end, f"agentctl {pid} lives on\n{place.tail()}"
        time.sleep(0.2)


async def test_a_new_signing_key_reaches_the_local_agentctls(
    place: Namespace, make_operator: Callable[..., OperatorProcess]
) -> None:
    operator = make_operator("--probe-seconds=1").start()
    place.apply(profile(), task(), session("s", place.worktree("s")))
    before = place.wait_idle("s")
    place.kubectl("delete", "secret", "kandev-signing-key")
    operator.kill()
    operator.start()
    end = time.monotonic() + 30
    while operator.metric("kandev_operator_probes_total", outcome="well") < 1:
        assert time.monotonic() < end, operator.tail()
        await asyncio.sleep(0.1)
    status = place.wait_idle("s")
    assert status["agentExecutionId"] == before["agentExecutionId"]
    name = place.name
    async with talk(place.cluster.kubeconfig, name, "s", operator_namespace=name) as it:
        assert "the first was: alpha" in await it.ask("alpha")
