"""Prompts and turns: accepted once stored, sent once, in order; permissions; cancel."""

import asyncio
from typing import Final

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.musts import NotApplicable, must, need
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths
from kandev_operator.contract.agent import PromptAnswer, PromptFate
from kandev_operator.contract.errors import Code
from kandev_operator.contract.status import AgentStatus, StatusReport

PROMPTS: Final = "prompts"
CANCEL: Final = "cancel"
LONG: Final = "slow 400"
"""A turn that lasts until it is cancelled."""


async def calm(target: Target) -> None:
    """Nothing of ours runs or waits any more."""
    status = await target.status()
    if status.turn is not None:
        await target.call("POST", paths.CANCEL)

    async def look() -> StatusReport | None:
        status = await target.status()
        waits = any(p.fate is PromptFate.QUEUED for p in status.prompts)
        return None if waits or status.turn is not None else status

    await target.eventually(look, "the end of what runs")


async def running(target: Target, text: str = LONG) -> str:
    """A turn under way that the agent has shown signs of; gives its prompt."""
    await target.opened()
    await calm(target)
    prompt_id = await target.prompted(text)

    async def look() -> StatusReport | None:
        status = await target.status()
        fates = {p.prompt_id: p.fate for p in status.prompts}
        return status if fates.get(prompt_id) is PromptFate.DELIVERED else None

    await target.eventually(look, "a prompt's arrival")
    return prompt_id


@must("C-070", PROMPTS, "A prompt answers 202 once accepted, and its turn comes to an end.")
async def accepted(target: Target) -> str:
    await target.opened()
    body = target.prompt_body("say hello there")
    mark = await target.mark()
    answer = await target.call("POST", paths.PROMPT, body)
    need(answer.status == 202, f"got {answer}")
    told = answer.fits(PromptAnswer)
    need(told.prompt_id == body["prompt_id"], "another prompt_id is answered")
    ended = await target.turn_end(told.prompt_id)
    need(ended.outcome == "completed", f"the turn {ended.outcome}")
    need(await target.decided(told.prompt_id) == PromptFate.DELIVERED, "it is not delivered")
    said = await target.words(mark)
    need(said == "hello there", f"the agent's words arrive as {said[:100]!r}")
    return "delivered, completed"


@must("C-071", PROMPTS, "The same prompt again answers its fate and is not sent again.")
async def once(target: Target) -> str:
    await target.opened()
    mark = await target.mark()
    body = target.prompt_body("say only once")
    for _ in range(2):
        await target.ask("POST", paths.PROMPT, body)
    await target.turn_end(body["prompt_id"])
    answer = await target.call("POST", paths.PROMPT, body)
    need(answer.status == 202, f"got {answer}")
    fate = answer.fits(PromptAnswer).fate
    need(fate is PromptFate.DELIVERED, f"its fate is told as {fate}")
    await target.turn_end(await target.prompted("say after"))
    said = await target.words(mark)
    need(said == "only onceafter", f"the agent's words arrive as {said[:100]!r}")
    return "sent once"


@must("C-072", PROMPTS, "A prompt id that comes again with other content is id_reused.")
async def reused(target: Target) -> str:
    await target.opened()
    body = target.prompt_body("say first")
    await target.ask("POST", paths.PROMPT, body)
    other = target.prompt_body("say second", prompt_id=body["prompt_id"])
    seen = refused(await target.call("POST", paths.PROMPT, other), Code.ID_REUSED)
    await target.turn_end(body["prompt_id"])
    return seen


