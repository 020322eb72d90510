"""Secrets taken out of what is shown: the resume tokens and secret-looking environment values.

Applied to the agent's stderr, to errors it answers and to anything quoted in a failure. Short
values are left alone: replacing them would spoil the text and hide nothing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

SHORTEST: Final = 6
HIDDEN: Final = "[redacted]"
SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|credential|auth|cookie|session|private", re.IGNORECASE
)


def spellings(token: str) -> Iterator[str]:
    """A token as agents quote it: as it is, without what is blank around it, or as JSON text."""
    yield token
    yield token.strip()
    for ascii_only in (True, False):
        yield json.dumps(token, ensure_ascii=ascii_only)[1:-1]


class Redactor:
    """Knows the secrets of the present session, and hides them."""

    def __init__(self) -> None:
        self._env: tuple[str, ...] = ()
        self._env_before: tuple[str, ...] = ()
        self._tokens: tuple[str, ...] = ()

    def learn_env(self, env: Mapping[str, str]) -> None:
        found = tuple(v for k, v in env.items() if SECRET_NAME.search(k))
        if found != self._env:
            # The agent that runs now may still have been launched with the older ones.
            self._env, self._env_before = found, self._env

    def learn_tokens(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple({spelled for token in tokens for spelled in spellings(token)})

    def hide(self, text: str) -> str:
        """The text without the secrets; the longest first, since one may hold another."""
        for secret in sorted({*self._env, *self._env_before, *self._tokens}, key=len, reverse=True):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, HIDDEN)
        return text
