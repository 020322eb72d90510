"""The key that signs follows the Secret; who leads carries a rotation on; nobody else writes."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kandev_operator.clients.errors import NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import JWKS_FILE, JWKS_NAME, SECRET_NAME
from kandev_operator.clients.tokens import Minter, SigningKey, jwks
from kandev_operator.controller.keyring import HANDLED, STEP, Keyring, turned
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.core.rotation import OVER, Step

SETTLE = timedelta(seconds=180)
WISH = "kandev.dev/rotate-requested"


class Store:
    """The operator's namespace."""

    def __init__(self, key: SigningKey) -> None:
        meta = {"name": SECRET_NAME, "annotations": {WISH: "today"}}
        self.objects: dict[str, Any] = {
            SECRET_NAME: {"metadata": meta, "data": key.to_secret_data()}
        }
        self.writes = 0

    async def get(self, _resource: object, _namespace: str, name: str) -> Any:
        if name not in self.objects:
            raise NotFound("get", f"there is no {name}")
        return self.objects[name]

    async def create(self, _resource: object, _namespace: str, body: Any) -> Any:
        self.writes += 1
        self.objects[body["metadata"]["name"]] = body
        return body

    async def replace(self, _resource: object, _namespace: str, name: str, body: Any) -> Any:
        self.writes += 1
        self.objects[name] = body
        return body

    @property
    def key(self) -> SigningKey:
        return SigningKey.from_secret_data(self.objects[SECRET_NAME]["data"])

    @property
    def notes(self) -> dict[str, str]:
        found: dict[str, str] = self.objects[SECRET_NAME]["metadata"]["annotations"]
        return found


class Time:
    now = datetime(2026, 3, 4, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def ring(store: Store, key: SigningKey, time: Time) -> Keyring:
    minter = Minter(key, lambda: time().timestamp())
    kube = cast("Kube", store)
    return Keyring(kube, "system", minter, settle=SETTLE, clock=time, edges=EdgeLog())


async def test_a_rotation_from_the_wish_to_its_end() -> None:
    old, time, told = SigningKey.generate(), Time(), []
    store = Store(old)
    keyring = ring(store, old, time)

    async def look() -> None:
        await keyring.look(True, lambda: told.append(keyring.key.kid))

    await look()
    (new,) = keyring.key.retired
    assert keyring.key.kid == old.kid, "the new one is listed and signs nothing"
    assert store.key == keyring.key
    listed = store.objects[JWKS_NAME]["data"][JWKS_FILE]
    assert old.kid in listed
    assert new.kid in listed
    writes = store.writes
    await look()
    assert store.writes == writes, "nothing is due"
    time.now += SETTLE
    await look()
    assert keyring.key.kid == new.kid
    assert [each.kid for each in keyring.key.retired] == [old.kid]
    time.now += SETTLE + OVER
    await look()
    assert (keyring.key.kid, keyring.key.retired) == (new.kid, ())
    assert store.notes[STEP] == Step.DONE
    assert store.notes[HANDLED] == store.notes[WISH] == "today"
    assert told == [old.kid, new.kid, new.kid], "agentctls were told each time"
    assert old.kid not in store.objects[JWKS_NAME]["data"][JWKS_FILE]


async def test_who_comes_late_gives_the_list_its_time_before_it_signs() -> None:
    """Nobody handed it out while no operator ran."""
    old, time = SigningKey.generate(), Time()
    store = Store(old)
    await ring(store, old, time).look(True, lambda: None)
    time.now += timedelta(days=1)
    late = ring(store, store.key, time)
    await late.look(True, lambda: None)
    assert late.key.kid == old.kid
    time.now += SETTLE
    await late.look(True, lambda: None)
    assert late.key.kid != old.kid


async def test_who_does_not_lead_follows_and_writes_nothing() -> None:
    old, time = SigningKey.generate(), Time()
    store = Store(old)
    keyring, told = ring(store, old, time), []
    await keyring.look(False, lambda: told.append(1))
    assert (store.writes, told, keyring.key.kid) == (0, [], old.kid)
    other = SigningKey.generate()
    store.objects[SECRET_NAME]["data"] = other.beside(old).to_secret_data()
    await keyring.look(False, lambda: told.append(1))
    assert (store.writes, told, keyring.key.kid) == (0, [1], other.kid)


async def test_a_secret_that_is_gone_is_made_again_with_the_key_in_use() -> None:
    old, time = SigningKey.generate(), Time()
    store = Store(old)
    keyring = ring(store, old, time)
    del store.objects[SECRET_NAME]
    await keyring.look(False, lambda: None)
    assert SECRET_NAME not in store.objects
    await keyring.look(True, lambda: None)
    assert store.key == old


def test_at_every_step_both_ends_know_each_token_in_use() -> None:
    """Whoever signs with the key before or after a step is known to whoever has the list of before
    or after it."""
    key = SigningKey.generate()
    for step in (Step.ANNOUNCED, Step.REPLACED):
        after = turned(key, step)
        for signing in (key, after):
            for listing in (key, after):
                kids = {each["kid"] for each in jwks([listing])["keys"]}
                assert signing.kid in kids, step
        key = after
    assert turned(key, Step.DONE).kid == key.kid


@pytest.mark.parametrize("step", [Step.REPLACED, Step.DONE])
def test_where_a_person_took_the_other_key_away_nothing_is_turned(step: Step) -> None:
    key = SigningKey.generate()
    assert turned(key, step) == key
