"""A pod as decisions see it: read from the API's body, without a word about what it means.

`PodSeen.from_body` is total: whatever is absent or odd in a body becomes an absent value, because
a kubelet fills a status step by step and an object may be read at any of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from kandev_operator.api import group
from kandev_operator.api.timestamps import moment

OVER: Final = frozenset({"Failed", "Succeeded"})
LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Ended:
    """How one run of a container ended, in the kubelet's words."""

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container's status."""

    name: str
    image: str = ""
    state: str = ""
    """waiting, running, terminated, or empty while the kubelet has said nothing."""
    reason: str = ""
    """Why it waits."""
    message: str = ""
    since: datetime | None = None
    """When the present run began."""
    ended: Ended | None = None
    """How this run ended, while the state is terminated."""
    last: Ended | None = None
    """How the run before this one ended."""
    restarts: int = 0
    ready: bool = False

    @property
    def has_run(self) -> bool:
        """Some run of it began; a run that could not even be started is none."""
        before = self.last is not None and self.last.reason != "StartError"
        now = self.ended is not None and self.ended.reason != "StartError"
        return self.state == "running" or now or before


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod of an executor, as the API server last told it."""

    name: str
    uid: str
    instance_id: str = ""
    executor_uid: str = ""
    session_uid: str = ""
    shape: str = ""
    created: datetime | None = None
    deletion: datetime | None = None
    """When its grace is over, once somebody has asked for its deletion."""
    phase: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    address: str = ""
    is_ready: bool = False
    scheduled: bool | None = None
    scheduled_at: datetime | None = None
    schedule_words: str = ""
    disruption: tuple[str, str] | None = None
    """Reason and message of the condition DisruptionTarget."""
    inits: tuple[ContainerSeen, ...] = ()
    containers: tuple[ContainerSeen, ...] = ()
    is_gone: bool = False
    """The object does not exist any more; this is how it was last seen."""

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read the API's object."""
        meta, spec = body.get("metadata") or {}, body.get("spec") or {}
        status = body.get("status") or {}
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        rows = {each.get("type"): each for each in status.get("conditions") or ()}
        scheduled = rows.get("PodScheduled") or {}
        disruption = rows.get("DisruptionTarget") or {}
        disrupted = disruption.get("status") == "True"
        return cls(
            name=meta.get("name", ""),
            uid=meta.get("uid", ""),
            instance_id=notes.get(group.ANNOTATION_INSTANCE_ID, ""),
            executor_uid=labels.get(group.LABEL_EXECUTOR_UID, ""),
            session_uid=labels.get(group.LABEL_SESSION_UID, ""),
            shape=notes.get(group.ANNOTATION_POD_SHAPE, ""),
            created=_moment(meta.get("creationTimestamp")),
            deletion=_moment(meta.get("deletionTimestamp")),
            phase=status.get("phase", ""),
            reason=_cut(status.get("reason")),
            message=_cut(status.get("message")),
            node=spec.get("nodeName") or "",
            address=status.get("podIP") or "",
            is_ready=(rows.get("Ready") or {}).get("status") == "True",
            scheduled={"True": True, "False": False}.get(scheduled.get("status", "")),
            scheduled_at=_moment(scheduled.get("lastTransitionTime")),
            schedule_words=_cut(scheduled.get("message")),
            disruption=(_cut(disruption.get("reason")), _cut(disruption.get("message")))
            if disrupted
            else None,
            inits=tuple(_container(each) for each in status.get("initContainerStatuses") or ()),
            containers=tuple(_container(each) for each in status.get("containerStatuses") or ()),
        )

    def gone(self) -> Self:
        """The same pod, after its object was removed."""
        return replace(self, is_gone=True)

    @property
    def agent(self) -> ContainerSeen | None:
        """The container that agentctl and the agent run in, once the kubelet tells of it."""
        return next((each for each in self.containers if each.name == group.AGENT_CONTAINER), None)

    @property
    def is_over(self) -> bool:
        """The kubelet, or somebody in its place, says that nothing of it will run again."""
        return self.phase in OVER

    @property
    def is_deleting(self) -> bool:
        return self.deletion is not None

    @property
    def is_live(self) -> bool:
        """It is there, and may still run, or come to run."""
        return not (self.is_gone or self.is_over or self.is_deleting)

    @property
    def has_started(self) -> bool:
        """agentctl has run in it, so an agent may have."""
        return self.agent is not None and self.agent.has_run

    @property
    def can_be_asked(self) -> bool:
        """Its agentctl is running, as far as is known, and it has an address."""
        agent = self.agent
        return (
            self.is_live and bool(self.address) and agent is not None and agent.state == "running"
        )

    def lingers(self, now: datetime, patience: timedelta) -> bool:
        """Something of it may still run, and whoever ends it still has time to say so."""
        if self.is_gone or self.is_over:
            return False
        return self.deletion is None or now < self.deletion + patience

    @property
    def ended_at(self) -> datetime | None:
        """When the last of its containers ended, or it was made, where nothing ran."""
        ends = [each.ended.at for each in self.containers if each.ended is not None]
        return max([at for at in (*ends, self.created) if at is not None], default=None)

    @property
    def latest_step(self) -> datetime | None:
        """When it last got a step further on its way up: made, scheduled, containers started."""
        began = [each.since for each in (*self.inits, *self.containers)]
        known = [at for at in (self.created, self.scheduled_at, *began) if at is not None]
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node, as far as a pod on it is concerned."""

    ready: bool | None
    """None: the node's own word has run out (`Unknown`)."""
    out_of_service: bool = False

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read the API's object."""
        rows = (body.get("status") or {}).get("conditions") or ()
        told = next((each.get("status") for each in rows if each.get("type") == "Ready"), None)
        taints = (body.get("spec") or {}).get("taints") or ()
        out = any(each.get("key") == "node.kubernetes.io/out-of-service" for each in taints)
        return cls({"True": True, "False": False}.get(told or ""), out)


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A session's claim."""

    name: str
    uid: str
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    owner_uid: str = ""
    session_uid: str = ""
    is_deleting: bool = False

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read the API's object."""
        meta = body.get("metadata") or {}
        owners = meta.get("ownerReferences") or ()
        return cls(
            name=meta.get("name", ""),
            uid=meta.get("uid", ""),
            phase=(body.get("status") or {}).get("phase", ""),
            access_modes=tuple((body.get("spec") or {}).get("accessModes") or ()),
            owner_uid=next((each.get("uid", "") for each in owners), ""),
            session_uid=(meta.get("labels") or {}).get(group.LABEL_SESSION_UID, ""),
            is_deleting=bool(meta.get("deletionTimestamp")),
        )

    @property
    def is_shared(self) -> bool:
        """Other machines may write it at the same time: a network file system."""
        return "ReadWriteMany" in self.access_modes


