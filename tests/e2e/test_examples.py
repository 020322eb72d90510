"""The examples that live in a cluster, applied to a real node as they are written.

What they name must be there: images by the same names, with an agent of ours in the place of the
real ones; their Secrets; the storage class. Only the address of the repositories is another.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.images import agents, oci
from cluster.node import flags
from stage.gitserver import GitServer
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body, condition

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
ORIGIN = "https://git.example.com"
COMMANDS = ("claude-agent-acp", "opencode")
SECRETS = {"anthropic": {"api-key": "k"}, "git-credentials": {"username": "u", "password": "p"}}


class Shelf:
    """Applies examples by their number."""

    def __init__(self, scene: RealPodScene, git: GitServer) -> None:
        self.scene, self.git = scene, git

    async def apply(self, number: str) -> None:
        (path,) = EXAMPLES.glob(f"{number}-*.yaml")
        text = path.read_text()
        await self.scene.apply(*self.read(text.replace(ORIGIN, self.git.url)))

    def read(self, text: str) -> Iterator[Body]:
        for body in yaml.safe_load_all(text):
            if body["kind"] == "AgentProfile" and "claude" in str(body["spec"]["command"]):
                # The diary, which is ours and not the example's.
                body["spec"]["args"] = ["--log=/workspace/diary"]
            yield body

    def session(self, name: str) -> RealPart:
        part = self.scene.part(name)
        assert isinstance(part, RealPart)
        return part


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripted agent under the names of the real ones."""
    return _image(tmp_path_factory.mktemp("image"))


@pytest.fixture
async def shelf(scene: RealPodScene, archive: Path, tmp_path: Path) -> Any:
    """The surroundings that the examples take for granted."""
    scene.node.load(archive)
    profiles = [
        body["spec"]["image"] for body in yaml.safe_load_all(_text("06")) if "image" in body["spec"]
    ]
    for image in profiles:
        scene.node.ctr("images", "tag", "--force", oci.image_name(archive), image)
    for name, data in SECRETS.items():
        body: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        await scene.apply({**body, "stringData": data})
    await scene.on_node("apply", "-f", str(_storage_class(tmp_path)))
    with GitServer(tmp_path, flags.GATEWAY) as git:
        git.make("shop/shop", {"README": "hello\n"})
        shelf = Shelf(scene, git)
        await shelf.apply("06")
        yield shelf
    await scene.on_node("delete", "storageclass", "fast")


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
    text = _text("05").replace("long-haul-files", claim)
    await shelf.scene.apply(*shelf.read(text))
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


def _text(number: str) -> str:
    (path,) = EXAMPLES.glob(f"{number}-*.yaml")
    return path.read_text()


def _image(folder: Path) -> Path:
    root, archive = folder / "root", folder / "examples.tar"
    root.mkdir()
    for name in COMMANDS:
        program = root / name
        words = " ".join(agents.SCRIPTED_COMMAND)
        program.write_text(f'#!/bin/sh\n[ "$1" != acp ] || shift\nexec {words} "$@"\n')
        program.chmod(0o755)
    name = "localhost/agents-of-the-examples:1"
    oci.pack(root, archive, oci.Settings(name), base=agents.scripted(), at="/usr/local/bin")
    shutil.rmtree(root)
    return archive


def _storage_class(folder: Path) -> Path:
    path = folder / "fast.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast"},
                "provisioner": flags.PROVISIONER,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )
    )
    return path
