"""The three pages, over a real socket on this machine."""

import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kandev_operator.controller.metrics import Metrics
from kandev_operator.controller.server import Server

pytestmark = pytest.mark.unit


class Operator:
    """What stands behind the pages."""

    def __init__(self) -> None:
        self.sick: list[str] = []
        self.unready: list[str] = []
        self.metrics = Metrics()
        self.server = Server(
            "127.0.0.1",
            0,
            liveness=lambda: self.sick,
            readiness=lambda: self.unready,
            metrics=self.metrics.page,
        )

    async def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{self.server.port}{path}") as answer,
        ):
            return answer.status, answer.headers["Content-Type"], await answer.text()


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    operator = Operator()
    await operator.server.start()
    yield operator
    await operator.server.stop()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_all_is_well(operator: Operator, path: str) -> None:
    status, content_type, body = await operator.get(path)
    assert status == 200
    assert content_type.startswith("application/json")
    assert json.loads(body) == {"problems": []}
    assert (await operator.get(path, "HEAD"))[0] == 200


async def test_liveness_and_readiness_are_two_questions(operator: Operator) -> None:
    operator.unready = ["executors: the watch is down", "no credentials"]
    assert (await operator.get("/healthz"))[0] == 200
    status, _, body = await operator.get("/readyz")
    assert status == 503
    assert json.loads(body)["problems"] == operator.unready
    operator.unready, operator.sick = [], ["a pass does not end"]
    assert (await operator.get("/readyz"))[0] == 200
    status, _, body = await operator.get("/healthz")
    assert status == 503
    assert json.loads(body)["problems"] == ["a pass does not end"]


async def test_metrics_are_what_prometheus_reads(operator: Operator) -> None:
    operator.metrics.probed("well")
    status, content_type, body = await operator.get("/metrics")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert 'kandev_operator_probes_total{outcome="well"} 1.0' in body


async def test_a_check_that_fails_is_not_good_news(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator.sick = None  # type: ignore[assignment]
    monkeypatch.setattr(operator.server, "_checks", {"/healthz": lambda: 1 / 0})
    assert (await operator.get("/healthz"))[0] == 500


@pytest.mark.parametrize(("path", "method"), [("/", "GET"), ("/healthz", "POST")])
async def test_nothing_else_is_served(operator: Operator, path: str, method: str) -> None:
    assert (await operator.get(path, method))[0] in (404, 405)


async def test_after_stop_nobody_answers(operator: Operator) -> None:
    await operator.server.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await operator.get("/healthz")
    await operator.server.stop()


async def test_an_address_in_use_is_said_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = Server(
            "127.0.0.1",
            taken.getsockname()[1],
            liveness=list,
            readiness=list,
            metrics=lambda: b"",
        )
        with pytest.raises(OSError, match="address already in use"):
            await server.start()
        await server.stop()
