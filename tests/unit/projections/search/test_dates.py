from datetime import UTC, date, datetime

import pytest

from projections.documents.index_entry import index_terms
from projections.search.dates import MAX_EXPRESSIONS, resolved_terms
from projections.search.terms import terms

MONDAY = date(2023, 5, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went bowling yesterday", ["7"]),
        ("We met the day before yesterday.", ["6"]),
        ("It broke last night", ["7"]),
        ("The review is tomorrow", ["9"]),
        ("three days ago", ["5"]),
        ("a couple of weeks ago", ["april"]),
        ("2 months ago", ["march"]),
        ("five years ago", ["2018"]),
        ("in 3 weeks", []),
        ("in four weeks", ["june"]),
        ("last Friday", ["5"]),
        ("Last Mon", ["1"]),
        ("next Sunday", ["14"]),
        ("last weekend", ["6", "7"]),
        ("last month", ["april"]),
        ("next month", ["june"]),
        ("LAST YEAR", ["2022"]),
        ("next year", ["2024"]),
    ],
)
def test_days_named_by_when_it_was_said_are_found_by_their_date(text: str, expected: list[str]):
    assert resolved_terms(text, MONDAY) == [stem for word in expected for stem in terms(word)]


def test_a_year_that_ends_is_crossed():
    assert resolved_terms("yesterday, and last month", date(2023, 1, 1)) == terms("31 December 2022")


@pytest.mark.parametrize("text", ["", "at last", "the last release", "in time", "ago", "next to it", "blast monday"])
def test_a_text_that_names_no_day_gives_nothing(text: str):
    assert resolved_terms(text, MONDAY) == []


@pytest.mark.parametrize(("text", "day"), [("999 years ago", date(500, 1, 1)), ("tomorrow", date.max)])
def test_a_day_beyond_the_calendar_is_left_out(text: str, day: date):
    assert resolved_terms(text, day) == []


def test_a_list_of_days_is_bounded():
    text = " ".join(f"{count} days ago" for count in range(1, 40))

    assert len(resolved_terms(text, MONDAY)) <= 6 * MAX_EXPRESSIONS


def test_a_document_has_the_terms_of_the_day_it_names_and_of_its_own():
    found = index_terms("bowling yesterday", datetime(2023, 5, 8, tzinfo=UTC)).split()

    assert set(terms("7 May 2023")) <= set(found)
    assert found[-3:] == terms("8 May 2023")
