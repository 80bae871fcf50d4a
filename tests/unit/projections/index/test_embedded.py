"""The two rankings that other products' contracts promise: memex's and agent-memory's."""

from collections.abc import Callable
from math import exp, log
from typing import Any

import numpy as np
import pytest

from projections.index import embedded
from projections.index.embedded import search
from projections.index.replica import IndexReplica
from projections.nouns.lesson import DECAY_RATE, decayed
from projections.search.decay import decayed_confidence
from projections.search.question import Filter, Hit, Question
from projections.search.ranking import Mode

Put = Callable[..., str]
Embed = Callable[..., None]
T0 = 1_769_860_800_000
DAY = 86_400_000
ANYTHING = Filter(tenant="default", now_ms=T0)
TEA = np.asarray([1, 0, 0, 0], np.float32)


def similar(index: IndexReplica, text: str = "tea", **fields: Any) -> list[Hit]:
    given: dict[str, Any] = {"vector": TEA, "now_ms": T0, **fields}
    return search(index, Question(text=text, ranking="similarity", **given), ANYTHING)


def rrf(index: IndexReplica, text: str = "tea", **fields: Any) -> list[Hit]:
    given: dict[str, Any] = {"vector": TEA, "now_ms": T0, **fields}
    return search(index, Question(text=text, ranking="rrf", **given), ANYTHING)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# memex


def test_similarity_and_recency_are_mixed_as_memex_does(index: IndexReplica, put: Put, embed: Embed):
    """Importance and the words of the query do not count; nothing is rounded."""
    embed(put("mem_near", "x", occurred_ms=T0 - 60 * DAY, importance=0.0), [1, 0, 0, 0])
    embed(put("mem_new", "tea", occurred_ms=T0 - 3 * DAY, importance=10.0), [0.6, 0.8, 0, 0])
    hits = similar(index)
    wanted = {
        "mem_near": 0.7 + 0.3 * exp(-log(2) / 30 * 60),
        "mem_new": 0.7 * 0.6 + 0.3 * exp(-log(2) / 30 * 3),
    }
    assert {hit.id: hit.score for hit in hits} == pytest.approx(wanted, abs=2e-3), "vectors are rounded to bytes"
    assert ids(hits) == ["mem_near", "mem_new"]
    (near, _) = hits
    assert near.explain == {"similarity": 1.0, "recency": pytest.approx(0.25)}
    assert near.score == 0.7 * near.explain["similarity"] + (1 - 0.7) * near.explain["recency"]
    assert ids(similar(index, alpha=0.0)) == ["mem_new", "mem_near"]
    assert similar(index, alpha=0.0, half_life_days=3.0)[0].score == pytest.approx(0.5)


def test_only_the_most_similar_are_candidates(index: IndexReplica, put: Put, embed: Embed):
    """Three for each that is shown, 150 at most, also when recency alone decides; spare hits change nothing."""
    for n in range(300):
        embed(put(f"mem_{n:03d}", "x", occurred_ms=T0 - (300 - n) * DAY), [1, n / 100, 0, 0])
    everything = ids(similar(index, alpha=0.0, limit=1000, shown=100))
    assert everything == [f"mem_{n:03d}" for n in reversed(range(150))]
    assert ids(similar(index, alpha=0.0, limit=12, shown=2)) == [f"mem_{n:03d}" for n in reversed(range(6))]
    assert ids(similar(index, alpha=0.0, limit=2)) == ["mem_005", "mem_004"]


def test_as_many_are_found_as_are_shown(index: IndexReplica, put: Put, embed: Embed):
    for n in range(220):
        embed(put(f"mem_{n:03d}", "x"), [1, n / 100, 0, 0])
    assert len(similar(index, limit=204, shown=200)) == 200


def test_equally_good_the_newest_is_first_then_the_id(index: IndexReplica, put: Put, embed: Embed):
    for name, occurred in (("mem_3", 5), ("mem_1", 5), ("mem_2", 9)):
        embed(put(name, "x", occurred_ms=T0 + occurred), [1, 0, 0, 0])
    assert ids(similar(index)) == ["mem_2", "mem_1", "mem_3"]


def test_a_weak_match_is_returned(index: IndexReplica, put: Put, embed: Embed):
    embed(put("mem_1", "x"), [-1, 0, 0, 0])
    (hit,) = similar(index)
    assert hit.explain["similarity"] == -1


def test_what_has_no_vector_yet_is_as_similar_as_its_words(index: IndexReplica, put: Put, embed: Embed):
    for n in range(200):
        embed(put(f"mem_{n:03d}", "x", occurred_ms=T0 - DAY), [1, 0, 0, 0])
    put("mem_new", "green tea", occurred_ms=T0)
    put("mem_other", "coffee", occurred_ms=T0)
    found = {hit.id: hit.explain["similarity"] for hit in similar(index, "green tea leaf", limit=99, shown=20)}
    assert found["mem_new"] == pytest.approx(2 / 3)
    assert found["mem_other"] == 0
    assert len(found) == 60 + 2
    assert ids(similar(index, "green tea", limit=1)) == ["mem_new"]


def test_without_any_vector_words_and_recency_decide(index: IndexReplica, put: Put, monkeypatch: pytest.MonkeyPatch):
    """Also where there are too many to read them all: the newest, and those that say a word."""
    monkeypatch.setattr(embedded, "READ_WITHOUT_VECTOR", 10)
    for n in range(100):
        put(f"mem_{n:03d}", "coffee", occurred_ms=T0 - DAY, recorded_ms=T0 + n)
    put("mem_old", "tea", occurred_ms=T0 - DAY, recorded_ms=T0 - 1)
    assert ids(similar(index, vector=None, limit=3)) == ["mem_old", "mem_090", "mem_091"]


