"""What must never be, written down by somebody who sees everything.

The ledger is told of every act before it is done, of every conversation that an agent is asked to
open, and of every write of status; it raises `Broken`, with the invariant's name, where one does
not hold. It knows more than any operator: whose agent lives where, which tokens were retired and
who asked for it.
"""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from invariants import Broken, shows_no_token, status_is_well_formed
from kandev_operator.api import conditions, group
from kandev_operator.api.session import ResumeFailure
from kandev_operator.core import actions as todo
from kandev_operator.core.intents import token_secret_name
from kandev_operator.core.observed import (
    ExecutorObserved,
    Found,
    SessionObserved,
)
from kandev_operator.core.verdict import Plan
from unit.core.sim.disk import Disk, Wish

if TYPE_CHECKING:
    from unit.core.sim.world import World

Observed = SessionObserved | ExecutorObserved
SECRET_WORD = "tok-secret"


class Ledger:
    """The witness of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.openings: Counter[tuple[str, int, int]] = Counter()
        self.tickets: Counter[str] = Counter()
        """Fresh starts that a person asked for and that were not begun yet, by session."""
        self.begun: dict[str, set[str]] = defaultdict(set)
        self.retired: dict[str, set[str]] = defaultdict(set)
        self.owed: set[str] = set()
        """Sessions whose fresh start was wished and not begun yet."""
        self.amnesia: set[str] = set()
        """Sessions whose journal was lost: only their status remembers what was sent."""

    # ---- told by the operator ----------------------------------------------------------

    def acts(self, o: Observed, action: todo.Action) -> None:
        shows_no_token(repr(action), SECRET_WORD)
        match action:
            case todo.ConfigureAgent() | todo.StartAgent() | todo.SendFirstPrompt():
                assert isinstance(o, SessionObserved)
                self._both_sides_point_at_each_other(o)
            case todo.StopAgent(session_uid=uid) if isinstance(o, ExecutorObserved):
                self._only_who_must_go_is_stopped(o, uid)
            case todo.StopAgent(session_uid=uid) if uid != o.session.metadata.uid:
                raise Broken("others_never_change", "a session stops another one's agent")
            case todo.DeleteExecutor():
                assert isinstance(o, ExecutorObserved)
                self._owner_is_gone(o)
            case todo.StopProcess():
                assert isinstance(o, ExecutorObserved)
                self._no_workspace_is_lost(o)
        if isinstance(action, todo.StartAgent) and action.mode == "new":
            assert isinstance(o, SessionObserved)
            self._history_is_not_dropped(o, action)
        if isinstance(action, todo.RetireToken):
            assert isinstance(o, SessionObserved)
            self._retires(o)

    def writes(self, o: Observed, plan: Plan[Any]) -> None:
        status = plan.status
        about = o.session if isinstance(o, SessionObserved) else o.executor
        status_is_well_formed(about, status)
        shows_no_token(repr(status.dump()) + repr(plan.notices), SECRET_WORD)

    def _both_sides_point_at_each_other(self, o: SessionObserved) -> None:
        executor = o.executor.value if isinstance(o.executor, Found) else None
        ref, held = o.session.status.executor_ref, executor and executor.status.session_ref
        there = executor is not None and ref is not None and ref.uid == executor.metadata.uid
        back = held is not None and held.uid == o.session.metadata.uid
        if not (there and back):
            raise Broken("one_executor_per_session", "acts before both point at each other")

    def _only_who_must_go_is_stopped(self, o: ExecutorObserved, uid: str) -> None:
        executor = o.executor
        held = executor.status.session_ref
        if held is None or uid != held.uid:
            self._is_no_business_here(o, uid)
            return
        current = self._world.session(held.name)
        gone = current is None or current.metadata.uid != held.uid
        left = isinstance(o.bound, Found) and (
            o.bound.value.status.executor_ref is None
            or o.bound.value.status.executor_ref.uid != executor.metadata.uid
        )
        if not (gone or left or executor.spec.drain or executor.metadata.is_deleting):
            raise Broken("others_never_change", "an agent is stopped that nobody let go")

    def _is_no_business_here(self, o: ExecutorObserved, uid: str) -> None:
        found = [
            each for each in self._world.api.of_kind(group.TASK_SESSION) if each.metadata.uid == uid
        ]
        over = ("Finished", "Suspended")
        if found and not any(conditions.is_true(found[0].status.conditions, t) for t in over):
            raise Broken("others_never_change", "the agent of a session that goes on is stopped")

    def _owner_is_gone(self, o: ExecutorObserved) -> None:
        owner = o.executor.metadata.controller
        assert owner is not None
        uids = {each.metadata.uid for each in self._world.api.objects.values()}
        if owner.uid in uids:
            raise Broken("unknown_deletes_nothing", "an executor is deleted whose session lives")

    def _no_workspace_is_lost(self, o: ExecutorObserved) -> None:
        held = o.executor.status.session_ref
        current = self._world.session(held.name) if held else None
        if held is None or current is None or current.metadata.uid != held.uid:
            return
        ours = o.process.value.instance_id if isinstance(o.process, Found) else ""
        stranger = not ours.startswith(o.executor.metadata.uid)
        finished = current.status.executor_ref is None
        if not (o.executor.metadata.is_deleting or stranger or finished):
            raise Broken("workspace_is_never_lost", "agentctl is ended under a bound session")

    def _history_is_not_dropped(self, o: SessionObserved, action: todo.StartAgent) -> None:
        """A new conversation in place of one with turns: only as a fresh start."""
        meta, intent = o.session.metadata, o.session.status.intent
        fresh = intent is not None and intent.kind == "FreshStart"
        if fresh:
            self._is_asked_for(meta.name, action.operation_id, o)
            return
        journal = self._journal(meta.uid)
        kept = self._world.api.secrets.get(self._secret_name(o))
        known = [each for each in (journal and journal.token, kept and kept.token) if each]
        if any(each.established for each in known):
            raise Broken("token_is_never_replaced", "a history is dropped without a fresh start")

    def _is_asked_for(self, name: str, operation_id: str, o: SessionObserved) -> None:
        self.begun[name].add(operation_id)
        self.owed.discard(name)
        if o.session.spec.resume.on_failure is ResumeFailure.FRESH_CONVERSATION:
            self._is_definite(o)
            return
        journal = self._journal(o.session.metadata.uid)
        known = journal.operations if journal is not None else {}
        done = [each for each in self.begun[name] if each in known]
        if sum(known[each].state == "succeeded" for each in done) >= self.tickets[name]:
            raise Broken("token_is_never_replaced", "a fresh start that nobody asked for")

    def _is_definite(self, o: SessionObserved) -> None:
        """`FreshConversation` is for conversations that certainly cannot be resumed."""
        name, journal = o.session.metadata.name, self._journal(o.session.metadata.uid)
        if journal is None or self.tickets[name] or journal.token is None:
            return
        agent = next(
            one.disk.agent for one in self._world.agentctls if journal.uid in one.disk.journals
        )
        if agent.can_resume and journal.token.value in agent.stored:
            raise Broken("token_is_never_replaced", "fresh, and the agent has the conversation")

    def _retires(self, o: SessionObserved) -> None:
        intent = o.session.status.intent
        if intent is None or intent.kind != "FreshStart":
            raise Broken("token_is_never_replaced", "a token is retired without a fresh start")
        name, journal = o.session.metadata.name, self._journal(o.session.metadata.uid)
        kept = self._world.api.secrets.get(self._secret_name(o))
        before = [each for each in (journal and journal.token, kept and kept.token) if each]
        epoch = int(intent.operation_id.rpartition("-")[2])
        if any(each.epoch >= epoch and each.established for each in before):
            raise Broken("token_is_never_replaced", "an old fresh start retires a newer token")
        if self._world.api.secrets_answer:  # else the Secret keeps it, and it is tried again
            self.retired[name] |= {each.value for each in before}

    # ---- told by agentctl --------------------------------------------------------------

    def opens(self, uid: str, life: int, wish: Wish) -> None:
        """The agent is asked to open a conversation: once for each intent."""
        self.openings[uid, life, wish.epoch] += 1
        if self.openings[uid, life, wish.epoch] > 1:
            raise Broken("one_opening_per_intent", f"epoch {wish.epoch} opens a second one")

    # ---- told by the world -------------------------------------------------------------

    def forgets(self, disk: Disk) -> None:
        """This disk's journals are about to be lost."""
        for journal in disk.journals.values():
            self.amnesia.add(journal.name)
            current = self._world.session(journal.name)
            if current is None or current.status.first_prompt is None:
                self._may_hear_again(journal.name)

    def wished_anew(self, name: str) -> None:
        """A person asks for a fresh start; on an object never looked at it would not count."""
        self.tickets[name] += 1
        current = self._world.session(name)
        if current is not None and current.status.conditions:
            self.owed.add(name)

    def made_again(self, name: str) -> None:
        """The session gets another UID and no status."""
        self.begun[name] = set()
        self.tickets[name] = 0
        self.owed.discard(name)
        if name in self.amnesia:
            self._may_hear_again(name)

    def restored(self, snapshot: Any) -> None:
        """Everything the API server knew is older now."""
        self.retired.clear()
        self.owed.clear()
        for name in "abc":
            self.begun[name] = set()
            self.tickets[name] += 1  # a wish that was answered may stand there unanswered again
            if name in self.amnesia:
                self._may_hear_again(name)

    def _may_hear_again(self, name: str) -> None:
        for disk in self._world.host.disks.values():
            for key in [key for key in disk.agent.heard if key.startswith(f"{name}/")]:
                disk.agent.heard[key] = 0

    # ---- looked at after every step ----------------------------------------------------

    def looks(self) -> None:
        lives = Counter(one.live_session for one in self._world.agentctls if one.live_session)
        for uid, number in lives.items():
            if number > 1:
                raise Broken("one_agent_per_session", f"{number} agents of session {uid}")
        held = Counter(
            each.status.session_ref.uid
            for each in self._world.api.of_kind(group.EXECUTOR)
            if each.status.session_ref is not None
        )
        for uid, number in held.items():
            if number > 1:
                raise Broken("one_executor_per_session", f"{number} executors hold {uid}")
        for disk in self._world.host.disks.values():
            twice = [key for key, number in disk.agent.heard.items() if number > 1]
            if twice:
                raise Broken("no_prompt_twice", f"{twice[0]} was handed over again")
        for name, values in self.retired.items():
            self._stays_retired(name, values)

    def _stays_retired(self, name: str, values: set[str]) -> None:
        current = self._world.session(name)
        if current is None:
            return
        secret = token_secret_name(name, current.metadata.uid)
        kept = self._world.api.secrets.get(secret)
        if kept is not None and kept.token is not None and kept.token.value in values:
            raise Broken("token_is_never_replaced", "a retired token is back")

    # ---- help --------------------------------------------------------------------------

    def _journal(self, uid: str) -> Any:
        for one in self._world.agentctls:
            if uid in one.disk.journals:
                return one.disk.journals[uid]
        return None

    def _secret_name(self, o: SessionObserved) -> str:
        return token_secret_name(o.session.metadata.name, o.session.metadata.uid)
