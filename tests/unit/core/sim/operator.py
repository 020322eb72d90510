"""A simulated operator: passes that observe, decide, act in order and write once.

A pass can be cut off at any point (`Crash`), work with an old cache or old probes, and its
agentctl calls that a crash left undone may still arrive later (`late`), as those of a leader do
that froze in the middle of a plan. Whatever it does is told to a `Witness`, which knows the rules.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.meta import ObjectMeta
from kandev_operator.core import actions as todo
from kandev_operator.core import executor as executor_rules
from kandev_operator.core import session as session_rules
from kandev_operator.core.intents import epoch_of
from kandev_operator.core.observed import ExecutorObserved, Failed, Found, SessionObserved
from kandev_operator.core.verdict import Plan
from unit.core.sim.agentctl import Agentctl, Refused
from unit.core.sim.cluster import ApiServer, Conflict, Host, Key, NotFound, Unavailable
from unit.core.sim.observing import Eyes

Observed = SessionObserved | ExecutorObserved


class Crash(Exception):
    """The operator's process ends here."""


class Witness(Protocol):
    """Is told of every act and every write, and objects to what must never be."""

    def acts(self, o: Observed, action: todo.Action) -> None: ...
    def writes(self, o: Observed, plan: Plan[Any]) -> None: ...


@dataclass(frozen=True)
class Late:
    """A call that was decided and not yet made."""

    o: Observed
    action: todo.Action
    term: int


