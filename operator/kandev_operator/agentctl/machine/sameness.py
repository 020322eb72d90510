"""Whether an id that comes again comes with the same request: a digest of each, kept with it.

A caller that lost an answer repeats its call and must get the first outcome. One that reuses an id
for something else must hear so: the outcome of another request would be taken for that of its own.
How long something may take is no part of what is asked, so patience may differ. A digest is kept
in the journal; what it was made of (a token, a person's words) cannot be read from it.
"""

import json
from hashlib import sha256
from typing import Any

from kandev_operator.agentctl.machine.effects import Refused
from kandev_operator.agentctl.machine.events import (
    PromptAsked,
    SettingAsked,
    StartAsked,
    StopAsked,
)
from kandev_operator.contract.errors import Code

OperationAsked = StartAsked | StopAsked | SettingAsked


def of(event: OperationAsked | PromptAsked) -> str:
    """The digest of what is asked."""
    match event:
        case StartAsked(mode=mode, token=token, mcp_servers=servers):
            return _digest("start", mode, token, servers)
        case StopAsked(drop_queue=drop_queue):
            return _digest("stop", drop_queue)
        case SettingAsked(kind=kind, name=name, value=value):
            return _digest(kind, name, value)
        case PromptAsked(content=content):
            return _digest("prompt", content)


def conflict(known: str | None, asked: str) -> Refused | None:
    """Refuse an id that stands for another request; one kept without a digest is believed."""
    if not known or known == asked:
        return None
    return Refused(Code.ID_REUSED, "this id stands for another request already")


def _digest(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()
