"""Two gateways, any interleaving: batches cut anyhow, restarts, gaps; the store reads the same."""

import asyncio
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from integration.history.conftest import AT, SESSION
from integration.history.test_store import ALL, everything, plain, read_all
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.assembly import Assembler
from kandev_operator.gateway.store.store import Store
from stage.speech import Speech

UID = SESSION.uid
_ACTIONS = [*["write"] * 4, "hear", "hear", "goes on", "restart", "forget", "begin anew"]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(_ACTIONS),
        st.integers(1, 25),
    ),
    max_size=18,
)


class Gateway:
    """One replica as the store knows it: where it stands, and what it brings next."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.journal, self.seq = 0, 0
        self.held: list[Event] = []
        """What it has read and not written yet: agentctl may have let go of it meanwhile."""

    async def restart(self, journals: list[Speech]) -> None:
        """It goes on after the newest event that is kept."""
        place = await self.store.newest_place(UID)
        names = [each.journal_id for each in journals]
        self.journal = names.index(place.journal_id) if place else 0
        self.seq = place.seq if place else 0
        self.held = []

    def hear(self, journals: list[Speech], kept_from: int) -> None:
        """It reads all that agentctl has after what it had."""
        newest = len(journals) - 1
        if self.journal != newest:
            # agentctl serves one journal, and tells a reader of another what it has.
            self.journal, self.seq = newest, 0
        start = max(self.seq, kept_from - 1)
        self.held += journals[newest].events[start:]
        self.seq = len(journals[newest].events)


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), steps=STEPS)
def test_any_interleaving_of_two_gateways_reads_the_same(
    seed: int, steps: list[tuple[int, str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder, "h.db"), seed, steps))


async def play(path: Path, seed: int, steps: list[tuple[int, str, int]]) -> None:
    dice = random.Random(seed)
    journals = [Speech(UID, "j0", dice)]
    journals[0].go_on(60)
    kept_from = 1
    came: list[str] = []
    facts: dict[tuple[int, int], Event] = {}
    gateways = [Gateway(Store(f"sqlite:///{path}")) for _ in range(2)]
    try:
        for gateway in gateways:
            await gateway.store.open()
        await gateways[0].store.see([SESSION], AT)
        for who, what, amount in steps:
            gateway = gateways[who]
            match what:
                case "restart":
                    await gateway.restart(journals)
                case "forget":
                    kept_from = min(kept_from + amount, len(journals[-1].events))
                case "begin anew":
                    journals.append(Speech(UID, f"j{len(journals)}", dice))
                    journals[-1].go_on(40)
                    kept_from = 1
                case "goes on":
                    journals[-1].go_on(amount)
                case "hear":
                    gateway.hear(journals, kept_from)
                case _:
                    part, gateway.held = gateway.held[:amount], gateway.held[amount:]
                    if part:
                        await gateway.store.append(part)
                    for event in part:
                        if event.journal_id not in came:
                            came.append(event.journal_id)
                        facts[came.index(event.journal_id), event.seq] = event
        await judge(gateways[dice.randrange(2)].store, facts)
    finally:
        for gateway in gateways:
            await gateway.store.close()


async def judge(store: Store, facts: dict[tuple[int, int], Event]) -> None:
    expected = [facts[key] for key in sorted(facts)]
    read = await read_all(store, 13)
    assert [e for e in plain(read) if e.kind is not EventKind.GAP] == expected
    told = {
        (gap.journal_id, seq)
        for gap in read
        if gap.kind is EventKind.GAP
        for seq in range(gap.data["from_seq"], gap.data["to_seq"] + 1)
    }
    last: dict[str, int] = {}
    for event in expected:
        last[event.journal_id] = event.seq
    have = {(event.journal_id, event.seq) for event in expected}
    assert told == {(j, s) for j, end in last.items() for s in range(1, end + 1)} - have
    found = Assembler()
    found.extend(expected)
    assert await everything(store, 7) == found.messages()
    if expected:
        place = Place(expected[-1].journal_id, expected[-1].seq)
        assert (await store.after(UID, place, 5, ALL)).events == ()
        assert await store.newest_place(UID) == place


async def test_a_message_whose_beginning_comes_later_is_whole_wherever_it_was_cut(
    store: Store,
) -> None:
    whole = Speech(UID, "j", random.Random(11))
    whole.go_on(60)
    for cut in range(1, 60, 2):
        uid = f"uid-{cut}"
        events = [e.model_copy(update={"session_id": uid}) for e in whole.events]
        await store.see([replace(SESSION, uid=uid, name=uid)], AT)
        await store.append(events[cut:])
        await store.append(events[:cut])
        expected = Assembler()
        expected.extend(events)
        page = await store.page(uid, None, 500)
        assert [*page.messages] == expected.messages(), cut
        half = len(page.messages) // 2
        older = await store.page(uid, Place("j", page.messages[half].seq), 500)
        assert older.messages == page.messages[:half]
