"""The Kubernetes API as plain dictionaries: read, create, replace, patch, delete.

No typed models: those of the `kubernetes` package are strict, and an object written by a newer
version would be refused before it was read. Every call has a timeout (10 s unless said
otherwise), names its outcome to `on_request`, and fails with a type of `errors` that says what
to do. Only a 401 is repeated here, once; the caller knows what else may be.

How status is written (`replace_status`). PUT on the status subresource takes the object's status
whole from the body and everything else from what is stored; spec and labels need not be sent, so
the body is only identity and status. It is one request, `resourceVersion` guards it against a
writer in between and `uid` against another object of the same name (both are a Conflict), and
strict field validation refuses a field that the served schema does not have instead of dropping
it silently. A JSON patch can do the same with more words and one more reading on the server.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from kandev_operator.clients.credentials import Access, Source, find_source
from kandev_operator.clients.errors import Gone
from kandev_operator.clients.kube_transport import (
    DEFAULT_TIMEOUT,
    Call,
    OnRequest,
    Transport,
    nobody_counts,
)
from kandev_operator.clients.resources import Resource

FIELD_MANAGER: Final = "kandev-operator"
_MERGE_PATCH: Final = "application/merge-patch+json"
_METHODS: Final = {
    "get": "GET",
    "replace": "PUT",
    "replace_status": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_JSON_PATCH: Final = "application/json-patch+json"

Object = dict[str, Any]
Page = tuple[list[Object], str]


def _all_of_it(item: Object) -> Object:
    return item


class Kube:
    """One API server, called as one user. Made by `connect`, ended by `close`."""

    def __init__(
        self,
        source: Source,
        access: Access,
        *,
        on_request: OnRequest = nobody_counts,
        clock: Callable[[], float] = time.monotonic,
        field_manager: str = FIELD_MANAGER,
    ) -> None:
        self._transport = Transport(source, access, on_request, clock)
        self._manager = field_manager

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        *,
        on_request: OnRequest = nobody_counts,
        field_manager: str = FIELD_MANAGER,
    ) -> Self:
        """Read the credentials; nothing is sent yet. Raises NoCredentials when there are none."""
        source = find_source(kubeconfig, context)
        access = await source.load()
        return cls(source, access, on_request=on_request, field_manager=field_manager)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Calls under way fail as Unavailable."""
        await self._transport.close()

    @property
    def namespace(self) -> str:
        """The namespace of the context, or of the pod's service account."""
        return self._transport.access.namespace

    @property
    def server(self) -> str:
        """The API server's URL, without a slash at the end."""
        return str(self._transport.access.configuration.host).rstrip("/")

    @property
    def ssl_context(self) -> Any:
        """TLS towards the API server, for calls to agentctl through its pod proxy."""
        return self._transport.ssl_context

    async def auth_headers(self) -> dict[str, str]:
        """Who we are, as headers, for calls to agentctl through the API server's pod proxy."""
        return await self._transport.headers()

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Read one object."""
        return await self._object(_about_one("get", resource, namespace, name, timeout=timeout))

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        label_selector: str | None = None,
        limit: int = 500,
        *,
        field_selector: str | None = None,
        keep: Callable[[Object], Object] = _all_of_it,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Page:
        """Read all objects, page by page, and the resource version they were read at.

        The pages are one snapshot. When it expires on the way, the list is started again and
        asked for in one piece: a list that could not finish in pages would not do so next time.
        The timeout counts for each page. `keep` says what is to be kept of an object, so that a
        caller who needs a part never holds the whole of thousands.
        """
        selected = {"labelSelector": label_selector, "fieldSelector": field_selector}
        try:
            return await self._pages(resource, namespace, selected, limit, keep, timeout)
        except Gone:
            return await self._pages(resource, namespace, selected, 0, keep, timeout)

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Object,
        *,
        dry_run: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Create an object; with `dry_run`, only have the server say what it would become."""
        metadata = body.get("metadata") or {}
        return await self._object(
            Call(
                verb="create",
                method="POST",
                path=resource.path(namespace),
                plural=resource.plural,
                about=_about(namespace, metadata.get("name") or ""),
                query=self._write_query(dry_run=dry_run),
                body=_whole(resource, body),
                timeout=timeout,
            )
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Replace an object whole. The body carries the resourceVersion it was made from."""
        _guard(resource, body)
        return await self._object(
            self._write(
                "replace", resource, namespace, name, body=_whole(resource, body), timeout=timeout
            )
        )

    async def replace_status(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Replace an object's status whole, guarded and strictly checked; see the module.

        `body` may be the object as it was read, with its new status: what the status
        subresource would ignore is not sent.
        """
        metadata = _guard(resource, body)
        identity = {"name": name, "namespace": namespace}
        identity |= {key: metadata.get(key) for key in ("uid", "resourceVersion")}
        identity = {key: value for key, value in identity.items() if value}
        return await self._object(
            self._write(
                "replace_status",
                resource,
                namespace,
                name,
                subresource="status",
                body=_whole(resource, {"metadata": identity, "status": body.get("status") or {}}),
                timeout=timeout,
            )
        )

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str = "",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Change some fields: null removes one, a list is replaced whole.

        With a metadata.resourceVersion in the patch it is guarded.
        """
        return await self._object(
            self._write(
                "patch",
                resource,
                namespace,
                name,
                subresource=subresource,
                body=patch,
                content_type=_MERGE_PATCH,
                timeout=timeout,
            )
        )

    async def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Object],
        *,
        subresource: str = "",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Object:
        """Change by a list of operations. A `test` that fails is Invalid, not a Conflict."""
        return await self._object(
            self._write(
                "patch",
                resource,
                namespace,
                name,
                subresource=subresource,
                body=[*operations],  # the REST client takes anything but a list for a merge patch
                content_type=_JSON_PATCH,
                timeout=timeout,
            )
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: str | None = None,
        grace_seconds: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Delete an object; with `uid` only that very one (else Conflict)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._object(
            _about_one("delete", resource, namespace, name, body=options, timeout=timeout)
        )

    async def raw_get(self, path: str, *, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Read any JSON document of the server, such as /version or /openapi/v3/…"""
        return await self._transport.document(
            Call(verb="get", method="GET", path=path, about=path, timeout=timeout)
        )

    def changes(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str], silence: float
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch; see `watching`, which understands them."""
        call = Call(
            verb="watch",
            method="GET",
            path=resource.path(namespace),
            plural=resource.plural,
            about=namespace or "",
            query=urlencode({"watch": "1", **query}),
        )
        return self._transport.lines(call, silence)

    async def _object(self, call: Call) -> Object:
        document: Object = await self._transport.document(call)
        return document

    async def _pages(
        self,
        resource: Resource,
        namespace: str | None,
        selected: Mapping[str, str | None],
        limit: int,
        keep: Callable[[Object], Object],
        timeout: float,
    ) -> Page:
        items: list[Object] = []
        token = ""
        while True:
            query = {**selected, "limit": limit or None, "continue": token}
            page = await self._object(
                Call(
                    verb="list",
                    method="GET",
                    path=resource.path(namespace),
                    plural=resource.plural,
                    about=namespace or "",
                    query=urlencode({key: value for key, value in query.items() if value}),
                    timeout=timeout,
                )
            )
            # Items of a list lack the kind that its objects have everywhere else.
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            items += [keep({**kind, **item}) for item in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return items, metadata.get("resourceVersion") or ""

    def _write(
        self, verb: str, resource: Resource, namespace: str | None, name: str, **more: Any
    ) -> Call:
        return _about_one(verb, resource, namespace, name, query=self._write_query(), **more)

    def _write_query(self, *, dry_run: bool = False) -> str:
        """Strict: the server says which field it does not know instead of dropping it."""
        query = {"fieldManager": self._manager, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return urlencode(query)


def _about_one(
    verb: str,
    resource: Resource,
    namespace: str | None,
    name: str,
    *,
    subresource: str = "",
    **more: Any,
) -> Call:
    """A call about one object that is there already."""
    return Call(
        verb=verb,
        method=_METHODS[verb],
        path=resource.path(namespace, name, subresource),
        plural=resource.plural,
        about=_about(namespace, name),
        **more,
    )


def _about(namespace: str | None, name: str) -> str:
    return "/".join(part for part in (namespace, name) if part)


def _whole(resource: Resource, body: Object) -> Object:
    """The body with its kind, which objects out of a list or a builder may lack."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _guard(resource: Resource, body: Object) -> Object:
    """The metadata of a body that may replace another; an unguarded one is our own mistake."""
    metadata: Object = body.get("metadata") or {}
    if not metadata.get("resourceVersion"):
        raise ValueError(f"a {resource.kind} cannot be replaced without a resourceVersion")
    return metadata
