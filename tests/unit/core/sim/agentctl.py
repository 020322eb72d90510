"""A simulated agentctl: real fencing, idempotent operations and prompts, one agent at a time.

The disk (`Disk`, a journal for each session, the highest term) outlives the process
(`Agentctl`). Nothing happens by itself: `tick` takes one step, so that every moment in between
can be looked at, and be the moment at which something dies.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import (
    AgentctlReport,
    AgentPhase,
    CapabilitiesSeen,
    FailureSeen,
    OperationSeen,
    TurnSeen,
)
from unit.core.sim.disk import Disk, Journal, Wish, token_seen

ALIVE = frozenset(set(AgentPhase) - {AgentPhase.NONE, AgentPhase.EXITED})

PROBE_IDLE = 3
"""Ticks after which a process that was only asked what it can do is ended."""


class Refused(Exception):
    """A call that agentctl did not take."""


class Agentctl:
    """One process. `opened` is told of every conversation that the agent is asked to open."""

    def __init__(
        self, disk: Disk, instance_id: str, boot_id: str, opened: Callable[[str, int, Wish], None]
    ) -> None:
        self.disk = disk
        self.instance_id = instance_id
        self.boot_id = boot_id
        self.url = f"http://{boot_id}"
        self.alive = True
        self.phase = AgentPhase.NONE
        self.profile_hash: str | None = None
        self.running_hash: str | None = None
        self.wish: Wish | None = None
        self.probing = False
        self.unused = 0
        self._opened = opened
        if self.journal is not None:
            self._reopen(self.journal)

    @property
    def journal(self) -> Journal | None:
        return self.disk.journals.get(self.disk.served or "")

    @property
    def live_session(self) -> str | None:
        """Whose agent lives here, or may."""
        on = self.alive and self.phase in ALIVE
        return self.disk.served if on else None

    @property
    def served_journal(self) -> Journal:
        assert self.journal is not None
        return self.journal

    def _reopen(self, kept: Journal) -> None:
        """A new process: whatever the old one had under way is over."""
        for known in kept.operations.values():
            if known.state == "running":
                failure = FailureSeen("interrupted", "agentctl restarted in the middle")
                start = known.kind == "start"
                ended = {"failure": failure} if start else {}
                state = "failed" if start else "succeeded"
                kept.operations[known.operation_id] = replace(known, state=state, **ended)
        for prompt_id, fate in kept.prompts.items():
            if fate == "sending":
                kept.prompts[prompt_id] = "unknown"
        if kept.turn is not None:
            kept.last_turn = replace(kept.turn, outcome="interrupted")
            kept.turn = None
        if kept.execution is not None and kept.ended != "asked":
            self.disk.failures[kept.name] += 1
            kept.ended = "unasked"
            self.phase = AgentPhase.EXITED

    # ---- calls ------------------------------------------------------------------------

    def _fence(self, term: int, epoch: int | None) -> None:
        kept = self.journal
        known = kept.epoch if kept is not None and epoch is not None else 0
        if term < self.disk.term or (epoch or 0) < known:
            raise Refused("stale_epoch")
        self.disk.term = term
        if kept is not None and epoch is not None:
            kept.epoch = epoch

    def _serves(self, uid: str) -> None:
        if self.disk.served not in (None, uid):
            raise Refused("session_conflict")

    def put_agent(
        self, uid: str, named: tuple[str, str], adopt: str | None, hash: str, fence: tuple[int, int]
    ) -> None:
        term, epoch = fence
        self._fence(term, None)
        if self.disk.served != uid:
            if self.phase in ALIVE:
                raise Refused("session_conflict")
            self._switch(uid, named, adopt)
        self._fence(term, epoch)
        if self.profile_hash == hash:
            return
        self.profile_hash = hash
        if self.phase not in ALIVE:
            self._launch()
        else:
            self.probing = True
            if self.phase is AgentPhase.INITIALIZED:
                self.phase = AgentPhase.STOPPING

    def _switch(self, uid: str, named: tuple[str, str], adopt: str | None) -> None:
        journals = self.disk.journals
        old = journals.get(adopt or "")
        if uid not in journals and old is not None and (old.namespace, old.name) == named:
            del journals[old.uid]
            journals[uid] = replace(old, uid=uid)
        if uid not in journals:
            journals[uid] = Journal(uid, *named, lineage=uid)
        self.disk.served = uid
        self.phase = AgentPhase.NONE
        self.profile_hash = None
        self._reopen(journals[uid])

    def start(
        self, uid: str, operation_id: str, mode: str, token: str | None, fence: tuple[int, int]
    ) -> None:
        self._serves(uid)
        self._fence(*fence)
        if self.journal is None or self.profile_hash is None:
            raise Refused("no_agent")
        if operation_id in self.journal.operations:
            return
        if self.wish is not None:
            if fence[1] <= self.wish.epoch:
                raise Refused("operation_conflict")
            self._fail("superseded")
        self.journal.operations[operation_id] = OperationSeen(
            operation_id, "start", mode, "running"
        )
        if mode == "new":
            self.journal.token = None
        self.wish = Wish(operation_id, mode, fence[1], token)
        if self.phase in (AgentPhase.NONE, AgentPhase.EXITED):
            self._launch()
        elif self.phase not in (AgentPhase.INITIALIZING, AgentPhase.INITIALIZED):
            self.phase = AgentPhase.STOPPING

    def stop(self, uid: str, operation_id: str, fence: tuple[int, int]) -> None:
        self._serves(uid)
        self._fence(*fence)
        if self.journal is None:
            raise Refused("no_agent")
        if operation_id in self.journal.operations:
            return
        if self.wish is not None:
            self._fail("superseded")
        self.probing = False
        alive = self.phase in ALIVE
        state = "running" if alive else "succeeded"
        self.journal.operations[operation_id] = OperationSeen(operation_id, "stop", None, state)
        if alive:
            self.phase = AgentPhase.STOPPING
        else:
            self.phase, self.journal.ended = AgentPhase.NONE, "asked"

    def prompt(self, uid: str, prompt_id: str, text: str, fence: tuple[int, int]) -> None:
        self._serves(uid)
        self._fence(*fence)
        if prompt_id in self.served_journal.prompts:
            return
        reachable = (AgentPhase.IDLE, AgentPhase.RUNNING, AgentPhase.EXITED)
        if self.phase not in reachable and self.wish is None:
            raise Refused("agent_not_running")
        self.served_journal.prompts[prompt_id] = "queued"
        self.served_journal.texts[prompt_id] = text

    # ---- what happens ------------------------------------------------------------------

    def tick(self, now: datetime) -> None:
        """One step of whatever is under way."""
        if not self.alive or self.journal is None:
            return
        match self.phase:
            case AgentPhase.STOPPING:
                self._ended(now)
            case AgentPhase.INITIALIZING:
                self._initialized(now)
            case AgentPhase.INITIALIZED if self.wish is not None:
                self.phase = AgentPhase.OPENING
                self._opened(self.journal.uid, self.disk.lives, self.wish)
            case AgentPhase.INITIALIZED:
                self.unused += 1
                if self.unused > PROBE_IDLE:
                    self.phase = AgentPhase.STOPPING
            case AgentPhase.OPENING:
                self._answered(now)
            case AgentPhase.IDLE if self.disk.agent.mood == "short":
                self.die(now)
            case AgentPhase.IDLE:
                self._hand_over(now)
            case AgentPhase.RUNNING:
                self._arrived()

    def _launch(self) -> None:
        self.disk.executions += 1
        kept = self.served_journal
        kept.execution, kept.ended = f"exec-{self.disk.executions}", None
        kept.exited_at = None
        self.phase, self.running_hash, self.probing = (
            AgentPhase.INITIALIZING,
            self.profile_hash,
            False,
        )

    def _initialized(self, now: datetime) -> None:
        agent, kept = self.disk.agent, self.served_journal
        if not agent.answers_initialize:
            failure = FailureSeen("initialize_failed", "no answer")
            same = kept.capabilities.profile_hash == self.running_hash
            base = kept.capabilities if same else CapabilitiesSeen(profile_hash=self.running_hash)
            kept.capabilities = replace(base, failure=failure, probed_at=rfc3339(now))
            if self.wish is not None:
                self._fail("initialize_failed", now)
            else:
                self.disk.failures[kept.name] += 1
            self.phase = AgentPhase.STOPPING
            return
        kept.capabilities = CapabilitiesSeen(
            supports_session_resume=agent.can_resume,
            supports_workspace_only=True,
            profile_hash=self.running_hash,
            probed_at=rfc3339(now),
        )
        self.unused = 0
        fits = self.running_hash == self.profile_hash
        self.phase = AgentPhase.INITIALIZED if fits else AgentPhase.STOPPING

    def _answered(self, now: datetime) -> None:
        wish, kept = self.wish, self.served_journal
        assert wish is not None
        answer = self.disk.agent.open(wish.mode, wish.token)
        if answer.startswith("!"):
            self._fail(answer[1:], now)
            dead = answer == "!agent_exited"
            self.phase = AgentPhase.EXITED if dead else AgentPhase.STOPPING
            if dead:
                kept.ended, kept.exited_at = "unasked", now
            return
        replaced = wish.mode == "resume" and answer != wish.token
        back = wish.mode == "resume" and not replaced
        kept.token = token_seen(answer, established=back, epoch=wish.epoch)
        done = replace(
            kept.operations[wish.operation_id],
            state="succeeded",
            ended_at=now,
            token_replaced=replaced,
        )
        kept.operations[wish.operation_id] = done
        self.wish, self.phase = None, AgentPhase.IDLE

    def _hand_over(self, now: datetime) -> None:
        kept = self.served_journal
        waiting = next((key for key, fate in kept.prompts.items() if fate == "queued"), None)
        if waiting is None:
            return
        kept.prompts[waiting] = "sending"
        kept.turn = TurnSeen(waiting, rfc3339(now))
        self.disk.agent.heard[f"{kept.name}/{kept.lineage}/{kept.texts[waiting]}"] += 1
        self.phase = AgentPhase.RUNNING

    def _arrived(self) -> None:
        kept = self.served_journal
        if kept.turn is not None and kept.prompts.get(kept.turn.prompt_id) == "sending":
            kept.prompts[kept.turn.prompt_id] = "delivered"

    def end_turn(self, now: datetime) -> None:
        """The agent finishes its turn; from now on it keeps the conversation."""
        kept = self.served_journal
        assert self.phase is AgentPhase.RUNNING
        assert kept.turn is not None
        assert kept.token is not None
        self._arrived()
        kept.last_turn = replace(kept.turn, at=rfc3339(now), outcome="completed")
        kept.turn, self.phase = None, AgentPhase.IDLE
        kept.turns_completed += 1
        kept.token = replace(kept.token, established=True)
        self.disk.agent.stored.add(kept.token.value)

    def die(self, now: datetime) -> None:
        """The agent's process ends by itself."""
        kept = self.served_journal
        self._cut_off(now)
        self.disk.failures[kept.name] += 1
        if self.wish is not None:
            self._fail("agent_exited", now)
        kept.ended, kept.exited_at = "unasked", now
        self.phase = AgentPhase.EXITED

    def shut_down(self) -> None:
        """This agentctl was told to end: its agent is ended gently before it."""
        self.alive = False
        if self.journal is not None and self.phase in ALIVE:
            self.journal.ended = "asked"

    def _ended(self, now: datetime) -> None:
        kept = self.served_journal
        self._cut_off(now)
        kept.ended, kept.exited_at = "asked", now
        self.phase = AgentPhase.NONE
        for key, known in kept.operations.items():
            if known.kind == "stop" and known.state == "running":
                kept.operations[key] = replace(known, state="succeeded", ended_at=now)
        if self.wish is not None or self.probing:
            self._launch()

    def _cut_off(self, now: datetime) -> None:
        kept = self.served_journal
        if kept.turn is None:
            return
        if kept.prompts.get(kept.turn.prompt_id) == "sending":
            kept.prompts[kept.turn.prompt_id] = "unknown"
        kept.last_turn = replace(kept.turn, at=rfc3339(now), outcome="interrupted")
        kept.turn = None

    def _fail(self, code: str, now: datetime | None = None) -> None:
        assert self.wish is not None
        self.disk.failures[self.served_journal.name] += 1
        known = self.served_journal.operations[self.wish.operation_id]
        failure = FailureSeen(code, "the agent's own words")
        self.served_journal.operations[self.wish.operation_id] = replace(
            known, state="failed", ended_at=now, failure=failure
        )
        self.wish = None

    def report(self) -> AgentctlReport:
        """What `/status` tells."""
        kept = self.journal
        base = AgentctlReport(
            instance_id=self.instance_id,
            boot_id=self.boot_id,
            phase=self.phase,
            workspace_path=self.disk.path,
            term=self.disk.term,
        )
        if kept is None:
            return base
        return replace(
            base,
            session_uid=kept.uid,
            session_namespace=kept.namespace,
            session_name=kept.name,
            profile_hash=self.profile_hash,
            epoch=kept.epoch,
            execution_id=kept.execution,
            exited_at=kept.exited_at,
            capabilities=kept.capabilities,
            token=kept.token,
            operations=tuple(kept.operations.values()),
            turn=kept.turn,
            last_turn=kept.last_turn,
            turns_completed=kept.turns_completed,
            prompts=tuple(kept.prompts.items()),
        )
