"""Sessions in pods of a real node: how long until they wait for a prompt, and what they cost.

The way from `apply` to WAITING_FOR_INPUT is told in steps, so that what the cluster does (place the
pod, mount, start containers) stands apart from what we do. Our own share runs from the pod's
readiness on and leaves out the agent's start, which the agent's diary tells. Then pods are taken
away in three ways, and the conversation must go on. Counts are budgets, times are told.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.podground import OPERATOR, PERSON, PodGround
from benchmarks.report import RUNS, Metric, middle
from stage import podbirths
from stage.nodescene import SECONDS, NodeScene
from stage.sessions import Body, condition
from stage.timeline import Seen, Timeline

AT_ONCE = 20
OWN_SHARE = 1.0
BACK_AGAIN = 5.0
_DIARY = "/workspace/diary"
_MADE, _PLACED, _PREPARING, _PREPARED, _RUNS, _READY = range(6)
_STEPS = (
    "apply to pod made",
    "pod made to placed",
    "placed to first container (volume, network)",
    "init container",
    "init container to agentctl's container",
    "agentctl's container to pod ready",
)


@dataclass(frozen=True)
class Way:
    """One way to WAITING_FOR_INPUT; moments in seconds since the epoch, `agent` in seconds."""

    began: float
    pod: tuple[float, ...]
    """When the pod was made, placed, and so on, in the order of the steps above."""
    idle: float
    agent: float
    """From the beginning of the agent's process until it listens. What comes after that is ours,
    for the scripted agent answers at once."""

    @property
    def total(self) -> float:
        return self.idle - self.began

    @property
    def own(self) -> float:
        """From a ready pod to WAITING_FOR_INPUT, without the agent's start. The operator may have
        reached agentctl before the kubelet called the pod ready."""
        return max(0.0, self.idle - self.pod[_READY] - self.agent)

    def step(self, number: int) -> float:
        before = self.pod[number - 1] if number else self.began
        return max(0.0, self.pod[number] - before)


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure everything."""
    with PodGround() as ground:
        say(f"{RUNS} sessions, one after the other")
        metrics = _starts(ground, say)
        say("a session by template, and one by reference: writes")
        metrics += _writes(ground, say)
        say(f"{AT_ONCE} sessions at once")
        return [*metrics, *_crowd(ground)]


class Watched:
    """A scene whose pods and sessions are watched."""

    def __init__(self, ground: PodGround, scene: NodeScene, pods: Timeline, told: Timeline) -> None:
        self.ground, self.scene, self.pods, self.told = ground, scene, pods, told

    def born(self, name: str) -> Way:
        bodies = self.scene.scripted(name, ["--log", _DIARY])
        began = time.time()
        self.scene.place.apply(*bodies)
        return self._way(name, began, "", "")

    def back(self, name: str, lose: Callable[[Body], None]) -> Way:
        """Lose the pod, or what runs in it; the way back of its session."""
        before, pod = self.scene.place.status(name), self._pod(name)
        began = time.time()
        lose(pod)
        return self._way(name, began, before["agentExecutionId"], pod["metadata"]["uid"])

    def _way(self, name: str, began: float, execution: str, old: str) -> Way:
        def is_idle(seen: Seen) -> bool:
            now = seen.status
            waits = now.get("state") == "WAITING_FOR_INPUT" and now.get("isAgentRunning") is True
            return bool(seen.name == name and waits and now["agentExecutionId"] != execution)

        idle = self.told.first(is_idle, f"{name} idle", since=began, seconds=SECONDS)
        pod = self._pod(name)["metadata"]["uid"]
        moments: tuple[float, ...] = ()
        if pod != old:
            moments = tuple(self.pods.first(_of(pod, holds), "a pod's step").at for holds in _HOLDS)
        return Way(began, moments, idle.at, self._agent(name, pod))

    def _agent(self, name: str, pod: str) -> float:
        """How long the agent's process, the newest one, took until it could hear anything."""
        newest = [row for row in self._diary(name) if row["event"] == "start"][-1]
        return float(newest["at"]) - _began(pod, newest["pid"])

    def _diary(self, name: str) -> list[dict[str, Any]]:
        place = self.scene.place
        claim = place.get("pvc", place.status(name)["workspaceRef"]["name"])
        volume = self.ground.node.folder / "volumes" / claim["spec"]["volumeName"]
        return [json.loads(line) for line in (volume / "diary").read_text().splitlines()]

    def _pod(self, name: str) -> Body:
        return self.scene.place.get("pod", self.scene.executor(name)["podRef"]["name"])


def _starts(ground: PodGround, say: Callable[[str], None]) -> list[Metric]:
    scene = ground.scene()
    node, place = ground.node, scene.place.name
    with Timeline(node, place, "pods") as pods, Timeline(node, place, "tasksessions") as told:
        it = Watched(ground, scene, pods, told)
        names = [f"s{number}" for number in range(RUNS)]
        births = [it.born(name) for name in names]
        for name in names:
            asyncio.run(scene.ask(name, "the first words"))
        metrics = _of_births(births)
        for how, lose in _losses(scene).items():
            say(f"{RUNS} pods: {how}")
            metrics += _of_returns(how, [it.back(name, lose) for name in names])
        for name in names:
            asyncio.run(scene.remembers(name, "the first words"))
    scene.place.kubectl("delete", "tasksessions", "--all", "--wait=true")
    return metrics


