"""From a journal on disk to the state that agentctl starts with, whatever the disk says.

A journal that cannot be read gives an empty state: the session is served, nothing durable is
accepted, and the report says why. What follows from what was kept is decided in `machine.reopen`.
"""

import logging
from dataclasses import replace

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.journal import Journal, JournalUnreadable
from kandev_operator.agentctl.machine import Outcome, State
from kandev_operator.agentctl.machine.reopen import Living, outlived, rejoin, reopen
from kandev_operator.contract.status import Capabilities

log = logging.getLogger("kandev.agentctl")


def restored(journal: Journal, term: int, living: Living | None, unprobed: Capabilities) -> Outcome:
    """What is believed of the session now. `living`: a process that may have outlived us."""
    try:
        kept = journal.load()
    except JournalUnreadable:
        log.error("the journal of the session cannot be read: %s", journal.message)
        state = State(journal.session_id, term, unprobed=unprobed, capabilities=unprobed)
        return Outcome(state, (), (), None)
    if living is not None and outlived(kept, living):
        numbered = journal.last_seq + 1
        outcome = rejoin(kept, living, term=term, at=now(), numbered=numbered)
    else:
        outcome = reopen(kept, term=term, at=now())
    known = outcome.state.capabilities
    probed = known if known.probed_at is not None else unprobed
    return replace(outcome, state=replace(outcome.state, unprobed=unprobed, capabilities=probed))
