"""One step in the making: the state as changed so far, and the stores and acts collected.

Handlers write their conclusions in here in the order in which they must happen. A draft lives for
one step and is never kept, so `step` stays a pure function to its caller.
"""

from dataclasses import replace
from typing import Any

from kandev_operator.agentctl.machine import tables
from kandev_operator.agentctl.machine.effects import (
    Act,
    Append,
    Store,
    StoreOperation,
    StorePrompt,
)
from kandev_operator.agentctl.machine.state import (
    KEPT_OPERATIONS,
    KEPT_PROMPTS,
    Prompt,
    State,
)
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import Operation, OperationState

DECIDED = frozenset({PromptFate.DELIVERED, PromptFate.NOT_DELIVERED, PromptFate.UNKNOWN})


class Draft:
    """Collects what a step concludes."""

    def __init__(self, state: State, at: str) -> None:
        self.state = state
        self.at = at
        self.stores: list[Store] = []
        self.acts: list[Act] = []

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def emit(self, kind: EventKind, data: dict[str, Any]) -> None:
        self.stores.append(Append(kind, self.at, self.state.execution_id, data))

    def move(self, cause: tables.Cause) -> None:
        """Move the process along the table; the new status is told, with the exit if it ended."""
        before = self.state.status
        self.set(status=tables.move(before, cause))
        if self.state.status is before:
            return
        gone = self.state.exit if self.state.status not in tables.ALIVE else None
        self.emit(
            EventKind.AGENT,
            {
                "status": self.state.status.value,
                "exit": gone.model_dump(mode="json") if gone else None,
            },
        )

    def put_operation(self, operation: Operation) -> None:
        """Record an operation, new or changed."""
        known = self.state.operations
        before = next((o for o in known if o.operation_id == operation.operation_id), None)
        tables.check_outcome(before.state if before else None, operation.state)
        if before:
            known = tuple(
                operation if o.operation_id == operation.operation_id else o for o in known
            )
        else:
            known = _bounded((*known, operation))
        self.set(operations=known)
        self.stores.append(StoreOperation(operation))
        self.emit(EventKind.OPERATION, {"operation": operation.model_dump(mode="json")})

    def put_prompt(self, prompt: Prompt) -> None:
        """Record a prompt, new or with a new fate."""
        if prompt.fate in DECIDED:
            prompt = replace(prompt, content=())
        known = self.state.prompts
        before = next((p for p in known if p.prompt_id == prompt.prompt_id), None)
        tables.check_fate(before.fate if before else None, prompt.fate)
        if before:
            known = tuple(prompt if p.prompt_id == prompt.prompt_id else p for p in known)
        else:
            known = (*known, prompt)
        self.set(prompts=forget_decided(known))
        self.stores.append(StorePrompt(prompt))
        self.emit(
            EventKind.PROMPT,
            {"prompt_id": prompt.prompt_id, "fate": prompt.fate.value, "reason": prompt.reason},
        )


def forget_decided(prompts: tuple[Prompt, ...]) -> tuple[Prompt, ...]:
    """Keep every undecided prompt, and the newest decided ones up to the bound."""
    surplus = sum(p.fate in DECIDED for p in prompts) - KEPT_PROMPTS
    kept: list[Prompt] = []
    for prompt in prompts:
        if surplus > 0 and prompt.fate in DECIDED:
            surplus -= 1
            continue
        kept.append(prompt)
    return tuple(kept)


def _bounded(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    surplus = len(operations) - KEPT_OPERATIONS
    kept: list[Operation] = []
    for operation in operations:
        if surplus > 0 and operation.state is not OperationState.RUNNING:
            surplus -= 1
            continue
        kept.append(operation)
    return tuple(kept)
