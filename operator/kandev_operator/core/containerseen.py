"""Containers, volumes and images as a decision reads them, from what the Docker engine answers.

Only what the rules ask is kept. Containers and volumes of ours carry labels that say whose they
are; a body without them, or of an older engine, is read as far as it goes. Nothing is looked up
here, and nothing is concluded: what a state means is for `core.docker`.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from kandev_operator.api import group

LABEL_INSTANCE_ID: Final = group.ANNOTATION_INSTANCE_ID
LABEL_SHAPE: Final = f"{group.GROUP}/container-shape"
LABEL_STEP: Final = f"{group.GROUP}/step"
LABEL_ROLE: Final = f"{group.GROUP}/volume"
LABEL_SESSION_NAME: Final = f"{group.GROUP}/session-name"
LABEL_POLICY: Final = f"{group.GROUP}/workspace-policy"

LONGEST_WORDS: Final = 400


class Step(StrEnum):
    """What a container of ours is for; they run in this order."""

    INSTALL = "install"
    PREPARE = "prepare"
    AGENT = "agent"


class Role(StrEnum):
    """What a volume of ours holds."""

    FILES = "files"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """One container."""

    id: str
    name: str = ""
    state: str = "running"
    """The engine's word: created, running, paused, restarting, removing, exited or dead."""
    step: str = Step.AGENT
    executor_uid: str = ""
    session_uid: str = ""
    instance_id: str = ""
    shape: str = ""
    exit_code: int = 0
    oom_killed: bool = False
    words: str = ""
    """The engine's own about a failure, else the end of what the container wrote."""
    address: str = ""
    """Where it is in its network; empty while it does not run."""
    published: tuple[tuple[int, int], ...] = ()
    """(port in the container, port on this machine's loopback)."""

    @property
    def is_up(self) -> bool:
        """Its process lives, even where it is held still."""
        return self.state in ("running", "paused", "restarting")

    @property
    def is_over(self) -> bool:
        """It ran, and does not any more."""
        return self.state in ("exited", "dead")

    @classmethod
    def from_body(cls, body: dict[str, Any], words: str = "") -> Self:
        """From an inspection."""
        labels = (body.get("Config") or {}).get("Labels") or {}
        state = body.get("State") or {}
        network = body.get("NetworkSettings") or {}
        said = " ".join(str(state.get("Error") or words).split())
        return cls(
            id=body["Id"],
            name=str(body.get("Name") or "").lstrip("/"),
            state=str(state.get("Status") or ""),
            step=labels.get(LABEL_STEP, Step.AGENT),
            executor_uid=labels.get(group.LABEL_EXECUTOR_UID, ""),
            session_uid=labels.get(group.LABEL_SESSION_UID, ""),
            instance_id=labels.get(LABEL_INSTANCE_ID, ""),
            shape=labels.get(LABEL_SHAPE, ""),
            exit_code=int(state.get("ExitCode") or 0),
            oom_killed=bool(state.get("OOMKilled")),
            words=said[-LONGEST_WORDS:],
            address=_address(network),
            published=_published(network.get("Ports") or {}),
        )


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    """One volume of ours."""

    name: str
    role: str = Role.FILES
    session_uid: str = ""
    session_name: str = ""
    policy: str = "Delete"
    is_orphan: bool = False
    """Its session is positively gone, or being deleted."""

    def judged(self, *, is_orphan: bool, policy: str | None = None) -> Self:
        """The same, with what is known of its session."""
        return replace(self, is_orphan=is_orphan, policy=policy or self.policy)

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """From the engine's list."""
        labels = body.get("Labels") or {}
        return cls(
            name=body["Name"],
            role=labels.get(LABEL_ROLE, ""),
            session_uid=labels.get(group.LABEL_SESSION_UID, ""),
            session_name=labels.get(LABEL_SESSION_NAME, ""),
            policy=labels.get(LABEL_POLICY, "Retain"),
        )


@dataclass(frozen=True, slots=True)
class ImageSeen:
    """An image that is to be had, or how far its pull has come."""

    id: str = ""
    """Empty while the engine does not have it."""
    pulling: bool = False
    failure: str = ""
    """Why the last pull failed, in the engine's words."""
    failed_at: datetime | None = None


def _address(network: dict[str, Any]) -> str:
    found = [network.get("IPAddress") or ""]
    found += [(each or {}).get("IPAddress") or "" for each in _networks(network).values()]
    return str(next((each for each in found if each), ""))


def _networks(network: dict[str, Any]) -> dict[str, Any]:
    return network.get("Networks") or {}


def _published(ports: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """Where this machine's loopback leads into the container."""
    found: list[tuple[int, int]] = []
    for inside, outside in ports.items():
        number, _, kind = inside.partition("/")
        for each in outside or ():
            local = each.get("HostIp") in ("127.0.0.1", "0.0.0.0", "")
            if kind == "tcp" and local and str(each.get("HostPort") or "").isdigit():
                found.append((int(number), int(each["HostPort"])))
    return tuple(sorted(set(found)))
