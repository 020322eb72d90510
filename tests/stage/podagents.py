"""Real agents as their users would run them in a pod: an image, a profile, and their settings.

What an agent reads from a file of its HOME lies in a ConfigMap, is mounted by the executor's
template, and copied into HOME before the agent starts: HOME is on the session's volume, and no
mount may lie in it. Knows where things go, and nothing of what the agent then does.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.images import realagents

_SETTINGS = "/etc/agent"
Body = dict[str, Any]


@dataclass(frozen=True)
class PodAgent:
    """One agent, ready for a profile and an executor's template."""

    name: str
    archive: Path
    command: Sequence[str]
    env: Mapping[str, str]
    settings: Body | None
    """A ConfigMap to apply beside the profile; none where the agent needs no file."""

    @property
    def config_map(self) -> str:
        return f"{self.name}-settings"

    @property
    def overlay(self) -> Body:
        """What the executor's template says of the pod."""
        if self.settings is None:
            return {}
        mount = {"name": "settings", "mountPath": _SETTINGS, "readOnly": True}
        return {
            "containers": [{"name": "agent", "volumeMounts": [mount]}],
            "volumes": [{"name": "settings", "configMap": {"name": self.config_map}}],
        }


def furnished(name: str, url: str) -> PodAgent:
    """The agent, told that its model answers at this address."""
    agent = realagents.in_image(name)
    files = agent.home_files(url)
    data = {f"file-{number}": text for number, text in enumerate(files.values())}
    settings: Body | None = None
    command = list(agent.command)
    if files:
        metadata = {"name": f"{name}-settings"}
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        command = ["sh", "-c", f'{_copying(files)} && exec "$@"', "sh", *command]
    return PodAgent(name, realagents.image(name), command, agent.env(url), settings)


def _copying(files: Mapping[str, str]) -> str:
    steps = ["set -e"]
    for number, path in enumerate(files):
        folder = shlex.quote(str(Path(path).parent))
        steps.append(f'mkdir -p "$HOME"/{folder}')
        steps.append(f'cp {_SETTINGS}/file-{number} "$HOME"/{shlex.quote(path)}')
    return "; ".join(steps)
