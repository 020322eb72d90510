"""Objects of the cache as models, for whoever looks.

One that is there and cannot be read by this version is `Unreadable`, for good until a person mends
it: nothing is concluded from it.
"""

from typing import Any

from kandev_operator.api.errors import InvalidSpec
from kandev_operator.controller.cache import Cache
from kandev_operator.core.observed import Found, Look, Missing, Unreadable


def stored(cache: Cache, model: type[Any], kind: str, namespace: str, name: str) -> Look[Any]:
    """An object from the cache. One that cannot be read is there, and nothing is concluded."""
    body = cache.get(kind, namespace, name)
    if body is None:
        return Missing()
    try:
        return Found(model.from_body(body))
    except InvalidSpec as error:
        return Unreadable(error.message, lasting=True)
