"""The index terms of texts and queries (folded, split, stemmed words), and the part of a text that says them. Pure."""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain

import Stemmer

from projections.compression.words import MOST_KEPT, PerWord

# Lucene's English stop words, then the pronouns, auxiliaries and question words that questions are made of:
# without a list 78.9; with Snowball's own list half a point less, with modal verbs added the same.
_STOP_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with i me my we us our you your he him his she her hers its them what which who whom whose when where why how do
does did has have had been being am were from about
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
OPERATORS = frozenset(("and", "or", "not"))
"""Stop words that are no names in capitals either: people write queries with them."""
LONGEST_NAME = 12
"""Characters; a longer text that is all in capitals is shouted."""
LEADING_CHARACTERS = 80
"""Of a text, some fourteen words: what a title or a short statement says. Their stop words are indexed, so that "The
Who" and "who are we" find them: some 20 bytes a document, where those of whole texts would be a third of all terms."""
NAME = "="
"""Stands before a stop word that is written as a name, in index terms."""
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

LONGEST_WORD = 128
"""Longer runs are data (base64, hashes in a row), not words: cut here and left whole."""

# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts.
_LETTER = r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0fff\u1000-\u1049\u1780-\u17d3])"
_RUN = re.compile(rf"{_LETTER}+(?:(?:_+|::|[.\-/\\:@#]){_LETTER}+)*")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]++(?:(?:[.\-/\\:@#_]|::|__++)[A-Za-z0-9]++)*+")
_PART = re.compile(rf"{_LETTER}+")
_ASCII_PART = re.compile(r"[A-Za-z0-9]+")
_LETTERS = re.compile(r"[a-z]+")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u1049\u1780-\u17d3\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Scripts that set no spaces between words."""
_ACCENTS = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]")
_CLITICS = re.compile(r"(?<=\w)(?:['\u2019](?:s|re|ve|ll|d|m)|n['\u2019]t)\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T.*)?")
_VERSION = re.compile(r"[vV]\d+\.\d")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")


def terms(text: str) -> list[str]:
    """Index terms of a text or a query, in reading order: folded, without stop words, stemmed (Snowball English).

    An identifier or path gives itself and its parts, an ISO date also its `date_terms`, unspaced scripts their bigrams.
    A stop word in capitals, as "IT" is, is a name, unless all of a longer text is in capitals. A text of nothing but
    stop words keeps them, each also as a name.
    """
    runs = _runs(text.lower() if text.isupper() and len(text) > LONGEST_NAME else text)
    matches = [*chain.from_iterable(map(_stems_of, runs))]
    return matches or [form for run in runs for word in _words(run) for form in (word, NAME + word)]


def leading_stop_words(text: str) -> list[str]:
    """The stop words with which a text begins, each once: a question of nothing else finds it by them."""
    # not `_runs`: every text is looked at, and stop words have nothing but letters
    words = dict.fromkeys(_LETTERS.findall(text[:LEADING_CHARACTERS].lower()))
    return [word for word in words if word in STOP_WORDS]


def required_terms(text: str) -> list[str]:
    """The terms of a query whose every word must be said: of an identifier or a path only the parts.

    A text may say them with another joiner, or as the end of a longer path.
    """
    return _stemmed([word for run in _runs(text) for word in _without_whole(run, _words(run))])


def wholes(text: str) -> list[list[str]]:
    """The terms of the parts of each identifier, path, version or address of a query, in their order."""
    parts = [
        [_stem(word) for word in _without_whole(run, _words(run)) if word not in STOP_WORDS] for run in _runs(text)
    ]
    return [part for part in parts if len(part) > 1]


def date_terms(when: date) -> list[str]:
    """Terms by which a question can name the day: 8 May 2023 gives `8`, `may`, `2023`."""
    return [str(when.day), _stem(MONTHS[when.month - 1]), str(when.year)]


def _unaccented(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _runs(text: str) -> list[str]:
    if text.isascii():  # most text, in half the time
        return _ASCII_RUN.findall(_CLITICS.sub("", text) if "'" in text else text)
    return _RUN.findall(_CLITICS.sub("", _unaccented(text)))


def _stems(run: str) -> tuple[str, ...]:
    if run.isupper() and len(run) > 1 and run.lower() in STOP_WORDS - OPERATORS:
        return (NAME + run.lower(),)
    return tuple([_stem(word) for word in _words(run) if word not in STOP_WORDS])


_stems_of = PerWord(_stems).__getitem__


def _stemmed(words: Sequence[str]) -> list[str]:
    content_words = [word for word in words if word not in STOP_WORDS]
    return [_stem(word) for word in content_words or words]


def _words(run: str) -> Sequence[str]:
    """Lower-case words of a run of letters, digits and joiners: itself, and its parts when it has any.

    A version with a "v" before it is also one without.
    """
    if run[0] in "vV" and _VERSION.match(run):
        return [run.lower()[:LONGEST_WORD], *_words(run[1:])]
    if _PLAIN.fullmatch(run):
        return [run.lower()[:LONGEST_WORD]]
    if run[:1].isdigit():
        if iso_date := _ISO_DATE.fullmatch(run):
            return [iso_date[1], *_named_day(iso_date[1])]
        if ordinal := _ORDINAL.fullmatch(run):
            return [ordinal[1]]
    if run.isascii():  # most, at a third of the price
        pieces, whole, is_unspaced = _ASCII_PART.findall(run), run.lower(), False
    else:
        pieces, whole, is_unspaced = _PART.findall(run), run.casefold(), UNSPACED.search(run) is not None
    parts: list[str] = []
    for piece in pieces:
        if piece.isascii() and (piece.islower() or piece.isdigit()) and len(piece) <= LONGEST_WORD:
            parts.append(piece)
        else:
            parts += _parts(piece)
    return parts if len(whole) > LONGEST_WORD or is_unspaced or parts == [whole] else [whole, *parts]


def _without_whole(run: str, words: Sequence[str]) -> Sequence[str]:
    return words[1:] if len(words) > 1 and words[0] == run.casefold() else words


def _parts(piece: str) -> list[str]:
    if len(piece) > LONGEST_WORD:
        return [piece.casefold()[:LONGEST_WORD]]
    if UNSPACED.search(piece):
        word = piece.casefold()
        return [word[at : at + 2] for at in range(max(1, len(word) - 1))]
    return [part.casefold()[:LONGEST_WORD] for part in _CAMEL.split(piece)]


def _named_day(iso_date: str) -> list[str]:
    try:
        day = date.fromisoformat(iso_date)
    except ValueError:
        return iso_date.split("-")
    return [str(day.day), MONTHS[day.month - 1], str(day.year)]


@lru_cache(maxsize=MOST_KEPT)
def _stem(word: str) -> str:
    return _local.stem(word)


class _StemOf(threading.local):
    # a Snowball stemmer works in a buffer of its own: one per thread, or two threads overwrite each other's word
    def __init__(self) -> None:
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord  # it keeps nothing: `_stem` does


_local = _StemOf()


SNIPPET_CHARS = 240
"""Two or three sentences: enough to judge a result by."""
SCANNED = 20_000
"""Characters of a text that are looked at, from its beginning."""
KEPT_LETTERS = 20_000
"""As many characters beyond ASCII as are kept with what they are folded to."""
MOST_WORDS = 32
"""Of a query, from its beginning."""
MOST_PLACES = 20
"""Of one word: where it is said once more tells nothing new."""
LEAD = 80
"""Characters before the first match, at most, so that a snippet begins with its sentence."""

_SENTENCE_START = re.compile(r"(?<=[.!?])\s+|\n+")


def snippet(text: str, query_terms: Sequence[str], limit: int = SNIPPET_CHARS) -> str:
    """The part of a text, on one line, at most `limit` characters, where most of a query's terms are said.

    From the beginning of a sentence if one is near; what was left out before or behind is an ellipsis. A text that says
    none of the terms (`ranking.terms`, stems) is cut at its end.
    """
    text = " ".join(text[:SCANNED].split()) if len(text) <= limit else text[:SCANNED]
    if len(text) <= limit:
        return text
    start = _start(text, _best_place(text, query_terms, limit))
    end = _end(text, start, limit)
    part = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{part}{'…' if end < len(text) else ''}"


def _best_place(text: str, query_terms: Sequence[str], limit: int) -> int:
    """Where the stretch of text begins that says the most different terms, the rarer ones before the others."""
    matches = _matches(text, query_terms)
    if not matches:
        return 0
    weight = {term: 1 / places for term, places in Counter(term for _, term in matches).items()}
    distance = limit - LEAD
    best, best_weight = 0, 0.0
    first, inside = 0, Counter[str]()
    for place, term in matches:
        inside[term] += 1
        while place - matches[first][0] > distance:
            inside[matches[first][1]] -= 1
            first += 1
        said = sum(weight[one] + 1 for one, count in inside.items() if count)
        if said > best_weight:
            best, best_weight = matches[first][0], said
    return best


def _matches(text: str, query_terms: Sequence[str]) -> list[tuple[int, str]]:
    """Where words begin with the stem of a term, and which, in order."""
    lowered = text.lower() if text.isascii() else "".join(map(_folded, text))
    matches: list[tuple[int, str]] = []
    for term in dict.fromkeys(query_terms[:MOST_WORDS]):
        # "policies" is stemmed to "polici", "policy" too
        stem = term[:-1] if len(term) > 4 and term[-1] in "iy" else term
        inside = UNSPACED.match(stem) is not None
        place = lowered.find(stem)
        places = 0
        while place >= 0 and places < MOST_PLACES:
            if inside or not place or not lowered[place - 1].isalnum():
                matches.append((place, term))
                places += 1
            place = lowered.find(stem, place + len(stem))
    return sorted(matches)


@lru_cache(maxsize=KEPT_LETTERS)
def _folded(letter: str) -> str:
    return unicodedata.normalize("NFKD", letter)[:1].casefold()[:1] or letter


def _start(text: str, place: int) -> int:
    before = text[max(0, place - LEAD) : place]
    if place <= LEAD:
        return 0
    if starts := [match.end() for match in _SENTENCE_START.finditer(before)]:
        return place - len(before) + starts[-1]
    space = before.find(" ", len(before) // 2)
    return place - len(before) + space + 1 if space >= 0 else place


def _end(text: str, start: int, limit: int) -> int:
    """Where a stretch of at most `limit` characters, ellipses among them, ends: at a sentence, else at a word."""
    room = limit - (start > 0)
    if len(text) - start <= room:
        return len(text)
    stretch = text[start : start + room - 1]
    ends = [match.start() for match in _SENTENCE_START.finditer(stretch)]
    if ends and ends[-1] > room // 2:
        return start + ends[-1]
    space = stretch.rfind(" ")
    return start + (space if space > room // 2 else len(stretch))
