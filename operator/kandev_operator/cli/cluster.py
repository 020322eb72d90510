"""The cluster's objects as the commands need them: read, explained when missing, wished upon.

One API server, one namespace. What belongs to a session (executor, task, profile) may be missing
or forbidden without the command failing; the session itself may not. The only writes are the
annotations by which people wish for something.
"""

from collections.abc import Mapping
from typing import TypeVar

from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor
from kandev_operator.api.meta import Resource as Object
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.cli import troubles
from kandev_operator.cli.faults import Fault
from kandev_operator.clients import errors, resources
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource

Kind = TypeVar("Kind", bound=Object)


class Cluster:
    """One namespace of one cluster."""

    def __init__(self, kube: Kube, namespace: str | None = None) -> None:
        self.kube = kube
        self.namespace = namespace or kube.namespace

    async def session(self, name: str) -> TaskSession:
        """The session; raises Fault when it cannot be had."""
        return await self._read(resources.TASK_SESSIONS, TaskSession, name)

    async def executor_of(self, session: TaskSession) -> Executor:
        """The executor that the session chose; raises Fault when it cannot be had."""
        ref = session.status.executor_ref
        if ref is None:
            raise Fault(f"session {session.metadata.name} has no executor")
        return await self._read(resources.EXECUTORS, Executor, ref.name)

    async def surroundings(
        self, session: TaskSession
    ) -> tuple[Executor | None, Task | None, AgentProfile | None]:
        """What belongs to the session, as far as it is there and may be read."""
        ref = session.status.executor_ref or session.spec.executor.ref
        return (
            await self._if_any(resources.EXECUTORS, Executor, ref.name) if ref else None,
            await self._if_any(resources.TASKS, Task, session.spec.task_ref.name),
            await self._if_any(
                resources.AGENT_PROFILES, AgentProfile, session.spec.agent_profile_ref.name
            ),
        )

    async def annotate(self, session: TaskSession, annotations: Mapping[str, str]) -> None:
        """Put annotations on this very session, and on no other of its name."""
        name = session.metadata.name
        metadata = {"uid": session.metadata.uid, "annotations": dict(annotations)}
        patch = {"metadata": metadata}
        try:
            await self.kube.merge_patch(resources.TASK_SESSIONS, self.namespace, name, patch)
        except errors.KubeError as error:
            raise troubles.of_object(
                error, "patch", resources.TASK_SESSIONS, self.namespace, name
            ) from error

    async def _read(self, resource: Resource, kind: type[Kind], name: str) -> Kind:
        try:
            return kind.from_body(await self.kube.get(resource, self.namespace, name))
        except errors.KubeError as error:
            raise troubles.of_object(error, "get", resource, self.namespace, name) from error
        except InvalidSpec as error:
            raise Fault(
                f"{error} - this version of the plugin cannot read it",
                "Use a plugin of the operator's own version.",
            ) from error

    async def _if_any(self, resource: Resource, kind: type[Kind], name: str) -> Kind | None:
        try:
            return kind.from_body(await self.kube.get(resource, self.namespace, name))
        except (errors.NotFound, errors.Forbidden, InvalidSpec):
            return None
        except errors.KubeError as error:
            raise troubles.of_cluster(error) from error
