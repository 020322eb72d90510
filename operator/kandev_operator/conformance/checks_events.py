"""The event stream: replay, cursors, gaps, kinds, heartbeats, many readers; status beside it."""

import asyncio
from collections.abc import Callable
from typing import Final

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.checks_prompts import calm
from kandev_operator.conformance.musts import must, need
from kandev_operator.conformance.target import Frame, Target, TooLate
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import STATE_KINDS, EventKind, cursor, parse_cursor
from kandev_operator.contract.status import StatusReport

EVENTS: Final = "events"
FENCING: Final = "fencing"
READERS: Final = 20


async def talked(target: Target) -> str:
    """Something was said; gives the prompt whose turn ended last."""
    await target.opened()
    await calm(target)
    prompt_id = await target.prompted("slow 3")
    await target.turn_end(prompt_id)
    return prompt_id


def ends(prompt_id: str) -> Callable[[Frame], bool]:
    """Tells the frame that ends the turn of a prompt."""

    def is_end(frame: Frame) -> bool:
        if frame.kind != EventKind.TURN_ENDED:
            return False
        return bool(frame.event().data["turn"]["prompt_id"] == prompt_id)

    return is_end


@must("C-110", EVENTS, "Frames carry id, event and data, and the three agree.")
async def frames(target: Target) -> str:
    await talked(target)
    last = (await target.status()).journal.last_seq
    found = await target.read(lambda f: bool(f.data) and f.event().seq >= last)
    shown = [f for f in found if f.data]
    for frame in shown:
        event = frame.event()
        need(frame.id == cursor(event.journal_id, event.seq), f"id is {frame.id!r}")
        need(frame.kind == event.kind.value, f"event is {frame.kind!r}, kind {event.kind}")
        need(event.session_id == target.session, "an event of another session")
    return f"{len(shown)} frames"


@must("C-111", EVENTS, "A reader without a cursor gets everything kept, numbered without holes.")
async def replay(target: Target) -> str:
    await talked(target)
    found = [e.seq for e in await target.events()]
    whole = list(range(found[0], found[0] + len(found))) if found else []
    need(found and found == whole, f"numbers {found[:3]} to {found[-3:]}, {len(found)} of them")
    return f"{len(found)} events from {found[0]}"


