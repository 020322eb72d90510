"""One operator with many sessions, each with a scripted agent whose manners a test may change.

`Scene` is an operator and a namespace that a whole module of tests shares: starting either is the
slow part. `Part` is one session on it: its agent keeps a diary of all it was asked (so that calls
can be counted) and reads its manners anew at every start (so that it can fail the second time).
Waiting is asynchronous, so that several parts can be played at once with `asyncio.gather`.
"""

import asyncio
import base64
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fakes.scripted_agent import diary
from stage.operatorprocess import OperatorProcess
from stage.reader import Reader
from stage.sanity import contradictions
from stage.sessions import Body, Namespace, condition, fake_agent, profile, session, task
from stage.talk import Talk, talk

PLURALS: Final = {
    "tasksession": "tasksessions",
    "executor": "executors",
    "task": "tasks",
    "agentprofile": "agentprofiles",
}
Holds = Callable[[Body], Any]


async def until(holds: Callable[[], Any], what: str, seconds: float = 30) -> None:
    """Poll until something outside the cluster is so."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not so after {seconds} s: {what}"
        await asyncio.sleep(0.05)


class Scene:
    """An operator, a namespace, and a folder for what belongs to no worktree."""

    def __init__(self, place: Namespace, operator: OperatorProcess, folder: Path) -> None:
        self.place, self.operator, self.folder = place, operator, folder
        self.elsewhere = place
        """A namespace that the operator watches and in which nothing may run on this machine."""
        self.home = place.name
        """The operator's own namespace, with its lease and its signing key."""
        self._reader = Reader(place.cluster.kubeconfig)

    def close(self) -> None:
        self._reader.close()

    def part(self, name: str) -> "Part":
        """A session that is applied by hand."""
        return Part(self, name)

    async def begin(
        self,
        name: str,
        *options: str,
        env: Mapping[str, str] | None = None,
        profile_spec: Body | None = None,
        worktree: Path | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> "Part":
        """Apply a profile, a task and a session of one name; `options` go to the agent."""
        part = self.part(name)
        await self.apply(
            profile(name, part.command(*options), env, **(profile_spec or {})),
            task(name),
            session(
                name,
                worktree or self.place.worktree(name),
                task=name,
                profile=name,
                annotations=annotations,
                **spec,
            ),
        )
        return part

    async def apply(self, *bodies: Body) -> None:
        await asyncio.to_thread(self.place.apply, *bodies)

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return await asyncio.to_thread(self.place.kubectl, *arguments, stdin=stdin)

    def get(self, kind: str, name: str) -> Body:
        """An object; LookupError when there is none."""
        group = "apis/kandev.dev/v1alpha1" if kind in PLURALS else "api/v1"
        base = f"/{group}/namespaces/{self.place.name}"
        body: Body = self._reader.get(f"{base}/{PLURALS.get(kind, kind + 's')}/{name}")
        if kind == "tasksession" and (wrong := contradictions(body)):
            raise AssertionError(f"session {name}: {'; '.join(wrong)}\n{body['status']}")
        return body

    def listed(self, kind: str) -> list[Body]:
        """All objects of a kind in the namespace: `events`, `secrets` or one of ours."""
        ours = kind in PLURALS.values()
        base = "/apis/kandev.dev/v1alpha1" if ours else "/api/v1"
        found: list[Body] = self._reader.get(f"{base}/namespaces/{self.place.name}/{kind}")["items"]
        return found

    async def wait(
        self, name: str, holds: Holds, what: str, *, kind: str = "tasksession", seconds: float = 45
    ) -> Body:
        """Poll an object until its status is as wanted; the status then."""
        end = time.monotonic() + seconds
        status: Body = {}
        while time.monotonic() < end:
            status = self.get(kind, name).get("status") or {}
            if holds(status):
                return status
            await asyncio.sleep(0.05)
        lines = "\n".join(f"{key}: {value}" for key, value in status.items())
        raise AssertionError(
            f"{kind} {name} did not become {what} in {seconds} s.\n{lines}\n"
            f"--- operator ---\n{self.operator.tail()}"
        )

    async def wait_gone(self, kind: str, name: str, seconds: float = 45) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.get(kind, name)
            except LookupError:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{kind} {name} is still there.\n{self.operator.tail()}")

    async def restart_operator(self) -> None:
        """Kill it as a crash would, and start it again."""
        await asyncio.to_thread(self.operator.kill)
        await asyncio.to_thread(self.operator.start)


class Part:
    """One session and its agent."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name = scene, name
        self._uid: str | None = None

    @property
    def log(self) -> Path:
        """The agent's diary."""
        return self.scene.folder / f"{self.name}.diary"

    @property
    def manners(self) -> Path:
        return self.scene.folder / f"{self.name}.manners"

    def command(self, *options: str) -> list[str]:
        """The agent's command line: fixed options, and what `behave` says later."""
        return fake_agent(f"--log={self.log}", f"--options={self.manners}", *options)

    def behave(self, *options: str) -> None:
        """Other manners, from the agent's next start on."""
        fresh = self.manners.with_suffix(".part")
        fresh.write_text(" ".join(f"'{each}'" for each in options) + "\n")
        fresh.replace(self.manners)

    # ---- what the agent saw --------------------------------------------------------------

    def heard(self, *methods: str) -> list[Body]:
        """The calls of these methods, of all its processes."""
        return [entry for entry in diary(self.log) if entry["method"] in methods]

    @property
    def resumes(self) -> int:
        """How often a conversation was asked back."""
        return len(self.heard("session/resume", "session/load"))

    @property
    def opened_new(self) -> int:
        return len(self.heard("session/new"))

    @property
    def starts(self) -> int:
        return len(diary(self.log, "start"))

    def prompts(self) -> list[str]:
        """The texts of all prompts that reached the agent, in order."""
        return [
            "".join(block.get("text", "") for block in call["params"]["prompt"])
            for call in self.heard("session/prompt")
        ]

    @property
    def pid(self) -> int:
        """The agent's newest process."""
        pid: int = diary(self.log, "start")[-1]["pid"]
        return pid

    def kill(self) -> None:
        """Kill the agent, as the kernel would."""
        os.kill(self.pid, signal.SIGKILL)

    # ---- what status says ----------------------------------------------------------------

    @property
    def status(self) -> Body:
        found: Body = self.scene.get("tasksession", self.name).get("status") or {}
        return found

    @property
    def uid(self) -> str:
        """The session's UID; the remembered one, when it was remembered."""
        uid: str = self._uid or self.scene.get("tasksession", self.name)["metadata"]["uid"]
        return uid

    def remember_uid(self) -> None:
        self._uid = self.uid

    async def wait(self, holds: Holds, what: str, seconds: float = 45) -> Body:
        return await self.scene.wait(self.name, holds, what, seconds=seconds)

    async def idle(self, seconds: float = 60) -> Body:
        """The agent lives and waits for a prompt."""
        return await self.wait(
            lambda s: s.get("state") == "WAITING_FOR_INPUT" and s.get("isAgentRunning") is True,
            "idle with a live agent",
            seconds,
        )

    async def idle_again(self, before: Body, seconds: float = 60) -> Body:
        """Idle, in another execution than before."""
        return await self.wait(
            lambda s: (
                s.get("state") == "WAITING_FOR_INPUT"
                and s.get("isAgentRunning") is True
                and s.get("agentExecutionId") != before.get("agentExecutionId")
            ),
            "idle in a new execution",
            seconds,
        )

    async def failed(self, reason: str, *, stalled: bool = True, seconds: float = 45) -> Body:
        """ERROR for this reason: stalled, or with a retry that is due."""

        def holds(status: Body) -> bool:
            ready = condition(status, "Ready")
            there = condition(status, "Stalled" if stalled else "Reconciling")
            return bool(status.get("state") == "ERROR" and ready.get("reason") == reason and there)

        how = "Stalled" if stalled else "to be retried"
        status = await self.wait(holds, f"ERROR {reason}, {how}", seconds)
        assert status["errorMessage"], "an error has words"
        assert not (stalled and status.get("nextAttemptAt"))
        return status

    async def ask_for(self, wish: str, value: str) -> None:
        """An imperative wish: `resume` or `fresh-start`."""
        await asyncio.to_thread(self.scene.place.annotate, self.name, f"{wish}-requested", value)

    async def patch(self, **spec: Any) -> None:
        await self.repair("tasksession", spec)

    async def repair(self, kind: str, spec: Body) -> None:
        """Patch the spec of the object of this kind that has the part's name."""
        await asyncio.to_thread(self.scene.place.patch, kind, self.name, {"spec": spec})

    def secret(self) -> dict[str, str]:
        """The decoded content of the token's Secret."""
        name = self.status["resumeTokenRef"]["secretName"]
        data: dict[str, str] = self.scene.get("secret", name).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    @property
    def token(self) -> str:
        return self.secret()["token"]

    # ---- talking -------------------------------------------------------------------------

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Talk]:
        place = self.scene.place
        async with talk(
            place.cluster.kubeconfig, place.name, self.name, operator_namespace=self.scene.home
        ) as it:
            yield it

    async def ask(self, text: str) -> str:
        """One prompt, and the agent's answer to it."""
        async with self.talk() as it:
            return await it.ask(text)

    async def with_history(self, text: str = "alpha") -> Body:
        """Idle after one completed turn: its token is established."""
        await self.idle()
        await self.ask(text)
        return await self.wait(
            lambda s: (
                (s.get("resumeTokenRef") or {}).get("established")
                and s.get("state") == "WAITING_FOR_INPUT"
                and s.get("isAgentRunning")
            ),
            "idle with an established token",
        )

    async def remembers(self, text: str = "alpha") -> None:
        """The agent still knows the first thing that it was told."""
        assert f"the first was: {text}" in await self.ask("what was the first?")
