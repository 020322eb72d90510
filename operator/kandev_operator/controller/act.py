"""Carries out the actions of a plan, in order, each within a bound of time.

The Lease is asked before every outward act: a process that was frozen in the middle of a plan
does nothing more when it thaws. A failure ends the list; it comes back as a value that says
whether the next pass may see it (`Failed`) or simply has to try again.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.meta import OwnerReference
from kandev_operator.api.reasons import AgentctlReadyReason, PodScheduledReason, StalledReason
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.errors import (
    AlreadyExists,
    ClientError,
    Forbidden,
    Invalid,
    NotFound,
)
from kandev_operator.clients.local import StartFailure
from kandev_operator.clients.resources import EXECUTORS, TASK_SESSIONS
from kandev_operator.clients.tokens import jwks
from kandev_operator.contract.agent import PromptRequest, StartRequest, StopRequest
from kandev_operator.controller.docker import DockerHands
from kandev_operator.controller.lease import NotLeading
from kandev_operator.controller.pods import PodHands, refusal
from kandev_operator.controller.profiles import ProfileResolver
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core import actions as todo
from kandev_operator.core.intents import epoch_of
from kandev_operator.core.observed import ExecutorObserved, Failed, Found, SessionObserved

PATIENCE_SECONDS: Final = 10.0
LOCAL_START_SECONDS: Final = 35.0
STOP_GRACE_SECONDS: Final = 10.0
SLOW: Final = todo.StartProcess | todo.StopProcess | todo.RunContainer | todo.RemoveContainer


class LeaseLost(Exception):
    """This process may not act any more; the plan is dropped."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An action failed. `failed` is set where a decision should take it into account."""

    words: str
    failed: Failed | None = None


