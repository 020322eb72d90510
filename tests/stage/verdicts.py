"""What the tools of GitOps say of an object, by their own code: kstatus, and a health check in Lua.

One small Go program (`cluster/verdicts`, built once into the user's cache) is asked about many
objects at once. Knows nothing of what the verdicts should be.
"""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from cluster import build
from stage.sessions import Body

_TESTS: Final = Path(__file__).resolve().parents[1]
HEALTH: Final = _TESTS.parent / "manifests" / "argocd" / "health.yaml"
VERDICTS: Final = build.Recipe(
    executable="verdicts",
    source=_TESTS / "cluster" / "verdicts",
    inputs=("go.mod", "go.sum", "main.go"),
    components=(),
    cpu_seconds=60,
)
_KEY: Final = "resource.customizations.health.kandev.dev_"


@dataclass(frozen=True)
class Verdict:
    """What each tool says."""

    kstatus: str
    argo: str
    message: str
    """Argo CD's."""


def health_checks() -> dict[str, str]:
    """The Lua of each kind, as Argo CD is given it."""
    data: dict[str, str] = yaml.safe_load(HEALTH.read_text())["data"]
    return {key.removeprefix(_KEY): text for key, text in data.items()}


def ask(bodies: Iterable[Body]) -> list[Verdict]:
    """The verdicts, in order; AssertionError where a tool's code refuses an object."""
    checks = health_checks()
    lines = [json.dumps({"object": each, "lua": checks[each["kind"]]}) for each in bodies]
    done = subprocess.run(
        [build.ensure(recipe=VERDICTS)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return [_read(each) for each in answers]


def _read(answer: Body) -> Verdict:
    kstatus, argo = answer["kstatus"], answer["argo"]
    assert "error" not in kstatus, kstatus
    assert "error" not in argo, argo
    return Verdict(kstatus["status"], argo["status"], argo.get("message", ""))
