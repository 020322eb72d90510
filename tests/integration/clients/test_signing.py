"""The signing key on a real API server: one key, whoever comes first, and its public half."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from cluster.interface import Cluster
from kandev_operator.clients import errors, resources
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import (
    JWKS_FILE,
    JWKS_NAME,
    load_or_create_signing_key,
    publish_jwks,
    read_signing_key,
)
from kandev_operator.clients.tokens import SigningKey, jwks


@pytest.fixture
async def kube(control_plane: Cluster) -> AsyncIterator[Kube]:
    async with await Kube.connect(control_plane.kubeconfig) as kube:
        yield kube


async def test_ten_who_come_at_once_have_one_key(kube: Kube, namespace: str) -> None:
    with pytest.raises(errors.NotFound):
        await read_signing_key(kube, namespace)
    keys = await asyncio.gather(*(load_or_create_signing_key(kube, namespace) for _ in range(10)))
    assert {key.kid for key in keys} == {(await read_signing_key(kube, namespace)).kid}
    published = await kube.get(resources.CONFIG_MAPS, namespace, JWKS_NAME)
    assert json.loads(published["data"][JWKS_FILE]) == jwks(keys[:1])


async def test_the_public_half_is_put_right_and_then_left(kube: Kube, namespace: str) -> None:
    key = SigningKey.generate()
    assert await publish_jwks(kube, namespace, [key])
    await kube.merge_patch(
        resources.CONFIG_MAPS, namespace, JWKS_NAME, {"data": {JWKS_FILE: "{}", "more": "x"}}
    )
    assert await publish_jwks(kube, namespace, [key])
    assert not await publish_jwks(kube, namespace, [key])
    published = await kube.get(resources.CONFIG_MAPS, namespace, JWKS_NAME)
    assert [*published["data"]] == [JWKS_FILE]
