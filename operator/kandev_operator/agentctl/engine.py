"""The engine: it feeds the machine, keeps what it concludes, and carries out what it wants.

One event at a time, on the event loop: step, then the journal, then the acts. If the journal
refuses what a caller asked for, the old state stays and the caller hears why; what the agent does
goes on with or without room. It owns the session being served, the one execution, the timers and
the journal, and decides nothing itself.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Final, assert_never

from kandev_operator.agentctl.clientside import TextFiles
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.journal import Journal, JournalFull, JournalUnreadable
from kandev_operator.agentctl.machine import Outcome, State, step
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.state import Speech
from kandev_operator.agentctl.machine.tables import ALIVE
from kandev_operator.agentctl.owner import Ownership
from kandev_operator.agentctl.redaction import Redactor
from kandev_operator.agentctl.restoring import restored
from kandev_operator.agentctl.runs import LocalRuns, Run, Runs
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.statedir import SessionFolder, StateDir
from kandev_operator.agentctl.timers import Timers
from kandev_operator.contract.agent import AgentSpec
from kandev_operator.contract.errors import Code
from kandev_operator.contract.status import Exit, JournalState

log = logging.getLogger("kandev.agentctl")

MUST_BE_KEPT: Final = (ev.StartAsked, ev.PromptAsked, ev.SettingAsked)
"""Events of a caller that are refused unless their stores are kept. A newer term or epoch that
found no room is kept with the next of these at the latest, and so before anything acts on it; a
stop works with any journal."""


class Rejected(Exception):
    """A call is refused; `refusal` says how."""

    def __init__(self, refusal: fx.Refused) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def reject(code: Code, message: str, **details: object) -> Rejected:
    return Rejected(fx.Refused(code, message, dict(details)))


class Engine:
    """The running heart of one agentctl."""

    def __init__(
        self,
        settings: Settings,
        states: StateDir,
        boot_id: str,
        instance_id: str,
        runs: Callable[[Settings, Redactor], Runs] = LocalRuns,
    ) -> None:
        self.settings, self.states = settings, states
        self.boot_id, self.instance_id = boot_id, instance_id
        self.redactor = Redactor()
        self.runs = runs(settings, self.redactor)
        self.away = "it was not asked yet" if self.runs.outlives_us else None
        """Why nothing is known of the agent now: the place where it runs does not answer."""
        period, dead = settings.patience.owner_period, settings.dead_boot_id
        self.ownership = Ownership(states.path, boot_id, period, dead)
        self.journal: Journal | None = None
        self.folder: SessionFolder | None = None
        self.spec: AgentSpec | None = None
        self.files: TextFiles | None = None
        """What the agent may ask its client for; told by the room that serves files."""
        self.news = asyncio.Condition()
        self.outages = self.readers = self.live_readers = self.launches = 0
        self.on_session: Callable[[], None] = lambda: None
        """Called when another session is served."""
        session_id, term = states.served()
        self.state = State(term=term, unprobed=self.runs.unprobed, capabilities=self.runs.unprobed)
        self._group: asyncio.TaskGroup | None = None
        self._execution: Run | None = None
        self._timers = Timers(settings.patience, self.tell)
        self._rang = asyncio.Event()
        self._unserved = False  # what is served could not be written down: it is tried again
        self.closing = asyncio.Event()
        self.ended = asyncio.Event()  # no execution is left
        self.ended.set()
        if session_id is not None and states.folder(session_id).path.is_dir():
            self._serve(session_id, may_rejoin=True)

    @property
    def own_pid(self) -> int:
        return os.getpid()

    @property
    def agent_pid(self) -> int | None:
        return None if self._execution is None else self._execution.pid

    # ---- which session -----------------------------------------------------------------

    @property
    def marker_verified(self) -> bool:
        if self.folder is None:
            return False
        return bool(self.folder.marker().get("session_id") == self.state.session_id)

    @property
    def journal_state(self) -> JournalState:
        return JournalState.ABSENT if self.journal is None else self.journal.state

    def switch(self, spec: AgentSpec) -> None:
        """Serve the session of this configuration; refused while another one's agent lives."""
        if self.state.session_id == spec.session_id:
            if self.folder is not None:
                self.folder.mark(spec.session_id, spec.session_namespace, spec.session_name)
            return
        if self.state.status in ALIVE or not self.ended.is_set():
            raise reject(
                Code.SESSION_CONFLICT,
                "another session's agent lives here",
                session_id=self.state.session_id,
            )
        if self.journal is not None:
            self.journal.close()
            self.journal = None
        try:
            self.states.prepare(
                spec.session_id, spec.session_namespace, spec.session_name, spec.adopt_from
            )
        except OSError as exc:
            log.error("the session's folder cannot be made: %s", exc.strerror)
            if self.state.session_id is not None:
                self._serve(self.state.session_id)
            raise reject(Code.JOURNAL_FULL, "there is no room for the session's folder") from None
        self._serve(spec.session_id)
        self._remember_served()
        self._rang.set()

    def _remember_served(self) -> None:
        """For the next life. The journal has the term, too, so a full disk costs nothing yet."""
        try:
            self.states.serve(self.state.session_id, self.state.term)
        except OSError as exc:
            log.error("what is served cannot be written down: %s", exc.strerror)
            self._unserved = True
        else:
            self._unserved = False
        self.on_session()

    def _serve(self, session_id: str, *, may_rejoin: bool = False) -> None:
        self.spec = None
        self.folder = self.states.folder(session_id)
        term = self.state.term
        self.journal = Journal(
            self.folder.journal,
            session_id,
            max_pages=self.settings.journal_max_pages,
            keep=self.settings.journal_keep,
        )
        living = self.runs.living(self.folder) if may_rejoin else None
        outcome = restored(self.journal, term, living, self.runs.unprobed)
        state = outcome.state
        self._keep(outcome)
        if state.status in ALIVE:
            self._execution = self.runs.rejoin(state, self.folder, self.marker_verified, self.tell)
            self.ended.clear()
            for act in outcome.acts:
                self._perform(act)

    def configure(self, spec: AgentSpec, execution_id: str) -> bool:
        """Take a configuration for the session served; tells whether anything changed."""
        self.require_journal()
        before = self.spec
        self.spec = spec
        self.redactor.learn_env(spec.env)
        try:
            reply = self.dispatch(
                ev.Configured(
                    now(),
                    spec.profile_hash,
                    spec.permission_policy,
                    execution_id,
                    spec.permission_timeout_seconds,
                    spec.profile_uid,
                )
            )
        except Rejected:
            self.spec = before
            raise
        changed = isinstance(reply, fx.ConfiguredReply) and reply.changed
        if not changed and before is not None:
            self.spec = before
        return changed

    def require_journal(self) -> None:
        """Raise unless what must be durable can be stored."""
        if self.journal is None:
            raise reject(Code.NO_AGENT, "no session is served here yet")
        if self.journal.no_room and self.state.session_id is not None and self.ended.is_set():
            self._serve(self.state.session_id)  # it may be opened by now
        if self.journal.state is JournalState.UNREADABLE:
            raise reject(Code.JOURNAL_UNAVAILABLE, "the journal cannot be read or written")

    # ---- the machine -------------------------------------------------------------------

    def dispatch(self, event: ev.Event) -> fx.Reply | None:
        """Take one event; raises Rejected where the caller is refused."""
        if isinstance(event, MUST_BE_KEPT):
            self.require_journal()
        outcome = step(self.state, event)
        if isinstance(outcome.reply, fx.Refused):
            raise Rejected(outcome.reply)
        if isinstance(event, MUST_BE_KEPT):
            self._commit(outcome)
        else:
            self._keep(outcome)
        for act in outcome.acts:
            self._perform(act)
        return outcome.reply

    def tell(self, event: ev.Event) -> None:
        """Take what happened to the agent."""
        self.dispatch(event)

    def _commit(self, outcome: Outcome) -> None:
        """Keep it, or refuse: the state changes only with the journal."""
        if outcome.stores:
            assert self.journal is not None
            try:
                events = self.journal.commit(outcome.stores)
            except JournalFull:
                raise reject(Code.JOURNAL_FULL, "there is no room for the journal") from None
            except JournalUnreadable:
                raise reject(
                    Code.JOURNAL_UNAVAILABLE, "the journal cannot be read or written"
                ) from None
            self._adopt(outcome, bool(events))
        else:
            self._adopt(outcome, False)

    def _keep(self, outcome: Outcome) -> None:
        events = []
        if outcome.stores and self.journal is not None:
            events = self.journal.commit_or_lose(outcome.stores)
        self._adopt(outcome, bool(events))

    def _adopt(self, outcome: Outcome, told: bool) -> None:
        before, self.state = self.state, outcome.state
        state = outcome.state
        if state.term != before.term or self._unserved:
            self._remember_served()
        if (state.token, state.previous_tokens, state.wish) != (
            before.token,
            before.previous_tokens,
            before.wish,
        ):
            now_known = {state.token.value if state.token else "", *state.previous_tokens}
            wished = state.wish.token if state.wish else None
            self.redactor.learn_tokens({*now_known, wished or "", state.opened_token or ""})
        if told or (self.live_readers and state.speech is not before.speech):
            self._rang.set()

    # ---- acts --------------------------------------------------------------------------

    def _perform(self, act: fx.Act) -> None:
        if isinstance(act, fx.Launch):
            self._launch(act)
            return
        if isinstance(act, fx.Arm):
            self._timers.arm(act)
            return
        execution = self._execution
        if execution is None or execution.execution_id != act.execution_id:
            return
        match act:
            case fx.Open():
                execution.open(act)
            case fx.SendPrompt():
                execution.send(act)
            case fx.CancelTurn():
                execution.cancel(act)
            case fx.Choose():
                execution.choose(act)
            case fx.AnswerPermission():
                execution.answer(act)
            case fx.End():
                execution.end(act.grace)
            case _:
                assert_never(act)

    def _launch(self, act: fx.Launch) -> None:
        spec, folder = self.spec, self.folder
        assert self._group is not None
        assert spec is not None
        assert folder is not None
        self.launches += 1
        execution = self.runs.make(
            act.execution_id, spec, folder, self.marker_verified, self.tell, self.files
        )
        before = self._execution
        self._execution = execution
        self.ended.clear()
        self._group.create_task(self._run(execution, before))

    async def _run(self, execution: Run, before: Run | None) -> None:
        try:
            if before is not None:
                await before.over.wait()  # two agents never live at once
            await execution.run(self.ownership.may_launch)
        except Exception:
            # A bug of ours: the process must not stay, and the machine must hear that it is gone.
            log.exception("the execution failed")
            execution.kill()
            self.tell(ev.Exited(now(), execution.execution_id, Exit(at=now())))
        finally:
            execution.over.set()
            if self._execution is execution:
                self.ended.set()

    # ---- life --------------------------------------------------------------------------

    async def run(self, until: asyncio.Event) -> None:
        """Serve until told to end; then end the agent gently and close the journal."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            if self._execution is not None:
                group.create_task(self._run(self._execution, None))
            helpers = [
                group.create_task(self.ownership.keep(lambda: self.state.term, self._lost)),
                group.create_task(self._announce()),
                group.create_task(self.runs.watch(self._place_changed)),
            ]
            await until.wait()
            self._end_or_leave(self.settings.patience.shutdown_grace)
            await self.ended.wait()
            for task in helpers:
                task.cancel()
        self._timers.cancel()
        self.ownership.release(self.state.term)

    def close(self) -> None:
        """Let go of the journal, once nobody reads any more."""
        if self.journal is not None:
            self.journal.close()

    def _lost(self) -> None:
        log.error("another agentctl took this workspace over: the agent is ended or left to it")
        self._end_or_leave(2.0)

    def _end_or_leave(self, grace: float) -> None:
        """End the agent gently; one that outlives us goes on without."""
        if not self.runs.outlives_us:
            self.dispatch(ev.ShutDown(now(), grace))
        elif self._execution is not None:
            self._execution.leave()

    def _place_changed(self, away: str | None) -> None:
        """Readers of the stream look again, and hear from `/status` what is the matter."""
        if away is not None and self.away is None:
            self.outages += 1
            self._rang.set()
        self.away = away

    async def _announce(self) -> None:
        """Wake the readers of the stream, once for whatever came meanwhile."""
        while True:
            await self._rang.wait()
            self._rang.clear()
            async with self.news:
                self.news.notify_all()

    async def wake_readers(self) -> None:
        """For the end: whoever waits for news looks again."""
        async with self.news:
            self.news.notify_all()

    async def wait_news(
        self, journal: Journal, after: int, seconds: float, heard: Speech | bool | None = False
    ) -> None:
        """Wait until this journal has more, another one is served, or the time is over.

        `heard` is what a live reader knows of the message being spoken; other readers leave it out.
        """
        outages = self.outages

        def is_news() -> bool:
            if journal.last_seq > after or self.journal is not journal:
                return True
            if self.closing.is_set() or self.outages != outages:
                return True
            return heard is not False and self.state.speech is not heard

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self.news:
                await self.news.wait_for(is_news)
