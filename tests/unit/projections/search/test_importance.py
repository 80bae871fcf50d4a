from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from projections.documents.lessons import decayed
from projections.search.embedded import EmbeddedIndex
from projections.search.index import SAME_PROJECT, WEEKLY_DECAY, decayed_confidence
from projections.search.question import Filter
from projections.search.replica import IndexReplica

Put = Callable[..., str]
DAY = 86_400_000
WEEK = 7 * DAY
NOW = 1_769_860_800_000
ANYTHING = Filter(tenant="default")


def test_all_at_once_fade_as_one_does():
    """Over a grid of confidences and ages that is full of halves of the last digit, to 1e-9."""
    confidences = np.concatenate([np.arange(0, 1001) / 1000, np.arange(0, 101) / 100 + 1e-12, [0.0445, 0.5005]])
    ages = [0, 1, WEEK - 1, WEEK, WEEK + 1, *(n * WEEK // 100 for n in range(90, 1200, 7)), 25 * WEEK, 400 * WEEK]
    for age in ages:
        found = decayed_confidence(confidences, np.full(len(confidences), NOW - age), NOW)
        wanted = [decayed(float(confidence), WEEKLY_DECAY, age / WEEK) for confidence in confidences]
        assert np.abs(found - wanted).max() < 1e-9


def test_what_was_never_said_or_is_from_the_future_does_not_fade():
    confidence = np.asarray([0.4, 0.4])
    assert decayed_confidence(confidence, np.asarray([0, NOW + WEEK]), NOW).tolist() == [0.4, 0.4]
    assert decayed_confidence(confidence[:0], np.asarray([], np.int64), NOW).tolist() == []


def test_the_surest_lessons_come_first(index: IndexReplica, put: Put):
    """What fades counts as of now; the own project counts half as much again; other kinds do not count."""
    put("lsn_1", "a", confidence=0.9, renewed_ms=NOW - 10 * WEEK)
    put("lsn_2", "b", confidence=0.6, renewed_ms=NOW, partition=3)
    put("lsn_3", "c", confidence=0.5, renewed_ms=NOW, project="borealis")
    put("mem_1", "d")
    assert EmbeddedIndex(index).lessons_by_confidence(ANYTHING, "borealis", NOW, 10) == [
        ("lsn_3", 0, pytest.approx(0.5 * SAME_PROJECT)),
        ("lsn_2", 3, pytest.approx(0.6)),
        ("lsn_1", 0, pytest.approx(0.4)),
    ]
    assert [lesson.id for lesson in EmbeddedIndex(index).lessons_by_confidence(ANYTHING, "elsewhere", NOW, 2)] == [
        "lsn_2",
        "lsn_3",
    ]
    assert EmbeddedIndex(index).lessons_by_confidence(ANYTHING, "borealis", NOW, 0) == []


def test_lessons_are_those_that_the_filter_allows(index: IndexReplica, put: Put):
    put("lsn_1", "a", tags=["x"])
    put("lsn_2", "b", tenant="other", tags=["x"])
    put("lsn_3", "c")

    def found(**allowed: Any) -> list[str]:
        given: dict[str, Any] = {"tenant": "default", **allowed}
        return [lesson.id for lesson in EmbeddedIndex(index).lessons_by_confidence(Filter(**given), "atlas", NOW, 10)]

    assert found() == ["lsn_1", "lsn_3"]
    assert found(tags=["x"]) == ["lsn_1"]
    assert found(kinds=["memory"]) == ["lsn_1", "lsn_3"]
    assert found(project="elsewhere") == []


def test_equally_sure_lessons_are_taken_by_id(index: IndexReplica, put: Put):
    names = [f"lsn_{n:03d}" for n in range(200)]
    for name in np.random.default_rng(1).permutation(names).tolist():
        put(name, name, confidence=0.5)
    assert [lesson.id for lesson in EmbeddedIndex(index).lessons_by_confidence(ANYTHING, "", NOW, 20)] == names[:20]
