"""The place for a run's one node: started when a test first asks, and put away for those that must
have the machine without it.

The next test that asks gets a new one. So a test that starts and ends nodes of its own needs no
place in any order.
"""

from typing import IO

from cluster.node import ground
from cluster.node.node import Node

# Another run of the tests may have the machine for as long as it lasts.
_PATIENCE = 3600.0


class Slot:
    """Holds the node of a run, or none; and the run's turn with the machine, from first to last."""

    def __init__(self) -> None:
        self._node: Node | None = None
        self._turn: IO[str] | None = None

    def started(self) -> Node:
        """Return the node, which is running; what a test stopped on it, that test starts again."""
        self._take_turn()
        if self._node is None:
            # The turn is ours; what may still be there is a node that somebody started by hand.
            node = Node(audit=True, patience=_PATIENCE)
            node.start()
            self._node = node
        return self._node

    @property
    def current(self) -> Node | None:
        return self._node

    def clear(self) -> None:
        """End the node, if there is one, and return when the machine is as it was before."""
        self._take_turn()
        node, self._node = self._node, None
        if node is not None:
            node.stop()

    def close(self) -> None:
        """End the node and the turn."""
        if self._turn is None:
            return
        try:
            self.clear()
        finally:
            self._turn.close()
            self._turn = None

    def _take_turn(self) -> None:
        if self._turn is None:
            self._turn = ground.wait_for_turn(_PATIENCE)
