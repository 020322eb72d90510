"""Which keys a change concerns: the arrows of level-triggered work.

A change of an object concerns itself and everything whose decision reads it. An arrow too many
costs a pass without a write; an arrow too few costs a stuck object, so in doubt there is one.
"""

from collections.abc import Iterator
from typing import Final

from kandev_operator.api import group
from kandev_operator.controller.cache import Body, Cache, Change, executor_of_pod
from kandev_operator.controller.queue import Key

TASK_DELAY: Final = 1.0
"""Seconds until a task is looked at after one of its sessions changed: turns come in bursts."""


def concerned(cache: Cache, change: Change) -> Iterator[tuple[Key, float]]:
    """Keys to be run, each with a delay in seconds (0: now)."""
    kind, namespace, name = change.place
    if kind == group.POD:
        yield from _of_pod(cache, change)
        return
    yield Key(kind, namespace, name), 0.0
    for body in (change.before, change.after):
        if body is None:
            continue
        if kind == group.TASK_SESSION:
            yield from _of_session(namespace, body)
        elif kind == group.EXECUTOR:
            yield from _of_executor(cache, namespace, name, body)
    if kind in (group.TASK, group.AGENT_PROFILE):
        for session in cache.sessions_of(kind, namespace, name):
            yield Key(group.TASK_SESSION, namespace, session), 0.0
            yield from _executor_of(cache, namespace, session)


def _of_pod(cache: Cache, change: Change) -> Iterator[tuple[Key, float]]:
    for body in (change.before, change.after):
        uid = executor_of_pod(group.POD, body) if body is not None else None
        place = cache.place_of(uid) if uid else None
        if place is not None:
            yield Key(*place), 0.0


def _executor_of(cache: Cache, namespace: str, session: str) -> Iterator[tuple[Key, float]]:
    """What a pod is made from has changed: one that has not started yet follows it."""
    body = cache.get(group.TASK_SESSION, namespace, session) or {}
    pointed = ((body.get("status") or {}).get("executorRef") or {}).get("name")
    if pointed:
        yield Key(group.EXECUTOR, namespace, pointed), 0.0


def _of_session(namespace: str, body: Body) -> Iterator[tuple[Key, float]]:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if task := (spec.get("taskRef") or {}).get("name"):
        yield Key(group.TASK, namespace, task), TASK_DELAY
    pointed = (status.get("executorRef") or {}).get("name")
    chosen = ((spec.get("executor") or {}).get("ref") or {}).get("name")
    for executor in {pointed, chosen}:
        if executor is not None:
            yield Key(group.EXECUTOR, namespace, executor), 0.0


def _of_executor(
    cache: Cache, namespace: str, name: str, body: Body
) -> Iterator[tuple[Key, float]]:
    for session in cache.sessions_of(group.EXECUTOR, namespace, name):
        yield Key(group.TASK_SESSION, namespace, session), 0.0
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == group.TASK_SESSION:
            yield Key(group.TASK_SESSION, namespace, owner["name"]), 0.0
    held = ((body.get("status") or {}).get("sessionRef") or {}).get("name")
    if held:
        yield Key(group.TASK_SESSION, namespace, held), 0.0
    local = ((body.get("spec") or {}).get("localStandalone") or {}).get("worktreePath")
    if local:
        for _, elsewhere, other in cache.sharing(local):
            if (elsewhere, other) != (namespace, name):
                yield Key(group.EXECUTOR, elsewhere, other), 0.0
