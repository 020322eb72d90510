"""Names for a journal that was set back: the same journal goes on, with other events. Pure.

A volume that was restored, or a machine that lost power, may bring a journal back without its
newest events. It then gives their numbers to others, while those that were told are kept here. So
from the number on where the two part, it is kept under a name of its own, `JOURNAL~NUMBER`, that
every gateway finds for itself.
"""

import re
from typing import Final

_BRANCH: Final = re.compile(r"(.+?)~(\d{1,18})")


def branch(journal_id: str, first_seq: int) -> str:
    """The name under which a journal (as agentctl names it) goes on from a number."""
    return f"{journal_id}~{first_seq}"


def is_of(name: str, journal_id: str) -> bool:
    """Whether this is agentctl's journal, or a branch of it."""
    found = _BRANCH.fullmatch(name)
    return name == journal_id or (found is not None and found[1] == journal_id)


def begins_after(name: str) -> int:
    """The number after which a journal of this name begins."""
    found = _BRANCH.fullmatch(name)
    return int(found[2]) - 1 if found else 0
