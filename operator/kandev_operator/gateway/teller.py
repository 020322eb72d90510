"""What a socket is to be told next, pulled from its subscriptions: state first, then words.

One call gives a bounded batch of frames. State is the newest only; the conversation goes on from
the subscription's place; live words come only to who has everything that is kept.
"""

from collections.abc import Iterable
from typing import Final

from kandev_operator.clients.resources import TASKS
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway import told
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.frames import Frames, payload_of
from kandev_operator.gateway.hub import Hub, Subscription, TaskList
from kandev_operator.gateway.moments import moments
from kandev_operator.gateway.ports import Person
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.views import task_view
from kandev_operator.gateway.wire.notices import HistoryState, Notice, SessionGone

STRETCH: Final = 100
"""Events of a conversation that are told in one go, before the next subscription has its turn."""


class Teller:
    """Makes frames for one socket."""

    def __init__(self, desk: Desk, hub: Hub, frames: Frames) -> None:
        self._desk = desk
        self._hub = hub
        self._frames = frames

    def state(self, subscription: Subscription) -> Iterable[str]:
        """The session as it is, and the moments since it was told last."""
        subscription.state_due = False
        shown = self._hub.shown(subscription.session_uid)
        before = subscription.told
        if shown is None or subscription.gone:
            subscription.gone = True
            gone = SessionGone(
                session_id=subscription.session_uid, task_id=before.task_id if before else ""
            )
            yield self._tell(Notice.SESSION_DELETED, gone)
            return
        if before is not None and before.version >= shown.view.version:
            return
        subscription.told = shown.view
        yield self._frames.notification(Notice.SESSION_STATE, shown.payload)
        for notice, payload in moments(before, shown.view):
            yield self._tell(notice, payload)

    async def tasks(self, tasks: TaskList, person: Person) -> list[str]:
        """Tasks that changed, of the namespaces that this person may read at this moment."""
        due, tasks.due = tasks.due, {}
        try:
            allowed = {
                namespace: await self._desk.readable(person, TASKS, namespace)
                for namespace in {each.metadata.namespace for each in due.values()}
            }
        except Refusal:
            return []  # nobody can say; the client asks for the whole when it connects again
        shown = (task_view(each) for each in due.values() if allowed[each.metadata.namespace])
        return [self._tell(Notice.TASK_CHANGED, view) for view in shown]

    async def words(self, subscription: Subscription) -> list[str]:
        """The next stretch of the conversation, then words that are not kept yet."""
        uid = subscription.session_uid
        task_id = subscription.told.task_id if subscription.told else ""
        frames: list[str] = []
        if subscription.more:
            subscription.more = False  # before reading: what comes meanwhile sets it again
            stretch = await self._desk.conversations.after(uid, subscription.place, STRETCH)
            subscription.place = stretch.place
            subscription.more = subscription.more or stretch.more
            notices = (told.told(event, uid, task_id) for event in stretch.events)
            frames += [self._tell(*notice) for notice in notices if notice is not None]
            state = (stretch.late, self._desk.conversations.following(uid))
            if state != subscription.history:
                subscription.history = state
                late, following = state
                history = HistoryState(
                    session_id=uid, task_id=task_id, late=late, following=following
                )
                frames.append(self._tell(Notice.HISTORY, history))
        if subscription.more:
            subscription.live.clear()
        while subscription.live:
            words = told.live(subscription.live.popleft(), uid, task_id)
            frames.append(self._tell(Notice.MESSAGE_LIVE, words))
        return frames

    def _tell(self, notice: Notice, payload: Wire) -> str:
        return self._frames.notification(notice.value, payload_of(payload))
