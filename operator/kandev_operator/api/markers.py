"""What a model says about itself beyond its types: notes for the CRD generator.

The notes travel in pydantic's `json_schema_extra`, in the very keys that a CRD uses, so the
generator only lets them through. `one_of` is read by the models as well: the same list that
becomes a CEL rule refuses a bad object in Python, where an object from an older schema may turn
up that no API server of today has checked.
"""

from typing import Any, Final

LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
VALIDATIONS: Final = "x-kubernetes-validations"
STORED_DEFAULT: Final = "x-stored-default"

DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
ABSOLUTE_PATH: Final = r"^/"

# A moment in RFC 3339, see `timestamps`.
MOMENT: Final[dict[str, Any]] = {"format": "date-time"}


def rule(cel: str, message: str) -> dict[str, str]:
    """One CEL rule, with the words that a user reads when it is broken."""
    return {"rule": cel, "message": message}


def rules(*several: dict[str, str]) -> dict[str, Any]:
    """Notes for a field or a model that bring CEL rules."""
    return {VALIDATIONS: list(several)}


def list_map(key: str = "name") -> dict[str, Any]:
    """A list whose items are told apart by one field: two writers may each own some of them."""
    return {"x-kubernetes-list-type": "map", LIST_MAP_KEYS: [key]}


def atomic() -> dict[str, Any]:
    """A list or object that is only ever replaced as a whole."""
    return {"x-kubernetes-list-type": "atomic"}


def immutable(what: str) -> dict[str, Any]:
    """A field that keeps its first value. Only a required field can: an optional one could be
    removed and added again."""
    return rules(rule("self == oldSelf", f"{what} is immutable"))


def stored_default() -> dict[str, Any]:
    """Let the API server write the default into the object. Rare: a default that is stored can
    never be improved later."""
    return {STORED_DEFAULT: True}
