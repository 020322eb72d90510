"""What a client may throw at the window: it is refused by name, and everybody else is served on."""

import asyncio
import json
import urllib.error
import urllib.request
import uuid
from contextlib import suppress

import pytest
import websockets

from stage.gatewayprocess import GatewayProcess
from stage.onlooker import PATIENCE, RefusedError, onlooker
from stage.scene import Scene
from stage.sessions import fake_agent, profile, session, task

WORDLESS = ["sleep", "600"]
"""An agent that never says a word: its session stays STARTING for as long as a test looks."""


async def refused(it: object, action: str, **payload: object) -> RefusedError:
    with pytest.raises(RefusedError) as found:
        await it.ask(action, **payload)  # type: ignore[attr-defined]
    return found.value


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
async def test_b065_a_foreign_origin_is_turned_away(gateway: GatewayProcess, origin: str) -> None:
    with pytest.raises(websockets.InvalidStatus) as found:
        async with onlooker(gateway.url, additional_headers={"Origin": origin}):
            pass
    assert found.value.response.status_code == 403


async def test_b065_a_name_of_the_world_for_the_loopback_is_turned_away(
    gateway: GatewayProcess,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /api/openapi.json HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert b" 403 " in await asyncio.wait_for(reader.readline(), PATIENCE)
    writer.close()


async def test_b065_a_frame_of_20_megabytes_costs_its_sender_the_socket_and_nobody_else(
    gateway: GatewayProcess,
) -> None:
    async with onlooker(gateway.url) as other:
        async with websockets.connect(gateway.url.replace("http", "ws", 1) + "/ws") as socket:
            with suppress(websockets.ConnectionClosed):
                await socket.send("x" * 20_000_000)
            with pytest.raises(websockets.ConnectionClosed):
                await asyncio.wait_for(socket.recv(), PATIENCE)
            assert socket.close_code == 1009
        await other.ask("ping")


async def test_what_is_no_utf8_costs_its_sender_the_socket(gateway: GatewayProcess) -> None:
    async with websockets.connect(gateway.url.replace("http", "ws", 1) + "/ws") as socket:
        await socket.send(b'{"id": "\xff\xfe"}', text=True)
        with pytest.raises(websockets.ConnectionClosed):
            await asyncio.wait_for(socket.recv(), PATIENCE)
        assert socket.close_code == 1007


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x01",
        "{",
        "null",
        '{"id": "a", "type": "response", "action": "ping", "payload": {}}',
        '{"id": "a", "type": "request", "action": "ping", "payload": []}',
        '{"id": "\\ud800", "type": "request", "action": "ping", "payload": {}}',
        '{"id": "' + "a" * 1000 + '", "type": "request", "action": "ping"}',
        "[" * 100_000,
    ],
    ids=["binary", "half", "null", "answer", "list", "surrogate", "long id", "deep"],
)
async def test_garbage_is_answered_and_the_socket_stays(
    gateway: GatewayProcess, frame: str | bytes
) -> None:
    async with websockets.connect(gateway.url.replace("http", "ws", 1) + "/ws") as socket:
        await socket.send(frame)
        answer = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
        assert (answer["type"], answer["payload"]["code"]) == ("error", "invalid_frame")
        await socket.send('{"id": "b", "type": "request", "action": "ping"}')
        answer = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
        assert (answer["type"], answer["id"]) == ("response", "b")


async def test_payloads_that_do_not_fit_are_refused_without_their_words(
    gateway: GatewayProcess,
) -> None:
    async with onlooker(gateway.url) as it:
        no_text = await refused(it, "session.prompt", session_id="x", prompt_id="a secret word")
        assert no_text.code == "invalid_request"
        assert "secret" not in str(no_text.details)
        assert (await refused(it, "session.dance")).code == "unknown_action"
        await it.ask("task.list", mood="fine")  # a field of a later version
        long = await refused(it, "session.subscribe", session_id="x" * 65)
        assert long.code == "invalid_request"


async def test_b065_10000_subscribes_on_one_socket_are_all_answered(
    scene: Scene, gateway: GatewayProcess
) -> None:
    await scene.apply(task("many"), profile("many", fake_agent()))
    await scene.apply(
        session("many", task="many", profile="many", executor={"ref": {"name": "nowhere"}})
    )
    uid = scene.get("tasksession", "many")["metadata"]["uid"]
    async with onlooker(gateway.url) as it, onlooker(gateway.url) as other:
        asking = [it.ask("session.subscribe", session_id=uid) for _ in range(10_000)]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        codes = {each.code for each in answers if isinstance(each, RefusedError)}
        assert codes == {"rate_limited"}
        assert sum(isinstance(each, dict) for each in answers) >= 400
        await other.ask("ping")
    assert await _subscriptions(gateway) == 0


async def _subscriptions(gateway: GatewayProcess) -> float:
    """How many there are, once the last socket's end was seen."""
    found = -1.0
    for _ in range(100):
        text = (await asyncio.to_thread(gateway.get, "/metrics"))[1]
        lines = (line.split() for line in text.splitlines())
        found = next(
            float(v) for k, *v_ in lines if k == "kandev_gateway_subscriptions" for v in v_
        )
        if found == 0:
            break
        await asyncio.sleep(0.1)
    return found


