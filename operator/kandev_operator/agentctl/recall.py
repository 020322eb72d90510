"""Prompts and operations of long ago, which the machine let go and the journal remembers.

An id that comes again gets its first outcome, however old; with another request it is refused.
"""

from kandev_operator.agentctl.engine import Engine, Rejected
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine import sameness
from kandev_operator.agentctl.machine.state import Prompt
from kandev_operator.contract.status import Operation


def prompt(engine: Engine, event: ev.PromptAsked) -> Prompt | None:
    """A prompt that the machine does not know any more; raises Rejected for another one."""
    known = any(p.prompt_id == event.prompt_id for p in engine.state.prompts)
    if known or engine.journal is None:
        return None
    found = engine.journal.find_prompt(event.prompt_id)
    if found and (refused := sameness.conflict(found.digest, sameness.of(event))):
        raise Rejected(refused)
    return found


def operation(engine: Engine, event: sameness.OperationAsked) -> Operation | None:
    """An operation that the machine does not know any more; raises Rejected for another one."""
    known = any(o.operation_id == event.operation_id for o in engine.state.operations)
    if known or engine.journal is None:
        return None
    found = engine.journal.find_operation(event.operation_id)
    if found and (refused := sameness.conflict(found.request_sha256, sameness.of(event))):
        raise Rejected(refused)
    return found
