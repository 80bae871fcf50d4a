"""The index terms of texts and queries (folded, split, stemmed words), and snippets of texts that say them. Pure."""

import math
import re
import sys
import threading
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import Stemmer

from ingest.names import visible
from projections.kernel.module import native
from projections.text.words import MOST_KEPT, PerWord

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

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("scripts.toml").read_text("utf-8"))
_HAN = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED = rf"\u0e00-\u0eff\u1000-\u1049\u1780-\u17d3\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff{_HAN}"
UNSPACED = re.compile(f"[{_UNSPACED}]")
"""Scripts that set no spaces between words."""
_HANGUL = _TABLES["letters"]["korean"]
_STRONG, _WEAK = ("|".join(words.split()) for words in _TABLES["particles"].values())
_PARTICLES = f"(?:{_STRONG}|{_WEAK})"
# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts.
_SPACED = rf"[^\W_{_UNSPACED}{_HANGUL}]++(?:[\w\u0900-\u0963\u0966-\u0dff\u0f00-\u0fff](?<![_{_UNSPACED}{_HANGUL}]))*+"
# Without skin tones, the signs that join an emoji of several, and what tools draw lists and tables with.
_PICTOGRAPH = (
    r"\u231a\u231b\u23e9-\u23fa\u2600-\u26ff\u2705-\u2728\u274c-\u2757\u2763\u2764\u2795-\u2797\u27a1\u2b50\u2b55"
    r"\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff"
)
_PICTOGRAPHS, _CHARACTER = re.compile(f"[{_PICTOGRAPH}]"), re.compile(f"[{_HAN}{_PICTOGRAPH}]")
# A word ends where another script begins, as in "Redis를" or "用户的JWT": the particle says nothing.
_RUN = re.compile(
    rf"({_SPACED}(?:(?:[.\-/\\:@#_]|::|__++){_SPACED})*+|(?! )(?:[{_UNSPACED}]+|[{_HANGUL}]+))"
    rf"(?:(?=[{_HANGUL}])(?<=[A-Za-z0-9]){_PARTICLES}++(?![{_HANGUL}]))?"
)
_ASCII_RUN = re.compile(r"[A-Za-z0-9]++(?:(?:[.\-/\\:@#_]|::|__++)[A-Za-z0-9]++)*+")
_PART = re.compile(_SPACED)
_ASCII_PART = re.compile(r"[A-Za-z0-9]+")
_LETTERS = re.compile(r"[a-z]+")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INSIDE = re.compile(r" (?<=[a-z0-9,;)] )[A-Z][a-z]+\b(?! [A-Z])")
"""A word with a capital inside a sentence that is not all in such words, with the space before it."""
# not the breve of the Cyrillic short i, which is a letter
_ACCENTS = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u065f](?<![\u0418\u0438]\u0306)")
_CLITICS = re.compile(r"(?<=\w)(?:['\u2019](?:s|re|ve|ll|d|m)|n['\u2019]t)\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T.*)?")
_VERSION = re.compile(r"[vV]\d+\.\d")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
_DOT = re.compile(r"(?<=[0-9])\.(?=[0-9])")
_ELEMENT_END, _NAME_END = re.compile(r"[/\\#:]"), re.compile(r"[/\\#:.]")


def terms(text: str) -> list[str]:
    """Index terms of a text or a query, in reading order: folded, without stop words, stemmed (Snowball English).

    An identifier or path gives itself and its parts, with their stop words as names, and its elements that have parts
    (`auth.py` of `src/auth.py`); a version its beginnings, an ISO date also its `date_terms`. Unspaced scripts give
    their bigrams. Pictographs are terms, after all words.
    A stop word in capitals, as "IT" is, is a name, unless all of a longer text is in capitals; so is one with a capital
    inside a sentence ("ask Will"). A text of nothing but stop words keeps them, each also as a name.
    """
    return word_terms(text) + ([] if text.isascii() else _PICTOGRAPHS.findall(text))


def word_terms(text: str) -> list[str]:
    """The terms without pictographs."""
    compiled = compiled_terms.of(text)
    return terms_in_python(text) if compiled is None else compiled


def terms_in_python(text: str) -> list[str]:
    """The terms without pictographs, in Python: the specification of the compiled function."""
    text = _plain(text.lower() if text.isupper() and len(text) > LONGEST_NAME else text)
    matches = _stems_in(_INSIDE.sub(_as_name, text))
    if any(not match.startswith(NAME) for match in matches):
        return matches
    return _stems_in(text) or [form for run in _split(text) for word in _words(run)[1] for form in (word, NAME + word)]


query_terms_of = lru_cache(maxsize=16)(terms)
"""The terms of a query, which is read several times. Few are cached: 20,000 characters may have 20,000 terms."""
compiled_terms = native.Terms([*STOP_WORDS], [*OPERATORS])


def leading_stop_words(text: str) -> list[str]:
    """The stop words with which a text begins, each once: a question of nothing else finds it by them."""
    # not `_split`, for speed: every text gets here, and stop words have only letters
    words = dict.fromkeys(_LETTERS.findall(text[:LEADING_CHARACTERS].lower()))
    return [word for word in words if word in STOP_WORDS]


