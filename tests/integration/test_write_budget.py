"""A session's writes stay within their budget: counted by the API server, not by the operator.

The same counts that `make bench` compares with a plain operator, here for one session of each
sort, so that a write too many is seen by whoever caused it.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from kandev_operator.contract.agent import PermissionAnswer
from stage.kubelet import Kubelet
from stage.operatorprocess import OperatorProcess
from stage.podscene import IMAGE, POD
from stage.sessions import Body, Namespace, fake_agent, profile, session, task
from stage.talk import Talk, talk
from stage.writes import Written, when_quiet

FROM_APPLY_TO_IDLE = 9
WITH_AN_EXECUTOR_OF_ITS_OWN = 8
IN_A_POD = 11
A_TURN = 2
A_PERMISSION = 2
EVENTS = 2
SLOWLY = fake_agent("--tick=0.1")


@pytest.fixture
def budgeted(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
) -> OperatorProcess:
    """An operator under a name of its own, and a profile and a task for it."""
    kubeconfig = own_control_plane.kubeconfig_for("operator", ["system:masters"])
    operator = make_operator(kubeconfig=kubeconfig).start()
    place.apply(profile(command=SLOWLY), task())
    return operator


async def counted(
    cluster: ControlPlane, place: Namespace, doing: Callable[[], Awaitable[None]]
) -> Written:
    """What was written by all this, once it is quiet again."""
    mark = await asyncio.to_thread(cluster.audit.mark)
    await doing()
    return await asyncio.to_thread(when_quiet, cluster.audit, mark, [place.name])


async def test_from_apply_to_idle_a_turn_a_permission_and_a_restart(
    own_control_plane: ControlPlane, place: Namespace, budgeted: OperatorProcess
) -> None:
    async def birth() -> None:
        place.apply(session("s", place.worktree("s")))
        await asyncio.to_thread(place.wait_idle, "s")

    async def turn() -> None:
        await said(place, lambda spoken: spoken.ask("slow 10"))

    async def asked() -> None:
        await said(place, permitted)

    async def restart() -> None:
        budgeted.kill()
        await asyncio.to_thread(budgeted.start)

    seen = await counted(own_control_plane, place, birth)
    assert seen.count <= FROM_APPLY_TO_IDLE, seen.listed()
    assert len(seen.events) <= EVENTS, seen.listed()
    seen = await counted(own_control_plane, place, turn)
    assert seen.count <= A_TURN, seen.listed()
    seen = await counted(own_control_plane, place, asked)
    assert seen.count <= A_TURN + A_PERMISSION, seen.listed()
    seen = await counted(own_control_plane, place, restart)
    assert (seen.objects, seen.events, seen.tasks, seen.others) == ((), (), (), ()), seen.listed()


async def test_an_executor_of_its_own_is_bound_for_less(
    own_control_plane: ControlPlane, place: Namespace, budgeted: OperatorProcess
) -> None:
    place.apply(executor(place))
    place.wait("own", lambda s: s.get("state") == "ready", "ready", kind="executor")
    audit = own_control_plane.audit
    await asyncio.to_thread(when_quiet, audit, audit.mark(), [place.name])

    async def birth() -> None:
        place.apply(session("s", executor={"ref": {"name": "own"}}))
        await asyncio.to_thread(place.wait_idle, "s")

    seen = await counted(own_control_plane, place, birth)
    assert seen.count <= WITH_AN_EXECUTOR_OF_ITS_OWN, seen.listed()


def test_a_standby_knows_every_session_and_writes_nothing(
    own_control_plane: ControlPlane,
    place: Namespace,
    budgeted: OperatorProcess,
    make_operator: Callable[..., OperatorProcess],
) -> None:
    place.apply(session("s", place.worktree("s")))
    place.wait_idle("s")
    mark = own_control_plane.audit.mark()
    kubeconfig = own_control_plane.kubeconfig_for("standby", ["system:masters"])
    standby = make_operator(kubeconfig=kubeconfig).start()
    end = time.monotonic() + 20
    while standby.metric("kandev_operator_sessions_verified") < 1:
        assert time.monotonic() < end, standby.tail()
        time.sleep(0.1)
    assert standby.metric("kandev_operator_lease_valid") == 0
    assert own_control_plane.audit.writes(since=mark, user="standby") == []


def executor(place: Namespace) -> Body:
    local = {"worktreePath": str(place.worktree("s"))}
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "own"},
        "spec": {"runtime": "LocalStandalone", "localStandalone": local},
    }


async def said(place: Namespace, say: Callable[[Talk], Awaitable[object]]) -> None:
    kubeconfig = place.cluster.kubeconfig
    async with talk(kubeconfig, place.name, "s", operator_namespace=place.name) as spoken:
        await say(spoken)


async def permitted(spoken: Talk) -> None:
    """A turn in which the agent asks; the answer comes after a moment's thought."""
    prompt_id = uuid.uuid4().hex
    await spoken.prompt("permission slow 5", prompt_id)
    await spoken.until(lambda report: report.permissions > 0)
    await asyncio.sleep(1.0)
    for each in await spoken.client.permissions():
        choice = PermissionAnswer(option_id=each.options[0].option_id)
        await spoken.client.answer_permission(each.permission_id, choice)
    async with asyncio.timeout(60):
        await spoken.turn_ended(prompt_id)


async def test_a_session_in_a_pod_is_born_within_eleven_writes(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> None:
    kubeconfig = own_control_plane.kubeconfig_for("operator", ["system:masters"])
    with Kubelet(own_control_plane.kubeconfig, place.name, tmp_path / "node"):
        make_operator("--pod-access=direct", kubeconfig=kubeconfig).start()
        place.apply(profile(command=SLOWLY, image=IMAGE), task())

        async def birth() -> None:
            place.apply(session("s", executor=POD))
            await asyncio.to_thread(place.wait_idle, "s")

        seen = await counted(own_control_plane, place, birth)
        assert seen.count <= IN_A_POD, seen.listed()
        assert len(seen.events) <= EVENTS, seen.listed()
