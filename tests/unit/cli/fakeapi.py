"""A small API server: objects that can be read, annotated, forbidden, and a pod proxy."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from unit.cli.bodies import NAME, NS, Json


@dataclass
class FakeApi:
    """Objects by plural, namespace and name; what may not be read; what was patched."""

    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    patches: list[Json] = field(default_factory=list)
    on_patch: Any = None
    broken: bool = False
    reads: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.split("/namespaces/")[1].split("/")
        namespace, plural, name = parts[:3]
        if parts[3:4] and parts[-1] != "status":
            return await self.proxied(request)
        if self.broken:
            return _status(503, "ServiceUnavailable", "etcd is away")
        if plural in self.forbidden:
            return _status(403, "Forbidden", f'{plural} "{name}" is forbidden')
        found = self.objects.get((plural, namespace, name))
        if found is None:
            return _status(404, "NotFound", f'{plural}.kandev.dev "{name}" not found')
        self.reads += 1
        if request.method == "PATCH":
            patch = await request.json()
            self.patches.append(patch)
            meta = found["metadata"]
            if patch["metadata"].get("uid", meta["uid"]) != meta["uid"]:
                return _status(409, "Conflict", "another object")
            meta.setdefault("annotations", {}).update(patch["metadata"]["annotations"])
            if self.on_patch is not None:
                self.on_patch(found)
        return web.json_response(found)

    proxy: Any = None

    async def proxied(self, request: web.Request) -> web.StreamResponse:
        if self.proxy is None:
            return _status(403, "Forbidden", "pods/proxy")
        response: web.StreamResponse = await self.proxy(request)
        return response

    def put(self, plural: str, body: Json, namespace: str = NS) -> Json:
        self.objects[plural, namespace, body["metadata"]["name"]] = body
        return body

    @property
    def session(self) -> Json:
        return self.objects["tasksessions", NS, NAME]


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason}
    return web.json_response({**body, "message": message}, status=code)