def says_english(text: str) -> bool:
    """Whether a text has an English stop word, or is a word or two: of what language, those do not tell."""
    words = _LETTERS.findall(text.lower())
    return len(words) <= 2 or not STOP_WORDS.isdisjoint(words)


def single_characters(text: str) -> list[str]:
    """The Chinese characters and pictographs of a text, each once: a question of one character finds it by them.

    Only texts have all Chinese ones: in questions they would make half of the words mean little. Other scripts have
    hardly a word of one character. A text of 100 characters gets some 80 more terms, about as many as bigrams; to look
    for the bigrams that begin with a character, and index only the last one of each run, would take a search by prefix.
    """
    return [] if text.isascii() else list(dict.fromkeys(_CHARACTER.findall(text)))


def required_terms(text: str) -> list[str]:
    """The terms of a query whose every word must be said: of an identifier or a path only the parts.

    A text may say them with another joiner, or as the end of a longer path.
    """
    words = [word for run in _split(_plain(text)) for word in _words(run)[1]]
    return [_stem(word) for word in [word for word in words if word not in STOP_WORDS] or words]


def wholes(text: str) -> list[list[str]]:
    """The terms of the parts of each identifier, path, version or address of a query, in their order; of a query of
    nothing but stop words all of them."""
    return [parts for parts in _parts_of_runs(text) if len(parts) > 1]


def _parts_of_runs(text: str) -> list[list[str]]:
    words = [_words(run)[1] for run in _split(_plain(text))]
    parts = [*map(_kept, words)]
    return parts if any(parts) else [[*chain.from_iterable(words)]]


_NAME = re.compile(r"[A-Za-z0-9][.\-/\\:@#_]+[A-Za-z0-9]|[0-9][A-Za-z]|[A-Za-z][0-9]|[a-z][A-Z]")
"""What words have that are the name of a file, a ticket, a host, a symbol, a version, a commit."""


def names_in(query: str) -> list[list[str]]:
    """The terms of the parts of each name, of a query that is nothing but names and pictographs; else none."""
    for word in query.split():
        has_letters = any(map(str.isalnum, word))
        if has_letters and not (word.isascii() and _NAME.search(word)):
            return []
    return [*filter(None, _parts_of_runs(query)), *([sign] for sign in _PICTOGRAPHS.findall(query))]


def date_terms(when: date) -> list[str]:
    """Terms by which a question can name the day: 8 May 2023 gives `8`, `may`, `2023`."""
    return [str(when.day), _stem(MONTHS[when.month - 1]), str(when.year)]


def _plain(text: str) -> str:
    """The text without accents and clitics."""
    if text.isascii():  # most text, in half the time
        return _CLITICS.sub("", text) if "'" in text else text
    unaccented = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return _CLITICS.sub("", unaccented)


def _split(text: str) -> list[str]:
    return (_ASCII_RUN if text.isascii() else _RUN).findall(text)


def _as_name(word: re.Match[str]) -> str:
    return word[0].upper() if word[0][1:].lower() in STOP_WORDS else word[0]


def _stems_in(text: str) -> list[str]:
    return [*chain.from_iterable(map(_stems_of, _split(text)))]


def _stems(run: str) -> tuple[str, ...]:
    if run.isupper() and len(run) > 1 and run.lower() in STOP_WORDS - OPERATORS:
        return (NAME + run.lower(),)
    joined, parts = _words(run)
    return tuple(_kept(parts, joined))


_stems_of = PerWord(_stems).__getitem__


def _kept(parts: Sequence[str], joined: Sequence[str] = ()) -> list[str]:
    """The stems of words; a stop word is left out, or a name if it is one of several parts."""
    words = (word for word in (*joined, *parts) if len(parts) > 1 or word not in STOP_WORDS)
    return [NAME + word if word in STOP_WORDS else _stem(word) for word in words]


def _words(run: str) -> tuple[Sequence[str], list[str]]:
    """Lower-case words of a run of letters, digits and joiners: forms in which it may be named whole, and its parts.

    A word without parts is its only part. A version with a "v" before it is also one without.
    """
    if _PLAIN.fullmatch(run):
        return (), [run.lower()[:LONGEST_WORD]]
    if run[0] in "vV" and _VERSION.match(run):
        joined, parts = _words(run[1:])
        return [run.lower()[:LONGEST_WORD], *joined], parts
    if iso_date := _ISO_DATE.fullmatch(run):
        return [iso_date[1]], _date_words(iso_date[1])
    if ordinal := _ORDINAL.fullmatch(run):
        return (), [ordinal[1]]
    if run.isascii():  # most, at a third of the price
        pieces, whole = _ASCII_PART.findall(run), run.lower()
    else:
        pieces, whole = _PART.findall(run) or [run], run.casefold()
    parts: list[str] = []
    for piece in pieces:
        if piece.isascii() and (piece.islower() or piece.isdigit()) and len(piece) <= LONGEST_WORD:
            parts.append(piece)
        else:
            parts += _parts(piece)
    return () if parts == [whole] or UNSPACED.match(run) else _joined(whole), parts


