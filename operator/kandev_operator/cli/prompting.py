"""`kubectl kandev prompt`: hand a prompt in, and hear the answer out.

In this order: is there an agent (else refuse, with the way out), hand the prompt in until somebody
says that it is stored (its id makes repeating safe), then follow the session until the turn of
this prompt has ended. The answer goes to standard output, everything else beside it. A turn goes
on when nobody listens, so giving up early cuts nothing off.
"""

import asyncio
import itertools
import uuid
from contextlib import aclosing
from typing import Any

from pydantic import ValidationError

from kandev_operator.api.session import TaskSession
from kandev_operator.cli import refusals
from kandev_operator.cli.asking import Questions
from kandev_operator.cli.clock import now
from kandev_operator.cli.commands import Prompt
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, OutOfTime, Passing, Refusal
from kandev_operator.cli.follow import Away, Connected, Follower, Item, Quiet
from kandev_operator.cli.reach import Line, NotServed
from kandev_operator.cli.screen import DIM, WARNING
from kandev_operator.cli.transcript import Transcript, Voice
from kandev_operator.cli.turnwatch import DECIDED, TurnWatch, decided, record
from kandev_operator.clients import errors
from kandev_operator.contract.agent import (
    Permission,
    PermissionAnswer,
    PromptAnswer,
    PromptFate,
    PromptRequest,
)
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.paths import MAX_BODY_BYTES
from kandev_operator.contract.status import AgentStatus, StatusReport

_TAKES_PROMPTS = frozenset({AgentStatus.IDLE, AgentStatus.RUNNING})
_ENVELOPE_BYTES = 4096
"""Room in a body for everything but the text."""


async def prompt(desk: Desk, asked: Prompt) -> ExitCode:
    """Prompt the agent."""
    text = _text(desk, asked)
    prompt_id = asked.prompt_id or str(uuid.uuid4())
    line, report = await _agent(desk, asked)
    request = PromptRequest(
        session_id=line.session.metadata.uid,
        prompt_id=prompt_id,
        content=({"type": "text", "text": text},),
    )
    line, answer, tries = await _hand_in(desk, line, request)
    if asked.prompt_id is not None and tries == 1 and _was_over(answer, report):
        return _told_before(desk, asked, answer, report)
    if not asked.wait:
        desk.screen.say(f"prompt {prompt_id} is accepted ({answer.fate.value})")
        return ExitCode.OK
    if answer.position:
        ahead = f"{answer.position} {'prompt is' if answer.position == 1 else 'prompts are'}"
        desk.screen.note(f"accepted; {ahead} ahead of it")
        if report.turn is not None and report.turn.awaiting_permission:
            waits = desk.command(f"permissions {asked.session}")
            desk.screen.note(f"the turn before it waits for a permission: {waits}", WARNING)
    watch = TurnWatch(prompt_id, answer.fate)
    return await _Hearing(desk, asked, line, watch).until_the_end(report.journal.last_seq)


