"""Everything a decision may know about one object, gathered at one instant; failures are values.

Reads the cache, the prober's newest answers, this machine's processes and, only where a decision
needs them, Secrets and ConfigMaps. "Positively gone" is asked of the API server itself: a cache
that lacks an object proves nothing. Observing starts nothing and stops nothing; it only tells the
prober whom to follow.
"""

from typing import Any

from kandev_operator.api import conditions, group
from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor, Runtime
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.reasons import AgentctlReadyReason
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.clients.errors import ClientError, NotFound
from kandev_operator.clients.resources import CONFIG_MAPS, SECRETS, TASK_SESSIONS
from kandev_operator.controller.callers import target_of
from kandev_operator.controller.docker import DockerEyes
from kandev_operator.controller.folders import LocalEyes
from kandev_operator.controller.models import stored
from kandev_operator.controller.pods import PodEyes
from kandev_operator.controller.profiles import ProfileResolver
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core.binding import executor_name, owner_of
from kandev_operator.core.intents import token_secret_name
from kandev_operator.core.lifecycle import fresh_start_wished, resume_wished
from kandev_operator.core.observed import (
    Answer,
    DockerSeen,
    ExecutorObserved,
    Failed,
    Found,
    Look,
    Missing,
    PodsSeen,
    Probe,
    ProcessSeen,
    ProfileSeen,
    RuntimeProblem,
    SessionObserved,
    TokenSeen,
    Unreadable,
)


