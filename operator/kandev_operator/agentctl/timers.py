"""The timers that the machine arms: one of each kind, but one for every open permission request.

When one is over it is told as an event with the key it was armed with; whether it still matters is
the machine's to know.
"""

import asyncio
from collections.abc import Callable
from typing import assert_never

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.settings import Patience


class Timers:
    """All that are running."""

    def __init__(self, patience: Patience, tell: Callable[[ev.Event], None]) -> None:
        self._patience, self._tell = patience, tell
        self._running: dict[tuple[ev.Timer, str], asyncio.TimerHandle] = {}

    def arm(self, act: fx.Arm) -> None:
        """Run it; one of the same kind that runs already is called off."""
        patience = self._patience
        match act.timer:
            case ev.Timer.PROBE_IDLE:
                seconds = patience.probe_idle
            case ev.Timer.CANCEL_GRACE:
                seconds = patience.cancel_grace
            case ev.Timer.FLUSH:
                seconds = patience.flush
            case ev.Timer.START | ev.Timer.PERMISSION:
                seconds = act.seconds
            case _:
                assert_never(act.timer)
        # One of each timer runs at a time, but every open permission request has its own.
        place = (act.timer, act.key if act.timer is ev.Timer.PERMISSION else "")
        if (old := self._running.pop(place, None)) is not None:
            old.cancel()

        def ring() -> None:
            self._running.pop(place, None)
            self._tell(ev.TimerFired(now(), act.timer, act.key))

        self._running[place] = asyncio.get_running_loop().call_later(seconds, ring)

    def cancel(self) -> None:
        """Ring no more."""
        for timer in self._running.values():
            timer.cancel()
