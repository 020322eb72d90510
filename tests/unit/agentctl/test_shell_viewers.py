"""Who looks, how large the terminal is for them, and whose keystrokes count."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_operator.agentctl.shell.viewers import Full, Size, Viewers
from kandev_operator.contract.shell import MAX_VIEWERS, InputPolicy

pytestmark = pytest.mark.unit
SMALL, LARGE, WIDE = Size(80, 24), Size(200, 50), Size(300, 20)


def test_the_terminal_follows_the_viewer_that_was_active_last() -> None:
    viewers = Viewers(InputPolicy.ALL, SMALL)
    one = viewers.add(LARGE)
    assert viewers.size == LARGE
    two = viewers.add(WIDE)
    assert viewers.size == WIDE
    assert viewers.types(one) is None
    assert viewers.size == LARGE
    viewers.resize(two, SMALL)
    assert viewers.size == SMALL
    viewers.remove(two)
    assert viewers.size == LARGE, "back to who was active before"
    viewers.remove(one)
    assert viewers.size == LARGE, "nobody looks: it stays as it is"


def test_who_only_looks_decides_nothing_for_the_others() -> None:
    viewers = Viewers(InputPolicy.ONE, SMALL)
    looking = viewers.add(WIDE, may_type=False)
    assert viewers.size == SMALL
    viewers.resize(looking, LARGE)
    assert viewers.size == SMALL
    assert viewers.types(looking) == "view_only"
    assert not viewers.take(looking)
    assert viewers.owner is None


def test_a_viewer_without_a_size_leaves_the_terminal_as_it_is() -> None:
    viewers = Viewers(InputPolicy.ALL, SMALL)
    plain = viewers.add(None)
    assert viewers.types(plain) is None
    assert viewers.size == SMALL


def test_one_owner_who_types_first_who_takes_it_and_who_lets_go() -> None:
    viewers = Viewers(InputPolicy.ONE, SMALL)
    one, two = viewers.add(None), viewers.add(None)
    assert viewers.types(two) is None
    assert viewers.owner == two
    assert viewers.types(one) == "not_owner"
    viewers.release(one)
    assert viewers.owner == two, "only the owner lets go"
    assert viewers.take(one)
    assert viewers.types(two) == "not_owner"
    viewers.release(one)
    assert viewers.types(two) is None
    viewers.remove(two)
    assert viewers.owner is None


def test_with_many_nobody_owns_it() -> None:
    viewers = Viewers(InputPolicy.ALL, SMALL)
    one, two = viewers.add(None), viewers.add(None)
    assert not viewers.take(one)
    assert viewers.types(two) is None
    assert viewers.types(one) is None
    assert viewers.owner is None


def test_viewers_are_limited_and_their_ids_are_not_used_again() -> None:
    viewers = Viewers(InputPolicy.ALL, SMALL)
    ids = [viewers.add(None) for _ in range(MAX_VIEWERS)]
    with pytest.raises(Full):
        viewers.add(None)
    viewers.remove(ids[0])
    assert viewers.add(None) not in ids


class Room(RuleBasedStateMachine):
    """People come, go, type and resize in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.viewers = Viewers(InputPolicy.ONE, SMALL)
        self.present: dict[int, Size | None] = {}
        self.typing: set[int] = set()
        self.sizes = {SMALL}

    @rule(size=st.sampled_from([None, SMALL, LARGE, WIDE]), may_type=st.booleans())
    def come(self, size: Size | None, may_type: bool) -> None:
        if len(self.present) < MAX_VIEWERS:
            viewer = self.viewers.add(size, may_type=may_type)
            self.present[viewer] = size
            if may_type:
                self.typing.add(viewer)

    @precondition(lambda self: self.present)
    @rule(data=st.data(), what=st.sampled_from(["go", "type", "take", "release", "resize"]))
    def act(self, data: st.DataObject, what: str) -> None:
        viewer = data.draw(st.sampled_from(sorted(self.present)))
        match what:
            case "go":
                self.viewers.remove(viewer)
                del self.present[viewer]
                self.typing.discard(viewer)
            case "type":
                owner = self.viewers.owner
                refused = self.viewers.types(viewer)
                allowed = viewer in self.typing and owner in (None, viewer)
                assert (refused is None) is allowed
                if allowed:
                    assert self.viewers.owner == viewer
            case "take":
                assert self.viewers.take(viewer) is (viewer in self.typing)
            case "release":
                self.viewers.release(viewer)
                assert self.viewers.owner != viewer
            case _:
                self.present[viewer] = WIDE
                self.viewers.resize(viewer, WIDE)
                assert viewer not in self.typing or self.viewers.size == WIDE

    @invariant()
    def the_owner_is_here_and_may_type(self) -> None:
        assert self.viewers.owner is None or self.viewers.owner in self.typing

    @invariant()
    def the_count_is_right(self) -> None:
        assert len(self.viewers) == len(self.present)


Room.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRoom = Room.TestCase
