"""The door with a lock: a token of the cluster, a cookie for it, or a proxy that vouches.

Asked in this order: headers of an authenticating proxy, where the peer's address is one of the
trusted ranges (ignored from anywhere else); a bearer token, for programs; the cookie that a login
gave. Host and Origin are looked at first. Who is turned away gets 401 and no reason that would tell
a guesser anything; a cluster that does not answer is 503, which is neither yes nor no.
"""

import base64
import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from kandev_operator.gateway.door import is_at_home
from kandev_operator.gateway.ports import Person, RightsUnknown
from kandev_operator.gateway.rights.buckets import Buckets, Rate
from kandev_operator.gateway.rights.cookie import LONGEST_SECONDS, Seal, mark
from kandev_operator.gateway.rights.origins import SAFE_METHODS, Network, Origins, is_within
from kandev_operator.gateway.rights.reviews import Kept, Reviews
from kandev_operator.gateway.wire.envelope import ErrorCode

COOKIE: Final = "kandev"
SECURE_COOKIE: Final = "__Host-kandev"
_ATTEMPTS: Final = Rate(burst=20, a_second=0.5)
"""Logins from one address."""
_REVIEWS: Final = Rate(burst=100, a_second=20)
"""Tokens from one address that the API server has to be asked about."""
_CALLS: Final = Rate(burst=400, a_second=100)
"""Requests of one person; what comes over an open socket is counted there."""
_LONGEST_TOKEN: Final = 16 * 1024
_GROUPS_AT_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class Proxy:
    """An authenticating proxy in front of the gateway: from where it comes, and what it says."""

    trusted: tuple[Network, ...] = ()
    user_header: str = "X-Remote-User"
    group_header: str = "X-Remote-Group"


