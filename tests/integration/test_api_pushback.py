"""The API server is there and says no: 429 to all writes or to one kind, 410 to a watch.

The server's own 410: etcd's history was compacted while the operator could not listen.
"""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.controlplane import ControlPlane
from cluster.errors import KubectlError
from stage.account import Account
from stage.operatorprocess import OperatorProcess
from stage.pushback import pushback
from stage.scene import until
from stage.sessions import Body, Namespace, profile, session, task
from stage.talk import talk
from stage.tcpproxy import TcpProxy
from stage.witness import Diary, agreed

STATUS = ("kandev.dev/tasksessions/status",)
EVERYTHING = ("*/*/*",)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


def refused(account: Account, body: Body) -> bool:
    """Whether a write of this status, as the operator would do it, meets 429. Writes nothing."""
    words = ("replace", "--subresource=status", "--dry-run=server", "-f", "-")
    try:
        account.cluster.kubectl(*words, stdin=json.dumps(body), kubeconfig=account.kubeconfig)
    except KubectlError as error:
        return "come again later" in str(error)
    return False


def turned_away(operator: OperatorProcess) -> bool:
    return "429" in operator.log.read_text()


@pytest.mark.parametrize("writes", [EVERYTHING, STATUS], ids=["everything", "status"])
async def test_429_for_a_while_loses_nothing_and_doubles_nothing(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
    writes: tuple[str, ...],
) -> None:
    cluster = own_control_plane
    account = Account(place.cluster, place.name)
    place.apply(task(), profile(command=diary.agent()))
    operator = make_operator(kubeconfig=account.kubeconfig).start()
    place.apply(session("s", place.worktree("s")))
    before = place.wait_idle("s")
    async with talk(cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        before = await agreed(place, "s", s)
        report = await s.status()
        assert report.agent.pid is not None
        with pushback(cluster, account.user, *writes):
            await until(lambda: refused(account, place.get("tasksession", "s")), "in force")
            os.kill(report.agent.pid, signal.SIGKILL)
            place.apply(session("late", place.worktree("late")))
            await until(lambda: turned_away(operator), "told by 429", 40)
            await asyncio.sleep(3)
            assert operator.get("/healthz")[0] == 200
            assert place.status("s").get("epoch") == before["epoch"], "nothing was written"
            assert diary.openings == ["session/new"], "and so nothing was begun"
        place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
        place.wait_idle("s")
        assert "the first was: alpha" in await s.ask("beta")
        await agreed(place, "s", s)
    place.wait_idle("late")
    assert sorted(diary.openings) == ["session/new", "session/new", "session/resume"]
    assert operator.is_running


async def test_410_after_a_compaction_is_no_gap_in_what_is_known(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> None:
    """The sweep is out of the way: what happened meanwhile is found by listing anew."""
    cluster = own_control_plane
    with TcpProxy.before(place.cluster.kubeconfig) as proxy:
        config = proxy.kubeconfig(place.cluster.kubeconfig, tmp_path / "through-proxy.json")
        place.apply(task(), profile())
        operator = make_operator("--sweep-seconds=600", kubeconfig=config).start()
        for name in ("changed", "deleted"):
            place.apply(session(name, place.worktree(name), operatingMode="Suspended"))
            place.wait(name, lambda now: now.get("conditions"), "handled")
        proxy.reset()
        await until(lambda: operator.get("/readyz")[0] == 503, "cut off", 30)
        place.patch("tasksession", "changed", {"spec": {"operatingMode": "Running"}})
        place.kubectl("delete", "tasksession", "deleted", "--timeout=30s")
        place.apply(session("new", place.worktree("new")))
        await asyncio.to_thread(compact, cluster)
        proxy.heal()
        await asyncio.to_thread(operator.wait_ready, 60)
        place.wait_idle("changed")
        place.wait_idle("new")
        place.apply(session("after", place.worktree("after"), operatingMode="Suspended"))
        place.wait("after", lambda now: now.get("conditions"), "handled", seconds=20)
        assert operator.is_running


def compact(cluster: ControlPlane) -> None:
    """Drop the history before now, from etcd and from the API server's memory."""
    cluster.kill_apiserver()

    def ask(path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f"{cluster.etcd_url}{path}", data, timeout=20) as answer:
            return json.load(answer)

    revision = ask("/v3/maintenance/status", {})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision, "physical": True})
    cluster.start_apiserver()
