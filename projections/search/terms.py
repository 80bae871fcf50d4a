"""The index terms of texts and queries (folded, split, stemmed words), and snippets of texts that say them. Pure."""

import math
import re
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import Stemmer

from ingest.names import visible
from projections.compression.words import MOST_KEPT, PerWord
from projections.kernel.module import NATIVE, native

# Lucene's English stop words, then the pronouns, auxiliaries and question words that questions are made of:
# without a list 78.9; with Snowball's own list half a point less, with modal verbs added the same.
_STOP_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with i me my we us our you your he him his she her hers its them what which who whom whose when where why how do
does did has have had been being am were from about
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
OPERATORS = frozenset(("and", "or", "not"))
"""Stop words that are not names in capitals: people write queries with them."""
LONGEST_NAME = 12
"""Characters; a longer text that is all in capitals is shouted."""
LEADING_CHARACTERS = 80
"""Of a text, some fourteen words: what a title or a short statement says. Their stop words are indexed, so that "The
Who" and "who are we" find them: some 20 bytes a document, where those of whole texts would be a third of all terms."""
NAME = "="
"""Prefix of a stop word that is written as a name, in index terms."""
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
    compiled = compiled_terms.of(text) if compiled_terms else None
    return terms_in_python(text) if compiled is None else compiled


def terms_in_python(text: str) -> list[str]:
    """The same, in Python: the specification of the compiled function."""
    runs = _runs(text.lower() if text.isupper() and len(text) > LONGEST_NAME else text)
    matches = [*chain.from_iterable(map(_stems_of, runs))]
    return matches or [form for run in runs for word in _words(run) for form in (word, NAME + word)]


query_terms_of = lru_cache(maxsize=16)(terms)
"""The terms of a query, which is read several times. Few are cached: 20,000 characters may have 20,000 terms."""
compiled_terms = native.Terms([*STOP_WORDS], [*OPERATORS]) if NATIVE else None


def leading_stop_words(text: str) -> list[str]:
    """The stop words with which a text begins, each once: a question of nothing else finds it by them."""
    # not `_runs`, for speed: every text gets here, and stop words have only letters
    words = dict.fromkeys(_LETTERS.findall(text[:LEADING_CHARACTERS].lower()))
    return [word for word in words if word in STOP_WORDS]


def says_english(text: str) -> bool:
    """Whether a text has an English stop word, or is a word or two: of what language, those do not tell."""
    words = _LETTERS.findall(text.lower())
    return len(words) <= 2 or not STOP_WORDS.isdisjoint(words)


def required_terms(text: str) -> list[str]:
    """The terms of a query whose every word must be said: of an identifier or a path only the parts.

    A text may say them with another joiner, or as the end of a longer path.
    """
    words = [word for run in _runs(text) for word in _without_whole(run, _words(run))]
    return [_stem(word) for word in [word for word in words if word not in STOP_WORDS] or words]


def wholes(text: str) -> list[list[str]]:
    """The terms of the parts of each identifier, path, version or address of a query, in their order; of a query of
    nothing but stop words all of them."""
    return [parts for parts in _parts_of_runs(text) if len(parts) > 1]


def _parts_of_runs(text: str) -> list[list[str]]:
    runs = _runs(text)
    parts = [[_stem(word) for word in _without_whole(run, _words(run)) if word not in STOP_WORDS] for run in runs]
    return parts if any(parts) else [[word for run in runs for word in _words(run)]]


_NAME = re.compile(r"[A-Za-z0-9][.\-/\\:@#_]+[A-Za-z0-9]|[0-9][A-Za-z]|[A-Za-z][0-9]|[a-z][A-Z]")
"""What words have that are the name of a file, a ticket, a host, a symbol, a version, a commit."""


def names_in(query: str) -> list[list[str]]:
    """The terms of the parts of each name, of a query that is nothing but names; else none."""
    is_name = (word.isascii() and _NAME.search(word) for word in query.split())
    return [*filter(None, _parts_of_runs(query))] if all(is_name) else []


def date_terms(when: date) -> list[str]:
    """Terms by which a question can name the day: 8 May 2023 gives `8`, `may`, `2023`."""
    return [str(when.day), _stem(MONTHS[when.month - 1]), str(when.year)]


def _runs(text: str) -> list[str]:
    if text.isascii():  # most text, in half the time
        return _ASCII_RUN.findall(_CLITICS.sub("", text) if "'" in text else text)
    unaccented = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return _RUN.findall(_CLITICS.sub("", unaccented))


def _stems(run: str) -> tuple[str, ...]:
    if run.isupper() and len(run) > 1 and run.lower() in STOP_WORDS - OPERATORS:
        return (NAME + run.lower(),)
    return tuple([_stem(word) for word in _words(run) if word not in STOP_WORDS])


_stems_of = PerWord(_stems).__getitem__


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
            try:
                day = date.fromisoformat(iso_date[1])
            except ValueError:
                return [iso_date[1], *iso_date[1].split("-")]
            return [iso_date[1], str(day.day), MONTHS[day.month - 1], str(day.year)]
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


