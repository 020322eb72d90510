"""Actions on the cluster's objects: list, make, wish, suspend. Through the Kubernetes API only.

Objects are made with the gateway's own rights, after the person's were asked: so the name of what
is made follows from the person and their `request_id`, and the same request again meets what it
made before. A wish is the annotation that the operator waits for; nothing here starts an agent.
"""

import hashlib
from typing import Any, Final

from kandev_operator.api import group
from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.clients import errors, resources
from kandev_operator.clients.resources import Resource
from kandev_operator.gateway import views
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.ports import Person, Right
from kandev_operator.gateway.refusals import Refusal, of_kube
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.envelope import ErrorCode

ANNOTATION_REQUEST: Final = f"{group.GROUP}/gateway-request"
"""A hash of who made it and by which request; never the words of a prompt."""
Answer = dict[str, Any]


async def task_list(desk: Desk, person: Person, request: asked.Listing) -> Answer:
    """Tasks and sessions of every namespace that may be read."""
    tasks: list[Answer] = []
    sessions: list[Answer] = []
    for namespace in await desk.readable(person, resources.TASKS, request.namespace):
        found = desk.cache.all(Task, namespace)
        tasks += [views.task_view(each).model_dump(exclude_none=True) for each in found]
    for namespace in await desk.readable(person, resources.TASK_SESSIONS, request.namespace):
        held = desk.cache.all(TaskSession, namespace)
        sessions += [desk.view(each).model_dump(exclude_none=True) for each in held]
    return {"tasks": tasks, "sessions": sessions}


async def profile_list(desk: Desk, person: Person, request: asked.Listing) -> Answer:
    """Profiles of every namespace that may be read."""
    found: list[Answer] = []
    for namespace in await desk.readable(person, resources.AGENT_PROFILES, request.namespace):
        profiles = desk.cache.all(AgentProfile, namespace)
        found += [views.profile_view(each).model_dump(exclude_none=True) for each in profiles]
    return {"profiles": found}


