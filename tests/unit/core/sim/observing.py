"""What a simulated operator sees: the observer and the prober in small, with the same habits.

The Secret is looked at only where the journal has no token to give; "positively gone" is asked of
the API server itself; nobody is asked whose address is not known. Looks can be old: a probe that
is not refreshed tells what was seen before.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from kandev_operator.api import group
from kandev_operator.api.executor import Executor, Runtime
from kandev_operator.api.meta import Resource
from kandev_operator.api.session import TaskSession
from kandev_operator.core.binding import executor_name, owner_of
from kandev_operator.core.intents import token_secret_name
from kandev_operator.core.observed import (
    Answer,
    ExecutorObserved,
    Failed,
    Found,
    Look,
    Missing,
    Probe,
    ProcessSeen,
    ProfileSeen,
    SessionObserved,
    TokenSeen,
    Unreadable,
)
from unit.core.sim.cluster import ApiServer, Host, Key, NotFound, Unavailable

OVER = ("COMPLETED", "CANCELLED")


class Eyes:
    """The cache and the probes of one operator process."""

    def __init__(self, api: ApiServer, host: Host) -> None:
        self._api = api
        self._host = host
        self.cache: dict[Key, Resource] = dict(api.objects)
        self.probes: dict[str, Probe] = {}
        self.hidden: set[str] = set()
        """Executors, by name, whose agentctl cannot be reached from here."""
        self.profile_hash = "h1"
        self.term = 1

    def sync(self) -> None:
        """The watch has caught up."""
        self.cache = dict(self._api.objects)

    def session(
        self, name: str, now: datetime, failed: Failed | None = None
    ) -> SessionObserved | None:
        session: Any = self.cache.get((group.TASK_SESSION, name))
        if session is None:
            return None
        ref = session.status.executor_ref
        executor = self._cached(group.EXECUTOR, ref.name if ref else executor_name(session))
        if isinstance(executor, Missing) and ref is None:
            executor = self._cached(group.EXECUTOR, executor_name(session))
        probe = Probe()
        if isinstance(executor, Found) and ref and executor.value.metadata.uid == ref.uid:
            probe = self.probes.get(ref.uid, Probe())
        return SessionObserved(
            session=session,
            task=self._cached(group.TASK, session.spec.task_ref.name),
            profile=self._profile(session),
            executor=executor,
            probe=probe,
            secret=self._secret(session, probe),
            first_prompt=self._first_prompt(session, probe),
            term=self.term,
            failed=failed,
        )

    def executor(
        self, name: str, now: datetime, failed: Failed | None = None
    ) -> ExecutorObserved | None:
        executor: Any = self.cache.get((group.EXECUTOR, name))
        if executor is None:
            return None
        process = self._process(executor)
        owner = self._owner(executor)
        self._follow(executor, process)
        return ExecutorObserved(
            executor=executor,
            probe=self.probes.get(executor.metadata.uid, Probe()),
            process=process,
            problem=None,
            claimant=self._claimant(executor, owner),
            owner=owner,
            bound=self._bound(executor),
            term=self.term,
            failed=failed,
            served=self._served(executor),
        )

    # ---- the prober --------------------------------------------------------------------

    def _follow(self, executor: Executor, process: Look[ProcessSeen]) -> None:
        url = executor.status.agentctl_url
        local = executor.spec.runtime is Runtime.LOCAL_STANDALONE
        moved = local and not (isinstance(process, Found) and process.value.url == url)
        if url is None or moved:
            self.probes.pop(executor.metadata.uid, None)
        else:
            self.probes.setdefault(executor.metadata.uid, Probe())

    def look(self, executor: Executor, now: datetime) -> None:
        """Ask one agentctl anew, if it is followed."""
        uid = executor.metadata.uid
        before = self.probes.get(uid)
        if before is None:
            return
        ctl = self._host.by_url(executor.status.agentctl_url or "")
        if ctl is None or executor.metadata.name in self.hidden:
            self.probes[uid] = self._missed(before, Answer.UNREACHABLE, now)
            return
        if executor.status.instance_id not in (None, ctl.instance_id):
            self.probes[uid] = self._missed(before, Answer.FOREIGN, now)
            return
        self.probes[uid] = Probe(
            answer=Answer.WELL, last_seen=now, report=ctl.report(), is_checked=True
        )

    def _missed(self, before: Probe, answer: Answer, now: datetime) -> Probe:
        first = before.failing_since if before.answer is not Answer.WELL else None
        return replace(before, answer=answer, failing_since=first or now, message="refused")

    # ---- looks -------------------------------------------------------------------------

    def _cached(self, kind: str, name: str) -> Look[Any]:
        body = self.cache.get((kind, name))
        return Missing() if body is None else Found(body)

    def _profile(self, session: TaskSession) -> Look[ProfileSeen]:
        look = self._cached(group.AGENT_PROFILE, session.spec.agent_profile_ref.name)
        if not isinstance(look, Found):
            return look
        return Found(ProfileSeen(look.value, self.profile_hash))

    def _secret(self, session: TaskSession, probe: Probe) -> Look[TokenSeen] | None:
        report = probe.report if probe.answer is Answer.WELL else None
        if report is None or report.is_live:
            return None
        if report.session_uid == session.metadata.uid and report.token is not None:
            return None
        if not self._api.secrets_answer:
            return Unreadable("the API server does not answer")
        name = token_secret_name(session.metadata.name, session.metadata.uid)
        kept = self._api.secrets.get(name)
        if kept is None or kept.token is None:
            return Missing()
        return Found(replace(kept.token, established=True, epoch=kept.epoch))

    def _first_prompt(self, session: TaskSession, probe: Probe) -> Look[str]:
        prompt, known = session.spec.prompt, session.status.first_prompt
        live = probe.report is not None and probe.report.is_live
        if prompt is None or not live or (known is not None and known.fate is not None):
            return Missing()
        return Found(prompt.text or "")

    def _process(self, executor: Executor) -> Look[ProcessSeen]:
        local = executor.spec.local_standalone
        found = self._host.find(local.worktree_path) if local else None
        if found is None:
            return Missing()
        return Found(ProcessSeen(found.url, 77, found.instance_id, found.boot_id))

    def _claimant(self, executor: Executor, owner: Look[TaskSession]) -> TaskSession | None:
        uid = executor.metadata.uid
        if owner_of(executor) is not None:
            if not isinstance(owner, Found) or owner.value.metadata.is_deleting:
                return None
            ref = owner.value.status.executor_ref
            mine = ref is None or ref.uid == uid
            return owner.value if mine and owner.value.status.state not in OVER else None
        waiting = [
            each
            for (kind, _), each in sorted(self.cache.items())
            if isinstance(each, TaskSession)
            and not each.metadata.is_deleting
            and each.status.executor_ref is not None
            and each.status.executor_ref.uid == uid
        ]
        return min(
            waiting,
            key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid),
            default=None,
        )

    def _owner(self, executor: Executor) -> Look[TaskSession]:
        owner = owner_of(executor)
        return self._by_uid(owner.name, owner.uid) if owner else Unreadable("made by nobody")

    def _bound(self, executor: Executor) -> Look[TaskSession]:
        ref = executor.status.session_ref
        return self._by_uid(ref.name, ref.uid) if ref else Unreadable("nobody is bound")

    def _served(self, executor: Executor) -> Look[TaskSession]:
        report = self.probes.get(executor.metadata.uid, Probe()).report
        held = executor.status.session_ref
        if report is None or report.session_uid in (None, held and held.uid):
            return Unreadable("nobody else is served")
        return self._by_uid(report.session_name or "", report.session_uid or "")

    def _by_uid(self, name: str, uid: str) -> Look[TaskSession]:
        look = self._cached(group.TASK_SESSION, name)
        if isinstance(look, Found) and look.value.metadata.uid == uid:
            return look
        try:
            found: Any = self._api.read(group.TASK_SESSION, name)
        except NotFound:
            return Missing()
        except Unavailable:
            return Unreadable("the API server does not answer")
        return Found(found) if found.metadata.uid == uid else Missing()
