"""The token's Secret: whatever comes late, twice or out of order, no newer token is lost."""

import base64
import hashlib
import itertools
from typing import Any

import pytest

from kandev_operator.api.meta import OwnerReference
from kandev_operator.clients.errors import NotFound
from kandev_operator.clients.resources import Resource
from kandev_operator.controller.secrets import Secrets
from kandev_operator.core.observed import TokenSeen

OWNER = OwnerReference(
    api_version="kandev.dev/v1alpha1", kind="TaskSession", name="s", uid="uid", controller=True
)


class Cluster:
    """One Secret."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.writes = 0

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        if self.body is None:
            raise NotFound("get", "no such Secret")
        return self.body

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
        self.body, self.writes = body, self.writes + 1

    async def replace(
        self, resource: Resource, namespace: str, name: str, body: dict[str, Any]
    ) -> None:
        self.body, self.writes = body, self.writes + 1


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.secrets = Secrets(self.cluster, lambda: 0.0, lambda _: None)  # type: ignore[arg-type]

    async def do(self, word: str) -> None:
        """`tok@3`: keep this token of epoch 3; `-@3`: retire what is older than epoch 3."""
        token, _, epoch = word.partition("@")
        if token == "-":
            await self.secrets.retire_token("ns", "n", OWNER, int(epoch))
        else:
            sha = hashlib.sha256(token.encode()).hexdigest()
            seen = TokenSeen(token, sha, established=True, epoch=int(epoch))
            await self.secrets.store_token("ns", "n", OWNER, seen, int(epoch))

    @property
    def held(self) -> str:
        """`tok@3 previous,ones`."""
        assert self.cluster.body is not None
        data = {k: base64.b64decode(v).decode() for k, v in self.cluster.body["data"].items()}
        older = ",".join(data.get("previous", "").split())
        return f"{data['token'] or '-'}@{data['epoch']} {older}".strip()


@pytest.mark.parametrize(
    ("words", "held"),
    [
        pytest.param("old@1 -@2 new@2", "new@2 old", id="a fresh start"),
        pytest.param("old@1 -@2 new@2 -@2", "new@2 old", id="retired once more, too late"),
        pytest.param("old@1 -@2 old@1", "-@2 old", id="the old one comes too late"),
        pytest.param("old@1 -@2 new@2 old@1 -@1", "new@2 old", id="an older epoch is over"),
        pytest.param("a@1 b@1", "b@1 a", id="the agent goes on under another id"),
        pytest.param("a@1 b@1 a@1", "b@1 a", id="and a late write does not take it back"),
        pytest.param("a@1 b@1 a@2", "a@2 b,a", id="but a later resume may"),
        pytest.param("-@2 new@2", "new@2", id="there was nothing to retire"),
        pytest.param("a@1 a@2", "a@2", id="the same in a later epoch"),
    ],
)
async def test_what_is_held_in_the_end(words: str, held: str) -> None:
    scene = Scene()
    for word in words.split():
        await scene.do(word)
    assert scene.held == held


async def test_the_same_twice_is_one_write() -> None:
    scene = Scene()
    for word in ("a@1", "a@1", "-@2", "-@2", "b@2", "b@2"):
        await scene.do(word)
    assert scene.cluster.writes == 3


@pytest.mark.parametrize("late", [*itertools.permutations(["old@1", "-@2", "new@2"])], ids=str)
async def test_whatever_is_repeated_in_whatever_order_the_newest_stays(late: list[str]) -> None:
    scene = Scene()
    for word in ("old@1", "-@2", "new@2", *late):
        await scene.do(word)
    assert scene.held == "new@2 old"
