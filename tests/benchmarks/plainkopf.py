"""The baseline: the same job by a plain kopf operator, as its documentation teaches it.

Handlers for create, update and resume that set `patch.status`, a timer that looks at the agent,
the Executor made by the session's handler and adopted, the resume token in a Secret. It does the
main road only: no fencing, no errors, no suspending, no waiting for capabilities. It is written
to be good of its kind: one handler per cause, statuses set where they changed, no Events.

    python -m benchmarks.plainkopf KUBECONFIG NAMESPACE
"""

import asyncio
import sys
import uuid
from typing import Any

import aiohttp
import kopf

from kandev_operator.api import group
from kandev_operator.clients.credentials import find_source
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import (
    AGENT_PROFILES,
    EXECUTORS,
    SECRETS,
    TASK_SESSIONS,
    Resource,
)
from kandev_operator.contract import paths

SESSIONS = (group.GROUP, group.VERSION, TASK_SESSIONS.plural)
EXECS = (group.GROUP, group.VERSION, EXECUTORS.plural)
LOOK_SECONDS = 1.0
Body = dict[str, Any]


class Plain:
    """The handlers, with what they share."""

    def __init__(self, kube: Kube, http: aiohttp.ClientSession, kubeconfig: str) -> None:
        self.kube, self.http, self.kubeconfig = kube, http, kubeconfig

    def registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self.login)
        kopf.on.create(*SESSIONS, registry=registry)(self.created)
        kopf.on.resume(*SESSIONS, registry=registry)(self.resumed)
        kopf.on.update(*SESSIONS, registry=registry)(self.resumed)
        kopf.timer(*SESSIONS, interval=LOOK_SECONDS, registry=registry)(self.looked)
        kopf.on.create(*EXECS, registry=registry)(self.executor)
        kopf.on.resume(*EXECS, registry=registry)(self.executor)
        return registry

    async def login(self, **_: Any) -> kopf.ConnectionInfo:
        config = (await find_source(self.kubeconfig).load()).configuration
        return kopf.ConnectionInfo(
            server=config.host,
            ca_path=config.ssl_ca_cert,
            certificate_path=config.cert_file,
            private_key_path=config.key_file,
        )

    async def created(self, body: Any, patch: Any, **_: Any) -> None:
        """The session's whole beginning, each step told in status."""
        meta, spec = body["metadata"], body["spec"]
        namespace, name = meta["namespace"], meta["name"]
        executor = {"metadata": {"name": f"{name}-executor"}, "spec": spec["executor"]["template"]}
        executor["spec"] = executor["spec"]["spec"]
        kopf.adopt(executor, owner=body)
        made = await self.kube.create(EXECUTORS, namespace, executor)
        ref = {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        await self._tell(TASK_SESSIONS, body, state="STARTING", executorRef=ref)
        url = made["spec"]["remote"]["url"]
        await self._ready(namespace, ref["name"])
        own = {"name": name, "uid": meta["uid"]}
        await self._tell(EXECUTORS, made, sessionRef=own)
        await self._configure(body, url)
        operation = {"session_id": meta["uid"], "operation_id": uuid.uuid4().hex, "mode": "new"}
        await self._call("POST", f"{url}{paths.START}", operation)
        told = await self._call("GET", f"{url}{paths.STATUS}")
        await self._keep(body, told["token"]["value"])
        patch.status.update(_said(told))

    async def resumed(self, body: Any, patch: Any, **_: Any) -> None:
        """After a restart of the operator, and after a change: look, resume if need be, say so."""
        url = body["spec"]["executor"]["template"]["spec"]["remote"]["url"]
        told = await self._call("GET", f"{url}{paths.STATUS}")
        if told["agent"]["status"] not in ("idle", "running"):
            await self._configure(body, url)
            operation = {
                "session_id": body["metadata"]["uid"],
                "operation_id": uuid.uuid4().hex,
                "mode": "resume",
                "resume_token": "light",
            }
            await self._call("POST", f"{url}{paths.START}", operation)
            told = await self._call("GET", f"{url}{paths.STATUS}")
        patch.status.update(_said(told))

    async def looked(self, body: Any, patch: Any, **_: Any) -> None:
        """The timer: what the agent does, written where it differs."""
        status = body.get("status") or {}
        if status.get("state") not in ("WAITING_FOR_INPUT", "RUNNING"):
            return
        url = body["spec"]["executor"]["template"]["spec"]["remote"]["url"]
        said = _said(await self._call("GET", f"{url}{paths.STATUS}"))
        if any(status.get(key) != value for key, value in said.items()):
            patch.status.update(said)

    async def executor(self, body: Any, patch: Any, **_: Any) -> None:
        """The executor's half: it is ready when its agentctl answers."""
        url = body["spec"]["remote"]["url"]
        health = await self._call("GET", f"{url}{paths.HEALTH}")
        patch.status.update(
            {"state": "ready", "agentctlURL": url, "instanceId": health["instance_id"]}
        )

    async def _ready(self, namespace: str, name: str) -> None:
        while True:
            found = await self.kube.get(EXECUTORS, namespace, name)
            if (found.get("status") or {}).get("state") == "ready":
                return
            await asyncio.sleep(0.2)

    async def _configure(self, body: Any, url: str) -> None:
        meta, spec = body["metadata"], body["spec"]
        named = spec["agentProfileRef"]["name"]
        profile = await self.kube.get(AGENT_PROFILES, meta["namespace"], named)
        command = profile["spec"]["command"]
        agent = {
            "session_id": meta["uid"],
            "session_namespace": meta["namespace"],
            "session_name": meta["name"],
            "command": command[0],
            "args": command[1:],
            "profile_hash": profile["metadata"]["resourceVersion"],
        }
        await self._call("PUT", f"{url}{paths.AGENT}", agent)

    async def _keep(self, body: Any, token: str) -> None:
        secret: Body = {
            "metadata": {"name": f"{body['metadata']['name']}-token"},
            "stringData": {"token": token},
        }
        kopf.adopt(secret, owner=body)
        await self.kube.create(SECRETS, body["metadata"]["namespace"], secret)

    async def _tell(self, resource: Resource, body: Any, **status: Any) -> None:
        meta = body["metadata"]
        patch = {"status": status}
        await self.kube.merge_patch(
            resource, meta["namespace"], meta["name"], patch, subresource="status"
        )

    async def _call(self, method: str, url: str, body: Body | None = None) -> Any:
        async with self.http.request(method, url, json=body) as answer:
            answer.raise_for_status()
            return await answer.json()


def _said(told: Body) -> Body:
    running = told["agent"]["status"] == "running"
    return {
        "state": "RUNNING" if running else "WAITING_FOR_INPUT",
        "isAgentRunning": told["agent"]["status"] in ("idle", "running"),
        "isResumable": True,
        "agentExecutionId": told["agent"].get("execution_id"),
    }


async def serve(kubeconfig: str, namespace: str) -> None:
    """Run until killed."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    async with await Kube.connect(kubeconfig) as kube, aiohttp.ClientSession() as http:
        await kopf.operator(
            registry=Plain(kube, http, kubeconfig).registry(),
            settings=settings,
            standalone=True,
            namespaces=[namespace],
        )


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
