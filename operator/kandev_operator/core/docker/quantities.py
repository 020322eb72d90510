"""Kubernetes quantities as the numbers that the Docker engine takes.

`512Mi` is 536870912 bytes, `500m` of a processor 500000000 billionths of one. What cannot be read,
or is nothing, is no limit: the API server does not check a profile's quantities either.
"""

import re
from decimal import Decimal
from typing import Final

_BILLION: Final = Decimal(10**9)
_UNITS: Final = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_SHAPE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|[MGTPE]|[KMGTPE]i)?")


def whole(quantity: str | int | None) -> int | None:
    """In units, rounded down."""
    value = _read(quantity)
    return None if value is None else int(value) or None


def nano(quantity: str | int | None) -> int | None:
    """In billionths of a unit."""
    value = _read(quantity)
    return None if value is None else int(value * _BILLION) or None


def _read(quantity: str | int | None) -> Decimal | None:
    found = _SHAPE.fullmatch(str(quantity))
    return Decimal(found[1]) * _UNITS[found[2] or ""] if found else None
