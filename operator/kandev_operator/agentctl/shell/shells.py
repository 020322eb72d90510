"""All shells of this agentctl, by name and id: making, finding and ending them, within limits.

They belong to the workspace, and so to the session served: when another session is served, they
end, because its people are others. One that has ended by itself can be read until room is needed
or its name is used again.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import uuid

from kandev_operator.agentctl.engine import Engine, reject
from kandev_operator.agentctl.shell.environment import (
    Surroundings,
    default_shell,
    shell_environment,
)
from kandev_operator.agentctl.shell.process import LaunchFailed, PtyProcess
from kandev_operator.agentctl.shell.ring import Ring
from kandev_operator.agentctl.shell.terminal import Terminal
from kandev_operator.agentctl.shell.viewers import Size
from kandev_operator.contract.errors import Code
from kandev_operator.contract.shell import MAX_SHELLS, EndReason, ShellRequest

log = logging.getLogger("kandev.agentctl")


def _surroundings(engine: Engine) -> Surroundings:
    """Where the session's shells live; before there is a session, with a HOME beside it."""
    spec, folder = engine.spec, engine.folder
    return Surroundings(
        cwd=(spec.cwd if spec else None) or str(engine.settings.workspace),
        home=folder.home if folder else engine.settings.state / "home",
        profile=spec.env if spec else {},
    )


class Shells:
    """The shells. Their tasks belong to `group`; without one, agentctl itself is ending."""

    def __init__(self, engine: Engine, group: asyncio.TaskGroup | None) -> None:
        self.instance_id, self.boot_id = engine.instance_id, engine.boot_id
        self._engine, self._group = engine, group
        self._state = str(engine.settings.state)
        self._all: dict[str, Terminal] = {}

    def end(self) -> None:
        """End every shell; none is made any more."""
        group, self._group = self._group, None
        if group is not None:
            for terminal in self._all.values():
                group.create_task(terminal.end(EndReason.STOPPED))

    # ---- finding -----------------------------------------------------------------------

    def list(self) -> tuple[Terminal, ...]:
        """Those of the session served, the oldest first."""
        self._check_session()
        return tuple(self._all.values())

    def find(self, shell_id: str) -> Terminal:
        """One of them; raises Rejected."""
        self._check_session()
        found = self._all.get(shell_id)
        if found is None:
            raise reject(Code.UNKNOWN_SHELL, "there is no such shell here")
        return found

    def session_changed(self) -> None:
        """Another session may be served from now on."""
        self._check_session()

    def _check_session(self) -> None:
        session_id = self._engine.state.session_id
        for terminal in [*self._all.values()]:
            if terminal.session_id is None:
                terminal.session_id = session_id  # made before there was any
            if terminal.session_id != session_id:
                del self._all[terminal.shell_id]
                if self._group is not None:
                    self._group.create_task(terminal.end(EndReason.SESSION_CHANGED))

    # ---- making and ending -------------------------------------------------------------

    def create(self, request: ShellRequest) -> tuple[Terminal, bool]:
        """The shell of this name, and whether it was made just now; raises Rejected.

        One that runs is given as it is. No task switch lies between looking and making, so two
        callers never make two.
        """
        self._check_session()
        if self._group is None:
            raise reject(Code.SHELL_FAILED, "agentctl is ending")
        for terminal in [*self._all.values()]:
            if terminal.name == request.name:
                if not terminal.over.is_set():
                    return terminal, False
                del self._all[terminal.shell_id]
        self._make_room()
        terminal = self._launch(request)
        self._all[terminal.shell_id] = terminal
        self._group.create_task(terminal.run(self._state))
        return terminal, True

    def _make_room(self) -> None:
        ended = [t for t in self._all.values() if t.over.is_set() and not t.is_watched]
        while len(self._all) >= MAX_SHELLS:
            if not ended:
                raise reject(
                    Code.TOO_MANY, f"there are {MAX_SHELLS} shells already", limit=MAX_SHELLS
                )
            del self._all[ended.pop(0).shell_id]

    def _launch(self, request: ShellRequest) -> Terminal:
        around = _surroundings(self._engine)
        if not os.path.isdir(around.cwd):
            raise reject(Code.SHELL_FAILED, "the shell's working directory does not exist")
        with contextlib.suppress(OSError):
            around.home.mkdir(parents=True, exist_ok=True)
        shell_id = uuid.uuid4().hex
        argv = request.command or (default_shell(),)
        marks = (self._state, shell_id)
        env = shell_environment(os.environ, around, request, marks, default_shell())
        program = shutil.which(argv[0], path=env["PATH"]) if "/" not in argv[0] else argv[0]
        if not program:
            raise reject(Code.SHELL_FAILED, "the shell's command is not found")
        size = Size(request.cols, request.rows)
        try:
            process = PtyProcess.launch(
                (program, *argv[1:]), env=env, cwd=around.cwd, size=size, shell_id=shell_id
            )
        except LaunchFailed as exc:
            raise reject(Code.SHELL_FAILED, str(exc)) from None
        log.info("shell %s runs as process %d", shell_id, process.pid)
        return Terminal(
            shell_id,
            self._engine.state.session_id,
            request,
            process,
            Ring(self._engine.settings.shell_scrollback_bytes),
            (around.cwd, argv),
        )

    async def close(self, shell_id: str) -> Terminal:
        """End it and forget it; returns when nothing of it lives. Raises Rejected."""
        terminal = self.find(shell_id)
        # Its own task: a caller that goes away must not leave it half ended.
        if self._group is not None:
            await asyncio.shield(self._group.create_task(terminal.end(EndReason.CLOSED)))
        await terminal.over.wait()
        self._all.pop(shell_id, None)
        return terminal