class _Stemmer(threading.local):
    # a Snowball stemmer works in a buffer of its own: one per thread, or two threads overwrite each other's word
    def __init__(self) -> None:
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord  # without a cache: `_stem` has one


_local = _Stemmer()


@lru_cache(maxsize=MOST_KEPT)
def _stem(word: str) -> str:
    return _local.stem(word)


SNIPPET_CHARS = 240
"""Two or three sentences: enough to judge a result by."""
SCANNED = 20_000
"""Characters of a text that are searched, from its beginning."""
MOST_WORDS, MOST_PLACES = 32, 20
"""The first words of a query, and the first places of each in a text: further ones add nothing."""
_WEIGHT = math.lcm(*range(1, MOST_PLACES + 1))
"""Of a word of a query. Divisible by all counts of places: sums of whole numbers are the same everywhere."""
LEAD = 80
"""Characters before the first match, at most, so that a snippet begins with its sentence."""

SENTENCE_GAP = r"(?<=[.!?])\s+|(?<=[。！？])\s*(?=[^\s。！？」』”’）])"
_SENTENCE_START = re.compile(rf"{SENTENCE_GAP}|\n+")


def snippet(text: str, query_terms: Sequence[str], limit: int = SNIPPET_CHARS) -> str:
    """The part of a text, on one line, at most `limit` characters, where most of a query's terms are said.

    It begins with a sentence if possible; an ellipsis marks what was cut before or after. A text that says none of the
    terms (stems) is cut at its end. `limit` is at least 2.
    """
    text = visible(text[:SCANNED])
    if len(text) <= limit:
        return " ".join(text.split())
    compiled = native.stretch(text, query_terms, limit) if NATIVE else None
    start, end = compiled or stretch_in_python(text, query_terms, limit)
    part = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{part}{'…' if end < len(text) else ''}"


def stretch_in_python(text: str, query_terms: Sequence[str], limit: int) -> tuple[int, int]:
    """Where the snippet of a longer text begins and ends. The specification of the compiled function."""
    start = _best_place(text, query_terms, limit)
    before = text[max(0, start - LEAD) : start]
    if start <= LEAD:
        start = 0
    elif sentences := [match.end() for match in _SENTENCE_START.finditer(before)]:
        start += sentences[-1] - len(before)
    elif (space := before.find(" ", len(before) // 2)) >= 0:
        start += space + 1 - len(before)
    # at most `limit` characters, ellipses included; the end of a sentence, else of a word
    room, end = limit - (start > 0), len(text)
    if end - start > room:
        stretch = text[start : start + room - 1]
        ends = [match.start() for match in _SENTENCE_START.finditer(stretch)]
        cuts = [ends[-1] if ends else 0, stretch.rfind(" "), len(stretch)]
        end = start + next(cut for cut in cuts if cut > room // 2 or cut == len(stretch))
    return start, end


def _best_place(text: str, query_terms: Sequence[str], limit: int) -> int:
    """Where the stretch of text begins that says the most different terms, the rarer ones before the others."""
    matches: list[tuple[int, str]] = []
    lowered = text.lower() if text.isascii() else folded(text)
    for term in dict.fromkeys(query_terms[:MOST_WORDS]):
        # "policies" and "policy" are both stemmed to "polici"
        stem = term[:-1] if len(term) > 4 and term[-1] in "iy" else term
        inside = UNSPACED.match(stem) is not None
        starts = (match.start() for match in re.finditer(re.escape(stem), lowered))
        words = ((start, term) for start in starts if inside or not start or not lowered[start - 1].isalnum())
        matches += islice(words, MOST_PLACES)
    if not matches:
        return 0
    matches.sort()
    weight = {term: _WEIGHT // places for term, places in Counter(term for _, term in matches).items()}
    distance = max(0, limit - LEAD)
    best, best_weight = 0, 0
    first, inside = 0, Counter[str]()
    for place, term in matches:
        inside[term] += 1
        while place - matches[first][0] > distance:
            inside[matches[first][1]] -= 1
            first += 1
        total = sum(weight[term] + _WEIGHT for term, count in inside.items() if count)
        if total > best_weight:
            best, best_weight = matches[first][0], total
    return best


_FOLDED = np.zeros(sys.maxunicode + 1, np.uint32)
"""Of each letter that was met, its fold; the rest takes no memory."""


def folded(text: str) -> str:
    """The folds of all letters, a letter each."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    for code in {*codes[_FOLDED[codes] == 0].tolist()}:
        _FOLDED[code] = ord(folded_letter(chr(code)))
    return _FOLDED[codes].tobytes().decode("utf-32-le", "surrogatepass")


def folded_letter(letter: str) -> str:
    return (unicodedata.normalize("NFKD", letter)[:1].casefold()[:1] if letter.isalnum() else "") or letter
