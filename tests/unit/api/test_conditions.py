"""Laws of conditions: a list of answers, one for each question, that only moves with news."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.api import conditions
from kandev_operator.api.conditions import Condition
from kandev_operator.api.timestamps import moment, rfc3339

types = st.sampled_from(["Ready", "AgentReady", "Resumable", "Stalled"])
answers = st.builds(
    Condition,
    type=types,
    status=st.sampled_from([conditions.TRUE, conditions.FALSE, conditions.UNKNOWN]),
    reason=st.sampled_from(["Idle", "Starting", "AgentExited"]),
    message=st.sampled_from(["", "It is so."]),
    observed_generation=st.integers(1, 3),
)
# Hypothesis takes bounds without a zone and adds the zone itself.
FROM, UNTIL = (datetime(year, 1, 3) for year in (2020, 2040))  # noqa: DTZ001
moments = st.datetimes(FROM, UNTIL, timezones=st.just(UTC))
histories = st.lists(st.tuples(answers, moments), max_size=8)


def told(history: list[tuple[Condition, datetime]]) -> conditions.Conditions:
    known: conditions.Conditions = ()
    for answer, now in history:
        known = conditions.set_condition(known, answer, now)
    return known


@given(histories, answers, moments, moments)
def test_the_same_answer_again_changes_nothing(
    history: list[tuple[Condition, datetime]], new: Condition, now: datetime, later: datetime
) -> None:
    once = conditions.set_condition(told(history), new, now)
    assert conditions.set_condition(once, new, later) == once


@given(histories, answers, moments)
def test_time_moves_exactly_when_the_answer_does(
    history: list[tuple[Condition, datetime]], new: Condition, now: datetime
) -> None:
    known = told(history)
    before = conditions.get(known, new.type)
    after = conditions.get(conditions.set_condition(known, new, now), new.type)
    assert after is not None
    kept = before is not None and before.status == new.status
    assert after.last_transition_time == (
        before.last_transition_time if before is not None and kept else rfc3339(now)
    )
    assert after == new.replacing(last_transition_time=after.last_transition_time)


@given(histories, answers, moments)
def test_one_question_leaves_the_others_alone(
    history: list[tuple[Condition, datetime]], new: Condition, now: datetime
) -> None:
    known = told(history)
    after = conditions.set_condition(known, new, now)
    assert conditions.without(after, new.type) == conditions.without(known, new.type)


@given(histories)
def test_questions_are_sorted_and_asked_once(history: list[tuple[Condition, datetime]]) -> None:
    asked = [each.type for each in told(history)]
    assert asked == sorted(set(asked))


@given(histories, types)
def test_what_is_taken_out_is_gone(history: list[tuple[Condition, datetime]], type_: str) -> None:
    left = conditions.without(told(history), type_)
    assert conditions.get(left, type_) is None
    assert not conditions.is_true(left, type_)
    assert conditions.without(left, type_) == left


@given(histories)
def test_the_cluster_gives_back_what_was_stored(
    history: list[tuple[Condition, datetime]],
) -> None:
    for each in told(history):
        assert Condition.model_validate(each.dump()) == each


def test_an_earlier_answer_without_a_time_gets_one() -> None:
    now = datetime(2030, 5, 1, 12, 0, 0, 999, tzinfo=UTC)
    bare = Condition(type="Ready", status=conditions.TRUE, reason="Idle")
    assert conditions.set_condition([bare], bare, now)[0].last_transition_time == (
        "2030-05-01T12:00:00Z"
    )


@given(st.datetimes(FROM, UNTIL, timezones=st.timezones()))
def test_a_moment_survives_being_written(instant: datetime) -> None:
    read = moment(rfc3339(instant))
    assert timedelta(0) <= instant - read < timedelta(seconds=1)
    assert rfc3339(read) == rfc3339(instant)