class LoginDoor:
    """Who is who, by the cluster's word. `seal` gives the one in use; raises RightsUnknown."""

    def __init__(
        self,
        reviews: Reviews,
        seal: Callable[[], Seal],
        public: frozenset[str],
        proxy: Proxy,
    ) -> None:
        """`public`: the URLs under which people reach this gateway, such as https://kandev.dev."""
        self._reviews = reviews
        self._seal = seal
        parts = [urlsplit(url) for url in public]
        self._origins = Origins(
            frozenset(f"{each.scheme}://{each.netloc}".lower() for each in parts)
        )
        self._is_secure = any(each.scheme == "https" for each in parts)
        self._proxy = proxy
        self._attempts = Buckets(_ATTEMPTS)
        self._asked = Buckets(_REVIEWS)
        self._calls = Buckets(_CALLS)
        self._ended: Kept[bool] = Kept(time.monotonic, LONGEST_SECONDS)

    # ---- every request ------------------------------------------------------------------------

    async def person(self, connection: HTTPConnection) -> Person | Response:
        """Who asks, or how they are turned away."""
        if (refusal := self._refused(connection)) is not None:
            return refusal
        found: Person | Response | None = self._vouched(connection)
        try:
            scheme, _, token = connection.headers.get("authorization", "").partition(" ")
            if found is None and scheme.lower() == "bearer":
                found = await self._bearer(connection, token.strip())
            elif found is None:
                found = self._by_cookie(connection)
        except RightsUnknown:
            words = "nobody can say who you are now: the API server does not answer"
            return _refusal(503, ErrorCode.UNREACHABLE, words)
        if isinstance(found, Person) and (
            wait := self._calls.take(found.username, time.monotonic())
        ):
            return _too_many(wait)
        return found or _refusal(401, ErrorCode.UNAUTHENTICATED, "log in first")

    async def _bearer(self, connection: HTTPConnection, token: str) -> Person | Response | None:
        """Who bears this token; what is not known yet is asked about only so often."""
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        if not self._reviews.knows(token):
            peer = connection.client.host if connection.client else ""
            if wait := self._asked.take(peer, time.monotonic()):
                return _too_many(wait)
        return await self._reviews.bearer(token)

    def _refused(self, connection: HTTPConnection) -> Response | None:
        """A host that is not ours, or a page of somebody else's that speaks with a cookie."""
        host = connection.headers.get("host", "")
        if not is_at_home(host) and not self._origins.takes_host(host):
            return _refusal(403, ErrorCode.FORBIDDEN, "this host is not served here")
        is_socket = connection.scope["type"] == "websocket"
        changes = is_socket or connection.scope.get("method") not in SAFE_METHODS
        # What a browser adds by itself speaks only with an origin: cookies, and a proxy's word.
        by_cookie = (
            COOKIE in connection.cookies
            or SECURE_COOKIE in connection.cookies
            or self._proxy.user_header in connection.headers
        )
        origin = connection.headers.get("origin")
        if changes and not self._origins.takes(origin, host, needed=by_cookie):
            return _refusal(403, ErrorCode.FORBIDDEN, "this origin may not do that")
        return None

    def _vouched(self, connection: HTTPConnection) -> Person | None:
        """Who a trusted proxy says it is."""
        peer = connection.client.host if connection.client else None
        if not is_within(peer, self._proxy.trusted):
            return None
        names = connection.headers.getlist(self._proxy.user_header)
        if len(names) != 1 or not names[0]:
            return None  # of two, one may be the client's own, which the proxy let through
        name = names[0]
        groups = connection.headers.getlist(self._proxy.group_header)[:_GROUPS_AT_MOST]
        return Person(name, groups=(*groups, "system:authenticated"))

    def _by_cookie(self, connection: HTTPConnection) -> Person | None:
        value = connection.cookies.get(self._cookie(connection))
        person = self._seal().open(value) if value else None
        return None if value and person and self._ended.get(mark(value)) else person

    def _cookie(self, connection: HTTPConnection) -> str:
        return SECURE_COOKIE if self._secure(connection) else COOKIE

    def _secure(self, connection: HTTPConnection) -> bool:
        """At home one may come without TLS; by a public name only as that name says."""
        return self._is_secure and not is_at_home(connection.headers.get("host", ""))

    # ---- in and out ---------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        """POST /login and /logout."""
        return [
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    async def _login(self, request: Request) -> Response:
        """A token for a cookie: as a form (answered with a redirect) or as JSON."""
        if (refusal := self._refused(request)) is not None:
            return refusal
        is_form = "json" not in request.headers.get("content-type", "")
        token, place = await _asked(request, is_form=is_form)
        peer = request.client.host if request.client else ""
        if wait := self._attempts.take(peer, time.monotonic()):
            body = {"retry_after_seconds": round(wait, 1)}
            return _turned_away(is_form, place, "limited", 429, ErrorCode.RATE_LIMITED, body)
        try:
            person = await self._reviews.bearer(token) if token else None
            seal = self._seal()
        except RightsUnknown:
            return _turned_away(is_form, place, "unknown", 503, ErrorCode.UNREACHABLE)
        if person is None:
            return _turned_away(is_form, place, "refused", 401, ErrorCode.UNAUTHENTICATED)
        ends = _end_of(token)
        if (value := seal.close(person, ends)) is None:
            return _turned_away(is_form, place, "refused", 401, ErrorCode.UNAUTHENTICATED)
        answer: Response = JSONResponse({"username": person.username})
        if is_form:
            answer = RedirectResponse(place, 303)
        answer.set_cookie(
            self._cookie(request),
            value,
            max_age=max(0, int(min(ends - time.time(), LONGEST_SECONDS))),
            path="/",
            secure=self._secure(request),
            httponly=True,
            samesite="strict",
        )
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def _logout(self, request: Request) -> Response:
        if (refusal := self._refused(request)) is not None:
            return refusal
        answer = RedirectResponse("/login", 303)
        for name in (COOKIE, SECURE_COOKIE):
            value = request.cookies.get(name)
            # Only what we made: nobody fills this list with words of their own.
            with contextlib.suppress(RightsUnknown):
                if value and self._seal().open(value) is not None:
                    self._ended.put(mark(value), True)
            answer.delete_cookie(
                name, path="/", secure=name == SECURE_COOKIE, httponly=True, samesite="strict"
            )
        return answer


async def _asked(request: Request, *, is_form: bool) -> tuple[str, str]:
    """The token, and where to go afterwards: a path of ours, or the list."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > 2 * _LONGEST_TOKEN:
            return "", "/"
    fields: dict[str, str] = {}
    with contextlib.suppress(ValueError):
        if is_form:
            found = parse_qs(body.decode(), max_num_fields=10)
            fields = {key: values[0] for key, values in found.items()}
        else:
            told = json.loads(body)
            if isinstance(told, dict):
                fields = {key: text for key, text in told.items() if isinstance(text, str)}
    place = fields.get("next", "/")
    ours = place.startswith("/") and place[1:2] not in ("/", "\\") and place.isprintable()
    return fields.get("token", "").strip()[:_LONGEST_TOKEN], place if ours else "/"


def _turned_away(
    is_form: bool,
    place: str,
    why: str,
    status: int,
    code: ErrorCode,
    details: dict[str, float] | None = None,
) -> Response:
    if is_form:
        return RedirectResponse(f"/login?{urlencode({'why': why, 'next': place})}", 303)
    return _refusal(status, code, f"not logged in: {why}", details)


def _refusal(
    status: int, code: ErrorCode, message: str, details: dict[str, float] | None = None
) -> Response:
    body = {"code": code.value, "message": message, "details": details or {}}
    return JSONResponse(body, status, headers={"Cache-Control": "no-store"})


def _too_many(wait: float) -> Response:
    details = {"retry_after_seconds": round(wait, 3)}
    refusal = _refusal(429, ErrorCode.RATE_LIMITED, "too many requests: wait a moment", details)
    refusal.headers["Retry-After"] = str(math.ceil(wait))
    return refusal


def _end_of(token: str) -> float:
    """When a token that the cluster knows ends by its own word, in seconds since the epoch."""
    latest = time.time() + LONGEST_SECONDS
    parts = token.split(".")
    if len(parts) != 3:
        return latest
    with contextlib.suppress(ValueError):
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = claims.get("exp") if isinstance(claims, dict) else None
        if isinstance(ends, int | float) and math.isfinite(ends):
            return min(latest, ends)
    return latest
