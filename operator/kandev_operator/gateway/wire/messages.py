"""Messages of a conversation, and the place of each in the journal that it came from.

A place is `JOURNAL_ID:SEQ`, agentctl's own. One message may be told by several events of the
journal: text is appended, structured content replaces what was there. `live` words have no place;
each comes again in a message event that is kept. Message kinds are agentctl's: text, thought,
tool_call, plan, content, attachments, usage, terminal, fault; unknown ones are shown as they are.
"""

from typing import Any, Final

from pydantic import Field

from kandev_operator.contract.wire import Wire

PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500


class Message(Wire):
    """A message as it stands. `seq` is that of its first event, `last_seq` of its newest."""

    message_id: str
    journal_id: str
    seq: int
    last_seq: int
    author: str
    kind: str
    turn_id: str | None = None
    execution_id: str | None = None
    at: str
    text: str = ""
    content: dict[str, Any] | None = None


class MessageChange(Wire):
    """`session.message.added` and `.updated`: one event of the journal.

    `offset` counts the characters of the message before `text`; `content` replaces.
    """

    session_id: str
    task_id: str
    cursor: str
    message_id: str
    journal_id: str
    seq: int
    author: str
    kind: str
    turn_id: str | None = None
    execution_id: str | None = None
    at: str
    offset: int = 0
    text: str = ""
    content: dict[str, Any] | None = None


class LiveWords(Wire):
    """`session.message.live`: words that are not kept yet; `offset` as above. No place."""

    session_id: str
    task_id: str
    message_id: str
    author: str
    kind: str
    turn_id: str | None = None
    offset: int
    text: str


class Missing(Wire):
    """`session.message.gap`: events `from_seq` to `to_seq` of a journal are kept nowhere."""

    session_id: str
    task_id: str
    journal_id: str
    from_seq: int
    to_seq: int


class MessagePage(Wire):
    """Answer to `message.list`, oldest first. `cursor` is where a subscription goes on."""

    session_id: str
    messages: tuple[Message, ...] = ()
    before: str | None = None
    """Give it as `before` for what is older; absent: this is the beginning."""
    cursor: str | None = Field(default=None)
    late: bool = False
    """The store lags behind or is down: what is newest may be missing here, and comes live."""
