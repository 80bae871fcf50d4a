"""The part of a text that a query's words are in, for readers who need not see all of it. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from projections.search.terms import UNSPACED

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
    told = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{told}{'…' if end < len(text) else ''}"


def _best_place(text: str, query_terms: Sequence[str], limit: int) -> int:
    """Where the stretch of text begins that says the most different terms, the rarer ones before the others."""
    found = _matches(text, query_terms)
    if not found:
        return 0
    weight = {term: 1 / places for term, places in Counter(term for _, term in found).items()}
    key_scope = limit - LEAD
    best, best_weight = 0, 0.0
    first, inside = 0, Counter[str]()
    for place, term in found:
        inside[term] += 1
        while place - found[first][0] > key_scope:
            inside[found[first][1]] -= 1
            first += 1
        said = sum(weight[one] + 1 for one, count in inside.items() if count)
        if said > best_weight:
            best, best_weight = found[first][0], said
    return best


def _matches(text: str, query_terms: Sequence[str]) -> list[tuple[int, str]]:
    """Where words begin with the stem of a term, and which, in order."""
    lowered = text.lower() if text.isascii() else "".join(map(_folded, text))
    found: list[tuple[int, str]] = []
    for term in dict.fromkeys(query_terms[:MOST_WORDS]):
        # "policies" is stemmed to "polici", "policy" too
        stem = term[:-1] if len(term) > 4 and term[-1] in "iy" else term
        inside = UNSPACED.match(stem) is not None
        place = lowered.find(stem)
        places = 0
        while place >= 0 and places < MOST_PLACES:
            if inside or not place or not lowered[place - 1].isalnum():
                found.append((place, term))
                places += 1
            place = lowered.find(stem, place + len(stem))
    return sorted(found)


@lru_cache(maxsize=KEPT_LETTERS)
def _folded(letter: str) -> str:
    """A letter as `terms` folds it, the first one where that are several: places stay those of the text."""
    return unicodedata.normalize("NFKD", letter)[:1].casefold()[:1] or letter


def _start(text: str, place: int) -> int:
    """The beginning of the sentence that `place` is in, if it is near, else of a word before it."""
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
