"""The three pages that whoever runs the operator reads: /healthz, /readyz and /metrics.

The loop that does the work answers them itself, so that an answer is proof that it turns: one
that stands still answers nothing, and the kubelet's probe runs out. What is wrong, if anything,
is said by the callables that are handed in; each gives a list of sentences, empty when all is
well, and the page shows them. An outage of others belongs into readiness, never into liveness:
a restart would not end it.
"""

import json
from collections.abc import Callable
from typing import Final

from aiohttp import web

from kandev_operator.controller.metrics import CONTENT_TYPE

Problems = Callable[[], list[str]]

_NOTHING_IS_SENT_HERE: Final = 1024  # bytes of a request's body
_LAST_ANSWERS_SECONDS: Final = 1.0


class Server:
    """Serves the pages between `start` and `stop`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        liveness: Problems,
        readiness: Problems,
        metrics: Callable[[], bytes],
    ) -> None:
        """Port 0 takes a free one; `port` says which, from `start` on."""
        self.port = port
        self._host = host
        self._metrics = metrics
        self._checks = {"/healthz": liveness, "/readyz": readiness}
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError where the address cannot be had."""
        app = web.Application(client_max_size=_NOTHING_IS_SENT_HERE)
        for path in self._checks:
            app.router.add_get(path, self._check)
        app.router.add_get("/metrics", self._page)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LAST_ANSWERS_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every connection. Harmless if it never listened."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _check(self, request: web.Request) -> web.Response:
        problems = self._checks[request.path]()
        return web.Response(
            text=json.dumps({"problems": problems}) + "\n",
            status=503 if problems else 200,
            content_type="application/json",
        )

    async def _page(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE})
