"""The days that a text names relative to its own date, and the time that a question names relative to now.

Guarantee: pure functions of the text and the time, so a replay resolves what the live projection did.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ingest.patterns import which_match
from projections.text.terms import STOP_WORDS, UNSPACED, date_terms

Span: TypeAlias = tuple[int, int]
"""From a moment up to another, in ms since the epoch."""

SCANNED = 4_000
"""Characters of a text that are searched, from its beginning: longer texts are mostly tool output."""
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
HINTS = ("yesterday", "tomorrow", " ago", "last ", "next ", "past ", " day", " week", " month", " year")
"""One of which every expression has: looking for them in a text takes a microsecond."""
ANCHORS = frozenset(
    ["yesterday", "tomorrow", "ago", "last", "next", "past"]
    + [word for unit in _UNITS.split("|") for word in (unit, f"{unit}s")]
)
_BEFORE, _BEHIND = 5, 2
"""Words of an expression around its anchor."""
_PUNCTUATION = str.maketrans(dict.fromkeys('.,;:!?()[]"*', " "))


def resolved_terms(times: Sequence[str], said_on: date) -> list[str]:
    """Terms of the days, months and years that `times_in` a text name by when it was said, without those of that day.

    A day gives `date_terms`, a week, month or year only what it fixes: "last year" on 8 May 2023 gives `2022`.
    """
    named: dict[str, None] = {}
    for match in chain.from_iterable(map(_EXPRESSION.finditer, times)):
        with suppress(OverflowError):  # before the first year or after the last
            named |= dict.fromkeys(_terms(match, said_on))
    own = date_terms(said_on) if named else []
    return [term for term in named if term not in own]


def times_in(text: str) -> list[str]:
    """The words around each place that may name a time, in small letters."""
    lowered = text[:SCANNED].lower()
    if not any(hint in lowered for hint in HINTS):
        return []
    words = lowered.translate(_PUNCTUATION).split()
    anchors = [place for place, word in enumerate(words) if word in ANCHORS]
    return [" ".join(words[max(0, anchor - _BEFORE) : anchor + _BEHIND]) for anchor in anchors[:MAX_EXPRESSIONS]]


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
    """The terms of so many units from a day: of the day, only month and year, or only the year."""
    match unit:
        case "day":
            return date_terms(day + timedelta(days=count))
        case "week":
            return date_terms(day + timedelta(weeks=count))[1:]
        case "month":
            return date_terms(_month(day, count))[1:]
        case _:
            return [date_terms(_first_of(day.year + count, 1))[2]]


def _month(day: date, away: int) -> date:
    months = 12 * day.year + day.month - 1 + away
    return _first_of(months // 12, months % 12 + 1)


def _first_of(year: int, month: int) -> date:
    if not 1 <= year <= 9999:
        raise OverflowError
    return date(year, month, 1)


def _weekday(day: date, weekday: int, direction: int) -> date:
    away = (day.weekday() - weekday) % 7 or 7 if direction < 0 else (weekday - day.weekday()) % 7 or 7
    return day + timedelta(days=direction * away)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS[word]


class NamedTime(NamedTuple):
    """The time that a question names, from `from_ms` up to and without `to_ms`, and what else it asks."""

    from_ms: int
    to_ms: int
    rest: str
    """The question without the words that name the time."""
    only: bool
    """Whether the question asks for nothing else: "what did we do yesterday?"."""
    dates: Sequence[Sequence[str]] = ()
    """Index terms by which a text names a date of this time, one after the other; none for a time of many dates."""


LONGEST_QUESTION = 1_000
"""Characters. A longer text is a document: its dates are not those of the question."""
FEW = 3
HOUR_MS = 3_600_000
DATES_OF_DAYS = 7
"""Days of a time up to which texts are searched for the date of each."""
_END_MS = 253_370_764_800_000
"""The year 9999, for a time without an end."""

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("time_words.toml").read_text("utf-8"))
_WORDS: dict[str, Any] = _TABLES.pop("single") | {"questions": _TABLES.pop("questions")}
_ASKING = STOP_WORDS.union(_WORDS["asking"].split())


def without_middle(question: str) -> str:
    """Return the beginning and the end of a question longer than LONGEST_QUESTION: it asks in one of them, probably."""
    half = LONGEST_QUESTION // 2
    return question[:half] + question[half:][-half:]


def named_time(text: str, now: datetime, zone: tzinfo) -> NamedTime | None:
    """The time that a question names, asked at `now` in a zone; None without one.

    Of several times within each other the shortest, of others from the first to the last. A date without a year is the
    last such date, "03/04/2026" is the 3rd of April, a week begins on Monday.
    """
    if len(text) > LONGEST_QUESTION:
        return None
    text = unicodedata.normalize("NFC", text)
    likely = _likely_in(text.encode()) if text.isascii() and text.isprintable() else range(len(_QUESTIONS))
    if not likely or not _HINT.search(text):
        return None
    clock, spans, rest = _Clock(now, zone), list[Span](), text
    for number, (pattern, resolve) in enumerate(_QUESTIONS):
        for match in pattern.finditer(rest) if spans or number in likely else ():
            before = _before(match)
            if len(spans) == MAX_EXPRESSIONS or _UNTIL.search(before) or _UNTIL_BEHIND.match(rest, match.end()):
                continue
            is_open = _SINCE.search(before) or _SINCE_BEHIND.match(rest, match.end())
            try:
                span = resolve(match, clock, spans)
            except (OverflowError, ValueError):  # no such date
                continue
            if span is not None:
                spans.append((span[0], _END_MS) if is_open else span)
                rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    if not spans:
        return None
    first, last = spans[0]
    for begin, end in spans[1:]:
        inner = max(first, begin), min(last, end)
        first, last = inner if inner in ((first, last), (begin, end)) else (min(first, begin), max(last, end))
    words = re.findall(r"\w+", _ASKING_UNSPACED.sub(" ", rest.casefold()))
    return NamedTime(first, last, " ".join(rest.split()), _ASKING.issuperset(words), clock.dates(first, last))


def _before(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - 24) : match.start()]


class _Clock(NamedTuple):
    """When and where a question is asked; makes spans in ms of what it names."""

    now: datetime
    zone: tzinfo

    @property
    def now_ms(self) -> int:
        return round(self.now.timestamp() * 1000)

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()

    def at(self, day: date, hour: int = 0) -> int:
        """The moment of a day; that of the jump if the clock jumps over it, and of two the first."""
        local = datetime.combine(day + timedelta(days=hour // 24), time(hour % 24), self.zone)
        return round(local.timestamp() * 1000)

    def days(self, first: date, count: int = 1) -> Span:
        return self.at(first), self.at(first, 24 * count)

    def hours(self, day: date, hours: str) -> Span:
        """A part of a day, by its first hour and the one that ends it; all of it for none."""
        begin, _, end = hours.partition("-")
        return self.at(day, int(begin or 0)), self.at(day, int(end or 24))

    def unit(self, unit: str, away: int, count: int = 1) -> Span:
        """So many calendar units, the first of them so many from today's; hours around so many from now."""
        today = self.today
        match unit:
            case "hour":
                first = self.now_ms + HOUR_MS * away - HOUR_MS // 2
                return first, first + HOUR_MS * count
            case "day":
                return self.days(today + timedelta(days=away), count)
            case "week":
                return self.days(today + timedelta(days=7 * away - today.weekday()), 7 * count)
            case "weekend":
                return self.days(today + timedelta(days=7 * away + 5 - today.weekday()), 2)
            case "month":
                return self.at(_month(today, away)), self.at(_month(today, away + count))
            case _:
                return self.at(_first_of(today.year + away, 1)), self.at(_first_of(today.year + away + count, 1))

    def until_now(self, unit: str, count: int) -> Span:
        """The last so many units, with today; hours up to now."""
        if unit == "hour":
            return self.now_ms - HOUR_MS * count, self.now_ms
        first = self.today - timedelta(weeks=count) if unit == "week" else None
        return self.at(first) if first else self.unit(unit, -count)[0], self.at(self.today, 24)

    def date(self, month: int, day: int, year: int) -> Span:
        """A day, or a month where the day is 0; without a year the last one that has begun."""
        first = date(year or self.today.year, month, day or 1)
        if not year and first > self.today:
            first = date(first.year - 1, month, day or 1)
        return self.days(first) if day else (self.at(first), self.at(_month(first, 1)))

    def dates(self, first: int, last: int) -> Sequence[Sequence[str]]:
        """The terms of each of a few days, of a month, or of a year."""
        begin, end = (datetime.fromtimestamp(ms / 1000, self.zone).date() for ms in (first, max(first, last - 1)))
        days = (end - begin).days + 1
        if days <= DATES_OF_DAYS:
            return [date_terms(begin + timedelta(days=away)) for away in range(days)]
        if begin.day == 1 and _month(begin, 1) == end + timedelta(days=1):
            return [date_terms(begin)[1:]]
        return [date_terms(begin)[2:]] if begin.timetuple().tm_yday == 1 and days in (365, 366) else []


