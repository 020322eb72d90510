"""One agentctl process from its first breath to its last: lock, socket, engine, signals.

The order matters. The lock comes first, then the owner file, so that a second agentctl on the same
state touches nothing, wherever the first one runs; leftovers of an earlier life are killed before
anything is served as true; run.json is written once the socket answers. On SIGTERM the agent ends
gently, then the server, then the journal is closed.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import uvicorn

from kandev_operator.agentctl import app, orphans, sockets
from kandev_operator.agentctl.auth import Authenticator, KeySet
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.owner import StillOwned, wait_for_silence
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.runs import LocalRuns, Runs
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.shell.protocol import websocket_protocol
from kandev_operator.agentctl.shell.room import Room
from kandev_operator.agentctl.statedir import AlreadyRunning, StateDir, write_json
from kandev_operator.contract.paths import MAX_FRAME_BYTES

log = logging.getLogger("kandev.agentctl")

EXIT_ALREADY_RUNNING: Final = 73
EXIT_NO_ADDRESS: Final = 74
REAP_EVERY: Final = 5.0
LOG_NAME: Final = "agentctl.log"
LOG_BYTES: Final = 4 * 1024 * 1024
CLOSE_PATIENCE: Final = 3


class Server(uvicorn.Server):
    """uvicorn, with our own signals, telling when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are `run`'s business

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()


def main(settings: Settings) -> int:
    """Serve until told to end; gives the exit code."""
    _log_to(settings)
    states = StateDir(settings.state)
    try:
        states.own()
    except AlreadyRunning:
        log.error("another agentctl already runs on the state folder %s", settings.state)
        return EXIT_ALREADY_RUNNING
    try:
        period = settings.patience.owner_period
        dead = wait_for_silence(states.path, period, settings.dead_boot_id)
    except StillOwned:
        log.error("another agentctl still owns the state folder %s", settings.state)
        return EXIT_ALREADY_RUNNING
    settings = replace(settings, dead_boot_id=dead)
    orphans.become_subreaper()
    _end_leftovers(settings)
    try:
        bound = _bind(settings)
    except OSError as exc:
        log.error("cannot listen on %s port %d: %s", settings.host, settings.port, exc.strerror)
        return EXIT_NO_ADDRESS
    asyncio.run(_serve(settings, states, bound))
    return 0


def _log_to(settings: Settings) -> None:
    """Into a bounded file in the background, to stderr else."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if settings.detach:
        from logging.handlers import RotatingFileHandler

        path = settings.state / LOG_NAME
        handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(
        handlers=[handler],
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )


def _end_leftovers(settings: Settings) -> None:
    try:
        killed = orphans.kill_leftovers(str(settings.state), timeout=2.0)
    except orphans.Lingering as exc:
        log.error("no agent is launched for now: %s", exc)
        return
    if killed:
        log.warning("killed %d processes that were left", killed)


def _bind(settings: Settings) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM
    )[0]
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(address)
    return bound


async def _serve(settings: Settings, states: StateDir, bound: socket.socket) -> None:
    boot_id = str(uuid.uuid4())
    instance_id = settings.instance_id or states.instance_id()
    engine = Engine(settings, states, boot_id, instance_id, _place(settings, instance_id))
    shells = Room(engine)
    engine.on_session = shells.session_changed
    authenticator = Authenticator(KeySet(settings.jwks), settings.audience)
    config = uvicorn.Config(
        app.build(engine, authenticator, shells),
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http=sockets.protocol(settings.patience.request),
        ws=websocket_protocol,  # type: ignore[arg-type] # it makes what a class would make
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.shell_ping_seconds,
        ws_ping_timeout=settings.shell_ping_seconds,
        timeout_graceful_shutdown=CLOSE_PATIENCE,
    )
    host, port = bound.getsockname()[:2]
    run = {
        "pid": os.getpid(),
        "birth": orphans.birth(os.getpid()),
        "host": host,
        "port": port,
        "instance_id": instance_id,
        "boot_id": boot_id,
        "url": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
    }

    def listening() -> None:
        try:
            write_json(settings.state / "run.json", run, sync=False)
        except OSError as exc:
            log.error("run.json cannot be written: %s", exc.strerror)  # served all the same
        log.info("serving on %s", run["url"])

    server = Server(config, listening)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    async with asyncio.TaskGroup() as group:
        reaper = group.create_task(_reap(engine))
        serving = group.create_task(server.serve(sockets=[bound]))
        terminals = group.create_task(shells.run(asked))
        await engine.run(asked)
        await terminals
        engine.closing.set()
        await engine.wake_readers()
        server.should_exit = True
        await serving
        reaper.cancel()
    await engine.runs.close()
    engine.close()
    await asyncio.to_thread(_end_leftovers, settings)
    with contextlib.suppress(FileNotFoundError):
        (settings.state / "run.json").unlink()
    log.info("ended")


def _place(settings: Settings, instance_id: str) -> Callable[[Settings, Redactor], Runs]:
    """Where agents run: here, or on the upstream."""
    if settings.upstream is None:
        return LocalRuns
    try:
        from kandev_operator.agentctl.upstream.runs import UpstreamRuns  # late: it brings a client
    except ModuleNotFoundError as exc:
        sys.exit(f"--upstream needs {exc.name}: install kandev-operator[agentctl,upstream]")
    return lambda told, redactor: UpstreamRuns(told, redactor, instance_id)


async def _reap(engine: Engine) -> None:
    """Dead orphans of the agent's tree are ours to collect."""
    while True:
        await asyncio.sleep(REAP_EVERY)
        own = engine.agent_pid
        await asyncio.to_thread(orphans.reap, frozenset({own} if own else ()))
