"""A whole node for end-to-end tests: pods run, volumes are mounted, images are unpacked.

`Node` is a control plane with what acts on it beside it. `node.py` starts and stops it, `flags.py`
says how each program runs, `packages.py` brings what the distribution has, `ground.py` takes and
gives back what belongs to the machine, and `janitor.py` clears up, however the owner ended.
Making images is `cluster/images/`'s business.
"""

from cluster.node.node import Node
from cluster.node.slot import Slot

__all__ = ["Node", "Slot"]