async def test_b065_what_may_not_be_seen_is_the_same_as_what_is_not_there(
    scene: Scene, gateway: GatewayProcess
) -> None:
    """The other namespace is not this gateway's: its sessions are as good as none."""
    foreign = scene.elsewhere
    body = session("hidden", executor={"ref": {"name": "nowhere"}})
    await asyncio.to_thread(foreign.apply, body)
    uid = foreign.get("tasksession", "hidden")["metadata"]["uid"]
    async with onlooker(gateway.url) as it:
        for action, more in {
            "session.subscribe": {},
            "task.session.status": {},
            "session.prompt": {"prompt_id": "p", "text": "t"},
            "session.resume": {"request_id": "r"},
            "session.stop": {},
            "message.list": {},
            "permission.list": {},
            "file.tree": {},
            "git.status": {},
            "shell.subscribe": {},
        }.items():
            hidden = await refused(it, action, session_id=uid, **more)
            nobody = await refused(it, action, session_id=str(uuid.uuid4()), **more)
            assert (hidden.code, str(hidden), hidden.details) == (
                nobody.code,
                str(nobody),
                nobody.details,
            )
            assert hidden.code == "not_found"


async def test_a_session_of_another_task_is_told_apart(
    scene: Scene, gateway: GatewayProcess
) -> None:
    await scene.apply(task("own"), task("others"), profile("p", fake_agent()))
    body = session("strayed", task="own", profile="p", executor={"ref": {"name": "nowhere"}})
    await scene.apply(body)
    uid = scene.get("tasksession", "strayed")["metadata"]["uid"]
    other = scene.get("task", "others")["metadata"]["uid"]
    async with onlooker(gateway.url) as it:
        found = await refused(it, "task.session.status", session_id=uid, task_id=other)
        assert found.code == "session_not_in_task"


async def test_a_prompt_while_the_session_starts_is_refused_and_not_kept(
    scene: Scene, gateway: GatewayProcess
) -> None:
    await scene.apply(task("starts"), profile("starts", WORDLESS))
    await scene.apply(
        session("starts", scene.place.worktree("starts"), task="starts", profile="starts")
    )
    part = scene.part("starts")
    await part.wait(lambda s: s.get("state") == "STARTING", "starting")
    async with onlooker(gateway.url) as it:
        await it.ask("session.subscribe", session_id=part.uid)
        await it.state(lambda v: v["state"] == "STARTING", "starting")
        found = await refused(it, "session.prompt", session_id=part.uid, prompt_id="p", text="t")
        assert found.code == "agent_not_ready"


async def test_the_same_request_again_makes_nothing_again(
    scene: Scene, gateway: GatewayProcess
) -> None:
    async with onlooker(gateway.url) as it, onlooker(gateway.url) as other:
        wish = {"request_id": "once", "namespace": scene.place.name, "title": "Once"}
        made = await asyncio.gather(*(each.ask("task.create", **wish) for each in (it, other) * 4))
        assert len({each["task_id"] for each in made}) == 1
        wish |= {"request_id": "twice"}
        assert (await it.ask("task.create", **wish))["task_id"] != made[0]["task_id"]
        refusal = await refused(it, "task.create", **(wish | {"namespace": "no-such-place"}))
        assert refusal.code in ("not_found", "refused_by_cluster")


@pytest.mark.parametrize("manager", ["kustomize-controller", "argocd-controller"])
async def test_a_mode_that_git_owns_is_not_changed_behind_its_back(
    scene: Scene, gateway: GatewayProcess, manager: str
) -> None:
    name = f"git-{manager}"
    await scene.apply(task("git"), profile("git", fake_agent()))
    body = session(
        name,
        task="git",
        profile="git",
        executor={"ref": {"name": "nowhere"}},
        operatingMode="Running",
    )
    text = json.dumps(body)
    options = ("apply", "--server-side", f"--field-manager={manager}", "-f", "-")
    await scene.kubectl(*options, stdin=text)
    uid = scene.get("tasksession", name)["metadata"]["uid"]
    async with onlooker(gateway.url) as it:
        await it.ask("session.subscribe", session_id=uid)
        found = await refused(it, "session.stop", session_id=uid)
        assert found.code == "owned_by_git"
        assert found.details == {"manager": manager, "field": "spec.operatingMode"}
        assert (await it.ask("task.session.status", session_id=uid))["operating_mode"] == "Running"


def test_http_refuses_as_the_socket_does(gateway: GatewayProcess) -> None:
    cases = [
        ("task.session.status", b'{"session_id": "nobody"}', 404, "not_found"),
        ("session.dance", b"{}", 404, "unknown_action"),
        ("task.list", b"[" * 100_000, 400, "invalid_request"),
        ("task.list", b"\xff", 400, "invalid_request"),
        ("task.list", b'{"namespace": "' + b"x" * 2_000_000 + b'"}', 400, "invalid_request"),
    ]
    for action, data, status, code in cases:
        request = urllib.request.Request(f"{gateway.url}/api/v1/actions/{action}", data=data)
        with pytest.raises(urllib.error.HTTPError) as found:
            urllib.request.urlopen(request, timeout=PATIENCE)
        with found.value as answer:
            assert (answer.status, json.loads(answer.read())["code"]) == (status, code)


def test_the_openapi_document_names_every_action(gateway: GatewayProcess) -> None:
    status, text = gateway.get("/api/openapi.json")
    assert status == 200
    paths = json.loads(text)["paths"]
    assert {"/api/v1/actions/task.list", "/api/v1/actions/session.prompt"} <= paths.keys()
    assert "/api/v1/sessions/{uid}/download" in paths
