"""The base of every body on the wire: frozen, tolerant to fields of a later minor version."""

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """A JSON object of contract v1. Absent optional fields mean "not known"."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
