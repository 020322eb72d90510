"""A tool that keeps a namespace as Git has it, played with kubectl: it applies again and again.

Two tools are known, each by what it does to an object: Flux applies on the server, under a name of
its own for fields, and takes a conflict for an error; Argo CD applies on the client, and keeps
what it applied in an annotation. Both first ask whether there is a difference. Knows nothing of
what the operator does; a round that fails, or finds a difference nobody made in Git, is remembered.
"""

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from cluster.errors import KubectlError
from stage.sessions import Body, Namespace

EVERY_SECONDS = 1.0
PATIENCE = 90.0


@dataclass(frozen=True)
class Tool:
    """How one tool writes."""

    name: str
    manager: str
    options: tuple[str, ...]


FLUX: Final = Tool("flux", "kustomize-controller", ("--server-side",))
ARGO: Final = Tool("argo", "argocd-controller", ())


class Repository:
    """What Git has of one namespace, and the tool that brings it there."""

    def __init__(self, place: Namespace, tool: Tool, *bodies: Body) -> None:
        self.place, self.tool = place, tool
        self.bodies = [written_down(body) for body in bodies]
        self.rounds = 0
        self.troubles: list[str] = []
        self._one_at_a_time = asyncio.Lock()
        self._round_ended = asyncio.Condition()

    async def commit(self, kind: str, name: str, **spec: object) -> None:
        """Change fields of a spec in Git, and have them applied."""
        async with self._one_at_a_time:
            [body] = [
                each
                for each in self.bodies
                if (each["kind"], each["metadata"]["name"]) == (kind, name)
            ]
            body["spec"].update(spec)
            await asyncio.to_thread(self._apply)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Apply everything once, and then again every second until the end."""
        await asyncio.to_thread(self._apply)
        task = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def rounds_more(self, number: int) -> None:
        """Wait until it was all applied so many times more."""
        wanted = self.rounds + number
        async with asyncio.timeout(PATIENCE), self._round_ended:
            await self._round_ended.wait_for(lambda: self.rounds >= wanted)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            async with self._one_at_a_time:
                await asyncio.to_thread(self._round)
            async with self._round_ended:
                self.rounds += 1
                self._round_ended.notify_all()

    def _round(self) -> None:
        try:
            there = self._kubectl("get")
            wanted = self._apply("--dry-run=server")
            for old, new in zip(there, wanted, strict=True):
                if owned(old) != owned(new):
                    self.troubles.append(f"Git would change {owned(old)} to {owned(new)}")
            self._apply()
        except KubectlError as error:
            self.troubles.append(str(error))

    def _apply(self, *options: str) -> list[Body]:
        manager = f"--field-manager={self.tool.manager}"
        return self._kubectl("apply", *self.tool.options, manager, *options)

    def _kubectl(self, *words: str) -> list[Body]:
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": self.bodies})
        printed = json.loads(self.place.kubectl(*words, "-f", "-", "-o", "json", stdin=listed))
        items: list[Body] = printed["items"]
        return items


def written_down(body: Body) -> Body:
    """An object as a person writes it: nothing empty, which the API server would not store, and
    would take for news each time that it is applied."""
    written = copy.deepcopy(body)
    written["metadata"] = {key: value for key, value in body["metadata"].items() if value}
    return written


def owned(body: Body) -> Body:
    """What of an object is not the operator's word: all but its status and its versions."""
    kept = ("name", "generation", "labels", "annotations", "finalizers", "ownerReferences")
    meta = {key: body["metadata"][key] for key in kept if key in body["metadata"]}
    return {"kind": body["kind"], "metadata": meta, "spec": body["spec"]}
