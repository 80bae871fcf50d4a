"""A snippet is the part of a text that a query's words are in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.search.terms import SNIPPET_CHARS, folded, folded_letter, snippet, terms, terms_in_python

FILLER = "Nothing was wrong there, as far as logs tell. "
ANSWER = "The checkout timed out because the Redis client pool does not reconnect after a restart."
LONG = FILLER * 10 + ANSWER + " " + FILLER * 10


def told(text: str, query: str, limit: int = SNIPPET_CHARS) -> str:
    return snippet(text, terms(query), limit)


def test_a_short_text_is_told_whole_on_one_line():
    assert told("Short\n and  good.", "good") == "Short and good."


def test_a_snippet_begins_with_the_sentence_in_which_most_of_the_querys_words_are():
    found = told(LONG, "why did checkout fail when redis restarted?")
    assert found.startswith(f"…{ANSWER}")
    assert found.endswith("…")


def test_a_word_is_found_by_its_stem():
    assert "policies" in told(FILLER * 10 + "Two policies apply. " + FILLER * 10, "policy")


def test_a_word_inside_another_one_is_no_match():
    text = "The cartographer draws. " + FILLER * 10 + "The cart is empty. " + FILLER * 10
    assert "The cart is empty" in told(text, "cart empty")


def test_a_rare_word_counts_more_than_a_frequent_one():
    text = "The pool, the pool, the pool is busy. " * 10 + "The valve leaks. " + FILLER * 10
    assert "The valve leaks" in told(text, "pool valve")


def test_a_text_that_says_none_of_the_words_is_cut_at_its_end():
    found = told(LONG, "sourdough")
    assert found.startswith(FILLER.strip())
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Die \u00dcberweisung schlug fehl.", "\u00dcberweisung"),
        ("\u041f\u043b\u0430\u0442\u0451\u0436 fehlt.", "\u043f\u043b\u0430\u0442\u0451\u0436"),
        ("\u51fa\u73b0\u4e86\u8fde\u63a5\u6c60\u8d85\u65f6\u3002", "\u8fde\u63a5\u6c60\u8d85\u65f6"),
        ("Caf\u00e9 cr\u00e8me is sold out.", "cafe"),
    ],
)
def test_words_with_accents_and_of_scripts_without_spaces_are_found(said: str, query: str):
    assert said in told(FILLER * 10 + said + " " + FILLER * 10, query)


@given(st.text(st.characters()), st.text(max_size=3))
def test_a_text_folds_letter_by_letter(text: str, other: str):
    assert folded(text) == "".join(map(folded_letter, text))
    assert folded(text + other) == folded(text) + folded(other)


@given(st.text(max_size=3_000), st.text(max_size=60), st.integers(20, 400))
def test_a_snippet_is_one_line_within_its_limit(text: str, query: str, limit: int):
    found = told(text, query, limit)
    assert len(found) <= limit
    assert "\n" not in found


@pytest.mark.parametrize("date", ["2026-13-45", "2026-02-30"])
def test_an_impossible_date_is_itself_and_its_parts(date: str):
    assert terms(date) == terms_in_python(date) == [date, *date.split("-")]
