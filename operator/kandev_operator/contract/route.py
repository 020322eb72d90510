"""One row of the table of calls: what a call is, and what its query may hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code

OF_A_BODY: Final = (Code.TOO_LARGE,)
"""Refusals of every call with a body."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; a path's parameters are read off the path."""

    name: str
    words: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the contract."""

    method: str
    path: str
    words: str
    scope: Scope | None = None
    """None: open to all."""
    body: type[BaseModel] | None = None
    raw: bool = False
    """The body is bytes."""
    optional: bool = False
    """It may be left out."""
    status: int = 200
    also: int | None = None
    """Another status of a good answer, with the same body."""
    answer: type[BaseModel] | None = None
    listed: bool = False
    """The answer is a list of it."""
    media: str = "application/json"
    codes: tuple[Code, ...] = ()
    """Refusals beside those of every call."""
    query: tuple[Parameter, ...] = ()