def _by_numbers(match: re.Match[str], clock: _Clock, _: Sequence[Span]) -> Span:
    year, month, day = (int(_part(match, name) or 0) for name in ("year", "month", "day"))
    if not month:
        return clock.unit("year", year - clock.today.year)
    return clock.date(month, day, year) if month <= 12 else clock.date(day, month, year)  # as Americans write it


def _by_month(match: re.Match[str], clock: _Clock, _: Sequence[Span]) -> Span | None:
    word, day, lead = match["month"], _part(match, "day"), _is("before_months", _last_word(match["lead"]))
    if not (day or match["year"] or lead):
        return None
    if _is("other_senses", word) and not (match["lead"] or match["year"]) and (word.islower() or not match.start()):
        return None
    return clock.date(int(_value("months", word)), int(day or 0), int(match["year"] or 0))


def _by_count(match: re.Match[str], clock: _Clock, _: Sequence[Span]) -> Span:
    unit, word = _value("units", _part(match, "unit")), _part(match, "count") or "1"
    count = int(word) if word.isdecimal() else int(_value("counts", word))
    if "recent" in match.re.groupindex:
        return clock.until_now(unit, count or FEW)
    return clock.unit(unit, -count) if count else clock.unit(unit, -FEW - 2, FEW + 1)


