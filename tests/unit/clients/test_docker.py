"""The Docker client against an engine that is scripted: what each answer, and silence, means.

What a real engine answers is tried in the e2e ring.
"""

import io
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kandev_operator.clients.docker import DockerEngine, archive
from kandev_operator.clients.errors import (
    EngineError,
    EngineRefused,
    EngineSilent,
    InTheWay,
    NoSuchThing,
)


class Script:
    """An engine that gives prepared answers: (method, path without version) to (status, body)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.path)).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/v1.41")
        self.asked.append((request.method, path))
        if path == "/version":
            return web.json_response({"ApiVersion": "1.41"})
        status, body = self.answers.get((request.method, path), (404, {"message": "no such"}))
        return web.json_response(body, status=status)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    with tempfile.TemporaryDirectory() as folder:
        made = Script(Path(folder, "s"))
        await made.start()
        yield made
        await made.stop()


@pytest.fixture
async def engine(script: Script) -> AsyncIterator[DockerEngine]:
    async with DockerEngine(f"unix://{script.path}") as made:
        yield made


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NoSuchThing),
        (409, InTheWay),
        (400, EngineRefused),
        (500, EngineRefused),
        (502, EngineSilent),
        (503, EngineSilent),
    ],
)
async def test_what_each_answer_means(
    script: Script, engine: DockerEngine, status: int, kind: type[EngineError]
) -> None:
    script.answers["GET", "/containers/x/json"] = (status, {"message": "its own words"})
    with pytest.raises(EngineError) as told:
        await engine.container("x")
    assert type(told.value) is kind
    assert "its own words" in str(told.value)


async def test_nobody_there_is_never_no_such_container(script: Script) -> None:
    await script.stop()
    async with DockerEngine(f"unix://{script.path}") as engine:
        with pytest.raises(EngineSilent):
            await engine.container("x")
        with pytest.raises(EngineSilent):
            await engine.containers("a=b")


async def test_an_engine_that_comes_back_is_asked_anew_who_it_is(
    script: Script, engine: DockerEngine
) -> None:
    script.answers["GET", "/info"] = (200, {"ID": "one"})
    assert [await engine.engine_id(), await engine.engine_id()] == ["one", "one"]
    assert script.asked.count(("GET", "/info")) == 1
    script.answers["GET", "/containers/x/json"] = (200, {"Id": "x"})
    await script.stop()
    with pytest.raises(EngineSilent):
        await engine.container("x")
    script.answers["GET", "/info"] = (200, {"ID": "two"})
    await script.start()
    assert await engine.engine_id() == "two"


async def test_a_container_that_goes_between_two_looks_is_left_out(
    script: Script, engine: DockerEngine
) -> None:
    script.answers["GET", "/containers/json"] = (200, [{"Id": "here"}, {"Id": "gone"}])
    script.answers["GET", "/containers/here/json"] = (200, {"Id": "here"})
    assert [each["Id"] for each in await engine.containers("a=b")] == ["here"]


async def test_what_is_gone_already_is_as_good_as_removed(
    script: Script, engine: DockerEngine
) -> None:
    await engine.remove_container("gone", 1)
    await engine.remove_volume("gone")
    script.answers["DELETE", "/volumes/used"] = (409, {"message": "volume is in use"})
    with pytest.raises(InTheWay):
        await engine.remove_volume("used")


async def test_an_image_that_no_registry_has_is_a_refusal(
    script: Script, engine: DockerEngine
) -> None:
    script.answers["POST", "/images/create"] = (404, {"message": "manifest unknown"})
    with pytest.raises(EngineRefused, match="manifest unknown"):
        await engine.pull("registry.example.com/none:1")


def test_files_belong_to_whom_they_are_for() -> None:
    packed = archive(("/var/cache/kandev",), {"/etc/kandev/keys/jwks.json": b"{}"}, 1000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        folder, file = tar.getmembers()
        assert (folder.name, folder.isdir(), folder.uid) == ("var/cache/kandev", True, 1000)
        assert (file.name, file.uid, file.mode) == ("etc/kandev/keys/jwks.json", 1000, 0o440)
