"""A word that nothing says stands for the one that it is probably a slip of."""

from collections.abc import Callable

import pytest

from projections.search.ranking import terms
from projections.search.replica import IndexReplica
from projections.search.search import Filter, Question, search
from projections.search.spelling import corrected, edits, is_slip

Put = Callable[..., str]
ANYBODY = Filter(tenant="default")


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
    index.commit()
    return corrected(index, terms(query), allowed)


def test_a_misspelled_word_becomes_the_one_that_is_said(index: IndexReplica, put: Put):
    put("mem_1", "We write TypeScript with strict types.")
    assert correct(index, "typsecript types") == ["typescript", "type"]


def test_of_equally_near_words_the_more_frequent_is_meant(index: IndexReplica, put: Put):
    put("mem_1", "checkered")
    for n in range(2, 5):
        put(f"mem_{n}", "The checkout is open.")
    put("mem_9", "The checkouk is a typing error.")
    assert correct(index, "checkouz") == ["checkout"]


def test_a_word_that_something_says_stays(index: IndexReplica, put: Put):
    put("mem_1", "The checkout is open.")
    put("mem_2", "checkouk")
    assert correct(index, "checkouk") == ["checkouk"]


def test_a_word_that_was_just_written_stays(index: IndexReplica, put: Put):
    put("mem_1", "The checkout is open.")
    index.commit()
    put("mem_2", "checkouk")
    assert corrected(index, ["checkouk"], ANYBODY) == ["checkouk"]


def test_a_word_like_nothing_stays(index: IndexReplica, put: Put):
    put("mem_1", "The checkout is open.")
    assert correct(index, "sourdough bread") == ["sourdough", "bread"]


@pytest.mark.parametrize("word", ["8081", "v2", "ab", "obs_01jx"])
def test_numbers_and_names_of_things_are_never_corrected(index: IndexReplica, put: Put, word: str):
    put("mem_1", "8080 v1 ac obs_01jy")
    assert correct(index, word) == terms(word)


def test_words_of_other_tenants_correct_nothing(index: IndexReplica, put: Put):
    put("mem_1", "The project is called zeppelin.", tenant="other")
    put("mem_2", "The project is called balloon.", project="secret")
    assert correct(index, "zepelin baloon", Filter(tenant="default", project="atlas")) == ["zepelin", "baloon"]


def test_a_misspelled_question_finds_what_it_asks_for(index: IndexReplica, put: Put):
    put("mem_1", "The payment provider rejects large amounts.")
    put("mem_2", "Deploys go out on Tuesday.")
    index.commit()
    found = search(index, Question(text="paymnet provder", vector=None), ANYBODY)
    assert [hit.id for hit in found] == ["mem_1"]
