"""The examples that live in a cluster, applied to a real node as they are written.

What they name is brought there by `stage.exampleground`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cluster.node import flags
from stage import exampleground
from stage.exampleground import ORIGIN
from stage.gitserver import GitServer
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import condition


class Shelf:
    """Applies examples by their number."""

    def __init__(self, scene: RealPodScene, git: GitServer) -> None:
        self.scene, self.git = scene, git

    async def apply(self, number: str, **other: str) -> None:
        """Apply it; with words of it replaced, where that is asked for."""
        text = exampleground.text(number).replace(ORIGIN, self.git.url)
        for word, another in other.items():
            text = text.replace(word.replace("_", "-"), another)
        await self.scene.apply(*exampleground.read(text))

    def session(self, name: str) -> RealPart:
        part = self.scene.part(name)
        assert isinstance(part, RealPart)
        return part


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripted agent under the names of the real ones."""
    return exampleground.archive(tmp_path_factory.mktemp("image"))


@pytest.fixture
async def shelf(scene: RealPodScene, archive: Path, tmp_path: Path) -> Any:
    """The surroundings that the examples take for granted."""
    await asyncio.to_thread(exampleground.prepare, scene.node, archive, tmp_path)
    await scene.apply(*exampleground.secrets())
    with GitServer(tmp_path, flags.GATEWAY) as git:
        git.make("shop/shop", {"README": "hello\n"})
        shelf = Shelf(scene, git)
        await shelf.apply("06")
        yield shelf
    await asyncio.to_thread(exampleground.clear_away, scene.node)


async def test_the_session_in_a_pod(shelf: Shelf) -> None:
    await shelf.apply("07")
    part = shelf.session("search-page")
    before = await part.with_history()
    pod = part.pod
    assert pod["metadata"]["labels"]["cost-centre"] == "shop"
    files = shelf.scene.get("persistentvolumeclaim", before["workspaceRef"]["name"])
    assert files["spec"]["storageClassName"] == "fast"
    assert before["worktree"]["branch"] == "kandev/search-plurals"
    said = await part.ask("terminal: git -C shop branch --show-current && cat shop/README")
    assert "kandev/search-plurals" in said
    assert "hello" in said
    # Its neighbour's image cannot be had here: the session does not mind.
    states = {each["name"]: each["state"] for each in pod["status"]["containerStatuses"]}
    assert "waiting" in states["search"]
    uid = await part.delete_pod()
    await part.resumed(before, same_pod=False, pod_uid=uid)
    await part.remembers()


async def test_sessions_that_begin_by_themselves(shelf: Shelf) -> None:
    await shelf.apply("03")
    first, second = shelf.session("checkout-speed"), shelf.session("checkout-speed-second-opinion")
    for part in (first, second):
        status = await part.wait(
            lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "prompted"
        )
        await part.idle()
        assert status["firstPrompt"]["id"] == "first"
    (prompt,) = first.prompts()
    assert prompt.startswith("Measure how long the checkout page takes")
    assert "the first was: # Checkout speed" in await second.ask("what was the first?")
    # Sent once, whatever is lost in between.
    before, uid = first.status, await first.delete_pod()
    await first.resumed(before, same_pod=False, pod_uid=uid)
    assert first.prompts() == [prompt]
    assert "the first was: Measure how long" in await first.ask("what was the first?")


async def test_a_session_at_rest_is_woken_and_its_files_outlive_it(shelf: Shelf) -> None:
    await shelf.apply("04")
    part = shelf.session("long-haul")
    await part.wait(lambda s: condition(s, "Suspended").get("status") == "True", "at rest")
    assert shelf.scene.pods() == []
    await part.patch(operatingMode="Running")
    before = await part.with_history()
    claim = before["workspaceRef"]["name"]
    part.remember_uid()
    await shelf.scene.kubectl("delete", "tasksession", "long-haul", "--timeout=60s")
    await until(lambda: shelf.scene.pods() == [], "its pod is gone", PATIENCE)
    # 05 looks at these files, without an agent; then an agent works on them.
    await shelf.apply("05", long_haul_files=claim)
    look = shelf.session("look-around")
    await look.wait(
        lambda s: condition(s, "Ready").get("status") == "True" and s["executorStatus"] == "ready",
        "the workspace is served",
    )
    assert look.status.get("isAgentRunning") is False
    assert look.prompts() == ["alpha"]
    await look.patch(operatingMode="Running")
    await look.idle()
    await look.ask("beta")
    assert look.prompts() == ["alpha", "beta"], "on the same files, in a conversation of its own"
    assert look.opened_new == 2, "each session opened its own"
