"""The base of every model, and the metadata that every object has.

Models are frozen values: an object read from the cluster is one instant, and a pass that wants
another status makes another value (`replacing`). Fields have Python names here and camelCase
names in the cluster; fields that this version does not know are skipped when reading, so that
an older operator can live with a newer schema.

`dump` gives back what the API server should store: names of the cluster, and nothing that is
absent. A boolean that is not known is absent, never false.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from kandev_operator.api import group
from kandev_operator.api.errors import InvalidSpec


class Model(BaseModel):
    """A frozen value with Python names inside and camelCase names outside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        extra="ignore",
    )

    # Fields of which exactly one must be given. The generator makes a CEL rule of it.
    one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if self.one_of:
            given = [name for name in self.one_of if getattr(self, name) is not None]
            if len(given) != 1:
                raise ValueError(self.one_of_message())
        return self

    @classmethod
    def one_of_message(cls) -> str:
        """What a user is told when not exactly one of the fields is given."""
        names = [cls.alias_of(name) for name in cls.one_of]
        return f"exactly one of {', '.join(names[:-1])} and {names[-1]} must be set"

    @classmethod
    def alias_of(cls, name: str) -> str:
        """The name that this field has in the cluster."""
        field = cls.model_fields[name]
        return field.serialization_alias or name

    def dump(self) -> dict[str, Any]:
        """The value as the cluster stores it: no absent fields, no empty lists or maps.

        An empty object of ours is kept (`pod: {}` says which runtime); what users wrote into an
        open object is given back untouched.
        """
        out: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = _plain(getattr(self, name))
            if value is not None and value != [] and not _empty_map(getattr(self, name)):
                out[self.alias_of(name)] = value
        return out | (self.model_extra or {})

    def replacing(self, **changes: Any) -> Self:
        """The same value with some fields changed. A name that is no field is a mistake here."""
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)


class OpenModel(Model):
    """A value that keeps fields it does not know: a part of someone else's API."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )


def _plain(value: Any) -> Any:
    match value:
        case Model():
            return value.dump()
        case Enum():
            return value.value
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def _empty_map(value: Any) -> bool:
    return isinstance(value, Mapping) and not value


class OwnerReference(Model):
    """Whom an object belongs to. Only the UID identifies: the name may come again."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """The part of an object's metadata that the operator reads or writes."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def is_deleting(self) -> bool:
        """Somebody asked for deletion; the object stays while finalizers hold it."""
        return self.deletion_timestamp is not None

    def dump(self) -> dict[str, Any]:
        """As for every model; here an empty string also means: not known yet."""
        return {key: value for key, value in super().dump().items() if value != ""}


class Resource(Model):
    """An object of one of our kinds, as read or as to be made."""

    kind: ClassVar[str]

    metadata: ObjectMeta

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read an object of the API. Raises InvalidSpec where it does not fit the models."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            name = (body.get("metadata") or {}).get("name", "")
            raise InvalidSpec.because(cls.kind, str(name), error) from error

    def manifest(self) -> dict[str, Any]:
        """The object as one would apply it: with kind and spec, without status."""
        body = self.dump()
        body.pop("status", None)
        return {"apiVersion": group.API_VERSION, "kind": self.kind, **body}

    def owner_reference(self, *, controller: bool = True) -> OwnerReference:
        """The reference with which another object says that it belongs to this one."""
        return OwnerReference(
            api_version=group.API_VERSION,
            kind=self.kind,
            name=self.metadata.name,
            uid=self.metadata.uid,
            controller=controller,
            block_owner_deletion=controller,
        )
