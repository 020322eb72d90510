"""A node's part, played on this machine: pods that the real API server holds come to life here.

The integration ring has no kubelet. `Kubelet` serves one namespace: it gives pods a node, starts
what they say (the real agentctl, with each mount path replaced by a folder that stands for the
volume), and writes their status step by step as a kubelet does: waiting, running, terminated,
restarts, back-off, eviction. It plays the garbage collector for pods too. A test may have a pod
evicted, its memory exceeded, its node fall silent. It knows nothing of what the operator wants.
"""

import json
import random
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stage.podparts import (
    OWN,
    Body,
    Container,
    Hand,
    Pod,
    is_healthy,
    now,
    row,
    signal_to,
    status_of,
)
from stage.podvolumes import Volumes

MERGE: Final = "application/strategic-merge-patch+json"
TICK: Final = 0.05
BACK_OFF: Final = (0.0, 1.0, 2.0, 4.0)
"""Seconds before the next start of a container that ended: a real kubelet's, shortened."""
_SILENT = 40


class Kubelet(Volumes):
    """The node of one namespace. `with` starts and ends it."""

    def __init__(
        self, kubeconfig: Path, namespace: str, folder: Path, name: str = "node-1"
    ) -> None:
        """Two nodes of one namespace share the folder: it holds the volumes."""
        self.namespace, self.folder = namespace, folder
        self.node = f"{name}-of-{namespace}"[:60].rstrip("-")
        self.is_deaf = False
        """The kubelet is dead or cut off: it starts, ends and tells nothing; containers live on."""
        self.pulls: Callable[[str], bool] = lambda image: "missing" not in image
        """Whether an image can be had."""
        self.schedules: Callable[[Body], str] = lambda _pod: ""
        """Why no node takes a pod; empty when this one does."""
        self.errors: list[str] = []
        self.buried: list[str] = []
        """UIDs of pods whose containers were still here when their object had gone."""
        self.pods: dict[str, Pod] = {}
        self._kubeconfig = kubeconfig
        self._net = f"127.{random.randint(64, 250)}.{random.randint(1, 250)}"
        self._number = 0
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._hand = Hand(kubeconfig)
        self._tick = 0

    def __enter__(self) -> "Kubelet":
        hand = Hand(self._kubeconfig)
        hand.send("POST", "/api/v1/nodes", {"metadata": {"name": self.node}})
        self._say_ready(hand, "True")
        hand.close()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)
        for pod in list(self.pods.values()):
            self._kill(pod, signal.SIGKILL)
        self._hand.close()
        hand = Hand(self._kubeconfig)
        hand.send("DELETE", f"/api/v1/nodes/{self.node}")
        hand.close()

    # ---- what a test may do --------------------------------------------------------------

    def pod_of(self, executor_uid: str) -> Pod:
        """The newest pod of an executor that runs here."""
        with self._lock:
            found = [
                pod
                for pod in self.pods.values()
                if pod.body["metadata"]["labels"].get(OWN) == executor_uid and pod.over is None
            ]
        assert found, "no pod of this executor is on the node"
        return found[-1]

    def gives_next(self, address: str) -> None:
        """The next pod here gets this address, as where a network hands one out again."""
        self._net, _, last = address.rpartition(".")
        self._number = int(last) - 2

    def evict(self, pod: Pod, message: str) -> None:
        """The node puts a pod out: its containers are killed, and the object stays."""
        with self._lock:
            self._kill(pod, signal.SIGKILL)
            pod.over = {"phase": "Failed", "reason": "Evicted", "message": message}

    def fail(self, pod: Pod, reason: str, message: str) -> None:
        """The kubelet gives a pod up for another reason."""
        with self._lock:
            self._kill(pod, signal.SIGKILL)
            pod.over = {"phase": "Failed", "reason": reason, "message": message}

    def out_of_memory(self, pod: Pod) -> None:
        """The kernel kills the agent's container for its memory."""
        with self._lock:
            pod.agent.oom = True
            signal_to(pod.agent, signal.SIGKILL)

    def kill(self, pod: Pod) -> None:
        """The container's first process is killed from outside."""
        with self._lock:
            signal_to(pod.agent, signal.SIGKILL)

    def fall_silent(self) -> None:
        """The kubelet dies or is cut off, and after a while the cluster says so."""
        self.is_deaf = True
        with self._lock:
            hand = Hand(self._kubeconfig)
            self._say_ready(hand, "Unknown")
            hand.close()

    def come_back(self) -> None:
        self.is_deaf = False
        with self._lock:
            hand = Hand(self._kubeconfig)
            self._say_ready(hand, "True")
            hand.close()

    # ---- the node's loop -----------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(TICK):
            if self.is_deaf:
                continue
            try:
                with self._lock:
                    self._pass()
            except (OSError, TimeoutError):
                self._hand.close()  # the API server is away: again
            except Exception:
                self.errors.append(traceback.format_exc())

    @property
    def _base(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def _pass(self) -> None:
        self._tick += 1
        there: dict[str, Body] = {
            each["metadata"]["uid"]: each
            for each in self._hand.get(f"{self._base}/pods?labelSelector={OWN}")["items"]
        }
        for uid in [uid for uid in self.pods if uid not in there]:
            self._kill(self.pods.pop(uid), signal.SIGKILL)  # force-deleted: the kubelet notices
            self.buried.append(uid)
        for uid, body in there.items():
            if uid not in self.pods:
                if body["spec"].get("nodeName", self.node) != self.node:
                    continue
                if not body["spec"].get("nodeName"):
                    self._schedule(body)
                    continue
                self.pods[uid] = self._take_in(body)
            self.pods[uid].body = body
            self._care(self.pods[uid])
        if self._tick % 10 == 0:
            self._collect(there)

    def _collect(self, there: dict[str, Body]) -> None:
        """Pods whose executor is gone go too."""
        path = f"/apis/kandev.dev/v1alpha1/namespaces/{self.namespace}/executors"
        owners = {each["metadata"]["uid"] for each in self._hand.get(path)["items"]}
        for body in there.values():
            mine = [each["uid"] for each in body["metadata"].get("ownerReferences") or ()]
            if body["metadata"].get("deletionTimestamp") or owners.intersection(mine):
                continue
            self._hand.send("DELETE", f"{self._base}/pods/{body['metadata']['name']}")

    def _schedule(self, body: Body) -> None:
        name = body["metadata"]["name"]
        if body["metadata"].get("deletionTimestamp"):
            self._delete(body)
            return
        why = self.schedules(body) or self._lacks_a_claim(body)
        if why:
            refused = row("PodScheduled", "False", "Unschedulable", why)
            known = (body.get("status") or {}).get("conditions") or []
            if not any(each.get("message") == why for each in known):
                self._patch(name, {"conditions": [refused]})
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {"metadata": {"name": name}, "target": target}
        self._hand.send("POST", f"{self._base}/pods/{name}/binding", binding)

    def _take_in(self, body: Body) -> Pod:
        self._number += 1
        spec = body["spec"]
        folder = self.folder / "pods" / body["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        return Pod(
            body,
            # One that an API server brought back from the past has its address already.
            (body.get("status") or {}).get("podIP") or f"{self._net}.{self._number % 250 + 1}",
            folder,
            [Container(each) for each in spec.get("initContainers") or ()],
            [Container(each) for each in spec["containers"]],
        )

    # ---- one pod -------------------------------------------------------------------------

    def _care(self, pod: Pod) -> None:
        for container in (*pod.inits, *pod.containers):
            self._reap(pod, container)
        if pod.body["metadata"].get("deletionTimestamp"):
            self._end(pod)
            return
        if pod.over is None:
            self._advance(pod)
        self._tell(pod)

    def _advance(self, pod: Pod) -> None:
        if not self._mounts(pod):
            return
        for init in pod.inits:
            if init.has_ended and init.state["terminated"]["exitCode"] == 0:
                continue
            if not init.is_running:
                self._begin(pod, init)
            return
        for container in pod.containers:
            if not container.is_running:
                self._begin(pod, container)
        pod.agent.ready = pod.agent.is_running and is_healthy(pod.address)

    def _begin(self, pod: Pod, container: Container) -> None:
        if time.monotonic() < container.starts_at:
            return
        image = container.spec["image"]
        if not self.pulls(image):
            known = container.state.get("waiting", {}).get("reason")
            reason = "ErrImagePull" if known == "PodInitializing" else "ImagePullBackOff"
            container.state = {"waiting": {"reason": reason, "message": f"no such image: {image}"}}
            container.starts_at = time.monotonic() + 0.5
            return
        before = container.state.get("terminated")
        if before is not None or container.last is not None:
            container.restarts += 1
            container.last = before or container.last
        words = [*container.spec.get("command", ()), *container.spec.get("args", ())]
        container.began = now()
        container.oom = False
        if words and not (container in pod.containers and container.name != "agent"):
            log = (pod.folder / f"{container.name}.log").open("ab")
            with log:
                container.process = subprocess.Popen(
                    [self._told(pod, container, each) for each in self._program(words)],
                    env=self._environment(pod, container),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        container.state = {"running": {"startedAt": container.began}}

    def _event(self, pod: Pod, message: str) -> None:
        if self._tick % _SILENT:
            return
        meta = {"generateName": f"{pod.name[:40]}-", "namespace": self.namespace}
        about = {"kind": "Pod", "name": pod.name, "uid": pod.uid, "namespace": self.namespace}
        event = {
            "metadata": meta,
            "involvedObject": about,
            "type": "Warning",
            "reason": "FailedMount",
            "message": f"MountVolume.SetUp failed: {message}",
            "lastTimestamp": now(),
        }
        self._hand.send("POST", f"{self._base}/events", event)

    def _reap(self, pod: Pod, container: Container) -> None:
        process = container.process
        if process is None or process.poll() is None:
            return
        container.process = None
        code = process.returncode
        reason = "OOMKilled" if container.oom else "Completed" if code == 0 else "Error"
        container.ready = False
        end = {
            "exitCode": 128 - code if code < 0 else code,
            "reason": reason,
            "message": self._last_words(pod, container) if code else "",
            "startedAt": container.began,
            "finishedAt": now(),
        }
        container.state = {"terminated": end}
        is_init = container in pod.inits
        if pod.over is None and not (is_init and code == 0):
            wait = BACK_OFF[min(container.restarts, len(BACK_OFF) - 1)]
            container.starts_at = time.monotonic() + wait
            if container.restarts:
                container.last = end
                waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {wait} s"}
                container.state = {"waiting": waiting}

    def _last_words(self, pod: Pod, container: Container) -> str:
        log = pod.folder / f"{container.name}.log"
        return log.read_text(errors="replace")[-300:] if log.exists() else ""

    def _end(self, pod: Pod) -> None:
        """Somebody asked for its end: TERM, the grace, KILL, the last word, and it is gone."""
        running = [each for each in (*pod.inits, *pod.containers) if each.process is not None]
        if pod.ends_at is None:
            grace = pod.body["metadata"].get("deletionGracePeriodSeconds") or 0
            pod.ends_at = time.monotonic() + min(grace, 20)
            for container in running:
                signal_to(container, signal.SIGTERM)
        if running and time.monotonic() < pod.ends_at:
            self._tell(pod)
            return
        for container in running:
            signal_to(container, signal.SIGKILL)
            assert container.process is not None
            container.process.wait(10)
            self._reap(pod, container)
        for container in pod.containers:
            if "waiting" in container.state and container.last is not None:
                container.state = {"terminated": container.last}
        self._tell(pod)
        self._delete(pod.body)

    def _delete(self, body: Body) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": body["metadata"]["uid"]}}
        self._hand.send("DELETE", f"{self._base}/pods/{body['metadata']['name']}", options)

    def _kill(self, pod: Pod, number: signal.Signals) -> None:
        for container in (*pod.inits, *pod.containers):
            if container.process is None:
                continue
            signal_to(container, number)
            container.process.wait(10)
            self._reap(pod, container)

    # ---- telling -------------------------------------------------------------------------

    def _tell(self, pod: Pod) -> None:
        ready = pod.over is None and all(
            each.is_running and (each.ready or each.name != "agent") for each in pod.containers
        )
        done = all(each.has_ended for each in pod.inits)
        up = any(each.is_running for each in pod.containers) or (done and bool(pod.containers))
        status: Body = {
            "phase": "Running" if up else "Pending",
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "startTime": pod.body["metadata"]["creationTimestamp"],
            "initContainerStatuses": [status_of(each) for each in pod.inits],
            "containerStatuses": [status_of(each) for each in pod.containers],
            **(pod.over or {}),
        }
        self._condition(pod, "Ready", ready)
        self._condition(pod, "Initialized", done)
        self._condition(pod, "PodScheduled", True)
        status["conditions"] = list(pod.conditions.values())
        text = json.dumps(status, sort_keys=True)
        if text != pod.told:
            self._patch(pod.name, status)
            pod.told = text

    def _condition(self, pod: Pod, type_: str, holds: bool) -> None:
        word = str(holds)
        if pod.conditions.get(type_, {}).get("status") != word:
            pod.conditions[type_] = row(type_, word)

    def _patch(self, name: str, status: Body) -> None:
        path = f"{self._base}/pods/{name}/status"
        code, answer = self._hand.send("PATCH", path, {"status": status}, MERGE)
        if code not in (200, 404, 409):
            self.errors.append(f"PATCH {path}: {code} {answer.get('message')}")

    def _say_ready(self, hand: Hand, word: str) -> None:
        rows = [row("Ready", word, "KubeletReady" if word == "True" else "NodeStatusUnknown")]
        path = f"/api/v1/nodes/{self.node}/status"
        hand.send("PATCH", path, {"status": {"conditions": rows}}, MERGE)