def _date_words(iso_date: str) -> list[str]:
    try:
        day = date.fromisoformat(iso_date)
    except ValueError:
        return iso_date.split("-")
    return [str(day.day), MONTHS[day.month - 1], str(day.year)]


def _joined(whole: str) -> list[str]:
    """The forms in which a run of several parts may be named: itself, the beginnings of a version, and the elements of
    a path or qualified name, and their names, that have parts."""
    forms = [part for part in _ELEMENT_END.split(whole) if "." in part]
    forms += [part for part in _NAME_END.split(whole) if "_" in part or "-" in part]
    forms = [form[:LONGEST_WORD] for form in forms if form != whole]
    if len(whole) > LONGEST_WORD:
        return forms
    return [whole, *[whole[: dot.start()] for dot in _DOT.finditer(whole)][1:], *forms]


def _parts(piece: str) -> list[str]:
    word = piece.casefold()
    if UNSPACED.match(piece):
        return [word[at : at + 2] for at in range(max(1, len(word) - 1))]
    if len(piece) > LONGEST_WORD:
        return [word[:LONGEST_WORD]]
    return [part.casefold()[:LONGEST_WORD] for part in _CAMEL.split(piece)]


class _Stemmers(threading.local):
    # a Snowball stemmer works in a buffer of its own: one per thread, or two threads overwrite each other's word
    def __init__(self) -> None:
        # without caches: `_stem` has one
        self.of: dict[str, Callable[[str], str]] = {
            language: partial(_AFFIXES[language].sub, "")
            if language in _AFFIXES
            else Stemmer.Stemmer(language, 0).stemWord
            for language in ("english", *_TABLES["letters"])
        }


_AFFIXES = {
    "arabic": re.compile(_TABLES["affixes"]["arabic"]),
    "korean": re.compile(rf"(?:(?<=\w\w){_PARTICLES}|(?<=\w)(?:{_STRONG})){_PARTICLES}*+\Z"),
}
_LANGUAGE = re.compile("|".join(rf"(?P<{language}>[{letters}]\Z)" for language, letters in _TABLES["letters"].items()))
_local = _Stemmers()


@lru_cache(maxsize=MOST_KEPT)
def _stem(word: str) -> str:
    letter = None if word.isascii() else _LANGUAGE.search(word)
    return _local.of[(letter and letter.lastgroup) or "english"](word) or word


SNIPPET_CHARS = 240
"""Two or three sentences: enough to judge a result by."""
SCANNED = 64_000
"""Characters of a text that are searched, from its beginning."""
MOST_WORDS, MOST_PLACES = 32, 20
"""The first words of a query, and the first places of each in a text: further ones add nothing."""
_WEIGHT = math.lcm(*range(1, MOST_PLACES + 1))
"""Of a word of a query. Divisible by all counts of places: sums of whole numbers are the same everywhere."""
LEAD = 120
"""Characters before the first match, at most, and no more than half of the snippet, so that it begins with its
sentence. With 80, and cut at the end of a sentence in the second half, snippets of long texts have 74 % of the words of
answers instead of 79, on seven kinds of history, and 86 instead of 91 on LoCoMo. Whole sentences from different places
are as good, at twice the code."""
CUT_FROM = 0.8
"""Share of a snippet's room from which it is cut at the end of a sentence, else of a word."""

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
    # the compiled function does not see pictographs
    compiled = native.stretch(text, query_terms, limit) if all(map(str.isascii, query_terms)) else None
    start, end = compiled or stretch_in_python(text, query_terms, limit)
    part = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{part}{'…' if end < len(text) else ''}"


def stretch_in_python(text: str, query_terms: Sequence[str], limit: int) -> tuple[int, int]:
    """Where the snippet of a longer text begins and ends. The specification of the compiled function."""
    start = _best_place(text, query_terms, limit)
    lead = min(LEAD, limit // 2)
    before = text[max(0, start - lead) : start]
    if start <= lead:
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
        end = start + next(cut for cut in cuts if cut > int(CUT_FROM * room) or cut == len(stretch))
    return start, end


def _best_place(text: str, query_terms: Sequence[str], limit: int) -> int:
    """Where the stretch of text begins that says the most different terms, the rarer ones before the others."""
    matches: list[tuple[int, str]] = []
    lowered = text.lower() if text.isascii() else folded(text)
    for term in dict.fromkeys(query_terms[:MOST_WORDS]):
        # "policies" and "policy" are both stemmed to "polici"
        stem = folded(term[:-1] if len(term) > 4 and term[-1] in "iy" else term)
        inside = UNSPACED.match(stem) is not None
        starts = (match.start() for match in re.finditer(re.escape(stem), lowered))
        words = ((start, term) for start in starts if inside or not start or not lowered[start - 1].isalnum())
        matches += islice(words, MOST_PLACES)
    if not matches:
        return 0
    matches.sort()
    weight = {term: _WEIGHT // places for term, places in Counter(term for _, term in matches).items()}
    distance = limit - min(LEAD, limit // 2)
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
