"""The content blocks of a prompt: their shapes, and whether the agent takes them.

Text and links go to every agent; images, audio and embedded resources only to one that declared
them. What an agent does not take is refused when it is asked for, and once more when its turn
comes: a queued prompt may meet another agent than the one that was known when it was accepted.
Nothing of a block is quoted, since it is the person's own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kandev_operator.agentctl.machine.effects import Refused
from kandev_operator.contract.errors import Code
from kandev_operator.contract.status import Capabilities

NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("name", "uri"),
    "resource": (),
}
"""The fields, all of them texts, without which a block of this type is none."""


def malformed(content: Iterable[Mapping[str, Any]]) -> Refused | None:
    """Refuse what is no content block of the protocol."""
    for place, block in enumerate(content):
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in NEEDED:
            return _refuse(place, "type", "this is no kind of content block")
        for name in NEEDED[kind]:
            if not isinstance(block.get(name), str):
                return _refuse(place, name, "the block lacks a text that it needs")
        if kind == "resource" and not _is_resource(block.get("resource")):
            return _refuse(place, "resource", "it needs a uri, and text or blob")
    return None


def _is_resource(told: Any) -> bool:
    if not isinstance(told, Mapping) or not isinstance(told.get("uri"), str):
        return False
    return isinstance(told.get("text"), str) or isinstance(told.get("blob"), str)


def _refuse(place: int, name: str, problem: str) -> Refused:
    details = {"errors": [{"at": f"content.{place}.{name}", "problem": problem}]}
    return Refused(Code.INVALID_REQUEST, "the content does not fit", details)


def untaken(content: Iterable[Mapping[str, Any]], can: Capabilities) -> str | None:
    """The first kind of block that the agent does not take; None where it is not known yet."""
    if can.prompt is None:
        return None
    taken = {
        "image": can.prompt.image,
        "audio": can.prompt.audio,
        "resource": can.prompt.embedded_context,
    }
    kinds = (str(block.get("type")) for block in content)
    return next((kind for kind in kinds if not taken.get(kind, True)), None)


def offers(can: Capabilities) -> list[str]:
    """The kinds of block that the agent takes."""
    return [kind for kind in NEEDED if untaken(({"type": kind},), can) is None]
