"""The API server out of the gateway's sight: what was seen is shown on, and said to be old."""

import asyncio
from pathlib import Path

from stage.gatewayprocess import GatewayProcess
from stage.onlooker import onlooker
from stage.scene import Scene
from stage.sessions import fake_agent, profile, session, task
from stage.tcpproxy import TcpProxy

NOWHERE = {"ref": {"name": "nowhere"}}


async def test_the_api_server_away_makes_views_old_and_nothing_missing(
    scene: Scene, tmp_path: Path
) -> None:
    await scene.apply(task("seen"), profile("seen", fake_agent()))
    await scene.apply(session("seen", task="seen", profile="seen", executor=NOWHERE))
    await scene.apply(session("goes", task="seen", profile="seen", executor=NOWHERE))
    uid = scene.get("tasksession", "seen")["metadata"]["uid"]
    goes = scene.get("tasksession", "goes")["metadata"]["uid"]
    original = scene.place.cluster.kubeconfig
    with TcpProxy.before(original) as proxy:
        gateway = GatewayProcess(
            proxy.kubeconfig(original, tmp_path / "through"),
            tmp_path,
            namespaces=[scene.place.name],
            operator_namespace=scene.home,
        )
        with gateway:
            async with onlooker(gateway.url) as it:
                await it.ask("session.subscribe", session_id=uid)
                await it.ask("session.subscribe", session_id=goes)
                await it.state(lambda v: not v["watch_stale"], "a fresh view")
                proxy.reset()
                await it.state(lambda v: v["watch_stale"], "an old view")
                view = await it.ask("task.session.status", session_id=uid)
                assert (view["watch_stale"], view["name"]) == (True, "seen")
                await scene.kubectl("delete", "tasksession", "goes", "--wait=true")
                assert not [action for action, _ in it.notices if action == "session.deleted"]
                assert (await asyncio.to_thread(gateway.get, "/healthz"))[0] == 200
                so_far = len(it.notices)
                proxy.heal()
                await it.until(
                    lambda a, v: a == "session.state" and not v["watch_stale"], "fresh", so_far
                )
                gone = await it.until(lambda a, _: a == "session.deleted", "what was deleted")
                assert gone["session_id"] == goes
                versions = [
                    v["version"]
                    for a, v in it.notices
                    if a == "session.state" and v["session_id"] == uid
                ]
                assert versions == sorted(set(versions)), "a later view replaces an earlier one"