class Operator:
    """One process. A new one has no probes, and a term above the last one's."""

    def __init__(
        self, api: ApiServer, host: Host, witness: Witness, seen: Counter[str], term: int
    ) -> None:
        self._api = api
        self._host = host
        self._witness = witness
        self._seen = seen
        self.eyes = Eyes(api, host)
        self.eyes.term = term
        self.late: list[Late] = []
        self.writes = 0
        self.requeue: dict[Key, datetime] = {}

    def run(
        self, key: Key, now: datetime, *, fresh: bool = True, crash_after: int | None = None
    ) -> None:
        """One pass over one object. With `crash_after`, the process ends after so many acts."""
        if fresh:
            self.eyes.sync()
            self._look(now)
        o = self._observe(key, now, None)
        if o is None:
            return
        plan = self._decide(o, now)
        trouble = self._act(o, plan.actions, crash_after)
        if trouble == "retry":
            self.requeue[key] = now + timedelta(seconds=1)
            return
        if isinstance(trouble, Failed):
            again = self._observe(key, now, trouble)
            assert again is not None
            o, plan = again, self._decide(again, now)
        if crash_after is not None:
            raise Crash
        self._write(key, o, plan)
        due = plan.requeue if plan.requeue is not None else timedelta(seconds=600)
        self.requeue[key] = now + due

    def _look(self, now: datetime) -> None:
        for name in [name for kind, name in self.eyes.cache if kind == group.EXECUTOR]:
            found: Any = self.eyes.cache[group.EXECUTOR, name]
            self.eyes.look(found, now)

    def _observe(self, key: Key, now: datetime, failed: Failed | None) -> Observed | None:
        kind, name = key
        if kind == group.TASK_SESSION:
            return self.eyes.session(name, now, failed)
        return self.eyes.executor(name, now, failed)

    def _decide(self, o: Observed, now: datetime) -> Plan[Any]:
        if isinstance(o, SessionObserved):
            return session_rules.decide_session(o, now)
        return executor_rules.decide_executor(o, now)

    def _write(self, key: Key, o: Observed, plan: Plan[Any]) -> None:
        if plan.status is None:
            return
        self._witness.writes(o, plan)
        about = o.session if isinstance(o, SessionObserved) else o.executor
        try:
            self.eyes.cache[key] = self._api.write_status(key[0], about, plan.status)
        except (Conflict, NotFound):
            return  # read through: the next pass syncs
        self.writes += 1

    # ---- acts --------------------------------------------------------------------------

    def _act(
        self, o: Observed, actions: tuple[todo.Action, ...], crash_after: int | None
    ) -> Failed | str | None:
        for number, action in enumerate(actions):
            if crash_after is not None and number >= crash_after:
                self.late = [Late(o, each, self.eyes.term) for each in actions[number:]]
                raise Crash
            self._seen[type(action).__name__] += 1
            self._witness.acts(o, action)
            try:
                failed = self.carry_out(o, action, self.eyes.term)
            except (Refused, Unavailable, NotFound):
                return "retry"
            if failed is not None:
                return failed
        return None

    def carry_out(self, o: Observed, action: todo.Action, term: int) -> Failed | None:
        """Do one thing; raises Refused or Unavailable where it does not come about."""
        if isinstance(o, SessionObserved):
            self._for_session(o, action, term)
            return None
        return self._for_executor(o, action, term)

    def _for_session(self, o: SessionObserved, action: todo.Action, term: int) -> None:
        meta = o.session.metadata
        match action:
            case todo.CreateExecutor(manifest=manifest):
                self._create(manifest)
            case todo.ConfigureAgent(epoch=epoch, adopt_from=adopt):
                assert isinstance(o.profile, Found)
                named = (meta.namespace, meta.name)
                hash = o.profile.value.hash
                self._ctl(o.executor).put_agent(meta.uid, named, adopt, hash, (term, epoch))
            case todo.StartAgent():
                token = action.token.value if action.token else None
                self._ctl(o.executor).start(
                    meta.uid, action.operation_id, action.mode, token, (term, action.epoch)
                )
            case todo.StopAgent(operation_id=op, epoch=epoch, session_uid=uid):
                self._ctl(o.executor).stop(uid, op, (term, epoch))
            case todo.SendFirstPrompt(prompt_id=prompt_id, text=text):
                self._ctl(o.executor).prompt(meta.uid, prompt_id, text, (term, epoch_of(o)))
            case todo.StoreToken(secret_name=name, token=token, epoch=epoch):
                self._api.store_token(name, token, epoch)
            case todo.RetireToken(secret_name=name, epoch=epoch):
                self._api.store_token(name, None, epoch)
            case todo.AdoptTerm(term=minimum):
                self.eyes.term = max(self.eyes.term, minimum) + 1
            case todo.DeleteSession():
                self._api.delete(group.TASK_SESSION, meta.name, meta.uid)
            case _:
                raise AssertionError(f"{action} is no action of a session")

    def _for_executor(self, o: ExecutorObserved, action: todo.Action, term: int) -> Failed | None:
        meta = o.executor.metadata
        local = o.executor.spec.local_standalone
        match action:
            case todo.DeleteExecutor():
                self._api.delete(group.EXECUTOR, meta.name, meta.uid)
            case todo.SetFinalizer(present=present):
                self._finalizer(o.executor, present)
            case todo.StartProcess(instance_id=instance):
                assert local is not None
                if not self._host.starts:
                    return Failed("StartProcess", "ProcessExited", "no room", fatal=False)
                self._host.start(local.worktree_path, instance)
            case todo.StopProcess():
                assert local is not None
                found = self._host.find(local.worktree_path)
                if found is not None:
                    found.shut_down()
            case todo.StopAgent(operation_id=op, epoch=epoch, session_uid=uid):
                self._ctl(Found(o.executor)).stop(uid, op, (term, epoch))
            case todo.AdoptTerm(term=minimum):
                self.eyes.term = max(self.eyes.term, minimum) + 1
            case _:
                raise AssertionError(f"{action} is no action of an executor")
        return None

    def _create(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        if self._api.stored(group.EXECUTOR, name) is not None:
            return
        made = Executor.from_body(manifest)
        self._api.version += 1
        meta: ObjectMeta = made.metadata.replacing(
            uid=f"uid-{name}-{self._api.version}", generation=1
        )
        self._api.put(group.EXECUTOR, made.replacing(metadata=meta))

    def _finalizer(self, executor: Executor, present: bool) -> None:
        name = executor.metadata.name
        current: Any = self._api.stored(group.EXECUTOR, name)
        if current is None or current.metadata.uid != executor.metadata.uid:
            return
        kept = tuple(each for each in current.metadata.finalizers if each != group.FINALIZER)
        wanted = (*kept, group.FINALIZER) if present else kept
        meta = current.metadata.replacing(finalizers=wanted)
        if meta.is_deleting and not wanted:
            del self._api.objects[group.EXECUTOR, name]
        else:
            self._api.put(group.EXECUTOR, current.replacing(metadata=meta))

    def _ctl(self, look: Any) -> Agentctl:
        """The agentctl at the address that status gives, under the identity that it pins."""
        assert isinstance(look, Found)
        executor: Executor = look.value
        if executor.metadata.name in self.eyes.hidden:
            raise Unavailable
        found = self._host.by_url(executor.status.agentctl_url or "")
        if found is None or executor.status.instance_id not in (None, found.instance_id):
            raise Unavailable
        return found
