"""What git says when it refuses, read for a code and shown in its own words. Pure.

The language is C (see `environment`), so the words are stable enough to be read; what is not known
is `git_failed`, with the words. Secrets in URLs are taken out here, others by whoever knows them.
"""

import re
from collections.abc import Callable
from typing import Final

from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.paths import MAX_TEXT_CHARS

USERINFO: Final = re.compile(r"([a-z][a-z0-9+.-]{0,20}://)[^/@\s'\"]{1,4096}@", re.IGNORECASE)
HEADER: Final = re.compile(r"(authorization\s*:\s*\S{1,20}\s+)\S+", re.IGNORECASE)
KNOWN: Final[tuple[tuple[Code, tuple[str, ...]], ...]] = (
    (Code.DISK_FULL, ("no space left on device", "disk quota exceeded")),
    (Code.NOT_A_REPOSITORY, ("not a git repository", "must be run in a work tree")),
    (Code.GIT_LOCKED, (".lock': file exists", "another git process seems to be running")),
    (
        Code.GIT_IDENTITY_MISSING,
        (
            "please tell me who you are",
            "empty ident name",
            "auto-detection is disabled",
        ),
    ),
    (Code.GIT_WOULD_LOSE, ("would be overwritten by", "would be removed by")),
    (
        Code.GIT_UNRESOLVED,
        ("unmerged files", "resolve your current index", "unresolved conflict", "while merging"),
    ),
    (
        Code.GIT_DIVERGED,
        ("not possible to fast-forward", "non-fast-forward", "fetch first", "stale info", "diverg"),
    ),
    (
        Code.GIT_AUTH_FAILED,
        (
            "authentication failed",
            "could not read username",
            "could not read password",
            "terminal prompts disabled",
            "permission denied (",
            "returned error: 403",
            "host key verification failed",
        ),
    ),
    (
        Code.GIT_UNREACHABLE,
        (
            "could not resolve host",
            "failed to connect",
            "couldn't connect",
            "connection refused",
            "connection timed out",
            "operation too slow",
            "unable to access",
            "could not read from remote repository",
            "does not appear to be a git repository",
            "the remote end hung up",
        ),
    ),
    (Code.GIT_NO_UPSTREAM, ("no tracking information", "no upstream configured", "no upstream")),
    (
        Code.GIT_REF_NOT_FOUND,
        (
            "invalid reference",
            "unknown revision",
            "not a valid object name",
            "needed a single revision",
            "not a valid ref",
            "couldn't find remote ref",
            "does not match any",
        ),
    ),
    (Code.GIT_REF_EXISTS, ("already exists",)),
    (
        Code.GIT_NOTHING_TO_COMMIT,
        ("nothing to commit", "nothing added to commit", "no changes added"),
    ),
)


def refusal(stderr: bytes, hide: Callable[[str], str], code: Code | None = None) -> Refusal:
    """The refusal for what git said; `code` where the caller knows better."""
    text = shown(stderr, hide)
    first = next((line for line in text.splitlines() if line.strip()), "git failed")
    return Refusal(code or code_of(text), first[:300], stderr=text)


def code_of(text: str) -> Code:
    """The code for git's words."""
    lower = text.lower()
    for code, signs in KNOWN:
        if any(sign in lower for sign in signs):
            return code
    return Code.GIT_FAILED


def shown(stderr: bytes, hide: Callable[[str], str]) -> str:
    """Git's words, without secrets, bounded: the end counts, since the reason stands there."""
    text = stderr.decode("utf-8", "replace").replace("\0", "")
    text = HEADER.sub(r"\1[redacted]", USERINFO.sub(r"\1[redacted]@", hide(text)))
    return text.strip()[-MAX_TEXT_CHARS:]