def _losses(scene: NodeScene) -> dict[str, Callable[[Body], None]]:
    kubectl, node = scene.place.kubectl, scene.place.cluster

    def deleted(pod: Body) -> None:
        kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")

    def by_force(pod: Body) -> None:
        kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")

    def killed(pod: Body) -> None:
        identity = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        node.ctr("tasks", "kill", "--signal=SIGKILL", identity)  # type: ignore[attr-defined]

    return {"container killed": killed, "pod deleted": deleted, "pod deleted by force": by_force}


def _of_births(ways: Sequence[Way]) -> list[Metric]:
    def told(name: str, values: Sequence[float], goal: float | None = None) -> Metric:
        return Metric(name, middle(values), "s", "time", goal)

    steps = [told(name, [way.step(n) for way in ways]) for n, name in enumerate(_STEPS)]
    return [
        told("apply to WAITING_FOR_INPUT", [way.total for way in ways]),
        *steps,
        told("the agent's start", [way.agent for way in ways]),
        told("pod ready to WAITING_FOR_INPUT, our share", [way.own for way in ways], OWN_SHARE),
    ]


def _of_returns(how: str, ways: Sequence[Way]) -> list[Metric]:
    name = f"{how} to WAITING_FOR_INPUT"
    ours = middle([way.total - way.agent for way in ways])
    found = [Metric(f"{name}, without the agent's start", ours, "s", "time", BACK_AGAIN)]
    if all(way.pod for way in ways):
        made = [way.step(_MADE) for way in ways]
        found.append(Metric(f"{how} to next pod made", middle(made), "s", "time"))
        ready = [way.pod[_READY] - way.pod[_MADE] for way in ways]
        found.append(Metric(f"{how}: next pod made to ready", middle(ready), "s", "time"))
        own = [way.own for way in ways]
        found.append(Metric(f"{how}: next pod ready, our share", middle(own), "s", "time"))
    return found


def _writes(ground: PodGround, say: Callable[[str], None]) -> list[Metric]:
    users, audit = [OPERATOR, PERSON], ground.node.audit
    found = []
    for name, birth in (("template", podbirths.by_template), ("ref", podbirths.by_ref)):
        scene = ground.scene()
        seen = birth(scene, audit, users)
        say(f"by {name}:\n{seen.listed()}")
        goal = podbirths.IN_A_POD
        found.append(Metric(f"by {name}: writes", seen.count, "", "count", goal))
        scene.place.kubectl("delete", "tasksessions", "--all", "--wait=true")
    return found


def _crowd(ground: PodGround) -> list[Metric]:
    scene = ground.scene()
    began = time.monotonic()
    podbirths.crowd(scene, AT_ONCE)
    seconds = time.monotonic() - began
    idle = sum(
        condition(each["status"], "Ready").get("status") == "True"
        for each in scene.place.items("tasksessions")
    )
    lines = podbirths.troubles(scene)
    return [
        Metric(f"{AT_ONCE} at once: not alive", AT_ONCE - idle, "", "count", 0),
        Metric(f"{AT_ONCE} at once: errors in the operator's log", len(lines), "", "count", 0),
        Metric(f"{AT_ONCE} at once: apply to all alive", round(seconds, 1), "s", "time"),
    ]


def _began(pod: str, pid: int) -> float:
    """When a process of a pod began, in seconds since the epoch; `pid` is as the pod sees it."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end between two looks
            inside = (folder / "status").read_text().partition("NSpid:")[2].splitlines()[0]
            if pod not in (folder / "cgroup").read_text() or int(inside.split()[-1]) != pid:
                continue
            ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
            uptime = float(Path("/proc/uptime").read_text().split()[0])
            return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    raise AssertionError(f"no process {pid} in pod {pod}")


def _of(uid: str, holds: Callable[[Body], Any]) -> Callable[[Seen], bool]:
    return lambda seen: seen.uid == uid and bool(holds(seen.body))


def _init_state(pod: Body) -> Body:
    found = pod["status"].get("initContainerStatuses") or [{}]
    state: Body = found[-1].get("state") or {}
    return state


def _agent_runs(pod: Body) -> bool:
    found = pod["status"].get("containerStatuses") or []
    return any("running" in each["state"] for each in found if each["name"] == "agent")


_HOLDS: tuple[Callable[[Body], Any], ...] = (
    lambda pod: True,
    lambda pod: pod["spec"].get("nodeName"),
    lambda pod: {"running", "terminated"} & _init_state(pod).keys(),
    lambda pod: "terminated" in _init_state(pod),
    _agent_runs,
    lambda pod: condition(pod["status"], "Ready").get("status") == "True",
)
