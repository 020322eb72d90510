"""The decisions of agentctl, without any I/O: events in, a new state and effects out.

`step(state, event)` is a pure function. It owns which operation is running, which prompt goes to
the agent next, what a turn's end means, which resume token is current, who may act (term, epoch)
and what becomes of all of these when a process dies. It refuses to know clocks, files, processes
and sockets: times and fresh ids arrive inside the events, and whatever must happen outside is
returned as an effect, to be carried out in order, what is stored first.

Because the state is a value, a caller whose disk refuses the stores simply keeps the old state:
nothing was accepted. `tables` holds the legal moves, from which the diagram is drawn.
"""

from kandev_operator.agentctl.machine.state import State
from kandev_operator.agentctl.machine.step import Outcome, step

__all__ = ["Outcome", "State", "step"]