class Actor:
    """Acts for one operator process."""

    def __init__(self, wiring: Wiring, profiles: ProfileResolver) -> None:
        self._w = wiring
        self._profiles = profiles
        self._pods = PodHands(wiring)
        self._docker = DockerHands(wiring)

    async def session(self, o: SessionObserved, actions: tuple[todo.Action, ...]) -> Trouble | None:
        """Do what a session's plan asks for."""
        for action in actions:
            trouble = await self._guarded(action, self._for_session(o, action))
            if trouble is not None:
                return trouble
        return None

    async def executor(
        self, o: ExecutorObserved, actions: tuple[todo.Action, ...]
    ) -> Trouble | None:
        """Do what an executor's plan asks for."""
        for action in actions:
            trouble = await self._guarded(action, self._for_executor(o, action))
            if trouble is not None:
                return trouble
        return None

    async def _guarded(self, action: todo.Action, doing: object) -> Trouble | None:
        assert asyncio.iscoroutine(doing)
        if not self._w.lease.valid():
            doing.close()
            raise LeaseLost
        name = type(action).__name__
        slow = isinstance(action, SLOW)
        try:
            async with asyncio.timeout(LOCAL_START_SECONDS if slow else PATIENCE_SECONDS):
                result = await doing
        except NotLeading as error:
            raise LeaseLost from error
        except Forbidden as error:
            pod = isinstance(action, todo.CreatePod)
            refused = refusal(error) if pod else _refused(name, error)
            return Trouble(f"{name}: {error}", refused)
        except Invalid as error:
            return Trouble(f"{name}: {error}", _refused(name, error))
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            return Trouble(f"{name}: {type(error).__name__}: {error}"[:500])
        assert result is None or isinstance(result, Trouble)
        return result

    async def _for_session(self, o: SessionObserved, action: todo.Action) -> Trouble | None:
        meta = o.session.metadata
        match action:
            case todo.CreateExecutor():
                await self._create_executor(meta.namespace, action)
            case todo.FollowTemplate():
                await self._follow(_executor(o), action)
            case todo.CreateClaim():
                await self._pods.create_claim(meta.namespace, action)
            case todo.ConfigureAgent():
                return await self._configure(o, action)
            case todo.StartAgent():
                return await self._start(o, action)
            case todo.StopAgent():
                await self._stop(_executor(o), action)
            case todo.SendFirstPrompt():
                await self._send(o, action)
            case todo.StoreToken():
                await self._w.secrets.store_token(
                    meta.namespace, action.secret_name, _owner(o), action.token, action.epoch
                )
            case todo.RetireToken():
                await self._w.secrets.retire_token(
                    meta.namespace, action.secret_name, _owner(o), action.epoch
                )
            case todo.AdoptTerm():
                await self._w.lease.adopt_term(action.term)
            case todo.DeleteSession():
                await self._w.kube.delete(TASK_SESSIONS, meta.namespace, meta.name, uid=meta.uid)
            case _:
                raise AssertionError(f"{type(action).__name__} is no action of a session")
        return None

    async def _for_executor(self, o: ExecutorObserved, action: todo.Action) -> Trouble | None:
        meta = o.executor.metadata
        match action:
            case todo.DeleteExecutor():
                await self._w.kube.delete(EXECUTORS, meta.namespace, meta.name, uid=meta.uid)
            case todo.SetFinalizer():
                await self._set_finalizer(o.executor, present=action.present)
            case todo.StartProcess():
                return await self._start_process(o.executor, action)
            case todo.StopProcess():
                await self._stop_process(o.executor, strangers=action.strangers)
            case todo.CreatePod():
                await self._pods.create_pod(meta.namespace, action)
            case todo.DeletePod():
                await self._pods.delete_pod(meta.namespace, action)
            case todo.StopAgent():
                await self._stop(o.executor, action)
            case todo.AdoptTerm():
                await self._w.lease.adopt_term(action.term)
            case _:
                return await self._for_container(o.executor, action)
        return None

    async def _for_container(self, executor: Executor, action: todo.Action) -> Trouble | None:
        failed: Failed | None = None
        match action:
            case todo.PullImage():
                self._docker.pull(executor, action)
            case todo.RunContainer():
                failed = await self._docker.run(executor, action)
            case todo.StartContainer():
                failed = await self._docker.start(action)
            case todo.RemoveContainer():
                await self._docker.remove(action)
            case todo.RemoveVolume():
                await self._docker.remove_volume(action)
            case _:
                raise AssertionError(f"{type(action).__name__} is no action of an executor")
        return Trouble(failed.message, failed) if failed is not None else None

    async def _create_executor(self, namespace: str, action: todo.CreateExecutor) -> None:
        try:
            body = await self._w.kube.create(EXECUTORS, namespace, action.manifest)
        except AlreadyExists:
            name = action.manifest["metadata"]["name"]
            body = await self._w.kube.get(EXECUTORS, namespace, name)
        self._w.cache.put(group.EXECUTOR, body)

    async def _follow(self, executor: Executor, action: todo.FollowTemplate) -> None:
        meta = executor.metadata
        operations: list[dict[str, object]] = [
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "replace", "path": f"/spec/{action.block}", "value": action.content},
        ]
        body = await self._w.kube.json_patch(EXECUTORS, meta.namespace, meta.name, operations)
        self._w.cache.put(group.EXECUTOR, body)

    def _caller(self, executor: Executor, session_uid: str, epoch: int) -> AgentctlClient:
        client = self._w.callers.acting(executor, session_uid, term=self._w.lease.term, epoch=epoch)
        if client is None:
            raise ValueError("the executor has no address yet")
        return client

    async def _configure(self, o: SessionObserved, action: todo.ConfigureAgent) -> Trouble | None:
        if not isinstance(o.profile, Found):
            return Trouble("the profile cannot be read just now")
        executor = _executor(o)
        cwd = executor.status.workspace_path
        spec = await self._profiles.agent_spec(o.session, o.profile.value, cwd, action.adopt_from)
        if spec is None:
            return Trouble("a Secret of the profile cannot be read just now")
        client = self._caller(executor, o.session.metadata.uid, action.epoch)
        await client.put_agent(spec)
        self._w.prober.poke(executor.metadata.uid)
        return None

    async def _start(self, o: SessionObserved, action: todo.StartAgent) -> Trouble | None:
        servers: tuple[dict[str, object], ...] | None = ()
        if isinstance(o.profile, Found):
            servers = await self._profiles.mcp_servers(o.profile.value.profile)
        if servers is None:
            return Trouble("a Secret of an MCP server cannot be read just now")
        executor = _executor(o)
        client = self._caller(executor, o.session.metadata.uid, action.epoch)
        request = StartRequest(
            session_id=o.session.metadata.uid,
            operation_id=action.operation_id,
            mode=action.mode,
            resume_token=action.token.value if action.token else None,
            mcp_servers=servers,
            timeout_seconds=min(3600.0, float(action.timeout_seconds)),
        )
        await client.start(request)
        self._w.prober.poke(executor.metadata.uid)
        return None

    async def _stop(self, executor: Executor, action: todo.StopAgent) -> None:
        client = self._caller(executor, action.session_uid, action.epoch)
        request = StopRequest(
            session_id=action.session_uid,
            operation_id=action.operation_id,
            grace_seconds=STOP_GRACE_SECONDS,
            drop_queue=action.for_good,
        )
        await client.stop(request)
        self._w.prober.poke(executor.metadata.uid)

    async def _send(self, o: SessionObserved, action: todo.SendFirstPrompt) -> None:
        executor = _executor(o)
        client = self._caller(executor, o.session.metadata.uid, epoch_of(o))
        request = PromptRequest(
            session_id=o.session.metadata.uid,
            prompt_id=action.prompt_id,
            content=({"type": "text", "text": action.text},),
        )
        await client.prompt(request)
        self._w.prober.poke(executor.metadata.uid)

    async def _set_finalizer(self, executor: Executor, *, present: bool) -> None:
        meta = executor.metadata
        kept = [name for name in meta.finalizers if name != group.FINALIZER]
        wanted = [*kept, group.FINALIZER] if present else kept
        patch = {"metadata": {"finalizers": wanted, "resourceVersion": meta.resource_version}}
        try:
            body = await self._w.kube.merge_patch(EXECUTORS, meta.namespace, meta.name, patch)
        except NotFound:
            return
        if present or wanted:
            self._w.cache.put(group.EXECUTOR, body)

    async def _start_process(self, executor: Executor, action: todo.StartProcess) -> Trouble | None:
        local = executor.spec.local_standalone
        assert local is not None, "only local executors have a process"
        meta = executor.metadata
        started = await self._w.local.start(
            self._w.local.state_folder(meta.namespace, local.worktree_path),
            local.worktree_path,
            action.instance_id,
            meta.uid,
            jwks(self._w.keys),
        )
        if isinstance(started, StartFailure):
            name = todo.StartProcess.__name__
            words = f"agentctl could not be started: {started}"[:500]
            failed = Failed(name, AgentctlReadyReason.PROCESS_EXITED, words, fatal=False)
            return Trouble(words, failed)
        return None

    async def _stop_process(self, executor: Executor, *, strangers: bool) -> None:
        local = executor.spec.local_standalone
        assert local is not None, "only local executors have a process"
        meta = executor.metadata
        await self._w.local.end_all_of(meta.uid, STOP_GRACE_SECONDS)
        if strangers and self._w.local.is_allowed(meta.namespace):
            found = self._w.local.find(self._state(executor))
            if found is not None:
                await self._w.local.stop(found, STOP_GRACE_SECONDS)

    def _state(self, executor: Executor) -> Path:
        local = executor.spec.local_standalone
        assert local is not None, "only local executors have a state folder"
        return self._w.local.state_folder(executor.metadata.namespace, local.worktree_path)

    async def hand_out_made_keys(self, executor: Executor) -> None:
        """The same for pods, whose keys are in a ConfigMap of their namespace, and for containers,
        where they are put into each."""
        if not executor.spec.is_made_at_bind or executor.status.session_ref is None:
            return
        if executor.spec.local_docker is not None:
            if self._w.lease.valid() and self._w.docker is not None:
                await self._docker.hand_out_keys(executor)
        elif self._w.lease.valid():
            with contextlib.suppress(ClientError, TimeoutError):
                await self._pods.hand_out_keys(executor.metadata.namespace)

    def hand_out_keys(self, executor: Executor) -> None:
        """Let a local agentctl know the keys that its callers sign with now."""
        local = executor.spec.local_standalone is not None
        if local and self._w.local.is_allowed(executor.metadata.namespace):
            state = self._state(executor)
            with contextlib.suppress(OSError):
                if state.is_dir():
                    self._w.local.refresh_jwks(state, jwks(self._w.keys))


def _executor(o: SessionObserved) -> Executor:
    assert isinstance(o.executor, Found), "the rules act on an executor only when there is one"
    return o.executor.value


def _owner(o: SessionObserved) -> OwnerReference:
    return o.session.owner_reference(controller=True)


def _refused(name: str, error: Forbidden | Invalid) -> Failed:
    """The API server's own no: a quota may free itself, an invalid object does not."""
    if isinstance(error, Forbidden):
        quota = error.quota_exceeded
        reason = PodScheduledReason.QUOTA_EXCEEDED if quota else StalledReason.NOT_ALLOWED
        return Failed(name, str(reason), str(error)[:500], fatal=not quota)
    return Failed(name, str(PodScheduledReason.INVALID_TEMPLATE), str(error)[:500], fatal=True)
