"""A user's overlay laid over the operator's pod, merged by key.

Lists are merged by the key that Kubernetes merges them by (containers, volumes and variables by
name, mounts by path); everything else is taken from the overlay where it says anything. The user
wins, except for labels and annotations of the group and for what keeps sessions safe: how
agentctl is started, where the workspace is, and the names that the operator uses for that. An
overlay that fights these is refused with a sentence, never half obeyed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.podtemplate import Container, PodOverlay, PodOverlaySpec
from kandev_operator.core.pods import layout

Body = dict[str, Any]

OWN_VARIABLES: Final = "KANDEV_"
"""Variables that agentctl reads its options from."""

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
"""The list maps of a pod, and the key of each."""


def conflict(overlay: PodOverlay) -> str | None:
    """Why this overlay cannot be laid over an executor's pod; None when it can."""
    if overlay.spec is None:
        return None
    return next(_conflicts(overlay.spec), None)


def _conflicts(spec: PodOverlaySpec) -> Iterator[str]:
    for container in spec.containers:
        if container.name == layout.AGENT and (container.command or container.args):
            yield (
                f"container {layout.AGENT}: command and args are the operator's, it starts "
                "agentctl there; the agent's own command belongs in its AgentProfile"
            )
        yield from _reserved(container, "container")
    for container in spec.init_containers:
        if container.name == layout.AGENT:
            yield f"init container {container.name}: that is the name of the agent's container"
        yield from _reserved(container, "init container")
    for volume in spec.volumes:
        if volume.name == layout.VOLUME_WORKSPACE or volume.name.startswith(layout.RESERVED_PREFIX):
            yield f"volume {volume.name}: the name is the operator's"


def _reserved(container: Container, what: str) -> Iterator[str]:
    name = container.name
    if name.startswith(layout.RESERVED_PREFIX):
        yield f"{what} {name}: names that begin with {layout.RESERVED_PREFIX} are the operator's"
    if name != layout.AGENT:
        return
    for mount in container.volume_mounts:
        if _is_reserved(mount.mount_path):
            yield f"{what} {name}: {mount.mount_path} is where the operator mounts its own"
    for variable in container.env:
        if variable.name.startswith(OWN_VARIABLES):
            yield f"{what} {name}: variable {variable.name} is the operator's"


def _is_reserved(path: str) -> bool:
    plain = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    below = (layout.WORKSPACE, layout.PROGRAM, "/etc/kandev")
    return plain in layout.RESERVED_PATHS or any(plain.startswith(f"{own}/") for own in below)


def merged(pod: Body, overlay: PodOverlay | None) -> Body:
    """The pod with the overlay over it. Both stay as they are."""
    if overlay is None:
        return pod
    spec = overlay.spec.dump() if overlay.spec is not None else {}
    meta = dict(pod["metadata"])
    if overlay.metadata is not None:
        for part in ("labels", "annotations"):
            extra = getattr(overlay.metadata, part)
            theirs = {k: v for k, v in extra.items() if not k.startswith(f"{group.GROUP}/")}
            meta[part] = {**theirs, **meta.get(part, {})}
    return {**pod, "metadata": meta, "spec": _over(pod["spec"], spec)}


def _over(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Body:
    out = dict(ours)
    for name, value in theirs.items():
        known = out.get(name)
        if isinstance(known, list) and name in _KEYS:
            out[name] = _by_key(known, value, _KEYS[name])
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            out[name] = _over(known, value)
        else:
            out[name] = value
    return out


def _by_key(ours: Sequence[Body], theirs: Sequence[Body], key: str) -> list[Body]:
    """Ours in their order, each with what is theirs over it; then what is only theirs."""
    extra = {each[key]: each for each in theirs}
    known = {each[key] for each in ours}
    kept = [_entry(each, extra[each[key]]) if each[key] in extra else each for each in ours]
    return [*kept, *(each for each in theirs if each[key] not in known)]


def _entry(ours: Body, theirs: Body) -> Body:
    out = _over(ours, theirs)
    if "value" in theirs:  # a variable has one source
        out.pop("valueFrom", None)
    elif "valueFrom" in theirs:
        out.pop("value", None)
    return out