class Observer:
    """Gathers observations for one operator process."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring
        self._local = LocalEyes(wiring)
        self._pods = PodEyes(wiring)
        self._docker = DockerEyes(wiring, self._session)
        self.profiles = ProfileResolver(wiring.secrets)

    async def session(self, session: TaskSession, failed: Failed | None) -> SessionObserved:
        """All that a session's decision may know."""
        namespace = session.metadata.namespace
        ref = session.status.executor_ref
        executor = self._model(
            Executor,
            group.EXECUTOR,
            namespace,
            ref.name if ref else executor_name(session),
        )
        if isinstance(executor, Missing) and ref is None:
            executor = self._model(Executor, group.EXECUTOR, namespace, executor_name(session))
        probe = Probe()
        if isinstance(executor, Found) and ref and executor.value.metadata.uid == ref.uid:
            probe = self._w.prober.probe(ref.uid)
        return SessionObserved(
            session=session,
            task=self._model(Task, group.TASK, namespace, session.spec.task_ref.name),
            profile=await self._profile(session),
            executor=executor,
            probe=probe,
            secret=await self._secret(session, probe),
            first_prompt=await self._first_prompt(session, probe),
            term=self._w.lease.term,
            failed=failed,
            platform=self._w.settings.platform,
            **await self._pods.claim(session, executor, probe),
        )

    async def executor(self, executor: Executor, failed: Failed | None) -> ExecutorObserved:
        """All that an executor's decision may know; follows its agentctl from now on."""
        problem = self._problem(executor)
        process = self._local.process(executor, problem)
        pod = executor.spec.runtime is Runtime.POD
        bound = await self._bound(executor)
        owner = await self._owner(executor)
        claimant = self._claimant(executor, owner)
        session = bound.value if isinstance(bound, Found) else claimant
        docker = DockerSeen()
        if executor.spec.local_docker is not None:
            docker = await self._docker.view(executor, session)
        self._follow(executor, process, docker)
        task_uid = None
        if session is not None:
            name = session.spec.task_ref.name
            task = self._w.cache.get(group.TASK, executor.metadata.namespace, name)
            task_uid = task["metadata"].get("uid") if task else None
        probe = self._w.prober.probe(executor.metadata.uid)
        return ExecutorObserved(
            executor=executor,
            probe=probe,
            process=process,
            problem=problem,
            claimant=claimant,
            owner=owner,
            bound=bound,
            term=self._w.lease.term,
            rivals=self._local.rivals(executor),
            keeps=self._local.keeps(executor),
            task_uid=task_uid,
            failed=failed,
            pods=await self._pods.view(executor, session, probe) if pod else PodsSeen(),
            docker=docker,
            served=await self._served(executor),
        )

    def _follow(self, executor: Executor, process: Look[ProcessSeen], docker: DockerSeen) -> None:
        """Tell the prober whom to look at; nobody, where there is no address or no process."""
        if executor.spec.runtime is Runtime.LOCAL_STANDALONE:
            # Where the process is now: status learns it together with the news that it answers.
            seen = process.value if isinstance(process, Found) else None
            status = executor.status.replacing(agentctl_url=seen.url if seen else None)
            executor = executor.replacing(status=status)
        if executor.spec.runtime is Runtime.POD:
            executor = self._pods.addressed(executor)
        if executor.spec.runtime is Runtime.LOCAL_DOCKER:
            executor = self._docker.addressed(executor, docker)
        held = executor.status.session_ref
        target = target_of(executor, held.uid if held else None)
        unpinned = executor.status.instance_id is None and not _tells_its_own_id(executor)
        if target is None or unpinned:
            self._w.prober.forget(executor.metadata.uid)
        else:
            self._w.prober.track(executor.metadata.uid, target)

    def _model(self, model: type[Any], kind: str, namespace: str, name: str) -> Look[Any]:
        return stored(self._w.cache, model, kind, namespace, name)

    async def _profile(self, session: TaskSession) -> Look[ProfileSeen]:
        look: Look[AgentProfile] = self._model(
            AgentProfile,
            group.AGENT_PROFILE,
            session.metadata.namespace,
            session.spec.agent_profile_ref.name,
        )
        if not isinstance(look, Found):
            return look
        # Who asks for a new try has often just renewed a key: the old one must not be tried.
        asked = resume_wished(session) or fresh_start_wished(session)
        return await self.profiles.look(look.value, fresh=asked)

    async def _secret(self, session: TaskSession, probe: Probe) -> Look[TokenSeen] | None:
        """The token's Secret, looked at only where agentctl's journal does not settle the matter.

        It does not when it has no token, nor when it names another one than status does: a volume
        that was set back to before a fresh start still has the token that was retired by it.
        """
        report = probe.report if probe.answer is Answer.WELL else None
        if report is None or report.is_live:
            return None
        meta, kept = session.metadata, session.status.resume_token_ref
        token = report.token if report.session_uid == meta.uid else None
        if token is not None and (
            kept is None or token.sha256.startswith(kept.sha256_prefix or token.sha256)
        ):
            return None
        return await self._w.secrets.token(meta.namespace, token_secret_name(meta.name, meta.uid))

    async def _first_prompt(self, session: TaskSession, probe: Probe) -> Look[str]:
        prompt, known = session.spec.prompt, session.status.first_prompt
        live = probe.report is not None and probe.report.is_live
        if prompt is None or not live or (known is not None and known.fate is not None):
            return Missing()
        if prompt.text is not None:
            return Found(prompt.text)
        source = prompt.from_
        if source is None:
            return Missing()
        namespace = session.metadata.namespace
        if source.config_map_key_ref is not None:
            ref = source.config_map_key_ref
            return await self._w.secrets.value(CONFIG_MAPS, namespace, ref.name, ref.key)
        secret = source.secret_key_ref
        if secret is None:
            return Missing()
        return await self._w.secrets.value(SECRETS, namespace, secret.name, secret.key)

    def _problem(self, executor: Executor) -> RuntimeProblem | None:
        """What keeps an executor from running as specified, before anybody is asked."""
        if executor.spec.remote is not None:
            refusal = self._w.settings.remote_refusal(executor.spec.remote.url)
            if refusal is None:
                return None
            return RuntimeProblem(AgentctlReadyReason.NOT_ALLOWED, f"spec.remote.url: {refusal}.")
        if executor.spec.local_standalone is not None:
            return self._local.problem(executor)
        docker = executor.spec.local_docker
        if docker is None:
            return None
        refusal = self._w.settings.docker_refusal(executor.metadata.namespace, docker)
        if refusal is None:
            return None
        return RuntimeProblem(AgentctlReadyReason.NOT_ALLOWED, refusal)

    def _claimant(self, executor: Executor, owner: Look[TaskSession]) -> TaskSession | None:
        """Who is to be let in next: the owner, or the oldest session that points here."""
        if owner_of(executor) is not None:
            if not isinstance(owner, Found) or owner.value.metadata.is_deleting:
                return None
            ref = owner.value.status.executor_ref
            mine = ref is None or ref.uid == executor.metadata.uid
            over = owner.value.status.state in ("COMPLETED", "CANCELLED")
            asleep = conditions.is_true(owner.value.status.conditions, "Suspended")
            over = over or (ref is None and asleep)
            return owner.value if mine and not over else None
        meta = executor.metadata
        waiting: list[TaskSession] = []
        for name in self._w.cache.sessions_of(group.EXECUTOR, meta.namespace, meta.name):
            look = self._model(TaskSession, group.TASK_SESSION, meta.namespace, name)
            if not isinstance(look, Found) or look.value.metadata.is_deleting:
                continue
            ref = look.value.status.executor_ref
            if ref is not None and ref.uid == meta.uid:
                waiting.append(look.value)
        return min(
            waiting,
            key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid),
            default=None,
        )

    async def _owner(self, executor: Executor) -> Look[TaskSession]:
        owner = owner_of(executor)
        if owner is None:
            return Unreadable("made by nobody")
        return await self._session(executor.metadata.namespace, owner.name, owner.uid)

    async def _bound(self, executor: Executor) -> Look[TaskSession]:
        ref = executor.status.session_ref
        if ref is None:
            return Unreadable("nobody is bound")
        return await self._session(executor.metadata.namespace, ref.name, ref.uid)

    async def _served(self, executor: Executor) -> Look[TaskSession]:
        """Whose agent lives here, where that is not the session that is bound.

        Nothing is concluded about sessions of another namespace, nor where another executor has
        the same address: whoever is bound there decides.
        """
        nobody: Look[TaskSession] = Unreadable("nobody else is served")
        meta, held = executor.metadata, executor.status.session_ref
        probe = self._w.prober.probe(meta.uid)
        report = probe.report if probe.answer is Answer.WELL else None
        if report is None or report.session_uid is None or not report.has_process:
            return nobody
        mine = held is not None and held.uid == report.session_uid
        if mine or report.session_name is None or report.session_namespace != meta.namespace:
            return nobody
        if self._w.cache.shares_address(meta.uid, executor.status.agentctl_url):
            return Unreadable("another executor has the same address")
        return await self._session(meta.namespace, report.session_name, report.session_uid)

    async def _session(self, namespace: str, name: str, uid: str) -> Look[TaskSession]:
        """A session by name and UID; Missing only when the API server itself says so."""
        look: Look[TaskSession] = self._model(TaskSession, group.TASK_SESSION, namespace, name)
        if isinstance(look, Unreadable):
            return look
        if isinstance(look, Found) and look.value.metadata.uid == uid:
            return look
        try:
            body = await self._w.kube.get(TASK_SESSIONS, namespace, name, timeout=5)
        except NotFound:
            return Missing()
        except (ClientError, TimeoutError) as error:
            return Unreadable(type(error).__name__)
        if body["metadata"]["uid"] != uid:
            return Missing()
        try:
            return Found(TaskSession.from_body(body))
        except InvalidSpec as error:
            return Unreadable(error.message, lasting=True)


def _tells_its_own_id(executor: Executor) -> bool:
    """An agentctl that the operator did not start is pinned by its first answer."""
    return executor.spec.remote is not None or (
        executor.spec.local_docker is not None and not executor.spec.is_made_at_bind
    )