async def task_create(desk: Desk, person: Person, request: asked.TaskCreate) -> Answer:
    """Make a task."""
    await desk.may_create(person, resources.TASKS, request.namespace)
    mark = _mark(person, request.request_id)
    spec = {"title": request.title, "description": request.description}
    body = {
        "metadata": {"name": f"task-{mark[:12]}", "annotations": {ANNOTATION_REQUEST: mark}},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
    made = await _make(desk, resources.TASKS, request.namespace, body, mark)
    desk.cache.put(group.TASK, made)
    return views.task_view(_read(Task, made)).model_dump(exclude_none=True)


async def session_create(desk: Desk, person: Person, request: asked.SessionCreate) -> Answer:
    """Make a session. A template of the caller's needs their right to create pods there."""
    await desk.may_create(person, resources.TASK_SESSIONS, request.namespace)
    mark = _mark(person, request.request_id)
    spec: dict[str, Any] = {
        "taskRef": {"name": request.task_name},
        "agentProfileRef": {"name": request.agent_profile_name},
        "executor": await _executor(desk, person, request),
        "resume": {"policy": request.resume_policy},
    }
    if request.prompt is not None:
        spec["prompt"] = {"text": request.prompt}
    if request.branch is not None:
        spec["worktree"] = {"branch": request.branch}
    body = {
        "metadata": {"name": f"session-{mark[:12]}", "annotations": {ANNOTATION_REQUEST: mark}},
        "spec": spec,
    }
    made = await _make(desk, resources.TASK_SESSIONS, request.namespace, body, mark)
    desk.cache.put(group.TASK_SESSION, made)
    return desk.view(_read(TaskSession, made)).model_dump(exclude_none=True)


async def _executor(desk: Desk, person: Person, request: asked.SessionCreate) -> dict[str, Any]:
    if request.executor_name is not None and request.template is not None:
        words = "executor_name and template exclude each other"
        raise Refusal(ErrorCode.INVALID_REQUEST, words)
    if request.executor_name is not None:
        return {"ref": {"name": request.executor_name}}
    if request.template is not None:
        await desk.may_create(person, resources.PODS, request.namespace)
        return {"template": request.template}
    if desk.template is None:
        words = (
            "name an executor or give a template: this gateway has no default one "
            "(--default-template FILE)"
        )
        free = [
            each.metadata.name
            for each in desk.cache.all(Executor, request.namespace)
            if each.status.session_ref is None and each.metadata.controller is None
        ]
        raise Refusal(ErrorCode.INVALID_REQUEST, words, free_executors=sorted(free)[:20])
    return {"template": dict(desk.template)}


async def session_status(desk: Desk, person: Person, request: asked.OfSession) -> Answer:
    """One session, about itself alone."""
    session = await desk.session(person, request.session_id, task_id=request.task_id)
    return desk.view(session).model_dump(exclude_none=True)


async def session_resume(desk: Desk, person: Person, request: asked.SessionWish) -> Answer:
    """Wish for a resume; a suspended session is woken."""
    return await _wish(desk, person, request, group.ANNOTATION_RESUME_REQUESTED)


async def session_fresh_start(desk: Desk, person: Person, request: asked.SessionWish) -> Answer:
    """Wish for a new conversation; the old one's token is retired by the operator."""
    return await _wish(desk, person, request, group.ANNOTATION_FRESH_START_REQUESTED)


async def _wish(desk: Desk, person: Person, request: asked.SessionWish, annotation: str) -> Answer:
    session = await desk.session(person, request.session_id, Right.CHANGE, request.task_id)
    mode = session.spec.operating_mode
    if str(mode) == "Finished":
        words = "this session is finished for good: create a new session"
        raise Refusal(ErrorCode.CONFLICT, words)
    wish = _mark(person, request.request_id)[:32]
    patch: dict[str, Any] = {"metadata": {"annotations": {annotation: wish}}}
    if str(mode) == "Suspended":
        await _refuse_if_owned(desk, session)
        patch["spec"] = {"operatingMode": "Running"}
    return await _patched(desk, session, patch)


async def session_stop(desk: Desk, person: Person, request: asked.OfSession) -> Answer:
    """Suspend: the agent is stopped gently, the pod goes, the workspace stays."""
    session = await desk.session(person, request.session_id, Right.CHANGE, request.task_id)
    if str(session.spec.operating_mode) == "Suspended":
        return desk.view(session).model_dump(exclude_none=True)
    await _refuse_if_owned(desk, session)
    return await _patched(desk, session, {"spec": {"operatingMode": "Suspended"}})


async def _refuse_if_owned(desk: Desk, session: TaskSession) -> None:
    """Git would set the field back at its next apply, so it is not changed behind its back."""
    meta = session.metadata
    try:
        body = await desk.kube.get(resources.TASK_SESSIONS, meta.namespace, meta.name)
    except errors.KubeError as error:
        raise of_kube(error) from None
    manager = _owner_of_mode(body)
    if manager is not None:
        words = (
            f"spec.operatingMode belongs to {manager}: change it there (in Git), "
            "or it would be set back"
        )
        raise Refusal(ErrorCode.OWNED_BY_GIT, words, manager=manager, field="spec.operatingMode")


def _owner_of_mode(body: dict[str, Any]) -> str | None:
    """Who applies operatingMode from elsewhere: server-side apply, or a tool that left its mark."""
    metadata = body.get("metadata") or {}
    entries = [each for each in metadata.get("managedFields") or () if isinstance(each, dict)]
    for entry in entries:
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if entry.get("operation") == "Apply" and "f:operatingMode" in fields:
            return str(entry.get("manager") or "another manager")
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for mark in group.GIT_MARKS:
        if mark in marks and any(
            "f:operatingMode" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
            and entry.get("manager") != GATEWAY_MANAGER
            for entry in entries
        ):
            return mark.partition("/")[0]
    return None


GATEWAY_MANAGER: Final = "kandev-gateway"


async def _patched(desk: Desk, session: TaskSession, patch: dict[str, Any]) -> Answer:
    meta = session.metadata
    patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta.uid}}
    try:
        body = await desk.kube.merge_patch(
            resources.TASK_SESSIONS, meta.namespace, meta.name, patch
        )
    except errors.KubeError as error:
        raise of_kube(error) from None
    desk.cache.put(group.TASK_SESSION, body)
    return desk.view(_read(TaskSession, body)).model_dump(exclude_none=True)


async def _make(
    desk: Desk, resource: Resource, namespace: str, body: dict[str, Any], mark: str
) -> dict[str, Any]:
    """Create it, or find what the same request made before."""
    try:
        return await desk.kube.create(resource, namespace, body)
    except errors.AlreadyExists:
        pass
    except errors.KubeError as error:
        raise of_kube(error) from None
    try:
        found = await desk.kube.get(resource, namespace, body["metadata"]["name"])
    except errors.KubeError as error:
        raise of_kube(error) from None
    if (found["metadata"].get("annotations") or {}).get(ANNOTATION_REQUEST) != mark:
        words = f"{resource.kind} {body['metadata']['name']} is there already, and is another one"
        raise Refusal(ErrorCode.CONFLICT, words)
    return found


def _read(kind: Any, body: dict[str, Any]) -> Any:
    try:
        return kind.from_body(body)
    except InvalidSpec as error:
        raise Refusal(ErrorCode.REFUSED_BY_CLUSTER, str(error)) from None


def _mark(person: Person, request_id: str) -> str:
    return hashlib.sha256(f"{person.username}\n{request_id}".encode()).hexdigest()
