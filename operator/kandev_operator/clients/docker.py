"""The Docker engine of this machine: looking at containers, volumes and images; making, removing.

A thin layer over aiodocker that bounds every call in time and says what went wrong as one of
`errors`: an engine that is silent is never mistaken for one that says "there is none". Answers are
the engine's own bodies. Nothing is decided here, and nothing is retried.
"""

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiodocker import Docker, DockerError
from aiodocker.volumes import DockerVolume

from kandev_operator.clients.errors import (
    EngineError,
    EngineRefused,
    EngineSilent,
    InTheWay,
    NoSuchThing,
)

Body = dict[str, Any]

SECONDS: Final = 10.0
PULL_SECONDS: Final = 3600.0
_STOP_MARGIN: Final = 5.0
_LOG_LINES: Final = 20


class DockerEngine:
    """One engine, at a unix socket. Made in a running loop; to be closed."""

    def __init__(self, host: str, *, seconds: float = SECONDS) -> None:
        self._host = host
        self._seconds = seconds
        self._docker: Docker | None = None
        self._id = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()

    async def engine_id(self) -> str:
        """Which engine this is. Asked once for each time it came back from silence."""
        if not self._id:
            async with self._asking("info") as docker:
                self._id = str((await docker.system.info()).get("ID") or "")
        return self._id

    async def containers(self, label: str) -> list[Body]:
        """All containers with this label, inspected; one that goes meanwhile is left out."""
        found: list[Body] = []
        async with self._asking("list containers") as docker:
            listed = await docker.containers.list(all=1, filters=json.dumps({"label": [label]}))
        for each in listed:
            try:
                found.append(await self.container(each.id))
            except NoSuchThing:
                continue
        return found

    async def container(self, name: str) -> Body:
        """One container by id or name. Raises NoSuchThing."""
        async with self._asking(f"inspect container {name}") as docker:
            return await docker.containers.container(name).show()

    async def last_words(self, container_id: str) -> str:
        """The end of what a container wrote."""
        async with self._asking("logs") as docker:
            container = docker.containers.container(container_id)
            return "".join(await container.log(stdout=True, stderr=True, tail=_LOG_LINES))

    async def image(self, name: str) -> Body:
        """One image by name. Raises NoSuchThing."""
        async with self._asking(f"inspect image {name}") as docker:
            return await docker.images.inspect(name)

    async def volumes(self, label: str) -> list[Body]:
        """All volumes with this label."""
        async with self._asking("list volumes") as docker:
            answer = await docker.volumes.list(filters={"label": [label]})
        return list(answer.get("Volumes") or [])

    async def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Make it; one of this name that is there already is as good."""
        async with self._asking(f"make volume {name}") as docker:
            await docker.volumes.create({"Name": name, "Labels": dict(labels)})

    async def create(self, name: str, config: Mapping[str, Any]) -> str:
        """Make a container and return its id; raises InTheWay when the name is taken."""
        async with self._asking(f"create container {name}") as docker:
            made = await docker.containers.create(dict(config), name=name)
            return str(made.id)

    async def put(self, container_id: str, archive: bytes) -> None:
        """Unpack a tar archive at the root of a container, whether it runs or not."""
        async with self._asking("put files") as docker:
            await docker.containers.container(container_id).put_archive("/", archive)

    async def start(self, container_id: str) -> None:
        """Start a container; no effect on one that runs."""
        async with self._asking("start container") as docker:
            await docker.containers.container(container_id).start()

    async def remove_container(self, container_id: str, grace: int) -> None:
        """End it, gently for so many seconds, and remove it; one that is gone is as good."""
        try:
            async with self._asking("stop container", grace + _STOP_MARGIN) as docker:
                await docker.containers.container(container_id).stop(t=grace)
            async with self._asking("remove container") as docker:
                await docker.containers.container(container_id).delete(force=True)
        except (NoSuchThing, InTheWay):  # gone, or on its way
            return

    async def remove_volume(self, name: str) -> None:
        """Remove a volume; one that is gone is as good. Raises InTheWay while it is in use."""
        try:
            async with self._asking(f"remove volume {name}") as docker:
                await DockerVolume(docker, name).delete()
        except NoSuchThing:
            return

    async def pull(self, name: str) -> None:
        """Fetch an image; raises EngineRefused with the engine's words."""
        try:
            async with self._asking(f"pull {name}", PULL_SECONDS) as docker:
                await docker.images.pull(name)
        except NoSuchThing as error:  # the registry's, not the engine's
            raise EngineRefused(error.call, error.message) from None

    @asynccontextmanager
    async def _asking(self, call: str, seconds: float | None = None) -> AsyncIterator[Docker]:
        try:
            async with asyncio.timeout(self._seconds if seconds is None else seconds):
                if self._docker is None:
                    self._docker = Docker(url=self._host)
                yield self._docker
        except DockerError as error:
            told = translated(call, error)
            self._id = "" if isinstance(told, EngineSilent) else self._id
            raise told from None
        except TimeoutError:
            self._id = ""
            raise EngineSilent(call, "no answer in time") from None
        except (KeyError, ValueError) as error:
            raise EngineRefused(call, f"its answer cannot be read: {error!r}") from None
        except (aiohttp.ClientError, OSError) as error:
            self._id = ""
            raise EngineSilent(call, _words(error)) from None


def translated(call: str, error: DockerError) -> EngineError:
    """The engine's answer as one of ours. An error inside a stream has status 0."""
    match error.status:
        case HTTPStatus.NOT_FOUND:
            return NoSuchThing(call, error.message)
        case HTTPStatus.CONFLICT:
            return InTheWay(call, error.message)
        case 900:  # the library's own word for "no connection"
            return EngineSilent(call, error.message)
        case HTTPStatus.BAD_GATEWAY | HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.GATEWAY_TIMEOUT:
            return EngineSilent(call, error.message)
        case _:
            return EngineRefused(call, error.message)


def archive(
    folders: Iterable[str], files: Mapping[str, bytes], user: int | None, *, mode: int = 0o440
) -> bytes:
    """A tar of folders and files (absolute paths) that belong to this user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in folders:
            tar.addfile(_entry(path, user, tarfile.DIRTYPE, 0o755))
        for path, content in files.items():
            entry = _entry(path, user, tarfile.REGTYPE, mode)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _entry(path: str, user: int | None, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode = kind, mode
    entry.uid = entry.gid = user or 0
    return entry


def _words(error: BaseException) -> str:
    """What went wrong with the connection; the socket's path is the operator's own option."""
    return str(error) or type(error).__name__
