"""A small world: sessions, executors, agents, an operator, and everything that befalls them.

Sessions `a` and `b` name the same executor (a local process, or a remote one); `c` has one made
from its template. The world carries out whatever the decisions say, and `Ledger` watches.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import builders as b
from invariants import Broken
from kandev_operator.api import group
from kandev_operator.api.executor import Runtime
from kandev_operator.api.session import (
    OperatingMode,
    ResumeFailure,
    ResumePolicy,
    TaskSession,
)
from kandev_operator.core.observed import AgentPhase
from unit.core.sim.agentctl import Agentctl, Refused
from unit.core.sim.cluster import ApiServer, Host, Key, NotFound, Unavailable
from unit.core.sim.disk import Disk
from unit.core.sim.ledger import Ledger
from unit.core.sim.operator import Crash, Operator

REMOTE = "/remote"
REMOTE_ID = "remote-1"
REMOTE_URL = "http://127.0.0.1:8711"
SETTLE_ROUNDS = 200
IDLE_ROUNDS = 9
PATIENCE = timedelta(seconds=400)
"""A calm spell waits for retries and limits that are due within this time."""


@dataclass(frozen=True)
class Plot:
    """What a world begins with."""

    remote: bool = False
    policies: tuple[ResumePolicy, ...] = (ResumePolicy.AUTO,) * 3
    on_failure: ResumeFailure = ResumeFailure.ERROR
    idle_timeout: int | None = None
    ttl: int | None = None
    can_resume: bool = True


class World:
    """The state of everything, and what can happen to it."""

    def __init__(self, plot: Plot, seen: Counter[str]) -> None:
        self.now = b.NOW
        self.plot = plot
        self.seen = seen
        self.api = ApiServer(lambda: self.now)
        self.ledger = Ledger(self)
        self.host = Host(self.ledger.opens)
        self.born = 0
        self.wishes = 0
        self.snapshot: Any = None
        self.api.put(group.TASK, b.a_task())
        self.api.put(group.AGENT_PROFILE, b.a_profile())
        if plot.remote:
            self.remote_restarts()
        self._make_executor()
        for name in "abc":
            self._make_session(name)
        for path in (self.shared_path, "/trees/c"):
            self.host.disk(path).agent.can_resume = plot.can_resume
        self.profile_hash = "h1"
        self.operator = self._new_operator(1)

    # ---- what there is -----------------------------------------------------------------

    @property
    def shared_path(self) -> str:
        """The workspace of sessions `a` and `b`."""
        return REMOTE if self.plot.remote else "/trees/one"

    def _make_executor(self) -> None:
        runtime = Runtime.REMOTE if self.plot.remote else Runtime.LOCAL_STANDALONE
        self.born += 1
        made = b.an_executor(runtime=runtime, uid=f"uid-ex-{self.born}", finalizers=())
        if self.plot.remote:
            remote = made.spec.remote
            assert remote is not None
            spec = made.spec.replacing(remote=remote.replacing(url=REMOTE_URL))
            made = made.replacing(spec=spec)
        self.api.put(group.EXECUTOR, made)

    def _make_session(self, name: str) -> None:
        self.born += 1
        lifecycle = {
            "idle_timeout_seconds": self.plot.idle_timeout,
            "ttl_seconds_after_finished": self.plot.ttl,
        }
        made = b.a_session(
            name,
            uid=f"uid-{name}-{self.born}",
            template=b.a_template("/trees/c") if name == "c" else None,
            prompt=None if name == "b" else "go on",
            policy=self.plot.policies["abc".index(name)],
            on_failure=self.plot.on_failure,
            lifecycle={key: value for key, value in lifecycle.items() if value is not None},
            creation_timestamp=f"2026-03-04T11:00:{self.born:02}Z",
        )
        self.api.put(group.TASK_SESSION, made)

    def _new_operator(self, term: int) -> Operator:
        made = Operator(self.api, self.host, self.ledger, self.seen, term)
        made.eyes.profile_hash = self.profile_hash
        return made

    def session(self, name: str) -> TaskSession | None:
        found: Any = self.api.stored(group.TASK_SESSION, name)
        return found

    @property
    def keys(self) -> list[Key]:
        kinds = (group.TASK_SESSION, group.EXECUTOR)
        return sorted(key for key in self.api.objects if key[0] in kinds)

    @property
    def agentctls(self) -> list[Agentctl]:
        return [one for one in self.host.processes if one.alive]

    def serving(self, uid: str) -> Agentctl | None:
        """The agentctl that serves this session."""
        return next((one for one in self.agentctls if one.disk.served == uid), None)

    # ---- time and passes ---------------------------------------------------------------

    def pass_over(self, key: Key, *, fresh: bool = True, crash_after: int | None = None) -> None:
        try:
            self.operator.run(key, self.now, fresh=fresh, crash_after=crash_after)
        except Crash:
            self.restart_operator()
        self.ledger.looks()

    def the_watch_lost(self, name: str) -> None:
        """For a while the cache lacks a session that is there, and nobody can be asked."""
        self.operator.eyes.sync()
        self.operator.eyes.cache.pop((group.TASK_SESSION, name), None)
        self.api.answers = False
        for key in self.keys:
            self.pass_over(key, fresh=False)
        self.api.answers = True

    def restart_operator(self, *, leads_anew: bool = True) -> None:
        old = self.operator
        self.operator = self._new_operator(old.eyes.term + leads_anew)
        self.operator.late = old.late
        self.operator.eyes.hidden = old.eyes.hidden
        self.operator.writes = old.writes

    def tick(self) -> None:
        """A second passes, and everything under way takes one step."""
        self.now += timedelta(seconds=1)
        for one in self.agentctls:
            one.tick(self.now)
        self.ledger.looks()

    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # ---- calm --------------------------------------------------------------------------

    def heal(self) -> None:
        """Whatever is broken and can be mended is mended."""
        self.api.answers = self.api.secrets_answer = True
        self.host.starts = True
        self.operator.eyes.hidden = set()
        self.operator.late = []
        if self.api.stored(group.TASK, "t-1") is None:
            self.api.put(group.TASK, b.a_task())
        if self.api.stored(group.AGENT_PROFILE, "claude") is None:
            self.api.put(group.AGENT_PROFILE, b.a_profile())
        if self.plot.remote and self.host.find(REMOTE) is None:
            self.remote_restarts()
        for disk in self.host.disks.values():
            disk.agent.mood, disk.agent.answers_initialize = "well", True

    def settle(self) -> None:
        """Passes and ticks until nothing moves, and whatever is due within a while is done."""
        idle = 0
        for _ in range(SETTLE_ROUNDS):
            if self._one_round() or self._others_tidy_up():
                idle = 0
                continue
            idle += 1
            due = [at for key, at in self.operator.requeue.items() if key in self.api.objects]
            soon = min(due, default=self.now + PATIENCE)
            if idle > 1 and (soon >= self.now + PATIENCE or idle > IDLE_ROUNDS):
                return  # one idle round alone may have been a new operator's first look
            # Whoever only looks again every few seconds is not waited for so often.
            self.now = max(self.now, soon, self.now + timedelta(seconds=2**idle))
        raise Broken("no_flapping", "the world does not come to rest")

    def _others_tidy_up(self) -> bool:
        """Git applies the executor again, the garbage collector does its work."""
        if self.api.stored(group.EXECUTOR, "ex-a") is None:
            self._make_executor()
            return True
        before = len(self.api.objects)
        self.api.collect_garbage()
        deleting = any(each.metadata.is_deleting for each in self.api.objects.values())
        return deleting or len(self.api.objects) != before

    def _one_round(self) -> bool:
        """Whether anything moved."""
        before = (self.operator.writes, self._moving())
        acted = sum(self.seen.values())
        for key in self.keys:
            self.pass_over(key)
        self.tick()
        after = (self.operator.writes, self._moving())
        return before != after or acted != sum(self.seen.values())

    def _moving(self) -> tuple[object, ...]:
        for one in self.agentctls:  # turns end by themselves, sooner or later
            if one.phase is AgentPhase.RUNNING and one.served_journal.turn is not None:
                began = one.served_journal.turn.at
                if began < b.rfc3339(self.now - timedelta(seconds=5)):
                    one.end_turn(self.now)
        return tuple((one.boot_id, one.phase, one.disk.served) for one in self.agentctls)

    # ---- what befalls it ---------------------------------------------------------------

    def agent_dies(self, one: Agentctl) -> None:
        one.die(self.now)

    def process_is_killed(self, one: Agentctl) -> None:
        one.alive = False

    def remote_restarts(self) -> None:
        """The remote agentctl restarts in place: same identity, same address, another boot."""
        self.host.kill(REMOTE)
        made = self.host.start(REMOTE, REMOTE_ID)
        made.url = REMOTE_URL

    def journal_is_lost(self, disk: Disk) -> None:
        """agentctl's own memory is gone, with its process; the agent's files are not."""
        for one in self.agentctls:
            if one.disk is disk:
                one.alive = False
        self.ledger.forgets(disk)
        disk.journals, disk.served, disk.term = {}, None, 0
        disk.lives += 1

    def late_calls_arrive(self) -> None:
        """What a leader that froze had decided arrives now, with its old term."""
        late, self.operator.late = self.operator.late, []
        for call in late:
            if type(call.action).__name__ not in ("StartAgent", "StopAgent", "SendFirstPrompt"):
                continue
            try:
                self.operator.carry_out(call.o, call.action, call.term)
            except (Refused, Unavailable, NotFound):
                continue

    def person_wants(self, name: str, mode: OperatingMode) -> None:
        found = self.session(name)
        if found is not None and found.spec.operating_mode is not OperatingMode.FINISHED:
            self.api.change(group.TASK_SESSION, name, operating_mode=mode)

    def person_wishes(self, name: str, annotation: str) -> None:
        if self.session(name) is not None:
            self.wishes += 1
            self.api.annotate(name, annotation, f"wish-{self.wishes}")
            if annotation == group.ANNOTATION_FRESH_START_REQUESTED:
                self.ledger.wished_anew(name)

    def profile_changes(self, hash: str) -> None:
        self.profile_hash = self.operator.eyes.profile_hash = hash

    def session_is_made_again(self, name: str) -> None:
        """Deleted, and applied again under the same name: another UID, no status."""
        self.ledger.made_again(name)
        self.snapshot = None  # to go back before it would bring two sessions of one name to life
        self.api.delete(group.TASK_SESSION, name)
        self._make_session(name)

    def a_prompt_comes(self, one: Agentctl) -> None:
        self.wishes += 1
        kept = one.served_journal
        kept.prompts[f"p-{self.wishes}"] = "queued"
        kept.texts[f"p-{self.wishes}"] = f"words {self.wishes}"

    def take_snapshot(self) -> None:
        self.snapshot = self.api.snapshot()

    def restore_snapshot(self) -> None:
        self.ledger.restored(self.snapshot)
        self.api.restore(self.snapshot)
        self.restart_operator(leads_anew=False)
        self.operator.eyes.term = 1


Rule = Callable[[World], None]
