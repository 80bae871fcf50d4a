"""Days that a text names by when it was said: "yesterday", "last Friday", "three weeks ago", "next month".

Guarantee: a pure function of the text and the day it was said, so a replay resolves what the live projection did.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from projections.search.ranking import date_terms

SCANNED = 4_000
"""Characters of a text that are looked at, from its beginning: what is longer is mostly output of a tool."""
MAX_EXPRESSIONS = 16
"""Of one text, from its beginning."""

_NUMBERS = {
    word: number
    for number, words in enumerate(("", "a an one", "two couple", "three", "four", "five", "six", "seven", "eight"))
    for word in words.split()
}
_DAYS = {"yesterday": -1, "last night": -1, "tomorrow": 1, "day before yesterday": -2, "day after tomorrow": 2}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COUNT = rf"\d{{1,3}}|{'|'.join(_NUMBERS)}"
_UNITS = "day|week|month|year"
_EXPRESSION = re.compile(
    rf"\b(?:(?:the )?(?P<day>day before yesterday|day after tomorrow|yesterday|last night|tomorrow)"
    rf"|(?:a )?(?P<count>{_COUNT})(?: of)? (?P<past>{_UNITS})s? ago"
    rf"|in (?P<ahead>{_COUNT}) (?P<future>{_UNITS})s?"
    rf"|(?P<which>last|this past|past|next) (?:(?P<weekday>{'|'.join(_WEEKDAYS)})(?:day|sday|nesday|rsday|urday)?"
    rf"|(?P<weekend>weekend)|(?P<unit>week|month|year)))\b"
)
_HINTS = ("yesterday", "tomorrow", " ago", "last ", "next ", "past ", " day", " week", " month", " year")
"""One of which every expression has: looking for them in a text takes a microsecond."""
_ANCHORS = frozenset(
    ["yesterday", "tomorrow", "ago", "last", "next", "past"]
    + [word for unit in _UNITS.split("|") for word in (unit, f"{unit}s")]
)
_BEFORE, _BEHIND = 5, 2
"""Words of an expression around its anchor."""
_PUNCTUATION = str.maketrans(dict.fromkeys('.,;:!?()[]"*', " "))


def resolved_terms(text: str, said_on: date) -> list[str]:
    """Terms of the days, months and years that the text names by when it was said, without those of that day itself.

    A day gives `date_terms`, a week, month or year only what it fixes: "last year" on 8 May 2023 gives `2022`.
    """
    lowered = text[:SCANNED].lower()
    if not any(hint in lowered for hint in _HINTS):
        return []
    found = dict.fromkeys(term for terms in _named(lowered, said_on) for term in terms)
    known = date_terms(said_on) if found else []
    return [term for term in found if term not in known]


def _named(lowered: str, said_on: date) -> Iterator[list[str]]:
    words = lowered.translate(_PUNCTUATION).split()
    anchors = [place for place, word in enumerate(words) if word in _ANCHORS]
    for anchor in anchors[:MAX_EXPRESSIONS]:
        around = " ".join(words[max(0, anchor - _BEFORE) : anchor + _BEHIND])
        for match in _EXPRESSION.finditer(around):
            try:
                yield _terms(match, said_on)
            except OverflowError:  # before the first year or behind the last
                continue


def _terms(match: re.Match[str], said_on: date) -> list[str]:
    if day := match["day"]:
        return date_terms(said_on + timedelta(days=_DAYS[day]))
    if unit := match["past"]:
        return _shifted(said_on, unit, -_number(match["count"]))
    if unit := match["future"]:
        return _shifted(said_on, unit, _number(match["ahead"]))
    direction = 1 if match["which"] == "next" else -1
    if weekday := match["weekday"]:
        return date_terms(_weekday(said_on, _WEEKDAYS.index(weekday), direction))
    if match["weekend"]:
        saturday = _weekday(said_on, 5, direction)
        return [*date_terms(saturday), *date_terms(saturday + timedelta(days=1))]
    return _shifted(said_on, match["unit"], direction)


def _shifted(day: date, unit: str, count: int) -> list[str]:
    """What is fixed by so many units from a day: the day, only month and year, or only the year."""
    match unit:
        case "day":
            return date_terms(day + timedelta(days=count))
        case "week":
            return date_terms(day + timedelta(weeks=count))[1:]
        case "month":
            months = 12 * day.year + day.month - 1 + count
            return date_terms(_first_of(months // 12, months % 12 + 1))[1:]
        case _:
            return [date_terms(_first_of(day.year + count, 1))[2]]


def _first_of(year: int, month: int) -> date:
    if not 1 <= year <= 9999:
        raise OverflowError
    return date(year, month, 1)


def _weekday(day: date, weekday: int, direction: int) -> date:
    """The next such weekday before or after a day."""
    away = (day.weekday() - weekday) % 7 or 7 if direction < 0 else (weekday - day.weekday()) % 7 or 7
    return day + timedelta(days=direction * away)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS[word]
