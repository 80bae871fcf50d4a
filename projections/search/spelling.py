"""Words of a query that nothing says, as the words that were probably meant.

Only documents that the query may find are looked at, so what a correction tells is told by them alone.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from projections.search.candidates import Candidates

SHORTEST = 4
"""Letters of a stem; a shorter one has too many words near it."""
SWAPPED_UP_TO = 5
"""Letters up to which only two swapped ones are taken for a slip: "react" is not "reach"."""
TWO_FROM = 8
"""Letters from which two may be wrong."""
NEAR_NAMES = 3
NAMES_COMPARED, LONGEST_NAME = 2_000, 64
"""Names that one is compared with, and letters of each: a tenth of a second at most."""
MOST_CORRECTED = 4
"""Words of one query: each costs a look through the dictionary of the index."""


def corrected(candidates: Candidates, query_terms: Sequence[str], unsaid: Iterable[str]) -> list[str]:
    """The terms of a query; for one that no matching document says, the nearest that one says.

    `unsaid` are those that none of the query's candidates say. Of equally near ones that stands which most of the
    documents looked at say.
    """
    slips = [term for term in unsaid if len(term) >= SHORTEST and term.isalpha()][:MOST_CORRECTED]
    instead = {term: _meant(candidates, term) for term in slips if not candidates.by_words([term], 1)}
    return [instead.get(term, term) for term in query_terms]


def _meant(candidates: Candidates, term: str) -> str:
    """The term it was probably meant for, one letter away rather than two; itself where there is none like it."""
    for letters in range(1, _most_wrong(term) + 1):
        like = Counter(one for said in candidates.like(term, letters) for one in said if is_slip(term, one))
        if like:
            return min(like, key=lambda one: (edits(term, one), -like[one], one))
    return term


def _most_wrong(term: str) -> int:
    return 2 if len(term) >= TWO_FROM else 1


def is_slip(term: str, other: str) -> bool:
    """Whether a term may be another one with a letter or two mistaken; the first is right."""
    if term[0] != other[:1] or not other.isalpha() or abs(len(term) - len(other)) > 2:
        return False
    if len(term) <= SWAPPED_UP_TO:
        return sorted(term) == sorted(other) and edits(term, other) == 1
    return edits(term, other) <= _most_wrong(term)


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to NEAR_NAMES of the first NAMES_COMPARED that differ from a name by case, Unicode form or some letters, or
    contain it; the nearest first."""
    given = _comparable(name)
    most = 1 + len(given) // 4
    found: list[tuple[int, str]] = []
    for one in islice(names, NAMES_COMPARED):
        other = _comparable(one)
        if min(len(given), len(other)) >= SHORTEST - 1 and (given in other or other in given):
            found.append((most, one))
        elif abs(len(given) - len(other)) <= most and (away := edits(given, other)) <= most:
            found.append((away, one))
    return [one for _, one in sorted(found)[:NEAR_NAMES]]


def _comparable(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()[:LONGEST_NAME]


def edits(one: str, other: str) -> int:
    """How many letters to add, drop, replace or swap with the next make one word the other.

    Optimal string alignment: Damerau's four kinds of error (CACM 7, 1964), no part of a word changed twice.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