def _text(desk: Desk, asked: Prompt) -> str:
    text = desk.screen.read_all() if asked.text == "-" else asked.text
    if not text.strip():
        raise Misuse("the prompt is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Misuse("the prompt is not valid UTF-8") from None
    if size + _ENVELOPE_BYTES > MAX_BODY_BYTES:
        raise Misuse(f"the prompt is longer than {MAX_BODY_BYTES - _ENVELOPE_BYTES} bytes")
    return text


async def _agent(desk: Desk, asked: Prompt) -> tuple[Line, StatusReport]:
    """The line to a session whose agent takes prompts; refuses where none does.

    A prompt whose id was given may have been accepted earlier: then what became of it can be told
    whether or not an agent runs now.
    """
    session = await desk.cluster.session(asked.session)
    runs = session.status.is_agent_running is not False
    if not runs and asked.prompt_id is None:
        raise await _no_agent(desk, session)
    try:
        line = await desk.reach.line(asked.session)
    except NotServed as why:
        if not runs:
            raise await _no_agent(desk, session) from why
        raise refusals.not_served(why, why.session, now()) from why
    try:
        report = await line.client.status(with_token=False)
    except errors.AgentctlError as error:
        raise line.fault(error) from error
    served = report.session.session_id if report.session else None
    if served != session.metadata.uid:
        raise refusals.not_served(
            Refusal("the executor's agentctl does not serve this session at present"),
            session,
            now(),
        )
    known = asked.prompt_id is not None and record(report, asked.prompt_id) is not None
    if not known and report.agent.status not in _TAKES_PROMPTS:
        raise await _no_agent(desk, session, report.agent.status)
    return line, report


async def _no_agent(desk: Desk, session: TaskSession, status: AgentStatus | None = None) -> Refusal:
    executor, _, _ = await desk.cluster.surroundings(session)
    refusal = refusals.no_agent(session, executor, now())
    if status is None or session.status.is_agent_running is False:
        return refusal
    # The operator has not heard of it yet, so its own words would be about the time before.
    return Refusal(
        f"no agent takes prompts in session {session.metadata.name}: agentctl calls it "
        f"{status.value}",
        "The operator is about to notice.",
        f"Ask in a moment: {desk.command(f'why {session.metadata.name}')}",
    )


async def _hand_in(
    desk: Desk, line: Line, request: PromptRequest
) -> tuple[Line, PromptAnswer, int]:
    """Until somebody says that it is stored. The id makes asking again harmless."""
    name = line.session.metadata.name
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + desk.insist, desk.pace.first
    for tries in itertools.count(1):
        try:
            return line, await line.client.prompt(request), tries
        except (errors.Unreachable, errors.TimedOut) as error:
            if loop.time() >= deadline:
                raise Fault(
                    f"it is not known whether the prompt was accepted: {line.fault(error).message}",
                    "Ask again with the same id; the agent never gets it twice: "
                    + desk.command(f"prompt {name} --id {request.prompt_id} …"),
                ) from error
        except errors.AgentctlError as error:
            fault = line.fault(error)
            why = f"See why: {desk.command(f'why {name}')}"
            raise type(fault)(fault.message, *fault.hints, why) from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, desk.pace.longest)
        try:
            line = await desk.reach.line(name)
        except (NotServed, Passing):
            continue  # the old line is tried until the time is over
    raise AssertionError("the count never ends")


def _was_over(answer: PromptAnswer, before: StatusReport) -> bool:
    """The id is one of an earlier prompt, whose turn is over: a new one is not decided so soon."""
    under_way = before.turn is not None and before.turn.prompt_id == answer.prompt_id
    return answer.fate in DECIDED and not under_way


def _told_before(desk: Desk, asked: Prompt, answer: PromptAnswer, report: StatusReport) -> ExitCode:
    """Nothing was sent: the prompt with this id was handed in before."""
    desk.screen.note(f"a prompt with id {answer.prompt_id} was handed in before; nothing is sent")
    if answer.fate is PromptFate.DELIVERED:
        desk.screen.note(f"the agent got it: {desk.command(f'logs {asked.session}')}")
        return ExitCode.OK
    known = record(report, answer.prompt_id)
    end = decided(answer.fate, known.reason if known else "")
    raise Fault(end.words if end else "it still waits for its turn")


