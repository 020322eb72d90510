"""Pods that went away, remembered for a while as they were last seen.

How a pod's containers ended is the only proof of its agent's death, and the object that says so
is gone a moment later. The memory is this process's own and bounded: whoever does not remember
has no proof, which costs a little time and breaks nothing.
"""

from collections import OrderedDict
from typing import Final

from kandev_operator.controller.cache import Body
from kandev_operator.core.podseen import PodSeen

REMEMBERED: Final = 2_000


class Graves:
    """The last words about pods that are gone."""

    def __init__(self) -> None:
        self._bodies: OrderedDict[str, Body] = OrderedDict()

    def remember(self, body: Body) -> None:
        """This pod's object was removed."""
        self._bodies[body["metadata"].get("uid", "")] = body
        while len(self._bodies) > REMEMBERED:
            self._bodies.popitem(last=False)

    def of(self, executor_uid: str) -> tuple[PodSeen, ...]:
        """Those of one executor."""
        seen = (PodSeen.from_body(body).gone() for body in self._bodies.values())
        return tuple(pod for pod in seen if pod.executor_uid == executor_uid)
