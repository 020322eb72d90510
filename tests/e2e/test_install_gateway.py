"""The gateway as the chart installs it: a session made, followed and talked to at the window."""

import asyncio
import http.client
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.helm import Helm
from cluster.images import agents
from cluster.node import Node
from stage.installed import Installed, InstalledScene
from stage.nodescene import install_crds
from stage.onlooker import Onlooker, RefusedError, onlooker
from stage.pods import Pods
from stage.scene import until
from stage.sessions import Body, Namespace, profile, task
from stage.talk import Talk
from stage.workingday import Colleague, compare

GATEWAY: Final = "kandev-operator-gateway"
HOST: Final = "kandev.example.com"
TEMPLATE: Final = {"spec": {"runtime": "Pod", "pod": {}}}
OPTIONS: Final = (
    "--set=crds.install=false",
    "--set=operator.replicas=1",
    "--set=executors.workspaceSize=64Mi",
    "--set=gateway.enabled=true",
    "--set=gateway.sqlite.size=64Mi",
    f"--set=gateway.publicUrls={{http://{HOST}}}",
    f"--set-json=gateway.defaultTemplate={json.dumps(TEMPLATE)}",
)
SECONDS: Final = 120.0
COPY: Final = (
    "import sqlite3, sys\n"
    "there, copy = sys.argv[1:]\n"
    "sqlite3.connect(there).execute('VACUUM INTO ?', (copy,))\n"
    "print(*sqlite3.connect(copy).execute('select count(*) from events').fetchone())\n"
)


class Window:
    """The gateway of a release, as an ingress in front of it reaches it: by its Service's pods."""

    url = f"http://{HOST}"

    def __init__(self, release: Installed) -> None:
        self._release = release

    def address(self) -> tuple[str, int]:
        """Where the Service leads now. Raises ConnectionError where it leads nowhere."""
        chosen = f"--selector=kubernetes.io/service-name={GATEWAY}"
        found = json.loads(self._release.kubectl("get", "endpointslices", chosen, "--output=json"))[
            "items"
        ]
        for each in found:
            for endpoint in each.get("endpoints") or ():
                if endpoint["conditions"].get("ready"):
                    return endpoint["addresses"][0], each["ports"][0]["port"]
        raise ConnectionError("no gateway is ready")

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection(*self.address(), timeout=30)
        told = {"Host": HOST, "Content-Type": "application/json", **headers}
        try:
            connection.request(method, path, json.dumps(body) if body else None, told)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def login(self, token: str) -> str:
        """A cookie for a token."""
        status, headers, said = self.ask("POST", "/login", {"token": token}, Origin=self.url)
        assert status == 200, said
        cookie: str = headers["set-cookie"].partition(";")[0]
        return cookie

    @asynccontextmanager
    async def look(self, cookie: str) -> AsyncIterator[Onlooker]:
        """A socket, as a browser opens it."""
        host, port = await asyncio.to_thread(self.address)
        there = {"host": host, "port": port, "proxy": None}
        as_who = {"origin": self.url, "additional_headers": {"Cookie": cookie}}
        async with onlooker(self.url, **there, **as_who) as it:
            yield it


class Visitor(Colleague):
    """Somebody with a cookie, who comes back."""

    def __init__(self, window: Window, cookie: str, session_id: str) -> None:
        super().__init__(window, session_id, "the visitor")
        self._window, self._cookie = window, cookie

    def open(self) -> AbstractAsyncContextManager[Onlooker]:
        return self._window.look(self._cookie)


@dataclass(frozen=True)
class Journal:
    """A session's own agentctl."""

    scene: InstalledScene
    name: str

    def talk(self) -> AbstractAsyncContextManager[Talk]:
        return self.scene.talk(self.name)


@pytest.fixture
def release(
    node: Node,
    helm_program: Path,
    tmp_path: Path,
    operator_image: str,
    agentctl_image: str,
    gateway_image: str,
) -> Iterator[Installed]:
    """The chart with its gateway, whose history is a file on a volume."""
    home = f"kandev-{uuid.uuid4().hex[:8]}"
    node.create_namespace(home)
    node.kubectl("label", "namespace", home, "pod-security.kubernetes.io/enforce=restricted")
    install_crds(node)
    made = Installed(node, Helm(tmp_path / "helm", node.kubeconfig), home)
    try:
        print(f"helm install to a ready gateway: {made.install(*OPTIONS):.1f} s")
        yield made
    finally:
        made.uninstall("--ignore-not-found")
        node.delete_namespace(home)


