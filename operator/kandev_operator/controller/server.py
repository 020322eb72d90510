"""Health and metrics over HTTP: a placeholder of the real server."""

import json
from collections.abc import Callable

from aiohttp import web


class Server:
    """Serves /healthz, /readyz and /metrics."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        liveness: Callable[[], list[str]],
        readiness: Callable[[], list[str]],
        metrics: Callable[[], bytes],
    ) -> None:
        self._host, self._wanted = host, port
        self._liveness, self._readiness, self._metrics = liveness, readiness, metrics
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._wanted)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close."""
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return _answer(self._liveness())

    async def _ready(self, _: web.Request) -> web.Response:
        return _answer(self._readiness())

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), content_type="text/plain")


def _answer(problems: list[str]) -> web.Response:
    return web.Response(text=json.dumps({"problems": problems}), status=503 if problems else 200)
