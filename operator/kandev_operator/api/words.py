"""Words with a meaning: string enums whose every member carries one sentence of documentation.

Reasons, states and modes are part of the contract with users, so a word without a sentence
cannot be written down at all. The same sentences appear in `kubectl explain` and in the tables
of `crds/README.md`.
"""

from enum import StrEnum
from typing import Self


class Word(StrEnum):
    """A member is written `NAME = "Value", "One sentence that says what it means."`."""

    doc: str

    def __new__(cls, value: str, doc: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member


def listed(words: type[Word]) -> str:
    """Spell out every word with its sentence, for a field's description."""
    return " ".join(f"`{word.value}`: {word.doc}" for word in words)
