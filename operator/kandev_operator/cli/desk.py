"""What every command works with: the cluster, the way to agentctl, the screen, and patience.

Made once by the program; a test makes its own, with other streams and less patience.
"""

from dataclasses import dataclass, field

from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.follow import Pace
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
    insist: float = 15.0
    """How long a prompt is handed in again and again while nobody answers."""

    def command(self, words: str) -> str:
        """A command of this plugin for the same namespace, to be pasted."""
        return f"kubectl kandev {words} -n {self.cluster.namespace}"
