"""Whether the watch watches, from what its requests were answered."""

import pytest

from kandev_operator.controller.streams import GRACE_SECONDS, Place, Streams, place_of

EXECUTORS = Place("executors", "team-a")
TASKS = Place("tasks", "team-a")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def streams(clock: Clock) -> Streams:
    return Streams([EXECUTORS, TASKS], clock)


def open_all(streams: Streams) -> None:
    for place in (EXECUTORS, TASKS):
        streams.asked(place, "list")
        streams.answered(place, "list", 200)
        streams.asked(place, "watch")
        streams.answered(place, "watch", 200)


def test_it_is_up_when_every_stream_is_open(streams: Streams) -> None:
    assert "not open yet" in streams.problem
    assert not streams.was_up
    streams.answered(EXECUTORS, "watch", 200)
    assert "tasks.kandev.dev in namespace team-a" in streams.problem
    open_all(streams)
    assert streams.problem == ""
    assert streams.was_up


def test_a_list_that_was_answered_is_no_watch(streams: Streams) -> None:
    for place in (EXECUTORS, TASKS):
        streams.answered(place, "list", 200)
    assert streams.problem


def test_a_stream_that_is_opened_anew_counts_as_open_for_a_while(
    streams: Streams, clock: Clock
) -> None:
    open_all(streams)
    streams.asked(TASKS, "watch")
    clock.now += GRACE_SECONDS
    assert streams.problem == ""
    clock.now += 0.1
    assert "tasks" in streams.problem
    assert streams.answered(TASKS, "watch", 200) is False, "nothing was wrong"
    assert streams.problem == ""


def test_trying_again_does_not_make_it_look_better(streams: Streams, clock: Clock) -> None:
    open_all(streams)
    for _ in range(8):
        streams.asked(TASKS, "watch")
        streams.failed(TASKS, "watch", "ClientConnectorError")
        clock.now += 1.0
    assert "ClientConnectorError" in streams.problem
    streams.asked(TASKS, "watch")
    assert "ClientConnectorError" in streams.problem
    assert streams.answered(TASKS, "watch", 200) is True, "open again after trouble"
    assert streams.problem == ""


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_missing_right_is_named_at_once(streams: Streams, verb: str) -> None:
    open_all(streams)
    streams.asked(EXECUTORS, verb)
    streams.answered(EXECUTORS, verb, 403, "Forbidden")
    words = f"the operator may not {verb} executors.kandev.dev in namespace team-a"
    assert streams.problem.startswith(words)
    assert streams.refusal == streams.problem
    streams.asked(EXECUTORS, verb)
    assert streams.refusal.startswith(words), "it stands until it is answered well"
    streams.answered(EXECUTORS, "watch", 200)
    assert (streams.problem, streams.refusal) == ("", "")


def test_other_answers_name_no_right(streams: Streams, clock: Clock) -> None:
    open_all(streams)
    streams.answered(TASKS, "watch", 503, "Service Unavailable")
    assert streams.problem == ""
    clock.now += GRACE_SECONDS + 1
    assert "503 Service Unavailable" in streams.problem
    assert streams.refusal == ""


def test_a_stream_that_nobody_tries_to_open_is_silent(streams: Streams, clock: Clock) -> None:
    open_all(streams)
    clock.now += 1000
    assert streams.silent_seconds == 0.0, "an open stream may be quiet for ever"
    streams.failed(TASKS, "watch", "gone")
    clock.now += 30
    assert streams.silent_seconds == 30
    streams.asked(TASKS, "watch")
    assert streams.silent_seconds == 0


def test_only_paths_of_our_kinds_are_streams(streams: Streams) -> None:
    base = "/apis/kandev.dev/v1alpha1"
    assert place_of(f"{base}/namespaces/team-a/executors") == EXECUTORS
    assert place_of(f"{base}/executors") == Place("executors", None)
    for other in ("/apis", base, f"{base}/namespaces/team-a/executors/one", "/api/v1/namespaces"):
        assert place_of(other) is None
    streams.answered(Place("namespaces", None), "list", 403)
    assert streams.refusal == ""
