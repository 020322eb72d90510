"""The signing key in the cluster: made once by whoever comes first, published as it is."""

import base64
import json
from typing import Any, cast

import pytest

from kandev_operator.clients import errors, resources, signing
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource
from kandev_operator.clients.tokens import SigningKey, jwks


class Store:
    """A few objects with names and versions, and somebody else who may write in between."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.versions = 0
        self.writes: list[str] = []
        self.between: list[Any] = []

    def put(self, resource: Resource, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.versions += 1
        metadata = {**body.get("metadata", {}), "name": name}
        metadata["resourceVersion"] = str(self.versions)
        self.objects[resource.plural, name] = {**body, "metadata": metadata}
        return self.objects[resource.plural, name]

    async def get(self, resource: Resource, _namespace: str, name: str) -> dict[str, Any]:
        found = self.objects.get((resource.plural, name))
        if self.between:
            self.between.pop(0)()
        if found is None:
            raise errors.NotFound("get", name)
        return found

    async def create(
        self, resource: Resource, _namespace: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if (resource.plural, name) in self.objects:
            raise errors.AlreadyExists("create", name)
        self.writes.append(f"create {resource.plural}")
        return self.put(resource, name, body)

    async def replace(
        self, resource: Resource, _namespace: str, name: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        found = self.objects[resource.plural, name]
        if found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise errors.Conflict("replace", name)
        self.writes.append(f"replace {resource.plural}")
        return self.put(resource, name, body)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def kube(store: Store) -> Kube:
    return cast(Kube, store)


def published(store: Store) -> Any:
    return json.loads(store.objects["configmaps", signing.JWKS_NAME]["data"]["jwks.json"])


async def test_the_first_makes_it_and_all_others_read_it(store: Store, kube: Kube) -> None:
    first = await signing.load_or_create_signing_key(kube, "kandev")
    assert store.writes == ["create secrets", "create configmaps"]
    assert await signing.load_or_create_signing_key(kube, "kandev") == first
    assert await signing.read_signing_key(kube, "kandev") == first
    assert len(store.writes) == 2
    assert published(store) == jwks([first])


async def test_whoever_comes_second_takes_the_key_that_is_there(store: Store, kube: Kube) -> None:
    theirs = SigningKey.generate()
    store.between.append(
        lambda: store.put(resources.SECRETS, signing.SECRET_NAME, {"data": theirs.to_secret_data()})
    )
    assert await signing.load_or_create_signing_key(kube, "kandev") == theirs
    assert published(store) == jwks([theirs])


async def test_an_unusable_secret_is_never_overwritten(store: Store, kube: Kube) -> None:
    store.put(resources.SECRETS, signing.SECRET_NAME, {"data": {"signing-key.pem": "eA=="}})
    with pytest.raises(errors.SigningKeyUnusable):
        await signing.load_or_create_signing_key(kube, "kandev")
    store.put(resources.SECRETS, signing.SECRET_NAME, {})
    with pytest.raises(errors.SigningKeyUnusable):
        await signing.load_or_create_signing_key(kube, "kandev")
    assert store.writes == []


async def test_what_differs_is_put_right_and_what_is_right_is_left(
    store: Store, kube: Kube
) -> None:
    key = SigningKey.generate()
    store.put(resources.CONFIG_MAPS, signing.JWKS_NAME, {"data": {"jwks.json": "{}"}})
    assert await signing.publish_jwks(kube, "team-a", [key])
    assert not await signing.publish_jwks(kube, "team-a", [key])
    assert store.writes == ["replace configmaps"]


async def test_a_writer_in_between_makes_it_look_again(store: Store, kube: Kube) -> None:
    key = SigningKey.generate()

    def somebody() -> None:
        store.put(resources.CONFIG_MAPS, signing.JWKS_NAME, {"data": {"jwks.json": ""}})

    store.between += [somebody, somebody]
    assert await signing.publish_jwks(kube, "team-a", [key])
    assert published(store) == jwks([key])
    store.between += [somebody] * 10
    with pytest.raises(errors.Conflict):
        await signing.publish_jwks(kube, "team-a", [SigningKey.generate()])
    assert len(store.between) == 5


async def test_a_retired_key_stays_published(store: Store, kube: Kube) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    data = new.to_secret_data()
    data["retired-key.pem"] = old.to_secret_data()["signing-key.pem"]
    store.put(resources.SECRETS, signing.SECRET_NAME, {"data": data})
    key = await signing.load_or_create_signing_key(kube, "kandev")
    assert key.kid == new.kid
    assert {each["kid"] for each in published(store)["keys"]} == {old.kid, new.kid}
    assert SigningKey.from_secret_data(key.to_secret_data()) == key
    text = base64.b64decode(data["retired-key.pem"]).decode().split("\n")[1]
    assert text not in json.dumps(published(store))
