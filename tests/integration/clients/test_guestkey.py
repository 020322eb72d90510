"""The gateway's own key: made once however many replicas start, and bounded in what it may."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cluster.interface import Cluster
from kandev_operator.clients import resources
from kandev_operator.clients.guestkey import (
    KEYS_NAME,
    SCOPES,
    SECRET_NAME,
    load_or_create_guest_key,
)
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import SigningKey
from kandev_operator.contract.claims import Scope


@pytest.fixture
async def kube(control_plane: Cluster) -> AsyncIterator[Kube]:
    async with await Kube.connect(control_plane.kubeconfig) as kube:
        yield kube


async def test_replicas_that_start_together_share_one_key_without_control(
    kube: Kube, namespace: str
) -> None:
    keys = await asyncio.gather(*(load_or_create_guest_key(kube, namespace) for _ in range(5)))
    assert len({key.kid for key in keys}) == 1
    assert keys[0].scopes == SCOPES
    assert Scope.CONTROL not in keys[0].scopes
    assert await _published(kube, namespace) == {keys[0].kid}


async def test_two_keys_are_published_while_one_follows_the_other(
    kube: Kube, namespace: str
) -> None:
    first = await load_or_create_guest_key(kube, namespace)
    second = replace(SigningKey.generate(SCOPES), retired=(first,))
    secret = await kube.get(resources.SECRETS, namespace, SECRET_NAME)
    body = {**secret, "data": second.to_secret_data()}
    await kube.replace(resources.SECRETS, namespace, SECRET_NAME, body)
    assert (await load_or_create_guest_key(kube, namespace)).kid == second.kid
    assert await _published(kube, namespace) == {first.kid, second.kid}


async def _published(kube: Kube, namespace: str) -> set[str]:
    found = await kube.get(resources.CONFIG_MAPS, namespace, KEYS_NAME)
    return {key["kid"] for key in json.loads(found["data"]["jwks.json"])["keys"]}
