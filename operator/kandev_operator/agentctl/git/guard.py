"""What a repository's own configuration may not do. Pure: from a listing to settings.

`environment` switches off what has one name. What has names of the repository's choosing (filters,
merge drivers, the programs of remotes) is found in the listing and switched off by name. What the
person or the machine configured stays theirs: only scopes `local` and `worktree` are of the
repository. Git LFS, as it installs itself, is known and stays.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

REPOSITORYS: Final = frozenset({"local", "worktree"})
LFS: Final = {
    "clean": frozenset({"git-lfs clean -- %f"}),
    "smudge": frozenset({"git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"}),
    "process": frozenset({"git-lfs filter-process", "git-lfs filter-process --skip"}),
}
FILTER: Final = re.compile(r"filter\.(.*)\.(clean|smudge|process)", re.DOTALL)
DRIVER: Final = re.compile(r"merge\.(.*)\.driver", re.DOTALL)
REMOTE: Final = re.compile(r"remote\.(.*)\.(uploadpack|receivepack)", re.DOTALL)
HELPER: Final = re.compile(r"credential\.(.*\.)?helper", re.DOTALL)
HARMLESS_HTTP: Final = frozenset({"http.postbuffer", "http.version"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of `git config --list --show-scope`; the key's last name is in lower case."""

    scope: str
    key: str
    value: str

    @property
    def is_repositorys(self) -> bool:
        return self.scope in REPOSITORYS


def listing(out: bytes) -> tuple[Setting, ...]:
    """Parse `git config --list -z --show-scope`."""
    fields = out.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, line in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = line.partition("\n")
        found.append(Setting(scope, key, value))
    return tuple(found)


def overrides(found: Sequence[Setting]) -> tuple[tuple[str, str], ...]:
    """Settings that take the repository's programs away."""
    out: list[tuple[str, str]] = []
    for setting in found:
        if not setting.is_repositorys:
            continue
        if part := FILTER.fullmatch(setting.key):
            if setting.value not in LFS[part[2]]:
                out += [(setting.key, ""), (f"filter.{part[1]}.required", "false")]
        elif DRIVER.fullmatch(setting.key):
            out.append((setting.key, "false"))
        elif part := REMOTE.fullmatch(setting.key):
            program = "git-upload-pack" if part[2] == "uploadpack" else "git-receive-pack"
            out.append((setting.key, program))
        elif setting.key == "core.alternaterefscommand":
            out.append((setting.key, "true"))
    return tuple(out)


def helpers(found: Sequence[Setting]) -> tuple[tuple[str, str], ...]:
    """Credential helpers of the person and the machine, and none of the repository's."""
    kept = [
        (s.key, s.value)
        for s in found
        if HELPER.fullmatch(s.key) and s.scope in ("global", "system")
    ]
    return (("credential.helper", ""), *kept)


def ssh_command(found: Sequence[Setting]) -> str | None:
    """How the person or the machine calls ssh, if they say so."""
    for setting in reversed(found):
        if setting.key == "core.sshcommand" and setting.scope in ("global", "system"):
            return setting.value
    return None


def redirects(found: Sequence[Setting]) -> tuple[str, ...]:
    """Keys by which the repository says where, or how well guarded, a credential would travel."""
    keys = {setting.key for setting in found if setting.is_repositorys and _redirects(setting.key)}
    return tuple(sorted(keys))


def _redirects(key: str) -> bool:
    if key.startswith("http."):
        return key not in HARMLESS_HTTP
    if key.startswith("remote."):
        return key.endswith((".proxy", ".proxyauthmethod", ".vcs"))
    return key.startswith("url.") or key == "core.gitproxy"
