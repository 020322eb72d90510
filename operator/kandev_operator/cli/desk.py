"""What every command works with: the cluster, the way to agentctl, the screen, and patience.

Made once by the program; a test makes its own, with other streams and less patience.
"""

from dataclasses import dataclass, field

from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.follow import Pace
from kandev_operator.cli.leader import EVERYWHERE, Leader, look
from kandev_operator.cli.reach import Reach
from kandev_operator.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that a command needs from outside."""

    cluster: Cluster
    reach: Reach
    screen: Screen
    operator_namespace: str
    pace: Pace = field(default_factory=Pace)
    poll: float = 1.0
    """Seconds between two looks at a session whose change is awaited."""
    heard: float = 5.0
    """Seconds after which a wish that no operator took up makes one ask whether any runs."""
    insist: float = 15.0
    """How long a prompt is handed in again and again while nobody answers."""

    async def leader(self) -> Leader:
        """Whether an operator leads: where it lives by default or as named, else where the
        session is, or the whole cluster. Takes seconds where its Lease looks old."""
        places = (self.operator_namespace, self.cluster.namespace, EVERYWHERE)
        return await look(self.cluster.kube, *places, poll=self.poll)

    def command(self, words: str) -> str:
        """A command of this plugin for the same namespace, to be pasted."""
        return f"kubectl kandev {words} -n {self.cluster.namespace}"
