"""The environment and the settings of every git process. Pure.

Made from nothing but what git needs to find programs, the person's own configuration and the way
out: no variable of agentctl, and no GIT_* of whoever started it, reaches git. Prompts are off, the
language is C since its words are read. The settings are given in the environment, which stands
above every file: they switch off what a repository could name to be run (decision 0011).
"""

from collections.abc import Mapping, Sequence
from typing import Final

BASE: Final = (
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "USER",
    "LOGNAME",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
)
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIXED: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_SSH_VARIANT": "ssh",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_WORK_TREE": ".",
}
"""GIT_WORK_TREE: the folder asked for, whatever core.worktree says."""
REMOTE_PROTOCOLS: Final = "https:http:ssh"
BIG_FILE: Final = "16m"
NO_HOOKS: Final = ("core.hooksPath", "/dev/null")
SETTINGS: Final = (
    ("core.fsmonitor", "false"),
    ("core.askPass", "false"),
    ("core.pager", "cat"),
    ("core.bigFileThreshold", BIG_FILE),
    ("core.preloadIndex", "true"),
    ("core.quotePath", "true"),
    ("color.ui", "false"),
    ("diff.renames", "true"),
    ("diff.renameLimit", "1000"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("diff.orderFile", "/dev/null"),
    ("diff.submodule", "short"),
    ("log.showSignature", "false"),
    ("log.follow", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("protocol.ext.allow", "never"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
    ("advice.detachedHead", "false"),
    ("user.useConfigOnly", "true"),
)
Settings = Sequence[tuple[str, str]]


def environment(
    own: Mapping[str, str],
    folder: str,
    *,
    settings: Settings = (),
    protocols: str = "",
    hooks: bool = False,
    writes: bool = False,
) -> dict[str, str]:
    """The whole environment of a git process in `folder`, a real path.

    `protocols` is empty where nothing may be fetched; without `writes` no lock is taken.
    """
    env = {name: own[name] for name in BASE if name in own}
    env.setdefault("PATH", DEFAULT_PATH)
    env |= FIXED
    # A list of no protocol at all would be taken for no list.
    env["GIT_ALLOW_PROTOCOL"] = protocols or "none"
    env["GIT_CEILING_DIRECTORIES"] = folder.rpartition("/")[0] or "/"
    env["GIT_OPTIONAL_LOCKS"] = "1" if writes else "0"
    told = [*SETTINGS, ("safe.directory", folder), *(() if hooks else (NO_HOOKS,)), *settings]
    env["GIT_CONFIG_COUNT"] = str(len(told))
    for number, (key, value) in enumerate(told):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env
