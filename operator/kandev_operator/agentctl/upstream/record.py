"""What must be known after a restart of ours about a process that lives on upstream.

One file per session, beside its journal, replaced by rename: which execution it is, which process
of theirs, whether it was initialized (a second `initialize` would wedge it) and with what answer,
and which conversation is open in it. The journal says what happened; this says what still is.
"""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from kandev_operator.agentctl.statedir import read_json
from kandev_operator.contract.agent import PermissionPolicy
from kandev_operator.contract.status import Capabilities

NAME: Final = "upstream.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One execution on the upstream."""

    execution_id: str
    instance_id: str
    pid: int
    profile_hash: str
    policy: PermissionPolicy
    capabilities: Capabilities | None = None
    """Its answer to `initialize`; None while that is not answered."""
    conversation: str | None = field(default=None, repr=False)
    """The agent's id of the conversation that is open."""
    offers: dict[str, Any] = field(default_factory=dict)
    """What the agent offers in it."""
    ending: bool = False
    """It is being ended."""
    permission_timeout: float | None = None


class Records:
    """The record of one session."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self.now = self._read()

    def keep(self, record: Record) -> None:
        """Replace what is known; raises OSError."""
        content: dict[str, Any] = {
            "execution_id": record.execution_id,
            "instance_id": record.instance_id,
            "pid": record.pid,
            "profile_hash": record.profile_hash,
            "policy": record.policy.value,
            "capabilities": record.capabilities.model_dump(mode="json")
            if record.capabilities
            else None,
            "conversation": record.conversation,
            "offers": record.offers,
            "ending": record.ending,
            "permission_timeout": record.permission_timeout,
        }
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(file, "w") as stream:
            json.dump(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(self._path)
        self.now = record

    def learn(self, **changes: Any) -> None:
        """Change some of what is known of the process that is recorded."""
        if self.now is not None:
            self.keep(replace(self.now, **changes))

    def forget(self) -> None:
        """The process is gone, or is not to be believed in any more."""
        self._path.unlink(missing_ok=True)
        self.now = None

    def _read(self) -> Record | None:
        found = read_json(self._path)
        try:
            told = found["capabilities"]
            conversation, offers = found["conversation"], found.get("offers")
            timeout = found.get("permission_timeout")
            return Record(
                execution_id=str(found["execution_id"]),
                instance_id=str(found["instance_id"]),
                pid=int(found["pid"]),
                profile_hash=str(found["profile_hash"]),
                policy=PermissionPolicy(found["policy"]),
                capabilities=Capabilities.model_validate(told) if told is not None else None,
                conversation=conversation if isinstance(conversation, str) else None,
                offers=offers if isinstance(offers, dict) else {},
                ending=found.get("ending") is True,
                permission_timeout=float(timeout) if timeout is not None else None,
            )
        except (KeyError, ValueError, TypeError, ValidationError):
            return None