def _by_day(match: re.Match[str], clock: _Clock, _: Sequence[Span]) -> Span | None:
    if match["day"].lower() == "hier" and not _FRENCH.search(match.string):
        return None
    away, *hours = _value("days", match["day"]).split()
    return clock.hours(clock.today + timedelta(days=int(away)), *hours or [_value("parts", match["part"])])


def _by_unit(match: re.Match[str], clock: _Clock, _: Sequence[Span]) -> Span:
    unit, away = _value("units", _part(match, "unit")), int(_value("which", _part(match, "which")))
    return clock.until_now(unit, 1) if unit == "hour" and away < 0 else clock.unit(unit, away)


def _by_weekday(match: re.Match[str], clock: _Clock, others: Sequence[Span]) -> Span | None:
    """Of the week that is named, else the last such day before today, or the next one."""
    word, which = match["weekday"], _part(match, "which")
    in_week = next((span for span in others for away in (-1, 0, 1) if span == clock.unit("week", away)), None)
    named = which or in_week or _is("before_weekdays", _last_word(match["lead"])) or _SINCE.search(_before(match))
    if not named and word.isascii() and not _FRENCH.search(match.string):
        return None
    weekday, away = int(_value("weekdays", word)), int(_value("which", which)) if which else -1
    day = _weekday(clock.today, weekday, 1 if away > 0 else -1)
    if in_week:
        day = datetime.fromtimestamp(in_week[0] / 1000, clock.zone).date() + timedelta(days=weekday)
    elif which and (away == 0 or UNSPACED.search(which)):
        day = clock.today + timedelta(days=7 * away + weekday - clock.today.weekday())
    return clock.hours(day, _value("parts", match["part"]))


