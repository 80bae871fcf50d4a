"""A word that nothing says stands for the one that it is probably a slip of."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.index.embedded import EmbeddedCandidates, search
from projections.index.replica import IndexReplica
from projections.search.candidates import best_first, corrected, edits, is_slip, keys_of
from projections.search.question import Filter, Question
from projections.store.feed import Remove
from projections.text.terms import terms

Put = Callable[..., str]
ANYBODY = Filter(tenant="default", now_ms=0)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("a", "a", 0), ("ab", "ba", 1), ("abc", "ac", 1), ("ac", "abc", 1), ("abc", "axc", 1), ("abcd", "badc", 2),
     ("", "abc", 3), ("kitten", "sitting", 3)],
)  # fmt: skip
def test_edits_are_counted(one: str, other: str, count: int):
    assert edits(one, other) == count


@pytest.mark.parametrize(
    ("term", "other", "slip"),
    [("typsecript", "typescript", True), ("authet", "authent", True), ("reciev", "receiv", True),
     ("react", "reach", False), ("redsi", "redis", True), ("kafka", "lafka", False), ("docker", "locker", False),
     ("migratoin", "migration", True), ("abc123", "abd123", False), ("deploy", "deployment", False)],
)  # fmt: skip
def test_a_slip_is_a_letter_or_two_behind_the_first(term: str, other: str, slip: bool):
    assert is_slip(term, other) is slip


def correct(index: IndexReplica, query: str, allowed: Filter = ANYBODY) -> list[str]:
    asked = terms(query)
    return corrected(EmbeddedCandidates(index, allowed), asked, asked)


def test_a_misspelled_word_becomes_the_one_that_is_said(index: IndexReplica, put: Put):
    put("mem_1", "We write TypeScript with strict types.")
    assert correct(index, "typsecript types") == ["typescript", "type"]


def test_of_equally_near_words_the_more_frequent_is_meant(index: IndexReplica, put: Put):
    put("mem_1", "The checkouk is a typing error.")
    for n in range(2, 5):
        put(f"mem_{n}", "The checkout is open.")
    assert correct(index, "checkouz") == ["checkout"]


def test_a_nearer_word_is_meant_however_many_say_one_further_away(index: IndexReplica, put: Put):
    for n in range(20):
        put(f"mem_{n}", "checkpaint")
    put("mem_99", "checkpoint")
    assert correct(index, "checkpont") == ["checkpoint"]


def test_a_word_that_something_says_stays(index: IndexReplica, put: Put):
    put("mem_1", "The checkout is open.")
    put("mem_2", "checkouk")
    assert correct(index, "checkouk") == ["checkouk"]


def test_a_word_like_nothing_stays(index: IndexReplica, put: Put):
    put("mem_1", "The checkout is open.")
    assert correct(index, "sourdough bread") == ["sourdough", "bread"]


@pytest.mark.parametrize("word", ["8081", "v2", "ab", "obs_01jx"])
def test_numbers_and_names_of_things_are_never_corrected(index: IndexReplica, put: Put, word: str):
    put("mem_1", "8080 v1 ac obs_01jy")
    assert correct(index, word) == terms(word)


BOB = Filter(tenant="default", now_ms=0, project="atlas", reader="bob")
HIDDEN: dict[str, dict[str, Any]] = {
    "of another tenant": {"tenant": "other"},
    "of another project": {"project": "secret"},
    "of another reader": {"audience": ["alice"]},
    "superseded": {"retired_ms": 1},
}


@pytest.mark.parametrize("fields", HIDDEN.values(), ids=HIDDEN)
def test_what_the_reader_may_not_find_corrects_nothing(index: IndexReplica, put: Put, fields: dict[str, Any]):
    put("mem_1", "The project is called zeppelin.", **fields)
    assert correct(index, "zepelin", BOB) == ["zepelin"]


@pytest.mark.parametrize("fields", HIDDEN.values(), ids=HIDDEN)
def test_what_the_reader_may_not_find_keeps_no_word_from_correction(
    index: IndexReplica, put: Put, fields: dict[str, Any]
):
    """Or who asks could tell what others say."""
    put("mem_1", "The project is called zepelin.", **fields)
    put("mem_2", "The project is called zeppelin.")
    assert correct(index, "zepelin", BOB) == ["zeppelin"]


def test_a_removed_word_corrects_nothing(index: IndexReplica, put: Put):
    put("mem_1", "The project is called zeppelin.")
    index.apply(0, [Remove("mem_1")])
    assert correct(index, "zepelin") == ["zepelin"]


def test_a_misspelled_question_finds_what_it_asks_for(index: IndexReplica, put: Put):
    put("mem_1", "The payment provider rejects large amounts.")
    put("mem_2", "Deploys go out on Tuesday.")
    found = search(index, Question(text="paymnet provder", vector=None), ANYBODY)
    assert [hit.id for hit in found] == ["mem_1"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text("ab_é", max_size=12), st.sampled_from([0.0, 0.25, 0.5])), max_size=40),
    st.integers(0, 50),
)
def test_the_best_of_any_scores_are_what_sorting_all_would_give(scored: list[tuple[str, float]], count: int):
    """Also of ids that agree in the characters that are packed."""
    index = IndexReplica.__new__(IndexReplica)
    index.ids = [f"mem_{name}" for name, _ in scored]
    index.id_key = keys_of(index.ids)
    places = np.arange(len(scored))
    scores = np.asarray([score for _, score in scored], np.float64)
    found = best_first(index, places, scores, count)
    wanted = sorted((-score, f"mem_{name}") for name, score in scored)[:count]
    assert [(-scores[place], index.ids[place]) for place in found] == wanted


def test_the_packed_id_of_a_document_goes_with_it(index: IndexReplica, put: Callable[..., str]):
    put("mem_1", "tea")
    assert int(index.id_key[0]) == int.from_bytes(b"m1\0\0\0\0\0\0")
