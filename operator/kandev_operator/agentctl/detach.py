"""Running in the background: a process that is nobody's child, and a word when it answers.

The caller waits until the new process wrote run.json and /health answers, or until it ended, and
then hears why from the end of its log. The log is bounded (see `serve`): one older part is kept;
what the process says outside of it, such as a crash of the interpreter, is appended to it.
"""

import http.client
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from kandev_operator.agentctl import serve
from kandev_operator.agentctl.orphans import stat_fields
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.statedir import read_json

PATIENCE: Final = 20.0
TAIL_BYTES: Final = 2000


def main(settings: Settings) -> int:
    """Start it, wait for it, say how it went; gives the exit code."""
    settings.state.mkdir(parents=True, exist_ok=True)
    log = settings.state / serve.LOG_NAME
    began = log.stat().st_size if log.exists() else 0
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _become_daemon(settings, log, writing)
    os.close(writing)
    os.wait()
    with os.fdopen(reading, "rb") as pipe:
        pid = int(pipe.readline() or 0)
    return _wait(settings, pid, log, began)


def _become_daemon(settings: Settings, log: Path, writing: int) -> None:
    """In the first child: leave the session, fork again, serve in the grandchild."""
    os.setsid()
    if (pid := os.fork()) != 0:
        os.write(writing, f"{pid}\n".encode())
        os._exit(0)
    os.close(writing)
    null = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, out), (2, out)):
        os.dup2(source, target)
    code = 1
    try:
        code = serve.main(settings)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(settings: Settings, pid: int, log: Path, began: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        run = read_json(settings.state / "run.json")
        if run.get("pid") == pid and _answers(run):
            print(run["url"])
            return 0
        if (stat_fields(pid) or ["X"])[0] in "ZX":
            return _complain("agentctl ended at once", log, began)
        time.sleep(0.02)
    return _complain(f"agentctl did not answer within {PATIENCE:g} s", log, began)


def _answers(run: dict[str, Any]) -> bool:
    connection = http.client.HTTPConnection(run["host"], run["port"], timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _complain(words: str, log: Path, began: int) -> int:
    try:
        with log.open("rb") as file:
            file.seek(max(began, log.stat().st_size - TAIL_BYTES))
            tail = file.read().decode("utf-8", "replace").strip()
    except OSError:
        tail = ""
    print(f"{words}; its log {log} ends with:\n{tail}", file=sys.stderr)
    return 1
