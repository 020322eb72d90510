"""Tells the recorder which sessions there are and which can be followed, as the cache changes.

A session is followed while it and its executor point at each other and an agentctl answers there,
whatever the agent does; and it is left alone when that ends. A restart in place gives the same
agentctl another boot, which the recorder finds out by itself.
"""

from typing import Final

from kandev_operator.api import group
from kandev_operator.api.conditions import get
from kandev_operator.api.session import TaskSession
from kandev_operator.gateway.cache import Cache, Change
from kandev_operator.gateway.lines import Lines
from kandev_operator.gateway.recorder.recorder import Recorder
from kandev_operator.gateway.recorder.settings import Agent, Dial, NotFollowable
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.store.sessions import SeenSession

_FINISHED: Final = "Finished"


class Following:
    """Stands between the cache and the recorder."""

    def __init__(
        self, cache: Cache, lines: Lines, recorder: Recorder, namespaces: tuple[str, ...]
    ) -> None:
        self._cache = cache
        self._lines = lines
        self._recorder = recorder
        self._namespaces = namespaces
        cache.listen(self._changed)

    def listed(self) -> None:
        """Every kind was listed: what the store knows beyond that was deleted meanwhile."""
        there = [each.metadata.uid for each in self._cache.all(TaskSession)]
        self._recorder.listed(there, self._namespaces or None)

    def _changed(self, change: Change) -> None:
        match change.kind:
            case group.TASK_SESSION if change.after is None:
                self._recorder.gone(change.uid)
            case group.TASK_SESSION:
                self._look(change.uid)
            case group.EXECUTOR:
                for body in (change.before, change.after):
                    ref = ((body or {}).get("status") or {}).get("sessionRef") or {}
                    if ref.get("uid"):
                        self._look(str(ref["uid"]))
            case _:
                pass

    def _look(self, session_uid: str) -> None:
        session = self._cache.get(TaskSession, session_uid)
        if session is None:
            return
        seen = self._seen(session)
        if self._lines.served(session) is None:
            self._recorder.leave(seen)
        else:
            self._recorder.follow(seen, self._dial(session_uid))

    def _seen(self, session: TaskSession) -> SeenSession:
        finished = get(session.status.conditions, _FINISHED)
        is_finished = finished is not None and finished.is_true
        task = self._cache.task_of(session)
        return SeenSession(
            uid=session.metadata.uid,
            namespace=session.metadata.namespace,
            name=session.metadata.name,
            task_uid=task.metadata.uid if task else "",
            task_name=session.spec.task_ref.name,
            finished_at=finished.last_transition_time if finished and is_finished else None,
        )

    def _dial(self, session_uid: str) -> Dial:
        async def dial() -> Agent:
            session = self._cache.get(TaskSession, session_uid)
            if session is None:
                raise NotFollowable
            try:
                return await self._lines.client(session)
            except Refusal as refusal:
                raise NotFollowable(refusal.body.message) from None

        return dial
