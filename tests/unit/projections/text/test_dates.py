from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.nouns.index_entry import index_terms
from projections.text.dates import LONGEST_QUESTION, MAX_EXPRESSIONS, named_time, resolved_terms, times_in
from projections.text.terms import terms

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
    assert resolved_terms(times_in(text), MONDAY) == [stem for word in expected for stem in terms(word)]


def test_a_year_that_ends_is_crossed():
    assert resolved_terms(times_in("yesterday, and last month"), date(2023, 1, 1)) == terms("31 December 2022")


@pytest.mark.parametrize("text", ["", "at last", "the last release", "in time", "ago", "next to it", "blast monday"])
def test_a_text_that_names_no_day_gives_nothing(text: str):
    assert resolved_terms(times_in(text), MONDAY) == []


@pytest.mark.parametrize(("text", "day"), [("999 years ago", date(500, 1, 1)), ("tomorrow", date.max)])
def test_a_day_beyond_the_calendar_is_left_out(text: str, day: date):
    assert resolved_terms(times_in(text), day) == []


def test_a_list_of_days_is_bounded():
    text = " ".join(f"{count} days ago" for count in range(1, 40))

    assert len(resolved_terms(times_in(text), MONDAY)) <= 6 * MAX_EXPRESSIONS


def test_a_document_has_the_terms_of_the_day_it_names_and_of_its_own():
    found = index_terms("bowling yesterday", datetime(2023, 5, 8, tzinfo=UTC)).split()

    assert set(terms("7 May 2023")) <= set(found)
    assert found[-3:] == terms("8 May 2023")


BERLIN = ZoneInfo("Europe/Berlin")
WEDNESDAY = datetime(2026, 11, 25, 15, 30, tzinfo=UTC)
"""16:30 in Berlin."""

# Days and hours of November 2026 in Berlin, each from the first up to the last, and the question.
QUESTIONS = [
    [column.strip() for column in line.split("|")]
    for line in Path(__file__).with_name("questions.txt").read_text().splitlines()
]


def moment(text: str) -> int:
    day, _, hour = text.partition(" ")
    return round(datetime(2026, 11, int(day), int(hour or 0), tzinfo=BERLIN).timestamp() * 1000)


@pytest.mark.parametrize(("first", "last", "question"), QUESTIONS)
def test_a_question_names_a_time_by_the_clock_and_zone_of_who_asks(question: str, first: str, last: str):
    named = named_time(question, WEDNESDAY, BERLIN)
    assert named is not None
    assert (named.from_ms, named.to_ms) == (moment(first), moment(last))


@pytest.mark.parametrize(
    "question",
    [
        "May I deploy?", "why may 3 tests fail", "May 3 people join the call?", "the march of progress", "at last",
        "Sun Microsystems", "the Sun sets", "what must be done before Friday", "do we deploy on Fridays?",
        "a second attempt",
        "the last release", "Was ist hier passiert?", "Guten Morgen", "release 2024.11.24", "10.1.2.2026", "PROJ-2026",
        "2026-02-30", "v1.2.4", "", "?", "next to it", "the third day", "x" * LONGEST_QUESTION + " yesterday",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_time_is_none(question: str):
    assert named_time(question, WEDNESDAY, BERLIN) is None


@pytest.mark.parametrize(
    ("question", "rest", "only"),
    [
        ("What did we do yesterday?", "What did we do ?", True),
        ("what did Anna say on Tuesday about pools", "what did Anna say about pools", False),
        ("Was haben wir gestern gemacht?", "Was haben wir gemacht?", True),
        ("Что мы делали вчера?", "Что мы делали ?", True),
        ("我们昨天做了什么？", "我们 做了什么？", True),
        ("昨日は何をしましたか", "は何をしましたか", True),
        ("昨日のデプロイは失敗した？", "のデプロイは失敗した？", False),
        ("what have we done since Monday", "what have we done since", True),
        ("last week", "", True),
    ],
)
def test_what_else_a_question_asks_is_told_from_its_time(question: str, rest: str, only: bool):
    named = named_time(question, WEDNESDAY, BERLIN)
    assert named is not None
    assert (named.rest, named.only) == (rest, only)


def test_since_a_time_is_all_that_follows_it():
    named = named_time("what have we done since Monday", WEDNESDAY, BERLIN)
    assert named is not None
    assert named.from_ms == moment("23")
    assert named.to_ms > moment("30")


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("yesterday", ["24 novemb 2026"]),
        ("last weekend", ["21 novemb 2026", "22 novemb 2026"]),
        ("in October", ["octob 2026"]),
        ("in 2025", ["2025"]),
        ("since Monday", []),
    ],
)
def test_a_text_may_name_its_dates(question: str, dates: list[str]):
    named = named_time(question, WEDNESDAY, UTC)
    assert named is not None
    assert [" ".join(date) for date in named.dates] == dates


@pytest.mark.parametrize(("asked_on", "hours"), [((2026, 3, 30), 23), ((2026, 10, 26), 25), ((2026, 11, 25), 24)])
def test_a_day_on_which_clocks_change_is_as_long_as_it_was(asked_on: tuple[int, int, int], hours: int):
    named = named_time("yesterday", datetime(*asked_on, 12, tzinfo=UTC), BERLIN)
    assert named is not None
    assert named.to_ms - named.from_ms == hours * 3_600_000


ZONES = sorted(available_timezones())


@given(st.sampled_from(ZONES), st.datetimes(datetime(1970, 1, 3), datetime(2037, 12, 30)), st.integers(0, 60 * 26))
def test_yesterday_has_the_length_of_that_day_by_the_calendar_of_the_zone(name: str, at: datetime, minutes: int):
    """A moment is in the span if and only if the date that the zone's clocks showed then is yesterday's."""
    zone, now = ZoneInfo(name), at.replace(tzinfo=UTC)
    named = named_time("what did we do yesterday?", now, zone)
    assert named is not None
    yesterday = now.astimezone(zone).date() - timedelta(days=1)
    first, last = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (named.from_ms, named.to_ms))
    start = datetime(yesterday.year, yesterday.month, yesterday.day, tzinfo=UTC) - timedelta(hours=15)
    for moment in (start + timedelta(minutes=2 * minutes), first, last - timedelta(milliseconds=1), last):
        assert (first <= moment < last) == (moment.astimezone(zone).date() == yesterday) or first == last


TIME_WORDS = """
on in at the since until for 3 3rd 11 2024 2024-05-06 12/24/2023 5. of May march Sept monday fri last this next past few
three two an hours days weeks ago yesterday tonight morning weekend gestern letzte Woche hier am - / . , : x 's
"""


@given(
    st.lists(st.sampled_from(TIME_WORDS.split()), max_size=8), st.lists(st.sampled_from([" ", "", "  "]), min_size=8)
)
def test_a_line_end_after_a_question_changes_nothing(words: list[str], gaps: list[str]):
    """It is read without the patterns that RE2 rules out; with a line end, with all of them."""
    question = "".join(map("".join, zip(words, gaps, strict=False)))
    assert named_time(question, WEDNESDAY, UTC) == named_time(f"{question}\n", WEDNESDAY, UTC)
