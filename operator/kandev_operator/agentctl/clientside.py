"""What the agent may ask of its client: text files of the workspace, and terminals.

Files are reached beneath the workspace and nowhere else, whatever links or names lead out of it;
an agent that wants more does it itself, as it may anyway. Every answer is a value or a `Declined`
with a JSON-RPC code; texts are bounded, and no file's content is ever quoted in a refusal. Which
session asks is not looked at: one process serves one conversation and its sub-agents.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from kandev_operator.agentctl.orphans import EXECUTION_MARK, STATE_MARK
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.agentctl.terminals import (
    Terminal,
    TerminalRefused,
    Terminals,
    argv_of,
)
from kandev_operator.contract.errors import Code

INVALID_PARAMS: Final = -32602
RESOURCE_NOT_FOUND: Final = -32002
INTERNAL_ERROR: Final = -32603
LARGEST: Final = 2**53
Params = Mapping[str, Any]


class TextFiles(Protocol):
    """The workspace's text files, by absolute path. Both raise Refusal."""

    async def read(self, path: str) -> str: ...

    async def write(self, path: str, text: str) -> None: ...


class Declined(Exception):
    """The agent is told no: a JSON-RPC code and words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class ClientSide:
    """The client's side of one agent process."""

    def __init__(
        self,
        files: TextFiles | None,
        cwd: str,
        env: Mapping[str, str],
        on_end: Callable[[Terminal], None],
    ) -> None:
        self._files, self._cwd, self._env = files, cwd, env
        self._terminals = Terminals(on_end)
        self._answers: dict[str, Callable[[Params], Awaitable[dict[str, Any]]]] = {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def knows(self, method: str) -> bool:
        return method in self._answers

    async def answer(self, method: str, params: Params) -> dict[str, Any]:
        """Do what is asked; raises Declined."""
        try:
            return await self._answers[method](params)
        except TerminalRefused as refused:
            raise Declined(INVALID_PARAMS, str(refused)) from None
        except Refusal as refusal:
            missing = refusal.code is Code.FILE_NOT_FOUND
            code = RESOURCE_NOT_FOUND if missing else INVALID_PARAMS
            raise Declined(code, refusal.message) from None
        except OSError as exc:
            raise Declined(INTERNAL_ERROR, exc.strerror or "it failed") from None

    async def end(self) -> None:
        """The agent is gone: its terminals go, too."""
        await self._terminals.end()

    # ---- files -------------------------------------------------------------------------

    async def _read(self, params: Params) -> dict[str, Any]:
        line, limit = _count(params, "line"), _count(params, "limit")
        text = await self._shared().read(_text(params, "path"))
        if line is None and limit is None:
            return {"content": text}
        start = max(0, (line or 1) - 1)
        lines = text.splitlines(keepends=True)
        return {"content": "".join(lines[start : None if limit is None else start + limit])}

    async def _write(self, params: Params) -> dict[str, Any]:
        await self._shared().write(_text(params, "path"), _text(params, "content"))
        return {}

    def _shared(self) -> TextFiles:
        if self._files is None:
            raise Declined(INTERNAL_ERROR, "no files are served here")
        return self._files

    # ---- terminals ---------------------------------------------------------------------

    async def _create(self, params: Params) -> dict[str, Any]:
        args = params.get("args") or []
        if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
            raise Declined(INVALID_PARAMS, "args is a list of texts")
        cwd = params.get("cwd") or self._cwd
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise Declined(INVALID_PARAMS, "cwd is an absolute path")
        env = {**self._env, **_variables(params.get("env"))}
        argv = argv_of(_text(params, "command"), args, env.get("PATH"))
        limit = _count(params, "outputByteLimit")
        made = self._terminals.create(argv, env=env, cwd=cwd, limit=limit)
        return {"terminalId": made.terminal_id}

    async def _output(self, params: Params) -> dict[str, Any]:
        terminal = self._terminal(params)
        output = terminal.output()
        answer: dict[str, Any] = {"output": output, "truncated": terminal.truncated}
        if terminal.ended is not None:
            answer["exitStatus"] = _exit(terminal)
        return answer

    async def _wait(self, params: Params) -> dict[str, Any]:
        terminal = self._terminal(params)
        await terminal.wait()
        return _exit(terminal)

    async def _kill(self, params: Params) -> dict[str, Any]:
        terminal = self._terminal(params)
        if terminal.ended is None:
            await terminal.kill()
        return {}

    async def _release(self, params: Params) -> dict[str, Any]:
        await self._terminals.release(_text(params, "terminalId"))
        return {}

    def _terminal(self, params: Params) -> Terminal:
        return self._terminals.get(_text(params, "terminalId"))


def _exit(terminal: Terminal) -> dict[str, Any]:
    ended = terminal.ended
    return {} if ended is None else {"exitCode": ended.code, "signal": ended.signal}


def _text(params: Params, name: str) -> str:
    found = params.get(name)
    if not isinstance(found, str):
        raise Declined(INVALID_PARAMS, f"{name} is a text")
    return found


def _count(params: Params, name: str) -> int | None:
    found = params.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= LARGEST:
        raise Declined(INVALID_PARAMS, f"{name} is a natural number")
    return found


def _variables(told: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in told if isinstance(told, list) else ():
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (0, 0)
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise Declined(INVALID_PARAMS, "env is a list of names and values")
        if name not in (STATE_MARK, EXECUTION_MARK):  # by which it is found and ended
            found[name] = value
    return found