def _container(told: Mapping[str, Any]) -> ContainerSeen:
    state, last = told.get("state") or {}, told.get("lastState") or {}
    word = next((each for each in ("running", "terminated", "waiting") if each in state), "")
    now = state.get(word) or {}
    return ContainerSeen(
        name=told.get("name", ""),
        image=told.get("image", ""),
        state=word,
        reason=_cut(now.get("reason")) if word == "waiting" else "",
        message=_cut(now.get("message")) if word == "waiting" else "",
        since=_moment(now.get("startedAt")) if word == "running" else None,
        ended=_ended(now) if word == "terminated" else None,
        last=_ended(last["terminated"]) if last.get("terminated") else None,
        restarts=told.get("restartCount") or 0,
        ready=bool(told.get("ready")),
    )


def _ended(told: Mapping[str, Any]) -> Ended:
    return Ended(
        exit_code=told.get("exitCode"),
        reason=_cut(told.get("reason")),
        message=_tail(told.get("message")),
        at=_moment(told.get("finishedAt")),
    )


def _cut(text: Any) -> str:
    """One line with an end: what a container writes as its last words is not ours to trust."""
    plain = " ".join(str(text or "").split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _tail(text: Any) -> str:
    """Last words end with what matters: a traceback with its error."""
    plain = " ".join(str(text or "").split())
    return plain if len(plain) <= LONGEST else f"…{plain[1 - LONGEST :]}"


def _moment(text: Any) -> datetime | None:
    try:
        return moment(text) if text else None
    except (TypeError, ValueError):
        return None
