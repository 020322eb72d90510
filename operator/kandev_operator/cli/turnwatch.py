"""What becomes of one prompt: its turn, picked out of everything that happens, and how it ended.

Pure: events and reports go in, an `End` comes out once. The events tell it as a rule; a report
tells it where events were missed, and then only after the last event that the report knows of, so
that nothing that was said is cut away. A fate that nobody knows is an end of its own, never taken
for a yes or a no.
"""

from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.cli.faults import ExitCode
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.transcript import turn_of
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.status import PromptRecord, StatusReport

DECIDED: Final = frozenset({PromptFate.DELIVERED, PromptFate.NOT_DELIVERED, PromptFate.UNKNOWN})
_UNKNOWN: Final = (
    "it is not known whether the agent got the prompt, and nobody sends it again by itself"
)
_STOPS: Final = {
    "max_tokens": "the agent stopped at its limit of tokens",
    "max_turn_requests": "the agent stopped at its limit of requests in one turn",
    "refusal": "the agent refuses to go on",
}


@dataclass(frozen=True, slots=True)
class End:
    """How it ended: 0 and perhaps a remark, or what went wrong."""

    code: ExitCode
    words: str = ""


class TurnWatch:
    """Watches for the turn of one prompt, which agentctl has accepted with this fate."""

    def __init__(self, prompt_id: str, fate: PromptFate = PromptFate.QUEUED) -> None:
        self._prompt_id = prompt_id
        self._accepted = fate
        self._doubt = ""
        self._told: tuple[int, End] | None = None
        self.turn_id: str | None = None
        self.end: End | None = None

    def connected(self, report: StatusReport) -> None:
        """Take what agentctl says at the beginning of a connection."""
        self._told = None
        if report.turn is not None and report.turn.prompt_id == self._prompt_id:
            self.turn_id = report.turn.turn_id
            return
        end = self._ended(report)
        if end is not None:
            self._told = (report.journal.last_seq, end)

    def hear(self, event: Event) -> bool:
        """Take an event; tells whether it belongs to the turn."""
        data = event.data
        match event.kind:
            case EventKind.TURN_STARTED if self._is_of(data.get("turn")):
                self.turn_id = turn_of(event)
            case EventKind.TURN_ENDED if self._is_of(data.get("turn")):
                self.end = self._of_turn(data["turn"])
            case EventKind.PROMPT if self._is_of(data):
                self._fate(str(data.get("fate")), str(data.get("reason") or ""))
        ours = self.turn_id is not None and turn_of(event) == self.turn_id
        if self.end is None and self._told is not None and event.seq >= self._told[0]:
            self.end = self._told[1]
        return ours

    def quiet(self) -> None:
        """Nothing has come for a while: no event will tell what is still open."""
        if self._told is not None:
            self.end = self._told[1]
        elif self._doubt:
            self.end = End(ExitCode.FAILED, self._doubt)
        elif self.turn_id is None:
            # Decided long ago: neither the events nor the report know of it any more.
            self.end = decided(self._accepted)

    def _is_of(self, holder: Any) -> bool:
        return isinstance(holder, dict) and holder.get("prompt_id") == self._prompt_id

    def _fate(self, fate: str, reason: str) -> None:
        if fate == PromptFate.NOT_DELIVERED:
            self.end = End(ExitCode.FAILED, undelivered(reason))
        elif fate == PromptFate.UNKNOWN:
            # The end of the turn follows with the cause, unless that event is lost.
            self._doubt = unknown(reason)

    def _of_turn(self, turn: dict[str, Any]) -> End:
        failure = turn.get("failure")
        why = failure.get("message") if isinstance(failure, dict) else None
        return self._outcome(
            str(turn.get("outcome")), str(turn.get("stop_reason") or ""), str(why or "")
        )

    def _outcome(self, outcome: str, stop_reason: str, why: str) -> End:
        if outcome == "completed":
            return End(ExitCode.OK, _STOPS.get(stop_reason, ""))
        words = {
            "cancelled": "the turn was cancelled",
            "interrupted": "the turn was cut off, because the agent's process died in the middle; "
            "what it had said is kept, and nothing is sent again by itself",
            "failed": "the agent failed at the prompt",
        }.get(outcome, f"the turn ended: {one_line(outcome)}")
        said = f"{words}: {one_line(why, 1000)}" if why else words
        return End(ExitCode.FAILED, f"{said}; {self._doubt}" if self._doubt else said)

    def _ended(self, report: StatusReport) -> End | None:
        """What a report knows of a turn that is not under way any more."""
        fate = record(report, self._prompt_id)
        if fate is not None and fate.fate is PromptFate.UNKNOWN:
            self._doubt = unknown(fate.reason)
        last = report.last_turn
        if last is not None and last.prompt_id == self._prompt_id:
            why = last.failure.message if last.failure else ""
            return self._outcome(last.outcome, last.stop_reason or "", why)
        return None if fate is None else decided(fate.fate, fate.reason)


def record(report: StatusReport, prompt_id: str) -> PromptRecord | None:
    """What a report says about one prompt."""
    return next((each for each in report.prompts if each.prompt_id == prompt_id), None)


def decided(fate: PromptFate, reason: str = "") -> End | None:
    """The end of a prompt whose turn is not there to be heard; None while it still waits."""
    match fate:
        case PromptFate.DELIVERED:
            return End(
                ExitCode.FAILED,
                "the agent got the prompt, and its turn is over; how it ended was not heard",
            )
        case PromptFate.NOT_DELIVERED:
            return End(ExitCode.FAILED, undelivered(reason))
        case PromptFate.UNKNOWN:
            return End(ExitCode.FAILED, unknown(reason))
        case _:
            return None


def undelivered(reason: str) -> str:
    """A prompt that certainly never reached the agent."""
    because = f": {one_line(reason, 500)}" if reason else ""
    return f"the prompt never reached the agent, and will not be sent{because}"


def unknown(reason: str) -> str:
    """A prompt of which nobody knows whether it arrived."""
    return f"{_UNKNOWN} ({one_line(reason, 500)})" if reason else _UNKNOWN
