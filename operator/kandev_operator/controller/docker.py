"""Eyes and hands for executors that are containers; what is to be done is decided in `core.docker`.

The engine is asked at each pass that concerns it: nothing of it stands in the cache. A look that
fails is a value, and never "there is none". Making a container sees to the volumes it mounts and to
the keys it must find, and meets the container that an interrupted pass made before.
"""

import base64
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.reasons import AgentctlReadyReason, PodScheduledReason
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.clients import docker as clients
from kandev_operator.clients.docker import DockerEngine
from kandev_operator.clients.errors import (
    ClientError,
    EngineError,
    EngineRefused,
    InTheWay,
    NoSuchThing,
)
from kandev_operator.clients.resources import SECRETS
from kandev_operator.clients.tokens import jwks_text
from kandev_operator.controller.models import stored
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core import actions as todo
from kandev_operator.core.binding import owner_of
from kandev_operator.core.containerseen import (
    LABEL_INSTANCE_ID,
    DockerContainer,
    ImageSeen,
    Step,
    VolumeSeen,
)
from kandev_operator.core.docker.desired import STOP_SECONDS, port_of
from kandev_operator.core.docker.life import address
from kandev_operator.core.observed import (
    DockerSeen,
    Failed,
    Found,
    Look,
    Missing,
    Unreadable,
)
from kandev_operator.core.pods import layout

NOT_ENABLED: Final = "The operator was started without --allow-docker-executors."
SessionLook = Callable[[str, str, str], Awaitable[Look[TaskSession]]]


class DockerEyes:
    """Looks at an executor's containers, and at what they need."""

    def __init__(self, wiring: Wiring, session_look: SessionLook) -> None:
        """`session_look` (namespace, name, uid) says Missing only for one that is surely gone."""
        self._w = wiring
        self._session_look = session_look

    async def view(self, executor: Executor, session: TaskSession | None) -> DockerSeen:
        """Everything that a decision about this executor's containers may know."""
        engine, platform = self._w.docker, self._w.settings.platform
        if engine is None:
            return DockerSeen(Unreadable(NOT_ENABLED), platform=platform)
        try:
            containers = await self._containers(engine, executor)
            seen = DockerSeen(
                containers=Found(containers),
                engine_id=await engine.engine_id(),
                volumes=await self._volumes(engine, executor, session),
                platform=platform,
                **self._needs(executor, session),
            )
            return await self._with_images(engine, executor, seen)
        except EngineError as error:
            return DockerSeen(Unreadable(error.message[:300]), platform=platform)

    def addressed(self, executor: Executor, seen: DockerSeen) -> Executor:
        """With the address where its container can be asked now; as status has it, where nobody
        knows."""
        if not isinstance(seen.containers, Found):
            return executor
        by_address = seen.platform.docker_by_address
        ours = executor.spec.is_made_at_bind
        pinned = executor.status.instance_id
        found = seen.of(pinned, Step.AGENT) if ours else next(iter(seen.present), None)
        url = address(found, port_of(executor), by_address=by_address) if found else None
        return executor.replacing(status=executor.status.replacing(agentctl_url=url))

    async def _containers(
        self, engine: DockerEngine, executor: Executor
    ) -> tuple[DockerContainer, ...]:
        docker = executor.spec.local_docker
        if docker is not None and docker.container_id is not None:
            try:
                bodies = [await engine.container(docker.container_id)]
            except NoSuchThing:
                return ()
        else:
            uid = executor.metadata.uid
            bodies = await engine.containers(f"{group.LABEL_EXECUTOR_UID}={uid}")
        return tuple([await self._read(engine, body) for body in bodies])

    async def _read(self, engine: DockerEngine, body: clients.Body) -> DockerContainer:
        """One that failed tells why in what it wrote."""
        seen = DockerContainer.from_body(body)
        if not seen.is_over or seen.exit_code == 0:
            return seen
        words = ""
        with contextlib.suppress(EngineError):
            words = await engine.last_words(seen.id)
        return DockerContainer.from_body(body, words)

    async def _volumes(
        self, engine: DockerEngine, executor: Executor, session: TaskSession | None
    ) -> tuple[VolumeSeen, ...]:
        """Those of this executor, and of the session that is in it or that it was made for."""
        owner, held = owner_of(executor), executor.status.session_ref
        uids = {each.uid for each in (owner, held) if each is not None}
        uids |= {session.metadata.uid} if session is not None else set()
        labels = [f"{group.LABEL_EXECUTOR_UID}={executor.metadata.uid}"]
        labels += [f"{group.LABEL_SESSION_UID}={uid}" for uid in sorted(uids)]
        found: dict[str, VolumeSeen] = {}
        for label in labels:
            for body in await engine.volumes(label):
                seen = VolumeSeen.from_body(body)
                found[seen.name] = seen
        return tuple([await self._judged(executor, each) for _, each in sorted(found.items())])

    async def _judged(self, executor: Executor, volume: VolumeSeen) -> VolumeSeen:
        """Whether its session is gone for good; what the session says of its files counts, while
        it can be read."""
        if not volume.session_uid or not volume.session_name:
            return volume
        namespace = executor.metadata.namespace
        known = await self._session_look(namespace, volume.session_name, volume.session_uid)
        match known:
            case Missing():
                return volume.judged(is_orphan=True)
            case Found(value=session):
                policy = "Retain" if session.spec.workspace.is_retained else "Delete"
                return volume.judged(is_orphan=session.metadata.is_deleting, policy=policy)
            case _:
                return volume

    def _needs(self, executor: Executor, session: TaskSession | None) -> dict[str, Any]:
        if session is None:
            return {}
        namespace, spec, cache = executor.metadata.namespace, session.spec, self._w.cache
        profile = spec.agent_profile_ref.name
        return {
            "task": stored(cache, Task, group.TASK, namespace, spec.task_ref.name),
            "profile": stored(cache, AgentProfile, group.AGENT_PROFILE, namespace, profile),
        }

    async def _with_images(
        self, engine: DockerEngine, executor: Executor, seen: DockerSeen
    ) -> DockerSeen:
        """The images are looked at only where a container may have to be made."""
        docker = executor.spec.local_docker
        current = seen.of(executor.status.instance_id, Step.AGENT)
        made = executor.spec.is_made_at_bind and not (current is not None and current.is_up)
        if docker is None or not made or not isinstance(seen.profile, Found):
            return seen
        names = (seen.platform.agentctl_image, docker.image or seen.profile.value.spec.image)
        images = tuple([(name, await self._image(engine, name)) for name in names if name])
        return seen.having(images)

    async def _image(self, engine: DockerEngine, name: str) -> ImageSeen:
        try:
            body = await engine.image(name)
        except NoSuchThing:
            return self._w.pulls.seen(name) if self._w.pulls is not None else ImageSeen()
        return ImageSeen(id=str(body.get("Id") or name))


