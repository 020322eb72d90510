"""Our agentctl in front of Kandev's: the sidecar of the other tests, with the agent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.kandev_agentctl import KandevAgentctl
from integration.agentctl.harness import Keys, Sidecar, eventually


class Fronted(Sidecar):
    """One `kandev-agentctl run --upstream`."""

    def __init__(self, folder: Path, keys: Keys, kandev: KandevAgentctl, *options: str) -> None:
        super().__init__(folder, keys)
        self.kandev = kandev
        self.workspace = kandev.workspace
        self.extra = [
            *("--upstream", kandev.url),
            *("--upstream-nonce-file", str(kandev.nonce_file)),
            *("--cancel-grace-seconds", "10"),
            *("--after-turn-seconds", "0.05"),
            *options,
        ]

    def start(self, *extra: str, env: dict[str, str] | None = None) -> Fronted:
        """Start it, and wait until it knows its upstream."""
        self.start_blind(*extra, env=env)
        eventually(lambda: self.health()["status"] == "ok", "the upstream answers")
        return self

    def start_blind(self, *extra: str, env: dict[str, str] | None = None) -> Fronted:
        """Start it, whatever its upstream does."""
        super().start(*extra, env=env)
        return self

    @property
    def instance(self) -> str:
        """The one instance on the upstream."""
        [found] = self.kandev_instances()
        return str(found["id"])

    def kandev_instances(self) -> list[dict[str, object]]:
        self.kandev.token = self.upstream_token()
        return self.kandev.instances()

    def upstream_token(self) -> str:
        found = json.loads((self.state / "upstream-token.json").read_text())
        return str(found["token"])

    def starts(self) -> int:
        """How many processes of the agent there were."""
        return self.agent_log.read_text().count('"event": "start"')
