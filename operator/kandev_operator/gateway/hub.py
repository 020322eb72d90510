"""Who looks at which session: subscriptions, and what each has still to be told.

A subscription holds no queue of what happened. It holds a place in the conversation, from which its
socket pulls; whether the session's view is another one than it was told; and a few words that are
not kept yet, dropped as soon as the reader lags. So a slow reader costs nothing but its own place,
and meets nothing twice. The view and its JSON are made once for all who look at it.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kandev_operator.api import group
from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.contract.events import Event
from kandev_operator.gateway.cache import Body, Change
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.frames import payload_of
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.wire.views import SessionView

LIVE_KEPT: Final = 256
"""Pieces of live words that wait for one reader; at one more all of them are dropped."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One socket's look at one session."""

    session_uid: str
    place: Place | None
    wake: Callable[[], None]
    told: SessionView | None = None
    state_due: bool = True
    more: bool = True
    """There may be something after the place."""
    live: deque[Event] = field(default_factory=deque)
    gone: bool = False
    history: tuple[bool, bool] | None = None
    """(late, following) as it was told last."""
    end: Callable[[], None] | None = None

    def new_events(self) -> None:
        """There is more in the conversation."""
        self.more = True
        self.wake()

    def new_words(self, event: Event) -> None:
        """Words that are not kept yet: for who keeps up."""
        if self.more:
            return
        if len(self.live) >= LIVE_KEPT:
            self.live.clear()
            return
        self.live.append(event)
        self.wake()


@dataclass(slots=True, eq=False)
class TaskList:
    """One socket's look at tasks: those that changed since it was told, each once."""

    namespace: str | None
    wake: Callable[[], None]
    due: dict[str, Task] = field(default_factory=dict)

    def changed(self, task: Task) -> None:
        """A task, or a session of it, is another one now."""
        if self.namespace in (None, task.metadata.namespace):
            self.due[task.metadata.uid] = task
            self.wake()


@dataclass(frozen=True, slots=True)
class Shown:
    """A view, and its JSON."""

    view: SessionView
    payload: str


class Hub:
    """Every subscription of this gateway."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._by_session: dict[str, set[Subscription]] = defaultdict(set)
        self._of_executor: dict[str, set[str]] = defaultdict(set)
        self._shown: dict[str, Shown] = {}
        self._version: dict[str, int] = {}
        self._lists: set[TaskList] = set()
        desk.cache.listen(self._changed)

    @property
    def subscriptions(self) -> int:
        """How many there are."""
        return sum(len(each) for each in self._by_session.values())

    def subscribe(
        self, session_uid: str, place: Place | None, wake: Callable[[], None]
    ) -> Subscription:
        """Begin to look. `wake` is called whenever there is something to tell."""
        made = Subscription(session_uid, place, wake)
        made.end = self._desk.conversations.listen(session_uid, made.new_events, made.new_words)
        self._by_session[session_uid].add(made)
        return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """Look no more."""
        if subscription.end is not None:
            subscription.end()
            subscription.end = None
        uid = subscription.session_uid
        self._by_session[uid].discard(subscription)
        if not self._by_session[uid]:
            del self._by_session[uid]
            self._shown.pop(uid, None)

    def list_tasks(self, namespace: str | None, wake: Callable[[], None]) -> TaskList:
        """Begin to hear of tasks that change, of one namespace or of all."""
        made = TaskList(namespace, wake)
        self._lists.add(made)
        return made

    def unlist_tasks(self, tasks: TaskList) -> None:
        """Hear of them no more."""
        self._lists.discard(tasks)

    def shown(self, session_uid: str) -> Shown | None:
        """The session as it is; None: there is none. Made once for each change."""
        known = self._shown.get(session_uid)
        if known is not None:
            return known
        session = self._desk.cache.get(TaskSession, session_uid)
        if session is None:
            return None
        view = self._desk.view(session)
        # A view that lost its executor's part must not look older than what was told before.
        version = max(view.version, self._version.get(session_uid, 0) + 1)
        view = view.model_copy(update={"version": version})
        self._version[session_uid] = version
        made = Shown(view, payload_of(view))
        if session_uid in self._by_session:
            self._shown[session_uid] = made
        return made

    def freshness_changed(self) -> None:
        """The API server was lost, or is seen again: every view says so."""
        for uid in list(self._by_session):
            self._due(uid)

    def _changed(self, change: Change) -> None:
        match change.kind:
            case group.TASK_SESSION:
                self._index(change)
                self._due(change.uid)
                self._task_changed(self._task_of(change.after or change.before or {}))
            case group.TASK:
                task = self._desk.cache.get(Task, change.uid)
                self._task_changed(task or _deleted(change.before))
            case group.EXECUTOR:
                for uid in self._of_executor.get(change.uid, ()):
                    self._due(uid)
            case _:
                pass

    def _task_changed(self, task: Task | None) -> None:
        if task is not None:
            for tasks in self._lists:
                tasks.changed(task)

    def _task_of(self, session: Body) -> Task | None:
        if not self._lists:
            return None
        namespace = (session.get("metadata") or {}).get("namespace")
        name = ((session.get("spec") or {}).get("taskRef") or {}).get("name")
        return self._desk.cache.named(Task, str(namespace), str(name))

    def _index(self, change: Change) -> None:
        before, after = _executor_uid(change.before), _executor_uid(change.after)
        if before != after and before:
            self._of_executor[before].discard(change.uid)
            if not self._of_executor[before]:
                del self._of_executor[before]
        if after:
            self._of_executor[after].add(change.uid)
        if change.after is None:
            self._version.pop(change.uid, None)

    def _due(self, session_uid: str) -> None:
        self._shown.pop(session_uid, None)
        for subscription in self._by_session.get(session_uid, ()):
            subscription.state_due = True
            subscription.wake()


def _deleted(before: Body | None) -> Task | None:
    """A task as it was last, for who shows it still."""
    try:
        return Task.from_body(before) if before else None
    except InvalidSpec:
        return None


def _executor_uid(body: Body | None) -> str | None:
    ref = ((body or {}).get("status") or {}).get("executorRef") or {}
    uid = ref.get("uid")
    return uid if isinstance(uid, str) else None
