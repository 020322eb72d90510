"""A coding agent, as far as its conversations go: which it keeps, and how it answers."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count


@dataclass
class Agent:
    """One kind of agent on one workspace. What it stored outlives its processes."""

    mood: str = "well"
    """How it answers the next opening: well, error, refuses, login, hangs, exits, another (it
    opens another conversation), or short (it opens well, and ends at once)."""
    can_resume: bool | None = True
    answers_initialize: bool = True
    stored: set[str] = field(default_factory=set)
    """Conversations with at least one completed turn: only those it still knows later."""
    heard: Counter[str] = field(default_factory=Counter)
    """Prompts it was handed, by `session name/first UID/text`."""
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def new_token(self) -> str:
        """Its own id of a new conversation."""
        return f"tok-secret-{next(self.numbers)}"

    def open(self, mode: str, token: str | None) -> str:
        """Open a conversation: its id, or a failure code of the contract with a bang."""
        match self.mood:
            case "error":
                return "!agent_error"
            case "refuses":
                return "!rejected"
            case "login":
                return "!authentication_required"
            case "hangs":
                return "!timed_out"
            case "exits":
                return "!agent_exited"
        if mode == "new":
            return self.new_token()
        assert token is not None
        if not self.can_resume:
            return "!resume_unsupported"
        if self.mood == "another":
            return self.new_token()
        return token if token in self.stored else "!session_not_found"