class _Hearing:
    """Listens to one turn, and lets the person at the terminal answer what the agent asks."""

    def __init__(self, desk: Desk, asked: Prompt, line: Line, watch: TurnWatch) -> None:
        self._desk = desk
        self._asked = asked
        self._line = line
        self._watch = watch
        self._transcript = Transcript()
        self._questions = Questions(desk, asked.session, self._answer)
        self._spoken = False
        self._away = ""

    async def until_the_end(self, after: int) -> ExitCode:
        """Hear the turn out; raises Fault when it ends in any other way than in order."""
        name = self._asked.session
        listen = f"Listen on: {self._desk.command(f'logs -f {name}')}"
        stop = f"Cut it off: {self._desk.command(f'cancel {name}')}"
        follower = Follower(lambda: self._desk.reach.line(name), after, self._desk.pace)
        try:
            async with asyncio.timeout(self._asked.timeout), aclosing(follower.items()) as items:
                async for item in items:
                    await self._take(item)
                    if self._watch.end is not None:
                        break
        except TimeoutError:
            raise OutOfTime(
                f"the turn has not ended within {self._asked.timeout:g} seconds; it goes on",
                listen,
                stop,
            ) from None
        except asyncio.CancelledError:
            self._desk.screen.end_line()
            self._desk.screen.note(f"Interrupted here; the turn goes on. {listen} - {stop}")
            raise
        finally:
            await self._questions.close()
            self._desk.screen.end_line()
        end = self._watch.end
        assert end is not None, "the items never end by themselves"
        if end.code is not ExitCode.OK:
            raise Fault(end.words, f"Read what was said: {self._desk.command(f'logs {name}')}")
        if end.words:
            self._desk.screen.note(end.words, WARNING)
        return ExitCode.OK

    async def _answer(self, permission_id: str, option_id: str | None) -> None:
        answer = PermissionAnswer(option_id=option_id)
        await self._line.client.answer_permission(permission_id, answer)

    async def _take(self, item: Item) -> None:
        match item:
            case Connected(line=line, report=report):
                self._line = line
                self._watch.connected(report)
                if self._away:
                    self._desk.screen.note("connected again")
                    self._away = ""
            case Away(fault=fault):
                if fault.message != self._away:
                    self._away = fault.message
                    self._desk.screen.note(f"{fault.message}; waiting for it to come back")
                await self._check_hope(fault)
            case Quiet():
                self._watch.quiet()
                if self._watch.end is None and self._watch.turn_id is None:
                    await self._check_hope(None)
            case Event():
                await self._hear(item)

    async def _hear(self, event: Event) -> None:
        ours = self._watch.hear(event)
        pieces = self._transcript.pieces(event)
        if event.kind is EventKind.PERMISSION_REQUESTED:
            permission = _permission(event.data) if ours else None
            if permission is not None:
                self._questions.opened(permission)
            return
        if event.kind is EventKind.PERMISSION_RESOLVED:
            await self._questions.closed(str(event.data.get("permission_id")))
        if event.kind is EventKind.TURN_ENDED or not (ours or event.kind is EventKind.GAP):
            return
        for piece in pieces:
            if piece.voice is Voice.AGENT:
                if piece.begins and self._spoken:
                    self._desk.screen.end_line()
                    self._desk.screen.stream("\n")
                self._desk.screen.stream(piece.text)
                self._spoken = True
            elif piece.voice is not Voice.USER:
                style = WARNING if piece.voice is Voice.WARNING else DIM
                self._desk.screen.note(f"{piece.voice.value}: {piece.text.strip()}", style)

    async def _check_hope(self, fault: Fault | None) -> None:
        """Stop listening where no agent runs and the operator brings none back by itself."""
        if isinstance(fault, NotServed):
            session = fault.session
        else:
            try:
                session = await self._desk.cluster.session(self._asked.session)
            except Fault:
                return  # the cluster cannot be asked: that is no reason to give up
        if not refusals.is_left_alone(session):
            return
        told = refusals.no_agent(session, None, now())
        fate = "the prompt waits, and no agent runs"
        if self._watch.turn_id is not None:
            fate = "the connection is lost in the middle of the turn, and no agent runs any more"
        raise Fault(fate, *told.hints)


def _permission(data: dict[str, Any]) -> Permission | None:
    try:
        return Permission.model_validate(data.get("permission"))
    except ValidationError:
        return None
