"""All objects of a kind, and what becomes of them: one LIST, then a WATCH, over every loss.

For programs that only look on (the operator itself watches with kopf). What comes is whole lists
and single changes between them; a list says what is there, so what was deleted unseen is what the
next list lacks. Every watch ends after some minutes and begins with a new list: that is the sweep
which finds what a watch lost. It never ends by itself and decides nothing.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.clients.errors import Gone, KubeError, Unavailable
from kandev_operator.clients.kube import Kube, Object
from kandev_operator.clients.resources import Resource

WATCH_SECONDS: Final = 300
SILENCE: Final = 100.0
"""A watch carries a bookmark every minute or so; one that says nothing for longer is dead."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Everything that is there at this moment."""

    items: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """An object that is new, or another than before."""

    item: Object


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object that is gone, as it was last."""

    item: Object


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing is known for now, and why; it is being tried again."""

    error: KubeError


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing has changed, and the server says so."""


Seen = Listed | Changed | Deleted | Lost | Alive


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: the first wait after a loss (it doubles), the longest, and how long a watch is."""

    first: float = 0.3
    longest: float = 15.0
    watch: int = WATCH_SECONDS
    silence: float = SILENCE


async def watch(
    kube: Kube,
    resource: Resource,
    namespace: str | None,
    keep: Callable[[Object], Object],
    pace: Pace = Pace(),
) -> AsyncGenerator[Seen, None]:
    """Look on for ever. `keep` says what is to be kept of an object. Wrap it in `aclosing`."""
    pause = pace.first
    while True:
        try:
            items, version = await kube.list(resource, namespace, keep=keep)
            yield Listed(tuple(items))
            pause = pace.first
            async with aclosing(_changes(kube, resource, namespace, version, pace)) as changes:
                async for kind, item in changes:
                    match kind:
                        case "DELETED":
                            yield Deleted(keep(item))
                        case "BOOKMARK":
                            yield Alive()
                        case _:
                            yield Changed(keep(item))
            continue
        except Gone:
            continue  # what the list said is too old by now: list again at once
        except KubeError as error:
            lost = Lost(error)
        yield lost
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, pace.longest)


async def _changes(
    kube: Kube, resource: Resource, namespace: str | None, version: str, pace: Pace
) -> AsyncGenerator[tuple[str, Object], None]:
    """The events of one watch, until the server ends it in order. Raises Gone, or KubeError."""
    query = {
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(round(pace.watch * random.uniform(0.8, 1.0))),
    }
    title = f"watch {resource.plural}"
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    async with aclosing(kube.changes(resource, namespace, query, pace.silence)) as lines:
        async for line in lines:
            if not line.strip():
                continue
            event = _event(title, line)
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                code = item.get("code")
                words = str(item.get("message") or "the watch broke")
                raise (Gone if code == 410 else Unavailable)(title, words, status=code)
            yield str(event.get("type")), {**kind, **item}


def _event(title: str, line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise Unavailable(title, "an event of the watch is no JSON object")
    return event
