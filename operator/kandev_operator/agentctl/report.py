"""What is told of the machine's state: health, the whole status, metrics. Reading only.

The resume token's value is shown to scope control alone; everybody else sees its hash.
"""

from kandev_operator.agentctl import unserved
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.machine.permissions import describe
from kandev_operator.agentctl.machine.tables import ALIVE, OPEN
from kandev_operator.agentctl.machine.tokens import digest
from kandev_operator.contract.agent import Permission, PromptFate
from kandev_operator.contract.status import (
    AgentReport,
    AgentStatus,
    Capabilities,
    Health,
    JournalReport,
    JournalState,
    PromptRecord,
    Rooms,
    SessionReport,
    StatusReport,
    TokenReport,
)
from kandev_operator.contract.version import CONTRACT_VERSION


def health(engine: Engine) -> Health:
    """From memory alone."""
    well = engine.journal_state in (JournalState.OK, JournalState.ABSENT) and engine.away is None
    return Health(
        status="ok" if well and engine.ownership.stranger is None else "degraded",
        instance_id=engine.instance_id,
        boot_id=engine.boot_id,
        contract_version=CONTRACT_VERSION,
        session_id=engine.state.session_id,
        agent_status=engine.state.status,
    )


def capabilities(engine: Engine) -> Capabilities:
    """What the agent can do, and which rooms are served beside it: that is agentctl's own word."""
    return engine.state.capabilities.model_copy(update={"rooms": rooms(engine)})


def rooms(engine: Engine) -> Rooms:
    """All, but for one that stands in front of another agentctl."""
    here = engine.settings.upstream is None
    return Rooms(files=here, git=here, shell=here, reason="" if here else unserved.REASON)


def status(engine: Engine, *, shows_token: bool) -> StatusReport:
    """Everything a caller needs to go on from."""
    state, journal = engine.state, engine.journal
    alive = state.status in ALIVE
    return StatusReport(
        instance_id=engine.instance_id,
        boot_id=engine.boot_id,
        contract_version=CONTRACT_VERSION,
        session=_session(engine),
        profile_hash=state.profile_hash,
        workspace_path=str(engine.settings.workspace),
        pid=engine.own_pid,
        term=state.term,
        epoch=state.epoch,
        agent=AgentReport(
            status=state.status,
            execution_id=state.execution_id,
            pid=engine.agent_pid if alive else None,
            exit=None if alive else state.exit,
        ),
        capabilities=capabilities(engine),
        token=_token(engine, shows_token=shows_token),
        journal=JournalReport(
            journal_id=journal.journal_id if journal else None,
            last_seq=journal.last_seq if journal else 0,
            state=engine.journal_state,
            message=journal.message if journal else "",
        ),
        operations=state.operations,
        turn=state.turn,
        last_turn=state.last_turn,
        turns_completed=state.turns_completed,
        prompts=tuple(
            PromptRecord(prompt_id=p.prompt_id, fate=p.fate, reason=p.reason) for p in state.prompts
        ),
        permissions=len(state.permissions),
        conversation=state.conversation if state.status in OPEN else None,
        details={"updates_replayed": state.replayed, "updates_stray": state.stray},
    )


def _session(engine: Engine) -> SessionReport | None:
    if engine.state.session_id is None or engine.folder is None:
        return None
    marker = engine.folder.marker()
    return SessionReport(
        session_id=engine.state.session_id,
        namespace=str(marker.get("namespace", "")),
        name=str(marker.get("name", "")),
        marker_verified=engine.marker_verified,
    )


def _token(engine: Engine, *, shows_token: bool) -> TokenReport | None:
    token, previous = engine.state.token, engine.state.previous_tokens
    if token is None:
        return None
    return TokenReport(
        value=token.value if shows_token else None,
        sha256=digest(token.value),
        established=token.established,
        epoch=token.epoch,
        previous=previous if shows_token else (),
        agent=token.agent,
    )


def permissions(engine: Engine) -> list[Permission]:
    """The open requests."""
    return [describe(p) for p in engine.state.permissions]


def metrics(engine: Engine) -> str:
    """Prometheus text: few lines, no label that an agent or caller can choose."""
    state, journal = engine.state, engine.journal
    fates = dict.fromkeys(PromptFate, 0)
    for prompt in state.prompts:
        fates[prompt.fate] += 1
    lines = ["# TYPE kandev_agentctl_agent_status gauge"]
    for known in AgentStatus:
        value = int(known is state.status)
        lines.append(f'kandev_agentctl_agent_status{{status="{known.value}"}} {value}')
    lines.append("# TYPE kandev_agentctl_prompts gauge")
    lines += [f'kandev_agentctl_prompts{{fate="{f.value}"}} {n}' for f, n in fates.items()]
    counted = {
        "turns_completed_total": ("counter", state.turns_completed),
        "agent_launches_total": ("counter", engine.launches),
        "events_total": ("counter", journal.last_seq if journal else 0),
        "events_lost_total": ("counter", journal.lost_total if journal else 0),
        "journal_bytes": ("gauge", journal.size() if journal else 0),
        "readers": ("gauge", engine.readers),
        "permissions_open": ("gauge", len(state.permissions)),
        "updates_replayed": ("gauge", state.replayed),
    }
    for name, (kind, value) in counted.items():
        lines += [f"# TYPE kandev_agentctl_{name} {kind}", f"kandev_agentctl_{name} {value}"]
    return "\n".join(lines) + "\n"
