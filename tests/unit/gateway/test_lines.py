"""The way to an agentctl: what is missing is said before a call begins."""

from typing import Any, cast

import pytest

from kandev_operator.api import group
from kandev_operator.api.session import TaskSession
from kandev_operator.clients.tokens import Minter
from kandev_operator.gateway.cache import Cache
from kandev_operator.gateway.lines import Lines
from kandev_operator.gateway.refusals import Refusal
from unit.cli.bodies import SESSION_UID, executor_body, session_body

NOBODY = cast("Any", None)


def no_key() -> Minter:
    raise Refusal("unreachable", "the signing key has not been read yet")


def a_cache(url: str | None) -> tuple[Cache, TaskSession]:
    cache = Cache()
    cache.put(group.EXECUTOR, executor_body(url))
    cache.put(group.TASK_SESSION, session_body())
    session = cache.get(TaskSession, SESSION_UID)
    assert session is not None
    return cache, session


async def test_a_key_that_is_not_there_yet_refuses_before_the_call() -> None:
    """A recorder that dials as the gateway starts waits for it; it must not break in mid-call."""
    cache, session = a_cache("http://127.0.0.1:1")
    with pytest.raises(Refusal, match="signing key"):
        await Lines(NOBODY, NOBODY, cache, no_key).client(session)


async def test_an_executor_without_agentctl_is_not_ready() -> None:
    cache, session = a_cache(None)
    with pytest.raises(Refusal) as refused:
        await Lines(NOBODY, NOBODY, cache, no_key).client(session)
    assert refused.value.body.code == "agentctl_not_ready"
    assert refused.value.body.details["executor_status"] == "ready"