@pytest.fixture
def team(
    release: Installed, pods: Pods, scripted_agent_image: str, tmp_path: Path
) -> InstalledScene:
    place = Namespace(release.node, pods.namespace, tmp_path, release.tail)
    return InstalledScene(release, place, scripted_agent_image)


@pytest.fixture
def token(release: Installed, team: InstalledScene) -> Callable[..., str]:
    """Accounts in the team's namespace, with roles that the chart adds to view and edit."""

    def of(name: str, *roles: str) -> str:
        team.place.kubectl("create", "serviceaccount", name)
        account = f"--serviceaccount={team.place.name}:{name}"
        for role in roles:
            granted = f"--clusterrole=kandev-operator.{release.namespace}.{role}"
            team.place.kubectl("create", "rolebinding", f"{name}-{role}", granted, account)
        return team.place.kubectl("create", "token", name).strip()

    return of


def waits(view: Body) -> bool:
    return view["state"] == "WAITING_FOR_INPUT" and view.get("is_agent_running") is True


async def made_and_ready(it: Onlooker, namespace: str) -> Body:
    """A session of the default template, by somebody who may make no pods of their own."""
    named = {"namespace": namespace, "task_name": "chores", "agent_profile_name": "scripted"}
    with pytest.raises(RefusedError) as refused:
        await it.ask("session.create", request_id="own", **named, template=TEMPLATE)
    assert (refused.value.code, refused.value.details["resource"]) == ("forbidden", "pods")
    made = await it.ask("session.create", request_id="default", **named)
    await it.ask("session.subscribe", session_id=made["session_id"])
    await it.state(waits, "an agent that waits", seconds=SECONDS)
    await it.until(lambda action, _: action == "session.agentctl_ready", "agentctl is ready")
    return made


@pytest.mark.timeout(420, func_only=True)
async def test_a_session_made_at_the_window_is_followed_beyond_the_gateways_end(
    node: Node, release: Installed, team: InstalledScene, token: Callable[..., str]
) -> None:
    window, mark = Window(release), node.audit.mark()
    logs = ("logs", "deployment/kandev-operator")
    listed = "gateways' keys that are listed: 1"
    await until(lambda: listed in release.kubectl(*logs), "the operator knows its key", SECONDS)
    team.place.apply(profile("scripted", agents.SCRIPTED_COMMAND, image=team.image), task("chores"))
    ada, stranger = window.login(token("ada", "view", "edit")), window.login(token("stranger"))
    status, _, page = window.ask("GET", "/", Cookie=ada)
    (script,) = set(re.findall(r'src="(/static/assets/[^"]+\.js)"', page))
    assert (status, window.ask("GET", script)[0]) == (200, 200), "the page is in the image"

    async with window.look(ada) as it:
        session = await made_and_ready(it, team.place.name)
    uid, name = session["session_id"], session["name"]

    visitor = Visitor(window, ada, uid)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(visitor.follow())
        await visitor.prompt("first", "alpha")
        await visitor.until_ended("first")
        await visitor.prompt("stream", "beta: slow 60")
        await visitor.until_pieces(len(visitor.heard.pieces) + 3)
        gone = "--selector=app.kubernetes.io/component=gateway"
        killed = ("delete", "pods", gone, "--force", "--grace-period=0")
        await asyncio.to_thread(release.kubectl, *killed)
        await visitor.until_ended("stream")
        following.cancel()
    assert visitor.connections >= 2
    assert visitor.ended == {"first": 1, "stream": 1}
    assert any("the first was: alpha" in text for text in visitor.heard.texts.values())
    assert await compare(Journal(team, name), visitor.heard) > 10

    async with window.look(stranger) as it:
        assert await it.ask("task.list") == {"tasks": [], "sessions": []}
        with pytest.raises(RefusedError) as unseen:
            await it.ask("session.subscribe", session_id=uid)
        assert unseen.value.code == "not_found"
    async with window.look(ada) as it:
        await it.ask("session.stop", session_id=uid)
    assert team.place.get("tasksession", name)["spec"]["operatingMode"] == "Suspended"

    copied = ("exec", f"deployment/{GATEWAY}", "--", "python3", "-c", COPY)
    assert int(release.kubectl(*copied, "/data/gateway.db", "/tmp/copy.db")) > 10
    account = f"system:serviceaccount:{release.namespace}:{GATEWAY}"
    asked = node.audit.events(since=mark, user=account)
    assert asked, "it is the account that is meant"
    assert [each for each in asked if each.code == 403] == []
