"""Reading `git log` and `git for-each-ref`, with fields between NULs. Pure."""

import re
from typing import Final

from kandev_operator.contract.git import Branch, Commit

MAX_BODY_CHARS: Final = 10_000
LOG_FIELDS: Final = ("%H", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%s", "%b")
LOG_FORMAT: Final = "tformat:" + "%x00".join(LOG_FIELDS)
BRANCH_FORMAT: Final = "%00".join(
    (
        "%(refname)",
        "%(objectname)",
        "%(HEAD)",
        "%(upstream:short)",
        "%(upstream:track,nobracket)",
        "%(committerdate:iso-strict)",
        "%(symref)",
    )
)
TRACK: Final = re.compile(r"(ahead|behind) (\d+)")
LOCAL: Final = "refs/heads/"
REMOTES: Final = "refs/remotes/"


def commits(out: bytes) -> list[Commit]:
    """Parse `git log -z` in LOG_FORMAT: each commit is so many fields, ended by NULs."""
    *fields, _ = out.decode("utf-8", "replace").split("\0")
    size = len(LOG_FIELDS)
    return [_commit(fields[at : at + size]) for at in range(0, len(fields) - size + 1, size)]


def _commit(fields: list[str]) -> Commit:
    name, parents, *people, subject, body = fields
    body = body.rstrip("\n")
    return Commit(
        id=name,
        parents=tuple(parents.split()),
        author_name=people[0],
        author_email=people[1],
        authored_at=people[2],
        committer_name=people[3],
        committer_email=people[4],
        committed_at=people[5],
        subject=subject[:MAX_BODY_CHARS],
        body=body[:MAX_BODY_CHARS],
        body_truncated=len(body) > MAX_BODY_CHARS,
    )


def branches(out: bytes) -> list[Branch]:
    """Parse `git for-each-ref` in BRANCH_FORMAT; symbolic ones (a remote's HEAD) are left out."""
    found = []
    for line in out.decode("utf-8", "replace").removesuffix("\n").split("\n") if out else ():
        ref, head, mark, upstream, track, date, symbolic = line.split("\0")
        if symbolic:
            continue
        remote = ref.startswith(REMOTES)
        numbers = {word: int(number) for word, number in TRACK.findall(track)}
        known = bool(upstream) and track != "gone"
        found.append(
            Branch(
                name=ref.removeprefix(REMOTES if remote else LOCAL),
                remote=remote,
                head=head,
                current=mark == "*",
                upstream=upstream or None,
                ahead=numbers.get("ahead", 0) if known else None,
                behind=numbers.get("behind", 0) if known else None,
                upstream_gone=track == "gone",
                committed_at=date,
            )
        )
    return found
