"""The addresses that people open: the list, a session, the login, and the files of the page.

Who asks says the door that is given; whoever it does not know is sent to the login. A session that
may not be read answers as one that does not exist. A page without JavaScript can be read; what
changes anything goes over the socket, or is the login's own.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.pages import built, policy
from kandev_operator.gateway.pages.rendering import Renderer
from kandev_operator.gateway.pages.shown import Shown
from kandev_operator.gateway.ports import HistoryUnavailable, Person, RightsUnknown
from kandev_operator.gateway.wire.messages import PAGE_SIZE

_FOREVER: Final = "public, max-age=31536000, immutable"
_REFUSALS: Final = {
    "refused": "The cluster does not know this token, or it is no longer valid.",
    "unknown": "The cluster did not answer. Try again in a moment.",
    "limited": "Too many attempts. Try again in a minute.",
    "expired": "You have been logged out. Log in again.",
}


Identify = Callable[[HTTPConnection], Awaitable[Person | Response]]
"""Who asks, or how they are turned away: 401 for somebody who is not logged in."""


def page_routes(shown: Shown, identify: Identify) -> list[BaseRoute]:
    """Everything that a browser opens. Raises built.NotBuilt where the page was not built."""
    pages = Pages(shown, identify, Renderer(built.load()))
    return [
        Route("/", pages.tasks, methods=["GET"]),
        Route("/login", pages.login, methods=["GET"]),
        Route("/sessions/{uid}", pages.session, methods=["GET"]),
        Mount(built.PREFIX, Assets(directory=built.PLACE)),
    ]


class Pages:
    """The handlers, with what they share."""

    def __init__(self, shown: Shown, identify: Identify, renderer: Renderer) -> None:
        self._shown = shown
        self._identify = identify
        self._renderer = renderer

    async def tasks(self, request: Request) -> Response:
        person = await self._identify(request)
        if isinstance(person, Response):
            return _to_login(request) if person.status_code == 401 else person
        try:
            tasks, sessions = await self._shown.tasks(person)
        except RightsUnknown:
            tasks, sessions = (), ()
        tasks = tuple(sorted(tasks, key=lambda each: each.created_at, reverse=True))
        data = {"tasks": _plain(tasks), "sessions": _plain(sessions), "person": person.username}
        return self._page("list.html", data, tasks=tasks, sessions=sessions)

    async def session(self, request: Request) -> Response:
        person = await self._identify(request)
        if isinstance(person, Response):
            return _to_login(request) if person.status_code == 401 else person
        uid = request.path_params["uid"]
        try:
            view = await self._shown.session(person, uid)
        except RightsUnknown:
            # Nothing is known of the caller's rights: the live page asks again.
            nothing = {"person": person.username}
            return self._page("list.html", nothing, status=503, tasks=(), sessions=())
        if view is None:
            return self._page("missing.html", {}, status=404)
        try:
            page = await self._shown.newest(uid, PAGE_SIZE)
        except HistoryUnavailable:
            page = None
        data: dict[str, Any] = {
            "session": view.model_dump(mode="json"),
            "page": page.model_dump(mode="json") if page is not None else None,
            "person": person.username,
        }
        return self._page("session.html", data, view=view, page=page)

    async def login(self, request: Request) -> Response:
        refused = _REFUSALS.get(request.query_params.get("why", ""), "")
        place = own_path(request.query_params.get("next", "/"))
        return self._page("login.html", {}, refused=refused, next=place)

    def _page(
        self,
        template: str,
        data: dict[str, Any],
        status: int = 200,
        **shown: Any,
    ) -> Response:
        nonce = policy.fresh_nonce()
        html = self._renderer.render(template, nonce, data, **shown)
        return HTMLResponse(html, status, headers=policy.headers(nonce))


class Assets(StaticFiles):
    """Files whose names say what is in them; packed where the browser can unpack."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        accepted = dict(scope["headers"]).get(b"accept-encoding", b"")
        response = None
        if b"gzip" in accepted and not path.startswith("."):
            response = await self._packed(path, scope)
        if response is None:
            response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = _FOREVER
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    async def _packed(self, path: str, scope: Scope) -> Response | None:
        try:
            response = await super().get_response(f"{path}.gz", scope)
        except HTTPException:
            return None
        if response.status_code == 200:
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Type"] = _type_of(path)
        return response


def own_path(place: str) -> str:
    """A path on this very server, or the list: no login sends anybody elsewhere."""
    harmless = place.startswith("/") and not place.startswith("//") and "\\" not in place
    return place if harmless and place.isprintable() else "/"


def _type_of(path: str) -> str:
    ending = path.rpartition(".")[2]
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    return f"{kinds.get(ending, 'application/json')}; charset=utf-8"


def _to_login(request: Request) -> Response:
    return RedirectResponse(f"/login?next={quote(request.url.path)}", status_code=303)


def _plain(views: Sequence[Wire]) -> list[dict[str, Any]]:
    return [view.model_dump(mode="json") for view in views]
