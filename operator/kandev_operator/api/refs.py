"""References: how one object points at another.

In a spec, people point by name and always inside the namespace. In a status, the operator adds
the UID, because a name may be given again after its first bearer is gone.
"""

from pydantic import Field

from kandev_operator.api.markers import DNS_SUBDOMAIN
from kandev_operator.api.meta import Model


class NameRef(Model):
    """An object in the same namespace, by name."""

    name: str = Field(
        description="Name of the object, in the same namespace.",
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
    )


class KeyRef(Model):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: str = Field(
        description="Name of the Secret or ConfigMap, in the same namespace.",
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
    )
    key: str = Field(
        description="Which of its keys to read.",
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
    )


class ObjectRef(Model):
    """An object in the same namespace, by name and by the UID that was seen."""

    name: str = Field(description="Name of the object, in the same namespace.")
    uid: str = Field(
        description="UID of the object that was meant. An object of the same name with another "
        "UID is not it."
    )
