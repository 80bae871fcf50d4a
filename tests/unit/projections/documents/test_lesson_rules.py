"""Lesson confidence follows agentmemory's formulas."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.documents.lessons import decayed, fades_at, is_retired, recall_score, strengthened, weeks_since

CONFIDENCES = st.floats(0, 1)
T0 = datetime(2025, 1, 1, tzinfo=UTC)


def test_a_reinforcement_removes_a_tenth_of_the_doubt():
    assert strengthened(0.5) == pytest.approx(0.55)


@given(st.floats(), st.datetimes(timezones=st.just(UTC)))
def test_whatever_an_event_says_a_lesson_fades_some_time(confidence: float, last: datetime):
    """Doors take a confidence from 0 to 1; a log may hold what no door took."""
    assert fades_at(confidence, 0.05, last) >= last


@given(CONFIDENCES)
def test_reinforcing_never_lowers_confidence_nor_passes_one(confidence: float):
    assert confidence <= strengthened(confidence) <= 1


@pytest.mark.parametrize(
    ("confidence", "weeks", "expected"),
    [(0.5, 0.99, 0.5), (0.5, 1, 0.45), (0.5, 2.5, 0.375), (0.5, 100, 0.05), (0.12345, 0.5, 0.12345)],
)
def test_confidence_fades_by_the_week_down_to_a_floor(confidence: float, weeks: float, expected: float):
    assert decayed(confidence, 0.05, weeks) == expected


def test_weeks_keep_their_fraction_and_are_never_negative():
    assert weeks_since(T0, T0 + timedelta(days=10, hours=12)) == 1.5
    assert weeks_since(T0, T0 - timedelta(days=1)) == 0


@pytest.mark.parametrize(
    ("confidence", "reinforcements", "retired"), [(0.1, 0, True), (0.101, 0, False), (0.05, 1, False)]
)
def test_only_a_faded_lesson_nobody_confirmed_is_retired(confidence: float, reinforcements: int, retired: bool):
    assert is_retired(confidence, reinforcements) is retired


def test_an_older_lesson_ranks_lower():
    assert recall_score(0.8, 0.5, timedelta(0)) == 0.4
    assert recall_score(0.8, 0.5, timedelta(days=100)) == 0.2
