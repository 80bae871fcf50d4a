"""When a backlog shrinks."""

from benchmarks.meaning import shrinking_after


def test_a_backlog_shrinks_from_where_no_later_reading_is_above_it():
    readings = [(9.0, 0, 0, 50), (10.0, 0, 0, 80), (10.5, 0, 0, 90), (11.0, 0, 0, 90), (11.5, 0, 0, 70)]
    assert shrinking_after(readings, ended=10.0) == 0.5


def test_a_backlog_that_stays_or_grows_does_not_shrink():
    assert shrinking_after([(10.0, 0, 0, 80), (10.5, 0, 0, 80)], ended=10.0) is None
    assert shrinking_after([(10.0, 0, 0, 80), (10.5, 0, 0, 90)], ended=10.0) is None


def test_a_backlog_that_is_empty_at_the_end_needs_not_shrink():
    assert shrinking_after([(10.0, 0, 0, 0), (10.5, 0, 0, 0)], ended=10.0) == 0.0
