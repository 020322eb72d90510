"""`kubectl kandev resume` and `fresh-start`: a wish put on the session, and what came of it.

A wish is an annotation with a value that was never there before; the operator echoes the value in
status once it has dealt with it. Whatever was true of the session before that echo is no answer.
What may be wished is the operator's decision; refused here is only what its documentation says it
would ignore.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kandev_operator.api import conditions, group
from kandev_operator.api.session import OperatingMode, TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.cli import refusals
from kandev_operator.cli.clock import ahead, now
from kandev_operator.cli.commands import FreshStart, Resume
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.explain import caution, explain
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, OutOfTime, Passing, Refusal
from kandev_operator.cli.leader import LEASE_NAME, Leader, NobodyLeads
from kandev_operator.cli.screen import GOOD, WARNING
from kandev_operator.cli.seen import read_moment

_CANNOT: Final = frozenset({"NotResumable", "MissingResumeToken", "SessionNotFound"})
_HEARING_SECONDS: Final = 15.0
"""A session that is stalled and does not take notice of the wish for so long will not do so."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which annotation, and where status echoes it."""

    annotation: str
    echo: Callable[[TaskSession], str | None]
    what: str


RESUME: Final = Wish(
    group.ANNOTATION_RESUME_REQUESTED,
    lambda session: session.status.last_handled_resume_request,
    "a resume",
)
FRESH_START: Final = Wish(
    group.ANNOTATION_FRESH_START_REQUESTED,
    lambda session: session.status.last_handled_fresh_start_request,
    "a fresh start",
)


async def resume(desk: Desk, asked: Resume) -> ExitCode:
    """Wish for a resume."""
    session = await desk.cluster.session(asked.session)
    _check(session)
    if session.status.is_agent_running:
        leader = await desk.leader()
        if isinstance(leader, NobodyLeads):
            raise Refusal(caution(leader, now()))
        desk.screen.say(f"The agent of session {asked.session} runs: there is nothing to resume.")
        return ExitCode.OK
    value = await _wish(desk, session, RESUME)
    return await _outcome(desk, session, RESUME, value, asked.timeout if asked.wait else None)


async def fresh_start(desk: Desk, asked: FreshStart) -> ExitCode:
    """Wish for a new conversation."""
    session = await desk.cluster.session(asked.session)
    _check(session)
    if not asked.yes:
        await _confirm(desk, session)
    value = await _wish(desk, session, FRESH_START)
    return await _outcome(desk, session, FRESH_START, value, asked.timeout if asked.wait else None)


def _check(session: TaskSession) -> None:
    """Refuse what would be ignored."""
    name = session.metadata.name
    told = refusals.hints(explain(session, None, None, None, now()))
    if session.metadata.is_deleting:
        raise Refusal(f"session {name} is being deleted")
    if conditions.is_true(session.status.conditions, "Finished"):
        raise Refusal(f"session {name} has finished, for good", *told)
    if not session.status.conditions:
        raise Refusal(
            f"no operator has looked at session {name} yet: a wish would be recorded, not done",
            *told,
        )
    if session.spec.operating_mode is not OperatingMode.RUNNING:
        raise Refusal(
            f"operatingMode of session {name} is {session.spec.operating_mode}: a wish does not "
            "change that",
            *told,
        )


async def _confirm(desk: Desk, session: TaskSession) -> None:
    """Say what is lost, and ask."""
    screen, name = desk.screen, session.metadata.name
    if not screen.is_attended:
        raise Misuse(
            "a fresh start gives the conversation up: nobody can be asked here, so say --yes",
            desk.command(f"fresh-start {name} --yes"),
        )
    screen.note(f"A fresh start of session {name}:", WARNING)
    screen.note("  lost: the agent's memory of this conversation; it begins with nothing", "")
    if session.status.turn is not None:
        screen.note("  lost: the turn that is under way, which is cut off", "")
    screen.note("  kept: the workspace with all its files, and what logs shows", "")
    screen.note("  kept: the old resume token, as `previous` in the session's Secret", "")
    if (await screen.ask(f"Type the session's name ({name}) to go on:")) != name:
        raise Fault("nothing was done")


async def _wish(desk: Desk, session: TaskSession, wish: Wish) -> str:
    """Put it on the session, with a value that was never there."""
    value = f"{rfc3339(now())}-{uuid.uuid4().hex[:8]}"
    await desk.cluster.annotate(session, {wish.annotation: value})
    return value