class DockerHands:
    """Makes, starts and removes containers and volumes."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring
        self._has_keys: dict[str, bytes] = {}

    @property
    def _engine(self) -> DockerEngine:
        if self._w.docker is None:
            raise ValueError(NOT_ENABLED)
        return self._w.docker

    def pull(self, executor: Executor, action: todo.PullImage) -> None:
        """Have it fetched beside the passes."""
        if self._w.pulls is None:
            raise ValueError(NOT_ENABLED)
        self._w.pulls.want(action.name, executor.metadata.uid)

    async def run(self, executor: Executor, action: todo.RunContainer) -> Failed | None:
        """Make it and start it; the very same container that is there already is as good."""
        wanted = action.container
        for name, labels in wanted.volumes:
            await self._engine.make_volume(name, dict(labels))
        try:
            container = await self._meet(wanted)
            files = await self._files(executor, wanted)
            archive = clients.archive(wanted.folders, files, wanted.user)
            await self._engine.put(container, archive)
            await self._engine.start(container)
        except (EngineRefused, NoSuchThing) as error:
            reason = PodScheduledReason.INVALID_TEMPLATE
            return Failed(todo.RunContainer.__name__, str(reason), error.message[:500], fatal=False)
        return None

    async def start(self, action: todo.StartContainer) -> Failed | None:
        """Start it, where it does not run."""
        try:
            await self._engine.start(action.container_id)
        except EngineRefused as error:
            reason = AgentctlReadyReason.CONTAINER_EXITED
            name = todo.StartContainer.__name__
            return Failed(name, str(reason), error.message[:500], fatal=False)
        return None

    async def remove(self, action: todo.RemoveContainer) -> None:
        """End it gently, and remove it."""
        await self._engine.remove_container(action.container_id, STOP_SECONDS)
        self._has_keys.pop(action.container_id, None)

    async def remove_volume(self, action: todo.RemoveVolume) -> None:
        """Remove it, unless somebody has put it to a use of their own."""
        with contextlib.suppress(InTheWay):
            await self._engine.remove_volume(action.name)

    async def hand_out_keys(self, executor: Executor) -> None:
        """Let a container of ours know the keys that its callers sign with now."""
        container = executor.status.container_id
        if container is None or not executor.spec.is_made_at_bind:
            return
        text = self._keys()
        if self._has_keys.get(container) == text:
            return
        keys = {layout.JWKS: text}
        user = self._w.settings.platform.user
        with contextlib.suppress(ClientError, ValueError):
            await self._engine.put(container, clients.archive((), keys, user))
            self._has_keys[container] = text

    def _keys(self) -> bytes:
        return jwks_text(self._w.keys).encode()

    async def _meet(self, wanted: todo.ContainerWanted) -> str:
        try:
            return await self._engine.create(wanted.name, wanted.config)
        except InTheWay:
            body = await self._engine.container(wanted.name)
            labels = (body.get("Config") or {}).get("Labels") or {}
            if labels.get(LABEL_INSTANCE_ID) != wanted.instance_id:
                raise
            return str(body["Id"])

    async def _files(self, executor: Executor, wanted: todo.ContainerWanted) -> dict[str, bytes]:
        files = {wanted.keys_at: self._keys()} if wanted.keys_at else {}
        for folder, name in wanted.credentials:
            namespace = executor.metadata.namespace
            secret = await self._w.kube.get(SECRETS, namespace, name)
            files |= {
                f"{folder}/{key}": _decoded(value)
                for key, value in (secret.get("data") or {}).items()
            }
        return files


def _decoded(value: str) -> bytes:
    return base64.b64decode(value)