@must("C-112", EVENTS, "A cursor gets what follows it, by ?after= and by Last-Event-ID.")
async def from_a_cursor(target: Target) -> str:
    await talked(target)
    every = await target.events()
    middle = every[len(every) // 2]
    wanted = [e.seq for e in every if e.seq > middle.seq]
    place = cursor(middle.journal_id, middle.seq)

    def is_last(frame: Frame) -> bool:
        return bool(frame.data) and frame.event().seq >= wanted[-1]

    for after, headers in ((place, {}), ("", {"Last-Event-ID": place})):
        found = await target.read(is_last, after=after, headers=headers)
        seqs = [f.event().seq for f in found if f.data]
        need(seqs == wanted, f"asked after {middle.seq}, got {seqs[:5]}…")
    return f"{len(wanted)} events each way"


@must("C-113", EVENTS, "A reader that is attached gets what comes, in order, without asking again.")
async def live(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    prompts: list[str] = []

    async def prompt() -> None:
        prompts.append(await target.prompted("slow 5"))

    def is_end(frame: Frame) -> bool:
        ended = frame.kind == EventKind.TURN_ENDED
        return ended and frame.event().data["turn"]["prompt_id"] in prompts

    found = await target.read(is_end, after=mark, opened=prompt)
    seqs = [f.event().seq for f in found if f.id]
    need(seqs == list(range(seqs[0], seqs[0] + len(seqs))), "with holes, or out of order")
    kinds = [f.kind for f in found]
    need("turn_started" in kinds and "message" in kinds, f"kinds {sorted(set(kinds))}")
    return f"{len(seqs)} events live"


@must("C-114", EVENTS, "A cursor of another journal gets a gap event first, then everything kept.")
async def foreign_cursor(target: Target) -> str:
    await talked(target)
    last = (await target.status()).journal.last_seq
    found = [
        f.event()
        for f in await target.read(
            lambda f: bool(f.data) and f.kind != EventKind.GAP and f.event().seq >= last,
            after="another-journal:3",
        )
        if f.data
    ]
    need(found[0].kind is EventKind.GAP, f"first comes {found[0].kind}")
    data = found[0].data
    need("from_seq" in data and "to_seq" in data, "the gap lacks from_seq or to_seq")
    kept = [e.seq for e in await target.events()]
    need([e.seq for e in found[1:]] == kept, "then not everything that is kept")
    return "gap, then replay"


@must("C-115", EVENTS, "What is no cursor, or no kind, is refused with 400.")
async def nonsense(target: Target) -> str:
    await target.configured()
    for query in ("after=nonsense", "after=a:b", "after=a:-1", "kinds=everything"):
        refused(await target.call("GET", f"{paths.EVENTS}?{query}"), Code.INVALID_REQUEST)
    return "400 invalid_request"


@must("C-116", EVENTS, "kinds=state and kinds=messages are kept apart.")
async def kinds(target: Target) -> str:
    prompt_id = await talked(target)
    is_end = ends(prompt_id)
    states = await target.read(is_end, kinds="state")
    wrong = {f.kind for f in states if f.data} - {str(k) for k in STATE_KINDS}
    need(not wrong, f"kinds=state has {sorted(wrong)}")

    def is_last_word(frame: Frame) -> bool:
        return bool(frame.data) and "heard" in str(frame.event().data.get("text", ""))

    await target.prompted("the last word")
    words = await target.read(is_last_word, kinds="messages")
    wrong = {f.kind for f in words if f.data} - {"message", "gap"}
    need(not wrong, f"kinds=messages has {sorted(wrong)}")
    return "apart"


@must("C-117", EVENTS, "An idle stream carries a comment line every ten seconds.")
async def heartbeat(target: Target) -> str:
    await target.opened()
    await calm(target)
    beats: list[Frame] = []

    def is_second(frame: Frame) -> bool:
        beats.extend([frame] if frame.comment else [])
        return len(beats) >= 3  # the first may be a greeting

    mark = await target.mark()
    await target.read(is_second, after=mark, patience=4 * paths.HEARTBEAT_SECONDS)
    return "three comment lines"


@must("C-118", EVENTS, "Many readers get the same, and none waits for one that does not read.")
async def many(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    ready, told = asyncio.Semaphore(0), asyncio.Event()
    prompts: list[str] = []

    def is_end(frame: Frame) -> bool:
        ended = frame.kind == EventKind.TURN_ENDED
        return ended and frame.event().data["turn"]["prompt_id"] in prompts

    async def attached() -> None:
        ready.release()
        await told.wait()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def stuck() -> None:
        await target.read(lambda _: False, after=mark, opened=for_ever)

    still = asyncio.create_task(stuck())
    reads = [
        asyncio.create_task(target.read(is_end, after=mark, opened=attached))
        for _ in range(READERS)
    ]
    try:
        for _ in reads:
            await asyncio.wait_for(ready.acquire(), 30)
        prompts.append(await target.prompted("slow 10"))
        told.set()
        found = await asyncio.gather(*reads)
    except TimeoutError:
        raise TooLate(f"{READERS} readers could not attach") from None
    finally:
        still.cancel()
        for task in reads:
            task.cancel()
    seen = {tuple(f.id for f in each if f.data) for each in found}
    need(len(seen) == 1, f"{len(seen)} different streams")
    return f"{READERS} readers saw the same"


@must("C-119", EVENTS, "/status fits the contract and its cursor is the stream's last number.")
async def status(target: Target) -> str:
    await talked(target)
    answer = await target.call("GET", paths.STATUS)
    told = answer.fits(StatusReport)
    found = await target.events()
    need(told.journal.last_seq == found[-1].seq, "the numbers differ")
    need(told.journal.journal_id == found[-1].journal_id, "the journals differ")
    place = parse_cursor(f"{told.journal.journal_id}:{told.journal.last_seq}")
    need(place[1] > 0, "the cursor is none")
    need(told.session and told.session.marker_verified, "the workspace's marker is not ours")
    return f"last_seq {told.journal.last_seq}"


@must("C-123", EVENTS, "A live reader gets words at once; each comes again in a kept message.")
async def live_words(target: Target) -> str:
    await target.opened()
    await calm(target)
    mark = await target.mark()
    prompts: list[str] = []

    async def prompt() -> None:
        prompts.append(await target.prompted("slow 10"))

    def is_end(frame: Frame) -> bool:
        ended = frame.kind == EventKind.TURN_ENDED
        return ended and frame.event().data["turn"]["prompt_id"] in prompts

    found = await target.read(is_end, after=mark, kinds="state,messages,live", opened=prompt)
    told = [f for f in found if f.kind == EventKind.LIVE]
    need(told, "no live event came")
    need(not any(f.id for f in told), "a live event has an id, which moves the cursor")
    kept, live = "", ""
    for frame in found:
        data = frame.event().data if frame.data else {}
        if frame.kind == EventKind.LIVE:
            need(data["offset"] == len(live), f"offset {data['offset']}, after {len(live)}")
            live += data["text"]
        elif frame.kind == EventKind.MESSAGE and data["author"] == "agent":
            kept += data["text"]
            same = live.startswith(kept) or kept.startswith(live)
            need(same, "kept otherwise than told live")
            live = max(live, kept, key=len)
    wanted = "".join(f"word{n} " for n in range(10))
    need(kept == wanted, f"kept is {kept[:80]!r}")
    return f"{len(told)} live events, then all of it kept"


@must("C-120", FENCING, "A lower term is refused with 409 stale_epoch and both numbers.")
async def lower_term(target: Target) -> str:
    await target.configured()
    status = await target.status()
    answer = await target.call("POST", paths.STOP, target.stop_body(), term=status.term - 1)
    refused(answer, Code.STALE_EPOCH)
    told = {"term": status.term, "epoch": status.epoch}
    need(answer.details() == told, f"details are {answer.details()}")
    return "409 stale_epoch"


@must("C-121", FENCING, "A higher epoch is taken and remembered; a lower one is then refused.")
async def epochs(target: Target) -> str:
    await target.configured()
    target.epoch += 1
    await target.ask("PUT", paths.AGENT, target.spec())
    seen = (await target.status()).epoch
    need(seen == target.epoch, f"status says epoch {seen}")
    answer = await target.call("POST", paths.START, target.start_body(), epoch=target.epoch - 1)
    refused(answer, Code.STALE_EPOCH)
    return f"epoch {target.epoch} holds"


@must("C-122", FENCING, "Nobody but scope control can raise term or epoch.")
async def only_control_raises(target: Target) -> str:
    await target.configured()
    before = await target.status()
    high = {"term": before.term + 1000, "epoch": before.epoch + 1000}
    token = target.token((Scope.READ,), **high)
    await target.send("GET", paths.STATUS, token=token)
    after = await target.status()
    need((after.term, after.epoch) == (before.term, before.epoch), "they were raised")
    return "not raised"