@must(
    "C-073", PROMPTS, "Prompts during a turn wait for it and go to the agent one by one, in order."
)
async def in_order(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    bodies = [target.prompt_body("slow 10"), *(target.prompt_body(f"say [{n}]") for n in range(3))]
    positions = []
    for body in bodies:
        answer = await target.ask("POST", paths.PROMPT, body)
        positions.append(answer.fits(PromptAnswer).position)
    need(positions == [0, 1, 2, 3], f"positions are {positions}")
    await target.turn_end(bodies[-1]["prompt_id"])
    turns = [
        (event.kind.value, str(event.data["turn"]["prompt_id"]))
        for event in await target.events(mark)
        if event.kind in ("turn_started", "turn_ended")
    ]
    wanted = [(k, b["prompt_id"]) for b in bodies for k in ("turn_started", "turn_ended")]
    need(turns == wanted, f"the turns came otherwise: {[k for k, _ in turns]}")
    said = await target.words(mark)
    need(said.endswith("[0][1][2]"), f"the agent's words end with {said[-60:]!r}")
    return "four turns, one at a time"


@must("C-074", PROMPTS, "Without a conversation a prompt is refused with 409 agent_not_running.")
async def nobody_there(target: Target) -> str:
    await target.configured()
    await target.stopped(grace_seconds=2)
    answer = await target.call("POST", paths.PROMPT, target.prompt_body("say hello"))
    return refused(answer, Code.AGENT_NOT_RUNNING)


@must("C-075", PROMPTS, "A prompt for another session is refused.")
async def another_session(target: Target) -> str:
    await target.configured()
    body = target.prompt_body("say hello", session_id="another-session")
    answer = await target.call("POST", paths.PROMPT, body)
    return refused(answer, Code.SESSION_CONFLICT)


@must("C-076", PROMPTS, "What waits when the agent dies is sent after a resume; nothing twice.")
async def survives(target: Target) -> str:
    await target.opened()
    await calm(target)
    await target.turn_end(await target.prompted("say established"))
    told = (await target.status()).token
    if told is None or told.value is None:
        raise NotApplicable("the token's value is not shown to these credentials")
    mark = await target.mark()
    first = await target.prompted("exit")
    second = await target.prompted("say still here")
    await target.agent_is(AgentStatus.EXITED)
    await target.started(mode="resume", resume_token=told.value)
    await target.turn_end(second)
    fate = await target.decided(first)
    need(fate in (PromptFate.DELIVERED, PromptFate.UNKNOWN), f"the first one's fate is {fate}")
    said = await target.words(mark)
    need(said == "goodbyestill here", f"the agent's words arrive as {said[:100]!r}")
    return "sent after the resume"


@must("C-077", PROMPTS, "A stop with drop_queue makes what waits not_delivered, for good.")
async def dropped(target: Target) -> str:
    await running(target)
    waiting = await target.prompted("say never")
    await target.stopped(drop_queue=True, grace_seconds=2)
    fate = await target.decided(waiting)
    need(fate == PromptFate.NOT_DELIVERED, f"its fate is {fate}")
    mark = await target.mark()
    await target.started()
    await target.turn_end(await target.prompted("say after"))
    said = await target.words(mark)
    need(said == "after", f"the agent's words arrive as {said[:100]!r}")
    return "not_delivered, and never sent"


@must("C-078", PROMPTS, "A stop without it leaves what waits in the queue.")
async def kept(target: Target) -> str:
    await running(target)
    waiting = await target.prompted("say later")
    await target.stopped(grace_seconds=2)
    fates = {p.prompt_id: p.fate for p in (await target.status()).prompts}
    need(fates.get(waiting) is PromptFate.QUEUED, f"its fate is {fates.get(waiting)}")
    await target.started()
    await target.turn_end(waiting)
    return "queued, then sent"


@must("C-079", PROMPTS, "The stream has the person's words, too, with the prompt's turn.")
async def persons_words(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    await target.turn_end(await target.prompted("say mine"))
    said = await target.words(mark, author="user")
    need(said == "say mine", f"the person's words arrive as {said[:100]!r}")
    return "author user"


@must("C-080", PROMPTS, "Thoughts are told apart from what is said.")
async def thoughts(target: Target) -> str:
    await target.opened()
    mark = await target.mark()
    await target.turn_end(await target.prompted("think"))
    thought = await target.words(mark, kind="thought")
    said = await target.words(mark)
    need(thought == "a thought" and said == "heard: think", f"{thought[:40]!r} and {said[:40]!r}")
    return "kinds thought and text"


@must("C-090", CANCEL, "A cancel names the live turn, which then ends as cancelled.")
async def cancelled(target: Target) -> str:
    prompt_id = await running(target)
    turn = (await target.status()).turn
    answer = await target.call("POST", paths.CANCEL)
    need(answer.status == 202, f"got {answer}")
    told = answer.json().get("turn_id")
    need(turn is not None and told == turn.turn_id, f"turn_id is {told!r}")
    ended = await target.turn_end(prompt_id)
    need(ended.outcome == "cancelled", f"the turn {ended.outcome}")
    return "cancelled"


@must("C-091", CANCEL, "A cancel without a turn answers 202 and names none.")
async def nothing_to_cancel(target: Target) -> str:
    await target.opened()
    await calm(target)
    answer = await target.call("POST", paths.CANCEL)
    need(answer.status == 202 and answer.json().get("turn_id") is None, f"got {answer}")
    return "turn_id null"


@must("C-092", CANCEL, "After a cancel the agent goes on with what waits.")
async def goes_on(target: Target) -> str:
    await running(target)
    waiting = await target.prompted("say next")
    await target.ask("POST", paths.CANCEL)
    ended = await target.turn_end(waiting)
    need(ended.outcome == "completed", f"the next turn {ended.outcome}")
    return "the next turn completed"


@must("C-093", CANCEL, "Without a conversation a cancel is refused with 409 agent_not_running.")
async def nobody_to_cancel(target: Target) -> str:
    await target.configured()
    await target.stopped(grace_seconds=2)
    return refused(await target.call("POST", paths.CANCEL), Code.AGENT_NOT_RUNNING)


@must("C-094", PROMPTS, "Many callers at once with one prompt id send one prompt.")
async def at_once(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    body = target.prompt_body("say single")
    answers = await asyncio.gather(*(target.call("POST", paths.PROMPT, body) for _ in range(10)))
    need(all(a.status == 202 for a in answers), f"statuses {[a.status for a in answers]}")
    await target.turn_end(body["prompt_id"])
    await target.turn_end(await target.prompted("say ."))
    said = await target.words(mark)
    need(said == "single.", f"the agent's words arrive as {said[:100]!r}")
    return "10 calls, one turn"
