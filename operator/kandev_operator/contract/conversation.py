"""What an agent offers in the conversation that is open: modes, options, commands, usage.

All of it is the agent's own word, bounded. It is known while a conversation is open and gone with
the agent's process; the next one tells it anew. A model is a config option of category `model`,
whichever way the agent speaks of models. Changing a mode or an option is an operation: accepted
with 202, stored, and its outcome is told by the stream and by `/api/v1/status`.
"""

from typing import Annotated

from pydantic import Field

from kandev_operator.contract.agent import Identifier
from kandev_operator.contract.wire import Wire

OfferedId = Annotated[str, Field(min_length=1, max_length=200)]


class Mode(Wire):
    """A way of working that the agent offers, such as planning only."""

    mode_id: str
    name: str
    description: str = ""


class Choice(Wire):
    """One value that a config option may have."""

    value: str
    name: str
    description: str = ""


class ConfigOption(Wire):
    """Something about the conversation that can be chosen."""

    config_id: str
    name: str
    description: str = ""
    category: str | None = None
    """`mode`, `model`, `model_config`, `thought_level`, or the agent's own word."""
    value: str | bool
    choices: tuple[Choice, ...] = ()
    """Empty for an option that is on or off."""


class Command(Wire):
    """A command that a prompt may begin with, as `/name`."""

    name: str
    description: str = ""
    hint: str | None = None
    """What may follow it."""


class Usage(Wire):
    """How much of its context the conversation fills, and what it has cost so far."""

    used: int
    size: int
    cost: float | None = None
    currency: str | None = None


class TurnUsage(Wire):
    """Tokens that the agent counted for one turn or for the talk so far; agents differ."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class ConversationReport(Wire):
    """The open conversation, as the agent describes it."""

    title: str | None = None
    mode_id: str | None = None
    modes: tuple[Mode, ...] = ()
    config: tuple[ConfigOption, ...] = ()
    commands: tuple[Command, ...] = ()
    usage: Usage | None = None


class ModeRequest(Wire):
    """POST `/api/v1/mode`: choose one of the modes offered. Answer 202 `Operation`."""

    session_id: Identifier
    operation_id: Identifier
    mode_id: OfferedId


class ConfigRequest(Wire):
    """POST `/api/v1/config`: choose a value of one of the options offered. Answer 202."""

    session_id: Identifier
    operation_id: Identifier
    config_id: OfferedId
    value: Annotated[bool, Field(strict=True)] | OfferedId
