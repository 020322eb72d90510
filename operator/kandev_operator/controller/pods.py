"""Eyes and hands for executors that are pods; what is to be done is decided in `core.pods`.

Pods are watched by label and stand in the cache; those that went away are in `graves`. Making a
pod sees to the public keys it mounts, and meets the pod that an interrupted pass made before.
"""

from typing import Any

from kandev_operator.api import group
from kandev_operator.api.executor import Executor, ExecutorState, PodRef
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.reasons import PodScheduledReason
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.clients.errors import AlreadyExists, Conflict, Forbidden, NotFound
from kandev_operator.clients.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS
from kandev_operator.clients.tokens import jwks_text
from kandev_operator.controller.cache import Body
from kandev_operator.controller.models import stored
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core import actions as todo
from kandev_operator.core.observed import (
    Answer,
    Failed,
    Found,
    Look,
    Missing,
    PodsSeen,
    Probe,
    Unreadable,
)
from kandev_operator.core.pods import layout
from kandev_operator.core.pods.claim import claim_name
from kandev_operator.core.pods.layout import url
from kandev_operator.core.podseen import PodSeen


class PodEyes:
    """Looks at an executor's pods, and at what surrounds them where something is wrong."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring

    def pods(self, executor: Executor) -> tuple[PodSeen, ...]:
        """All pods of this executor, those that went away included."""
        uid = executor.metadata.uid
        there = tuple(PodSeen.from_body(body) for body in self._w.cache.pods_of(uid))
        known = {pod.uid for pod in there}
        gone = (pod for pod in self._w.graves.of(uid) if pod.uid not in known)
        return (*there, *gone)

    def current(self, executor: Executor) -> PodSeen | None:
        """The pod that status pins, while it is there."""
        seen = PodsSeen(self.pods(executor)).of(executor.status.instance_id)
        return None if seen is None or seen.is_gone else seen

    async def view(self, executor: Executor, session: TaskSession | None, probe: Probe) -> PodsSeen:
        """Everything that a decision about this executor's pods may know."""
        pods = self.pods(executor)
        status, namespace = executor.status, executor.metadata.namespace
        pod = PodsSeen(pods).of(status.instance_id)
        node = (pod.node if pod is not None else None) or status.node_name
        well = probe.answer in (Answer.WELL, Answer.NOT_TRIED)
        steady = pod is not None and pod.is_live and well
        claim: Look[Any] | None = None
        if session is not None and not (pod is not None and pod.can_be_asked):
            claim = await self._w.lookups.claim(namespace, claim_name(session))
        is_lost = pod is None or not pod.is_live
        unknown = Unreadable("nobody asked")
        return PodsSeen(
            pods=pods,
            node=await self._w.lookups.node(node, fresh=is_lost)
            if node and not steady
            else unknown,
            claim=claim,
            events=await self._w.lookups.warning(namespace, pod.uid, fresh=pod.is_over)
            if pod is not None and _is_unexplained(pod)
            else "",
            task=stored(self._w.cache, Task, group.TASK, namespace, session.spec.task_ref.name)
            if session is not None
            else Missing(),
            profile=stored(
                self._w.cache,
                AgentProfile,
                group.AGENT_PROFILE,
                namespace,
                session.spec.agent_profile_ref.name,
            )
            if session is not None
            else Missing(),
            platform=self._w.settings.platform,
        )

    def addressed(self, executor: Executor) -> Executor:
        """With the address where its pod can be asked now; none, where it cannot."""
        pod = self.current(executor)
        address: dict[str, Any] = {"agentctl_url": None, "pod_ref": None}
        if pod is not None and pod.can_be_asked:
            ref = PodRef(name=pod.name, uid=pod.uid)
            address = {"agentctl_url": url(pod.address), "pod_ref": ref}
            if pod.is_ready and self._w.prober.probe(executor.metadata.uid).answer not in (
                Answer.WELL,
                Answer.NOT_TRIED,
            ):
                self._w.prober.poke(executor.metadata.uid)  # the kubelet reached it: so may we
        return executor.replacing(status=executor.status.replacing(**address))

    async def claim(
        self, session: TaskSession, executor: Look[Executor], probe: Probe
    ) -> dict[str, Any]:
        """The session's claim: looked at until status knows it, and when its pod is gone."""
        template = session.spec.executor.template
        pod = template is not None and template.spec.pod is not None
        if isinstance(executor, Found):
            pod = executor.value.spec.pod is not None
        if not pod or session.metadata.is_deleting:
            return {}
        known = session.status.workspace_ref
        is_up = isinstance(executor, Found) and executor.value.status.state == ExecutorState.READY
        if known is not None and known.uid is not None and (is_up or probe.answer is Answer.WELL):
            return {}
        claim = await self._w.lookups.claim(session.metadata.namespace, claim_name(session))
        wanted = session.spec.workspace
        asks = isinstance(claim, Missing) and not (wanted.access_modes or wanted.claim_name)
        one = asks and await self._w.lookups.gives_to_one_pod(wanted.storage_class_name)
        return {"claim": claim, "one_pod_claims": one}


