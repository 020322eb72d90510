"""The way to the API server is bad, or a right is missing (B011): the watch must not die unseen.

The operator goes through a proxy that resets, swallows or delays. Never is it ready for good while
new objects are ignored, and it says what is wrong.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.account import Account
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.tcpproxy import TcpProxy

SWEEP = 4.0


@pytest.fixture
def proxy(place: Namespace) -> Iterator[TcpProxy]:
    with TcpProxy.before(place.cluster.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def behind(
    place: Namespace,
    proxy: TcpProxy,
    make_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> OperatorProcess:
    """A running operator whose every connection goes through the proxy."""
    config = proxy.kubeconfig(place.cluster.kubeconfig, tmp_path / "through-proxy.json")
    place.apply(task(), profile())
    return make_operator(f"--sweep-seconds={SWEEP}", kubeconfig=config).start()


def add(place: Namespace, name: str) -> None:
    """A session that needs no process: that it was handled shows in its status."""
    place.apply(session(name, place.worktree(name), operatingMode="Suspended"))


def handled(place: Namespace, name: str, seconds: float) -> float:
    """How long it took until somebody handled the session."""
    began = time.monotonic()
    place.wait(name, lambda now: now.get("conditions"), "handled", seconds=seconds)
    return time.monotonic() - began


async def test_b011_connections_are_reset_while_watches_are_set_up(
    place: Namespace, proxy: TcpProxy, behind: OperatorProcess
) -> None:
    add(place, "before")
    handled(place, "before", 20)
    proxy.reset()
    add(place, "meanwhile")
    end = time.monotonic() + 12
    while behind.get("/readyz")[0] == 200:
        assert time.monotonic() < end, "it does not notice"
        await asyncio.sleep(0.1)
    tries = proxy.connections
    while proxy.connections < tries + 10:
        assert behind.get("/healthz")[0] == 200, "an outage elsewhere is no reason to restart"
        assert time.monotonic() < end, "it does not try again"
        await asyncio.sleep(0.1)
    proxy.heal()
    handled(place, "meanwhile", 20)
    await asyncio.to_thread(behind.wait_ready, 45)
    add(place, "after")
    assert handled(place, "after", 20) < 10


async def test_b011_an_open_watch_becomes_a_black_hole(
    place: Namespace, proxy: TcpProxy, behind: OperatorProcess
) -> None:
    proxy.swallow()
    # The sweep finds what the watch does not tell; twice in a row means that the watch lies.
    for name in ("one", "two", "three"):
        add(place, name)
        handled(place, name, 30)
    end = time.monotonic() + 30
    while "the watch missed changes" not in behind.log.read_text():
        assert time.monotonic() < end, behind.tail()
        await asyncio.sleep(0.1)
    await asyncio.to_thread(behind.wait_ready, 30)
    assert any(fresh(place, behind, f"fresh-{n}") < SWEEP / 2 for n in range(5)), behind.tail()


def fresh(place: Namespace, operator: OperatorProcess, name: str) -> float:
    add(place, name)
    return handled(place, name, 20)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_b011_a_right_is_missing_when_the_operator_starts(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    verb: str,
) -> None:
    account = Account(place.cluster, place.name)
    place.apply(task(), profile())
    operator = make_operator("--sweep-seconds=3", kubeconfig=account.kubeconfig)
    with account.without(verb, "executors"):
        operator.start(wait_ready=False)
        words = f"may not {verb} executors.kandev.dev"
        end = time.monotonic() + 30
        while words not in operator.log.read_text():
            assert time.monotonic() < end, operator.tail()
            await asyncio.sleep(0.1)
        for _ in range(30):
            code, said = operator.get("/readyz")
            assert code == 503, said
            assert words in said
            assert operator.get("/healthz")[0] == 200
            await asyncio.sleep(0.1)
        # Asked for beforehand, and met: a clear line each, and no flood.
        said_so = operator.log.read_text().count(words)
        assert said_so in (1, 2), operator.tail()
    await asyncio.to_thread(operator.wait_ready, 45)
    add(place, "s")
    handled(place, "s", 20)
    assert operator.log.read_text().count(words) == said_so
