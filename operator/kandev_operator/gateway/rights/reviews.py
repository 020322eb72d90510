"""The cluster's own answers: who bears this token, and may that person do this.

TokenReview and SubjectAccessReview are asked with the gateway's rights; nothing is decided here.
An answer is kept for a few seconds, a refusal too, so that a page does not ask for each click; a
right that was taken away holds no longer than that. What the API server does not answer is unknown,
which is no: `RightsUnknown` is raised.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from kandev_operator.api import group
from kandev_operator.clients.errors import KubeError
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import Resource
from kandev_operator.gateway.ports import Person, Right, RightsUnknown

KEPT_SECONDS: Final = 10.0
KEPT: Final = 50_000
_SESSIONS: Final = group.PLURALS[group.TASK_SESSION]
_ASKED: Final = {
    Right.READ: ("get", ""),
    Right.PROMPT: ("create", "prompt"),
    Right.FILES: ("create", "files"),
    Right.SHELL: ("create", "shell"),
    Right.CHANGE: ("patch", ""),
}
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Answers, each for a while, and never more than a number of them."""

    def __init__(self, clock: Callable[[], float], seconds: float = KEPT_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._answers: OrderedDict[Hashable, tuple[float, Value]] = OrderedDict()

    def get(self, question: Hashable) -> Value | None:
        """The answer, where it is fresh enough."""
        found = self._answers.get(question)
        if found is None or self._clock() - found[0] >= self._seconds:
            return None
        return found[1]

    def put(self, question: Hashable, answer: Value) -> None:
        """Keep an answer from now on."""
        self._answers.pop(question, None)
        self._answers[question] = (self._clock(), answer)
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)


class Reviews:
    """What the cluster says of people. `clock` gives seconds that never go back."""

    def __init__(self, kube: Kube, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._allowed: Kept[bool] = Kept(clock)
        self._persons: Kept[Person | bool] = Kept(clock)

    # ---- who ----------------------------------------------------------------------------------

    async def bearer(self, token: str) -> Person | None:
        """Who bears a token; None where the cluster does not know it. Raises RightsUnknown."""
        question = hashlib.sha256(token.encode()).digest()  # the token itself is not kept
        known = self._persons.get(question)
        if known is None:
            found = await self._review_token(token)
            known = found if found is not None else False
            self._persons.put(question, known)
        return known if isinstance(known, Person) else None

    def knows(self, token: str) -> bool:
        """Whether the answer about this token is at hand."""
        return self._persons.get(hashlib.sha256(token.encode()).digest()) is not None

    async def _review_token(self, token: str) -> Person | None:
        status = await self._ask(TOKEN_REVIEWS, {"token": token})
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        if not user.get("username"):
            return None
        extra = user.get("extra") or {}
        return Person(
            username=str(user.get("username") or ""),
            uid=str(user.get("uid") or ""),
            groups=tuple(str(each) for each in user.get("groups") or ()),
            extra=tuple(
                (str(key), tuple(str(each) for each in values or ()))
                for key, values in sorted(extra.items())
            ),
        )

    # ---- what ---------------------------------------------------------------------------------

    async def may(self, person: Person, right: Right, namespace: str, name: str) -> bool:
        """Whether this session may be read, prompted, …"""
        verb, subresource = _ASKED[right]
        about = {
            "group": group.GROUP,
            "resource": _SESSIONS,
            "namespace": namespace,
            "name": name,
            "verb": verb,
        }
        return await self._may(
            person, about | ({"subresource": subresource} if subresource else {})
        )

    async def may_list(self, person: Person, resource: Resource, namespace: str | None) -> bool:
        """Whether all objects of a kind may be listed there; None: everywhere."""
        return await self._may(person, _about(resource, "list", namespace))

    async def may_create(self, person: Person, resource: Resource, namespace: str) -> bool:
        """Whether an object of a kind may be made there."""
        return await self._may(person, _about(resource, "create", namespace))

    async def _may(self, person: Person, about: dict[str, str]) -> bool:
        question = (person, tuple(sorted(about.items())))
        known = self._allowed.get(question)
        if known is None:
            spec: dict[str, Any] = {
                "user": person.username,
                "uid": person.uid,
                "groups": list(person.groups),
                "extra": {key: list(values) for key, values in person.extra},
                "resourceAttributes": about,
            }
            status = await self._ask(ACCESS_REVIEWS, spec)
            known = status.get("allowed") is True and status.get("denied") is not True
            self._allowed.put(question, known)
        return known

    async def _ask(self, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._kube.create(resource, None, {"spec": spec})
        except KubeError as error:
            problem = f"{resource.plural}: {type(error).__name__}"
        else:
            status = answer.get("status")
            return status if isinstance(status, dict) else {}
        raise RightsUnknown(problem)


def _about(resource: Resource, verb: str, namespace: str | None) -> dict[str, str]:
    about = {"group": resource.group, "resource": resource.plural, "verb": verb}
    return about | ({"namespace": namespace} if namespace is not None else {})
