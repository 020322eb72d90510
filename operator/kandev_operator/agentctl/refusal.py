"""A call that is refused, as the rooms of the workspace say it: code, words, details.

The face turns it into an error body. Nothing secret is ever put into one.
"""

from typing import Any

from kandev_operator.contract.errors import Code


class Refusal(Exception):
    """Raised where a call cannot be done; the caller hears all of it."""

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details