class PodHands:
    """Makes and removes pods, and makes claims."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring
        self._has_keys: dict[str, str] = {}

    async def create_pod(self, namespace: str, action: todo.CreatePod) -> None:
        """Make it; the very same pod that is there already is as good."""
        await self._see_to_keys(namespace)
        try:
            body = await self._w.kube.create(PODS, namespace, action.manifest)
        except AlreadyExists:
            body = await self._w.kube.get(PODS, namespace, action.manifest["metadata"]["name"])
            if not _is_same(body, action.manifest):
                raise ValueError("a pod of this name belongs to somebody else") from None
        self._w.cache.put(group.POD, body)

    async def delete_pod(self, namespace: str, action: todo.DeletePod) -> None:
        """Ask for the end of this very pod; one that is gone, or another now, is fine."""
        try:
            await self._w.kube.delete(
                PODS,
                namespace,
                action.name,
                uid=action.uid,
                grace_seconds=0 if action.at_once else None,
            )
        except (NotFound, Conflict):
            return

    async def create_claim(self, namespace: str, action: todo.CreateClaim) -> None:
        """Make it; one that is there already is the one that was made before."""
        try:
            body = await self._w.kube.create(PERSISTENT_VOLUME_CLAIMS, namespace, action.manifest)
        except AlreadyExists:
            name = action.manifest["metadata"]["name"]
            body = await self._w.kube.get(PERSISTENT_VOLUME_CLAIMS, namespace, name)
        self._w.lookups.learn_claim(namespace, body)

    async def hand_out_keys(self, namespace: str) -> None:
        """Let the agentctls of a namespace know the keys that their callers sign with now."""
        if self._has_keys.get(namespace) != jwks_text(self._w.keys):
            await self._see_to_keys(namespace)

    async def _see_to_keys(self, namespace: str) -> None:
        text = jwks_text(self._w.keys)
        wanted = {layout.KEYS_FILE: text}
        name = layout.KEYS_CONFIG_MAP
        labels = {"app.kubernetes.io/managed-by": "kandev-operator"}
        try:
            known = await self._w.kube.get(CONFIG_MAPS, namespace, name)
        except NotFound:
            body = {"metadata": {"name": name, "labels": labels}, "data": wanted}
            try:
                await self._w.kube.create(CONFIG_MAPS, namespace, body)
            except AlreadyExists:
                return
        else:
            if known.get("data") != wanted:
                await self._w.kube.replace(CONFIG_MAPS, namespace, name, {**known, "data": wanted})
        self._has_keys[namespace] = text


def _is_unexplained(pod: PodSeen) -> bool:
    """Its status does not say, or not yet, why it does not serve."""
    return (pod.is_live and not pod.can_be_asked) or (pod.is_over and not pod.reason)


def refusal(error: Forbidden) -> Failed | None:
    """Why the API server refuses a pod: quota, the namespace's rules, or a right that is missing.

    None: its service account is not there yet, which mends itself.
    """
    name = todo.CreatePod.__name__
    words = str(error)[:500]
    if error.quota_exceeded:
        return Failed(name, str(PodScheduledReason.QUOTA_EXCEEDED), words, fatal=False)
    if "serviceaccount" in words and "not found" in words:
        return None
    return Failed(name, str(PodScheduledReason.INVALID_TEMPLATE), words, fatal=True)


def _is_same(body: Body, manifest: Body) -> bool:
    theirs, ours = body["metadata"], manifest["metadata"]
    key, note = group.LABEL_EXECUTOR_UID, group.ANNOTATION_INSTANCE_ID
    found = ((theirs.get("labels") or {}).get(key), (theirs.get("annotations") or {}).get(note))
    return found == (ours["labels"][key], ours["annotations"][note])