async def _outcome(
    desk: Desk, session: TaskSession, wish: Wish, value: str, timeout: float | None
) -> ExitCode:
    """Wait for what comes of it."""
    name = session.metadata.name
    if timeout is None:
        desk.screen.say(f"Asked for {wish.what} of session {name}.")
        return ExitCode.OK
    desk.screen.note(f"asked for {wish.what}; waiting for the outcome")
    watching = _Watching(desk, wish, value)
    try:
        async with asyncio.timeout(timeout):
            while True:
                await asyncio.sleep(desk.poll)
                try:
                    seen = await desk.cluster.session(name)
                except Passing as fault:
                    watching.tell(fault.message)
                    continue
                if seen.metadata.uid != session.metadata.uid:
                    raise Fault(f"session {name} was deleted and made again in the meantime")
                if watching.is_over(seen):
                    return ExitCode.OK
                await watching.look_for_an_operator()
                watching.check_hearing(seen)
    except TimeoutError:
        raise watching.out_of_time(name, timeout) from None


class _Watching:
    """Looks at one session again and again, and says what is new."""

    def __init__(self, desk: Desk, wish: Wish, value: str) -> None:
        self._desk = desk
        self._wish = wish
        self._value = value
        self._told = ""
        self._handled = False
        began = asyncio.get_running_loop().time()
        self._until_deaf = began + _HEARING_SECONDS
        self._until_asked = began + desk.heard
        self._leader: Leader | None = None

    def tell(self, words: str) -> None:
        """Say it, once."""
        if words and words != self._told:
            self._told = words
            self._desk.screen.note(words)

    async def look_for_an_operator(self) -> None:
        """Say it, where nobody takes the wish up because no operator runs."""
        late = asyncio.get_running_loop().time() >= self._until_asked
        if self._handled or self._leader is not None or not late:
            return
        self._leader = await self._desk.leader()
        self.tell(caution(self._leader, now()))

    def is_over(self, session: TaskSession) -> bool:
        """Whether it came true; raises Fault when it will not."""
        status = session.status
        self._handled = self._handled or self._wish.echo(session) == self._value
        stalled = conditions.is_true(status.conditions, "Stalled")
        if conditions.is_true(status.conditions, "Finished") or session.metadata.is_deleting:
            raise self._failed(session)
        if not self._handled:
            return False
        if status.is_agent_running and conditions.is_true(status.conditions, "Ready"):
            self._succeeded(session)
            return True
        if stalled or refusals.is_left_alone(session):
            raise self._failed(session)
        ready = conditions.get(status.conditions, "Ready")
        words = status.error_message or (ready.message if ready is not None else "")
        due = read_moment(status.next_attempt_at)
        self.tell(f"{words} It is tried again {ahead(due, now())}." if due else words)
        return False

    def check_hearing(self, session: TaskSession) -> None:
        """Raises Fault where an operator is there and takes no notice of the wish.

        Where none is, the wish waits: a session that is stalled because it waits for a person
        looks just the same until somebody hears it.
        """
        late = asyncio.get_running_loop().time() > self._until_deaf
        unheard = not self._handled and late and self._leader is not None
        if not unheard or isinstance(self._leader, NobodyLeads):
            return
        if conditions.is_true(session.status.conditions, "Stalled"):
            raise self._failed(session)

    def out_of_time(self, name: str, timeout: float) -> Fault:
        """The time is over: say how far it got."""
        said = f"{self._wish.what} of session {name} has no outcome after {timeout:g} seconds"
        why = f"See why: {self._desk.command(f'why {name}')}"
        if self._handled:
            return OutOfTime(f"{said}; the operator is still at it", self._told, why)
        lease = f"kubectl get lease {LEASE_NAME} -n {self._desk.operator_namespace}"
        seen = caution(self._leader, now()) or f"See that an operator runs and leads: {lease}"
        where = f" -n {self._desk.cluster.namespace}"
        back = (
            "The wish stays on the session, and the next operator does it. To take it back: "
            f"kubectl annotate tasksession {name}{where} {self._wish.annotation}-"
        )
        return OutOfTime(f"{said}; no operator has dealt with the wish", seen, back, why)

    def _succeeded(self, session: TaskSession) -> None:
        screen, status = self._desk.screen, session.status
        ready = conditions.get(status.conditions, "Ready")
        screen.say(f"The agent runs. {ready.message if ready else ''}".strip(), GOOD)
        resumable = conditions.get(status.conditions, "Resumable")
        if resumable is not None and resumable.reason == "HistoryLost":
            screen.note(resumable.message, WARNING)
        if status.interrupted_turn is not None:
            screen.note("The turn that was cut off is not repeated: prompt again if need be.")

    def _failed(self, session: TaskSession) -> Fault:
        told = explain(session, None, None, None, now())
        ready = conditions.get(session.status.conditions, "Ready")
        reason = ready.reason if ready is not None else ""
        kind = Refusal if reason in _CANNOT else Fault
        words = session.status.error_message or (ready.message if ready is not None else "")
        return kind(
            f"{self._wish.what} of session {session.metadata.name} did not succeed: "
            f"{words or told.headline}",
            *refusals.steps(told.steps),
        )
