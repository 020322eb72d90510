"""What an agentctl keeps on its workspace, and what outlives every process of it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from kandev_operator.core.observed import CapabilitiesSeen, OperationSeen, TokenSeen, TurnSeen
from unit.core.sim.agent import Agent


def token_seen(value: str, *, established: bool, epoch: int) -> TokenSeen:
    return TokenSeen(value, sha256(value.encode()).hexdigest(), established, epoch)


@dataclass
class Journal:
    """What is remembered of one session."""

    uid: str
    namespace: str
    name: str
    lineage: str
    """The UID that this journal began with; it stays when a successor adopts it."""
    epoch: int = 0
    operations: dict[str, OperationSeen] = field(default_factory=dict)
    token: TokenSeen | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    turns_completed: int = 0
    last_turn: TurnSeen | None = None
    turn: TurnSeen | None = None
    execution: str | None = None
    ended: str | None = "asked"
    exited_at: datetime | None = None
    capabilities: CapabilitiesSeen = field(default_factory=CapabilitiesSeen)


@dataclass
class Disk:
    """A workspace: journals, which of them is served, the highest term, the agent's own files."""

    path: str
    agent: Agent = field(default_factory=Agent)
    journals: dict[str, Journal] = field(default_factory=dict)
    served: str | None = None
    term: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """How often an opening failed or an agent died unasked, by session name."""
    lives: int = 0
    """How often its journals were lost: whatever was remembered is of another life."""
    executions: int = 0


@dataclass(frozen=True)
class Wish:
    operation_id: str
    mode: str
    epoch: int
    token: str | None
