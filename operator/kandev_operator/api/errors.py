"""What can go wrong when an object of ours is read.

One error only: the object in the cluster does not fit the models of this version. It happens to
objects stored under an older or a newer schema, so it is a fact about one object (the condition
`Stalled`, reason `SpecInvalid`), never a reason for the operator to fall over.
"""

from pydantic import ValidationError

_SHOWN = 5


class InvalidSpec(Exception):
    """An object that cannot be read. `message` is one sentence, fit for a condition."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(f"{kind} {name}: {message}")
        self.kind = kind
        self.name = name
        self.message = message

    @classmethod
    def because(cls, kind: str, name: str, error: ValidationError) -> "InvalidSpec":
        """Say which fields are wrong, and how. Values are left out: one might be a secret."""
        faults = [
            _sentence(fault["loc"], fault["msg"])
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        more = len(faults) - _SHOWN
        shown = "; ".join(faults[:_SHOWN])
        return cls(kind, name, f"{shown}; and {more} more" if more > 0 else shown)


def _sentence(where: tuple[int | str, ...], what: str) -> str:
    path = ".".join(str(part) for part in where) or "object"
    return f"{path}: {what.removeprefix('Value error, ')}"
