"""What says nearly the same as a better result is told with it."""

from datetime import date

import pytest

from projections.search.columns import TermRows
from projections.search.similarity import Distinct, distinct
from projections.search.terms import date_terms, terms

LONG = " ".join(f"word{n}" for n in range(40))
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


def rows(*texts: str, days: tuple[date, ...] = ()) -> TermRows:
    named = days or (MONDAY,) * len(texts)
    return TermRows.of(" ".join([*terms(text), *date_terms(day)]) for text, day in zip(texts, named, strict=True))


def test_the_same_text_is_found_once_and_its_repeats_are_named_best_first():
    documents = rows("The cart is empty.", "Deploy on Tuesday.", "the cart is EMPTY", "The cart is empty!")
    assert distinct(documents, [2, 1, 0, 3], 10) == [Distinct(2, [0, 3]), Distinct(1, [])]


def test_what_was_said_again_on_another_day_is_a_repeat():
    documents = rows("The cart is empty.", "The cart is empty.", days=(MONDAY, TUESDAY))
    assert distinct(documents, [0, 1], 10) == [Distinct(0, [1])]


@pytest.mark.parametrize(
    ("other", "repeats"), [(f"{LONG} more", [1]), (f"{LONG} but ends with seven quite different nouns", [])]
)
def test_a_word_more_or_less_in_a_long_text_makes_no_difference(other: str, repeats: list[int]):
    assert distinct(rows(LONG, other), [0, 1], 10)[0] == Distinct(0, repeats)


def test_one_word_makes_a_short_text_another():
    assert len(distinct(rows("The port is 8080.", "The port is 9090."), [0, 1], 10)) == 2


def test_repeats_do_not_take_the_place_of_other_results():
    documents = rows(*["The cart is empty."] * 5, "Deploy on Tuesday.", "Money is in cents.")
    assert distinct(documents, list(range(7)), 2) == [Distinct(0, [1, 2, 3, 4]), Distinct(5, [])]


def test_documents_without_words_repeat_nothing():
    assert len(distinct(rows("", ""), [0, 1], 10)) == 2
