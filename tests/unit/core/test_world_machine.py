"""Sessions in a world where everything dies, hides, comes late or is set back.

The machine lets things happen to a small simulated cluster (`sim`), and between them the operator
works, one pass at a time, cut off at any point. At every step the ledger holds what may never be;
after a calm spell status must be the world as it is, and cost no more writes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kandev_operator.api import group
from kandev_operator.api.session import OperatingMode, ResumeFailure, ResumePolicy
from kandev_operator.core.actions import ExecutorAction, SessionAction
from kandev_operator.core.observed import AgentPhase
from unit.core.sim import truth
from unit.core.sim.world import Plot, World

pytestmark = pytest.mark.unit

SEEN: Counter[str] = Counter()
NAMES = st.sampled_from("aabcc")
POLICIES = st.sampled_from([ResumePolicy.AUTO] * 4 + [ResumePolicy.ON_REQUEST, ResumePolicy.NEVER])
MOODS = st.sampled_from(["well", "error", "refuses", "login", "hangs", "exits", "another"])
ROUNDS = st.sampled_from([0, 1, 1, 2, 4])
LIVE = (AgentPhase.IDLE, AgentPhase.RUNNING)


def befalls(**drawn: Any) -> Callable[[Callable[..., None]], Any]:
    """One thing that happens to the world; after it the operator works for a while, or not."""

    def wrap(happens: Callable[..., None]) -> Any:
        def step(self: "WorldMachine", rounds: int = 0, **given: Any) -> None:
            happens(self, **given)
            self.work(rounds)

        step.__name__ = happens.__name__
        return rule(rounds=ROUNDS, **drawn)(step)

    return wrap


class WorldMachine(RuleBasedStateMachine):
    """What befalls the world; every rule is one thing."""

    world: World

    @initialize(
        remote=st.booleans(),
        policies=st.tuples(POLICIES, POLICIES, POLICIES),
        on_failure=st.sampled_from([ResumeFailure.ERROR] * 3 + [ResumeFailure.FRESH_CONVERSATION]),
        idle_timeout=st.sampled_from([None, None, 30]),
        ttl=st.sampled_from([None, 20]),
        can_resume=st.sampled_from([True, True, True, False]),
        started=st.booleans(),
    )
    def begin(
        self,
        remote: bool,
        policies: tuple[ResumePolicy, ResumePolicy, ResumePolicy],
        on_failure: ResumeFailure,
        idle_timeout: int | None,
        ttl: int | None,
        can_resume: bool,
        started: bool,
    ) -> None:
        plot = Plot(remote, policies, on_failure, idle_timeout, ttl, can_resume)
        self.world = World(plot, SEEN)
        if started:
            self.world.settle()

    # ---- the operator works ------------------------------------------------------------

    @rule(number=st.integers(0, 9), fresh=st.sampled_from([True, True, False]))
    def a_bare_pass(self, number: int, fresh: bool) -> None:
        if keys := self.world.keys:
            self.world.pass_over(keys[number % len(keys)], fresh=fresh)

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            for key in self.world.keys:
                self.world.pass_over(key)
            self.world.tick()

    @rule(rounds=st.sampled_from([1, 3, 8]))
    def passes_over_everything(self, rounds: int) -> None:
        self.work(rounds)

    @befalls(number=st.integers(0, 9), acts=st.integers(0, 3))
    def the_operator_dies_in_a_pass(self, number: int, acts: int) -> None:
        if keys := self.world.keys:
            self.world.pass_over(keys[number % len(keys)], crash_after=acts)

    @befalls(leads_anew=st.booleans())
    def the_operator_restarts(self, leads_anew: bool) -> None:
        self.world.restart_operator(leads_anew=leads_anew)

    @precondition(lambda self: self.world.operator.late)
    @befalls()
    def late_calls_of_a_frozen_leader_arrive(self) -> None:
        self.world.late_calls_arrive()
        self.world.ledger.looks()

    @befalls(above=st.integers(1, 3))
    def agentctl_has_seen_a_higher_term(self, above: int) -> None:
        for one in self.world.agentctls:
            one.disk.term = self.world.operator.eyes.term + above

    # ---- time --------------------------------------------------------------------------

    @befalls(seconds=st.sampled_from([1, 1, 1, 5, 20, 70, 700]))
    def time_passes(self, seconds: int) -> None:
        self.world.time_passes(seconds)

    @befalls(ticks=st.integers(1, 3))
    def agents_go_on(self, ticks: int) -> None:
        for _ in range(ticks):
            self.world.tick()

    # ---- agents ------------------------------------------------------------------------

    @befalls(number=st.integers(0, 2))
    def an_agent_dies(self, number: int) -> None:
        live = [one for one in self.world.agentctls if one.phase in LIVE]
        if live:
            live[number % len(live)].die(self.world.now)

    @befalls(number=st.integers(0, 2), completes=st.booleans())
    def a_person_prompts(self, number: int, completes: bool) -> None:
        live = [one for one in self.world.agentctls if one.phase is AgentPhase.IDLE]
        if live:
            one = live[number % len(live)]
            self.world.a_prompt_comes(one)
            one.tick(self.world.now)
            if completes and one.phase is AgentPhase.RUNNING:
                one.end_turn(self.world.now)
            self.world.ledger.looks()

    @befalls(mood=MOODS, shared=st.booleans())
    def an_agent_changes_its_mood(self, mood: str, shared: bool) -> None:
        path = self.world.shared_path if shared else "/trees/c"
        self.world.host.disk(path).agent.mood = mood

    @befalls(shared=st.booleans())
    def an_agent_does_not_initialize(self, shared: bool) -> None:
        path = self.world.shared_path if shared else "/trees/c"
        self.world.host.disk(path).agent.answers_initialize = False

    @befalls(mood=MOODS)
    def agents_die_and_come_back_in_a_mood(self, mood: str) -> None:
        for one in self.world.agentctls:
            one.disk.agent.mood = mood
            if one.phase in LIVE:
                one.die(self.world.now)
        self.work(3)

    @befalls(shared=st.booleans())
    def a_new_build_of_the_agent_does_not_initialize(self, shared: bool) -> None:
        """The profile changes, and whatever runs is replaced by what does not answer."""
        path = self.world.shared_path if shared else "/trees/c"
        self.world.host.disk(path).agent.answers_initialize = False
        self.world.profile_changes("h2" if self.world.profile_hash == "h1" else "h1")
        for one in self.world.agentctls:
            if one.phase in LIVE:
                one.die(self.world.now)

    @befalls(shared=st.booleans())
    def an_agent_loses_its_conversations(self, shared: bool) -> None:
        path = self.world.shared_path if shared else "/trees/c"
        self.world.host.disk(path).agent.stored.clear()

    # ---- executors ---------------------------------------------------------------------

    @befalls(number=st.integers(0, 2))
    def an_agentctl_is_killed(self, number: int) -> None:
        running = self.world.agentctls
        if running:
            self.world.process_is_killed(running[number % len(running)])

    @precondition(lambda self: self.world.plot.remote)
    @befalls()
    def the_remote_agentctl_restarts_in_place(self) -> None:
        self.world.remote_restarts()

    @befalls(shared=st.booleans())
    def a_journal_is_lost(self, shared: bool) -> None:
        path = self.world.shared_path if shared else "/trees/c"
        self.world.journal_is_lost(self.world.host.disk(path))

    @befalls(hidden=st.booleans(), number=st.integers(0, 1))
    def an_agentctl_hides_or_shows(self, hidden: bool, number: int) -> None:
        executors = [each.metadata.name for each in self.world.api.of_kind(group.EXECUTOR)]
        name = executors[number % len(executors)] if executors else ""
        if hidden:
            self.world.operator.eyes.hidden.add(name)
        else:
            self.world.operator.eyes.hidden.discard(name)

    @befalls(starts=st.booleans())
    def processes_can_be_started_or_not(self, starts: bool) -> None:
        self.world.host.starts = starts

    @befalls(drain=st.booleans())
    def the_executor_is_drained_or_used_again(self, drain: bool) -> None:
        if self.world.api.stored(group.EXECUTOR, "ex-a") is not None:
            self.world.api.change(group.EXECUTOR, "ex-a", drain=drain)

    @befalls(number=st.integers(0, 1), forced=st.booleans())
    def an_executor_is_deleted(self, number: int, forced: bool) -> None:
        executors = self.world.api.of_kind(group.EXECUTOR)
        if not executors:
            return
        meta = executors[number % len(executors)].metadata
        if forced and not self.world.plot.remote:
            # What a remote agent does when nobody is left to end it is its owner's affair.
            del self.world.api.objects[group.EXECUTOR, meta.name]
        else:
            self.world.api.delete(group.EXECUTOR, meta.name)

    # ---- the API server ----------------------------------------------------------------

    @befalls(answers=st.booleans(), secrets=st.booleans())
    def look_ups_fail_or_work_again(self, answers: bool, secrets: bool) -> None:
        self.world.api.answers, self.world.api.secrets_answer = answers, secrets

    @befalls(name=NAMES)
    def the_watch_lost_a_session_and_nobody_answers(self, name: str) -> None:
        self.world.the_watch_lost(name)

    @befalls()
    def a_snapshot_is_taken(self) -> None:
        self.world.take_snapshot()

    @precondition(lambda self: self.world.snapshot is not None)
    @befalls()
    def the_api_server_is_restored(self) -> None:
        self.world.restore_snapshot()

    @befalls(kind=st.sampled_from([group.TASK, group.AGENT_PROFILE]))
    def a_reference_vanishes(self, kind: str) -> None:
        for key in [key for key in self.world.api.objects if key[0] == kind]:
            del self.world.api.objects[key]

    # ---- people ------------------------------------------------------------------------

    @befalls(
        name=NAMES,
        mode=st.sampled_from(
            [
                OperatingMode.RUNNING,
                OperatingMode.RUNNING,
                OperatingMode.SUSPENDED,
                OperatingMode.SUSPENDED,
                OperatingMode.WORKSPACE_ONLY,
            ]
        ),
    )
    def a_person_sets_the_mode(self, name: str, mode: OperatingMode) -> None:
        self.world.person_wants(name, mode)

    @befalls(name=NAMES, sleeps=st.integers(3, 7))
    def a_person_lets_it_sleep_and_wakes_it(self, name: str, sleeps: int) -> None:
        for mode in (OperatingMode.SUSPENDED, OperatingMode.RUNNING):
            self.world.person_wants(name, mode)
            self.work(sleeps)

    @befalls(name=NAMES)
    def a_person_begins_anew_and_then_lets_it_sleep(self, name: str) -> None:
        self.world.person_wishes(name, group.ANNOTATION_FRESH_START_REQUESTED)
        self.work(8)
        self.world.person_wants(name, OperatingMode.SUSPENDED)
        self.work(3)

    @befalls(name=NAMES)
    def a_person_finishes_a_session(self, name: str) -> None:
        self.world.person_wants(name, OperatingMode.FINISHED)

    @befalls(name=NAMES)
    def a_finished_session_outlives_its_time(self, name: str) -> None:
        self.world.person_wants(name, OperatingMode.FINISHED)
        self.work(8)
        self.world.time_passes(70)
        self.work(2)

    @befalls(name=NAMES)
    def a_person_wishes_a_resume(self, name: str) -> None:
        self.world.person_wishes(name, group.ANNOTATION_RESUME_REQUESTED)

    @befalls(name=NAMES)
    def a_person_wishes_a_fresh_start(self, name: str) -> None:
        self.world.person_wishes(name, group.ANNOTATION_FRESH_START_REQUESTED)

    @befalls(name=NAMES)
    def a_fresh_start_is_carried_out(self, name: str) -> None:
        self.world.person_wishes(name, group.ANNOTATION_FRESH_START_REQUESTED)
        self.work(8)

    @befalls(name=NAMES)
    def a_session_is_deleted_and_applied_again(self, name: str) -> None:
        self.world.session_is_made_again(name)

    @befalls(hash=st.sampled_from(["h1", "h2"]))
    def the_profile_changes(self, hash: str) -> None:
        self.world.profile_changes(hash)

    @rule(mood=st.sampled_from(["short", "short", "error", "hangs", "exits", "login"]))
    def no_agent_comes_up_or_stays(self, mood: str) -> None:
        """No agent comes up, or none stays: the operator gives up and does not try for ever."""
        self.world.heal()
        for disk in self.world.host.disks.values():
            disk.agent.mood = mood
        for one in self.world.agentctls:
            if one.phase in LIVE:
                one.die(self.world.now)
        self.world.settle()
        truth.check(self.world)

    # ---- a calm spell ------------------------------------------------------------------

    @rule(asks=st.booleans())
    def calm(self, asks: bool) -> None:
        """Everything is mended and comes to rest; perhaps somebody asks for the agents."""
        world = self.world
        world.heal()
        world.settle()
        truth.check(world)
        truth.nothing_is_written(world)
        if asks:
            for name in "abc":
                world.person_wishes(name, group.ANNOTATION_RESUME_REQUESTED)
            world.settle()
            truth.check(world)
            truth.wishes_are_granted(world)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.calm(asks=True)


def play(examples: int, steps: int) -> settings:
    """Always the same histories, and they are not made smaller, which would take minutes: whoever
    meets a failure leaves `phases` out."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def test_the_world_keeps_its_promises_and_every_action_is_seen() -> None:
    SEEN.clear()
    run_state_machine_as_test(WorldMachine, settings=play(50, 30))
    wanted = {each.__name__ for union in (SessionAction, ExecutorAction) for each in union.__args__}
    wanted -= {
        "CreateClaim",
        "CreatePod",
        "DeletePod",
        "FollowTemplate",
        *("PullImage", "RunContainer", "StartContainer", "RemoveContainer", "RemoveVolume"),
    }  # pods and containers have stages and worlds of their own
    assert set(SEEN) == wanted, wanted - set(SEEN)