def _part(match: re.Match[str], name: str) -> str:
    """The match of the groups with this name (underscores may follow); empty without one."""
    return next((named for group, named in match.groupdict().items() if named and group.rstrip("_") == name), "")


def _last_word(text: str) -> str:
    return text.split()[-1] if text else ""


def _is(words: str, word: str) -> bool:
    return re.fullmatch(_WORDS[words], word, re.IGNORECASE) is not None


def _value(table: str, word: str | None) -> str:
    """The value of a word in a table; empty without one."""
    named = _TABLES[table].items() if word else ()
    return next((value for value, words in named if re.fullmatch(words, word or "", re.IGNORECASE)), "")


def _any(*alternatives: str) -> str:
    """A pattern of any of the words; of a script with spaces only whole ones."""
    words = [word for some in alternatives for word in re.split(r"\|(?![^(]*\))", some)]
    unspaced = [word for word in words if UNSPACED.search(word)]
    spaced = "|".join(word for word in words if word not in unspaced)
    return "|".join([rf"(?<!\w)(?:{spaced})(?!\w)", *unspaced])


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<([A-Z]+)>", lambda name: _NAMED[name[1]], text), re.IGNORECASE)


_NAMED = {
    **{name.rstrip("s").upper(): f"(?:{_any(*table.values())})" for name, table in _TABLES.items()},
    "COUNT": rf"(?:\d{{1,3}}|{_any(*_TABLES['counts'].values())})",
    "RECENT": f"(?:{_any(_WORDS['recent'])})",
    "YEAR": r"(?:19|20)\d\d",
    "LEAD": rf"(?P<lead>(?:(?<!\w)(?:{_WORDS['before_times']})\s+){{0,2}})",
    "DAYPART": rf"(?:\s*(?:(?:in the|por la|en la|a la)\s|的|の)?\s*(?P<part>{_any(*_TABLES['parts'].values())}))?",
}
_HINT = _pattern(r"\d|<DAY>|<WEEKDAY>|<MONTH>|<UNIT>")
_SINCE, _UNTIL = (re.compile(rf"(?<!\w)(?:{_WORDS[name]})\s*$", re.IGNORECASE) for name in ("since", "until"))
_SINCE_BEHIND, _UNTIL_BEHIND = re.compile(_WORDS["since_behind"]), re.compile(_WORDS["until_behind"])
_FRENCH = re.compile(_WORDS["french"], re.IGNORECASE)
_ASKING_UNSPACED = re.compile(_WORDS["asking_unspaced"])
_RULES: dict[str, Callable[[re.Match[str], _Clock, Sequence[Span]], Span | None]] = {
    "numbers": _by_numbers, "month": _by_month, "count": _by_count, "day": _by_day, "unit": _by_unit,
    "weekday": _by_weekday,
}  # fmt: skip
_QUESTIONS = [(_pattern(rule["pattern"]), _RULES[rule["by"]]) for rule in _WORDS["questions"]]
_LOOK_AROUND = re.compile(r"\(\?<?[!=](?:\[[^\]]*\]|\\.|[^()\[\\])*\)")


def _wider(pattern: str) -> str:
    """For RE2, which knows no look-around and no references: matches wherever the pattern does in ASCII, or more."""
    return "(?i)" + re.sub(r"\\[1-9]", ".", _LOOK_AROUND.sub("", re.sub(r"\(\?<?!\\w\)", r"\\b", pattern)))


_likely_in = which_match([_wider(pattern.pattern) for pattern, _ in _QUESTIONS])
"""Which of the questions' patterns may match, by number, in 2 microseconds; trying them all takes up to 300."""
