"""What Git owns is never written: a tool that applies it all the time meets no conflict.

Its objects are applied every second while their sessions begin, work, die, are resumed and rest.
The API server's own records say who wrote what: managed fields, generations, the audit log.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.audit import AuditEvent
from cluster.controlplane import ControlPlane
from stage.gitops import ARGO, FLUX, PATIENCE, Repository, Tool
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed

A_TURN = 2
MEMBER = {"ref": {"name": "member"}}


def executor(place: Namespace) -> Body:
    local = {"worktreePath": str(place.worktree("member"))}
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "member"},
        "spec": {"runtime": "LocalStandalone", "localStandalone": local},
    }


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


@pytest.mark.parametrize("tool", [FLUX, ARGO], ids=lambda tool: tool.name)
async def test_git_and_the_operator_never_write_the_same_field(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
    tool: Tool,
) -> None:
    kubeconfig = own_control_plane.kubeconfig_for("operator", ["system:masters"])
    operator = make_operator(kubeconfig=kubeconfig).start()
    # In Git's order, which is no order.
    git = Repository(
        place,
        tool,
        session("s", executor=MEMBER, prompt={"text": "alpha"}),
        session("rests", place.worktree("rests"), operatingMode="Suspended"),
        task(),
        executor(place),
        profile(command=diary.agent("--tick=0.1")),
    )
    async with git.kept():
        await asyncio.to_thread(place.wait_idle, "s")
        async with talk(
            place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name
        ) as s:
            await s.until(lambda report: report.turns_completed == 1)
            await agreed(place, "s", s)
            await git.rounds_more(2)
            await nothing_is_written(own_control_plane, place, git)
            mark = await asyncio.to_thread(own_control_plane.audit.mark)
            await s.ask("slow 20")
            await agreed(place, "s", s)
            written = await asyncio.to_thread(by_operator, own_control_plane, mark, place)
            of_it = [each for each in written if each.resource != "tasks"]
            assert len(of_it) <= A_TURN, of_it
        await asyncio.to_thread(operator.kill)
        await asyncio.to_thread(operator.start)
        await rests_and_comes_back(place, git)
        await git.commit("AgentProfile", "fake", displayName="Fake, the second")
        await git.rounds_more(2)
    assert git.troubles == []
    assert diary.prompts == ["alpha", "slow 20"]
    assert diary.openings == ["session/new", "session/resume"]
    edits = {"s": 2, "fake": 1}
    for body, found in zip(git.bodies, stored(place, git), strict=True):
        name = body["metadata"]["name"]
        assert found["metadata"]["generation"] == 1 + edits.get(name, 0), found
        assert_spec_is_gits(body, found, tool)


def test_nothing_empty_belongs_into_git(place: Namespace) -> None:
    """The API server does not store it, and takes it for news at each apply."""
    versions = []
    for annotations in ({}, {}, None, None):
        body = task()
        body["metadata"] |= {} if annotations is None else {"annotations": annotations}
        place.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
        versions.append(place.get("task", body["metadata"]["name"])["metadata"]["resourceVersion"])
        time.sleep(1.1)  # owners are noted by the second
    assert versions[0] != versions[1], "news, though nothing changed"
    assert versions[2] == versions[3]


async def nothing_is_written(cluster: ControlPlane, place: Namespace, git: Repository) -> None:
    """Applying what is there already is news to nobody."""
    async with asyncio.timeout(PATIENCE):
        while True:
            mark = await asyncio.to_thread(cluster.audit.mark)
            await git.rounds_more(2)
            if not await asyncio.to_thread(by_operator, cluster, mark, place):
                break
    before = await asyncio.to_thread(stored, place, git)
    await git.rounds_more(4)
    assert await asyncio.to_thread(by_operator, cluster, mark, place) == []
    after = await asyncio.to_thread(stored, place, git)
    assert [each["metadata"]["resourceVersion"] for each in after] == [
        each["metadata"]["resourceVersion"] for each in before
    ]


def by_operator(cluster: ControlPlane, mark: int, place: Namespace) -> list[AuditEvent]:
    """What the operator wrote since then, but for its Lease."""
    seen = cluster.audit.writes(since=mark, user="operator", namespace=place.name)
    return [each for each in seen if each.resource != "leases"]


async def rests_and_comes_back(place: Namespace, git: Repository) -> None:
    """Git says so, and Git alone."""
    await git.commit("TaskSession", "s", operatingMode="Suspended")
    await asyncio.to_thread(
        place.wait,
        "s",
        lambda status: condition(status, "Suspended").get("status") == "True",
        "suspended",
    )
    await git.commit("TaskSession", "s", operatingMode="Running")
    await asyncio.to_thread(place.wait_idle, "s")


def stored(place: Namespace, git: Repository) -> list[Body]:
    """Git's objects as they are stored, in Git's order, with the owners of their fields."""
    names = [f"{each['kind']}/{each['metadata']['name']}" for each in git.bodies]
    shown = place.kubectl("get", *names, "-o", "json", "--show-managed-fields")
    found: list[Body] = json.loads(shown)["items"]
    return found


def assert_spec_is_gits(body: Body, found: Body, tool: Tool) -> None:
    """No field of the spec has another owner, and of the rest only a finalizer has."""
    for key, value in body["spec"].items():
        assert value == found["spec"][key]
    for entry in found["metadata"]["managedFields"]:
        if entry["manager"] == tool.manager or entry.get("subresource") == "status":
            continue
        assert entry["fieldsV1"].keys() <= {"f:metadata"}, entry
        assert entry["fieldsV1"]["f:metadata"].keys() <= {"f:finalizers"}, entry
