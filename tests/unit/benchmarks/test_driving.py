"""Percentiles, rates and batches."""

import math

from benchmarks.driving import Load, batches_of, percentile


def test_a_percentile_is_one_of_the_values():
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.50) == 51
    assert percentile(values, 0.99) == 100
    assert percentile(values, 1.0) == 100
    assert percentile([3.0], 0.99) == 3.0


def test_a_percentile_of_nothing_is_no_number():
    assert math.isnan(percentile([], 0.5))


def test_a_load_tells_its_rate_and_its_percentiles():
    load = Load(times=[1.0, 2.0, 3.0, 4.0], refused=1, seconds=2.0)
    assert load.figures("ask") == {"ask_per_s": 2.0, "ask_p50_ms": 3.0, "ask_p99_ms": 4.0}


def test_batches_hold_every_event_once_and_the_last_may_be_smaller():
    events = [{"n": number} for number in range(7)]
    assert [len(batch) for batch in batches_of(events, 3)] == [3, 3, 1]
    assert [event for batch in batches_of(events, 3) for event in batch] == events
    assert list(batches_of([], 3)) == []