# agent-memory


def test_reciprocal_ranks_are_summed_and_lifted_when_recent(index: IndexReplica, put: Put, embed: Embed):
    """A fresh top hit in one list scores 0.0333, in both 0.0667; ranks count from 0."""
    embed(put("obs_both", "tea", occurred_ms=T0), [1, 0, 0, 0])
    embed(put("obs_near", "x", occurred_ms=T0 - 7 * DAY), [0.9, 0.1, 0, 0])
    put("obs_word", "tea with milk and sugar", occurred_ms=T0 - 30 * DAY)
    hits = rrf(index)
    assert ids(hits) == ["obs_both", "obs_near", "obs_word"]
    assert [hit.score for hit in hits] == [
        pytest.approx(2 * (1 / 60 + 1 / 60)),
        pytest.approx((1 + exp(-0.7)) / 61),
        pytest.approx((1 + exp(-3)) / 61),
    ]
    assert hits[0].explain == {"vector": 1 / 60, "text": 1 / 60, "recency": 2.0}
    assert hits[1].explain.keys() == {"vector", "recency"}


def test_what_has_no_vector_yet_is_found_by_some_of_the_words(index: IndexReplica, put: Put, embed: Embed):
    """It stands in the list of the near ones, by the share of the words; what says them all is in the text list."""
    embed(put("obs_near", "x"), [0.6, 0.8, 0, 0])
    put("obs_new", "a pool of twenty places")
    put("obs_all", "many places in the pool")
    put("obs_else", "nothing of it")
    hits = rrf(index, "how many places has the pool?")
    assert ids(hits) == ["obs_all", "obs_new", "obs_near"]
    assert [hit.explain.keys() & {"vector", "text"} for hit in hits] == [{"text"}, {"vector"}, {"vector"}]


def test_the_recency_lift_can_be_switched_off(index: IndexReplica, put: Put, embed: Embed):
    embed(put("lsn_1", "tea", occurred_ms=T0 - 99 * DAY), [1, 0, 0, 0])
    (hit,) = rrf(index, recency_boost=False)
    assert hit.score == 2 / 60
    assert hit.explain == {"vector": 1 / 60, "text": 1 / 60}


def test_each_mode_has_its_list(index: IndexReplica, put: Put, embed: Embed):
    put("obs_word", "tea")
    embed(put("obs_near", "x"), [1, 0, 0, 0])

    def asked(mode: Mode) -> list[str]:
        return ids(rrf(index, mode=mode))

    assert (asked("vector"), asked("lexical")) == (["obs_near"], ["obs_word"])
    assert asked("hybrid") == ["obs_near", "obs_word"]
    assert ids(rrf(index, vector=None)) == ["obs_word"]


def test_the_text_list_wants_all_the_words(index: IndexReplica, put: Put):
    """Of the first ten; stop words and operators are none."""
    put("obs_1", "the deploy token has expired")
    put("obs_2", "the deploy script")
    assert ids(rrf(index, "deploy & (tokens): !", vector=None)) == ["obs_1"]
    assert sorted(ids(rrf(index, "deploy", vector=None))) == ["obs_1", "obs_2"]
    assert ids(rrf(index, "deploy nothing", vector=None)) == []
    assert ids(rrf(index, "the deploy of a token " * 2 + "unsaid", vector=None)) == ["obs_1"]
    assert ids(rrf(index, "&", vector=None)) == []


def test_each_list_is_twice_as_long_as_what_is_shown(index: IndexReplica, put: Put, embed: Embed):
    for n in range(30):
        embed(put(f"obs_{n:02d}", "tea" + " x" * n), [1, n / 10, 0, 0])
    assert ids(rrf(index, limit=99, shown=5)) == [f"obs_{n:02d}" for n in range(10)]
    assert ids(rrf(index, limit=5)) == [f"obs_{n:02d}" for n in range(5)]


def test_equal_ranks_are_ordered_by_id(index: IndexReplica, put: Put, embed: Embed):
    """One first by vector, the other first by text."""
    put("obs_a", "tea")
    embed(put("obs_b", "x"), [1, 0, 0, 0])
    assert ids(rrf(index)) == ["obs_a", "obs_b"]


WEEK = 7 * DAY
NOW = 1_769_860_800_000


def test_all_at_once_fade_as_one_does():
    """Over a grid of confidences and ages that is full of halves of the last digit, to 1e-9."""
    confidences = np.concatenate([np.arange(0, 1001) / 1000, np.arange(0, 101) / 100 + 1e-12, [0.0445, 0.5005]])
    ages = [0, 1, WEEK - 1, WEEK, WEEK + 1, *(n * WEEK // 100 for n in range(90, 1200, 7)), 25 * WEEK, 400 * WEEK]
    for age in ages:
        found = decayed_confidence(confidences, np.full(len(confidences), NOW - age), NOW)
        wanted = [decayed(float(confidence), DECAY_RATE, age / WEEK) for confidence in confidences]
        assert np.abs(found - wanted).max() < 1e-9


def test_what_was_never_said_or_is_from_the_future_does_not_fade():
    confidence = np.asarray([0.4, 0.4])
    assert decayed_confidence(confidence, np.asarray([0, NOW + WEEK]), NOW).tolist() == [0.4, 0.4]
    assert decayed_confidence(confidence[:0], np.asarray([], np.int64), NOW).tolist() == []
