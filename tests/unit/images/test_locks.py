"""The images' locks hold what pyproject.toml asks for, each file by its hash."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, str]:
    text = (REPOSITORY / f"operator/images/{name}.lock").read_text()
    entries = re.findall(
        r"^(\S+)==(\S+) \\\n((?:\s+--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.M
    )
    assert len(entries) == text.count("==")
    return {canonicalize_name(found): version for found, version, _ in entries}


def asked_for(*groups: list[str]) -> list[Requirement]:
    return [Requirement(line) for group in groups for line in group]


EXTRAS = PROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        (
            "agentctl",
            asked_for(
                PROJECT["project"]["dependencies"],
                EXTRAS["agentctl"],
                PROJECT["dependency-groups"]["freeze"],
            ),
        ),
        ("operator", asked_for(PROJECT["project"]["dependencies"], EXTRAS["operator"])),
        ("gateway", asked_for(PROJECT["project"]["dependencies"], EXTRAS["gateway"])),
    ],
)
def test_a_lock_holds_what_the_project_asks_for(lock: str, requirements: list[Requirement]) -> None:
    versions = locked(lock)
    for requirement in requirements:
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked"
        assert requirement.specifier.contains(version), f"{requirement} has {version}"
