"""Words of a query that nothing says, as the words of the index that were probably meant.

Only what the one who asks may find is looked at, so a correction tells nothing of others' documents.
"""

from collections.abc import Sequence

import numpy as np

from projections.search.matching import Filter, lexical_groups
from projections.search.replica import IndexReplica

SHORTEST = 4
"""Letters of a stem; a shorter one has too many words near it."""
SWAPPED_UP_TO = 5
"""Letters up to which only two swapped ones are taken for a slip: "react" is not "reach"."""
TWO_FROM = 8
"""Letters from which two may be wrong."""
MOST_CORRECTED = 4
"""Words of one query: each costs a look through the dictionary of the index."""
LOOKED_AT = 12
"""Documents in which a word like it is looked for."""


def corrected(index: IndexReplica, query_terms: Sequence[str], allowed: Filter) -> list[str]:
    """The terms of a query; for one that nothing says, the nearest that something says, of equals the most frequent."""
    known = index.lexical.frequencies(query_terms)
    unknown = [
        term
        for term, documents in dict(zip(query_terms, known, strict=True)).items()
        if not documents and len(term) >= SHORTEST and term.isalpha()
    ]
    unknown = [term for term in unknown if not _in_tail(index, term)]
    instead = {term: _meant(index, term, allowed) for term in unknown[:MOST_CORRECTED]}
    return [instead.get(term, term) for term in query_terms]


def _in_tail(index: IndexReplica, term: str) -> bool:
    return bool(index.tail) and bool(index.said(np.array(sorted(index.tail), np.int64), [term]).any())


def _meant(index: IndexReplica, term: str, allowed: Filter) -> str:
    """The term it was probably meant for; itself where there is none like it."""
    most = 2 if len(term) >= TWO_FROM else 1
    texts = index.lexical.near(term, most, lexical_groups(allowed), LOOKED_AT)
    like = {one for text in texts for one in text.split() if is_slip(term, one)}
    if not like:
        return term
    candidates = sorted(like)
    frequent = dict(zip(candidates, index.lexical.frequencies(candidates), strict=True))
    return min(candidates, key=lambda one: (edits(term, one), -frequent[one]))


def is_slip(term: str, other: str) -> bool:
    """Whether a term may be another one with a letter or two mistaken; the first is right."""
    if term[0] != other[:1] or not other.isalpha() or abs(len(term) - len(other)) > 2:
        return False
    if len(term) <= SWAPPED_UP_TO:
        return sorted(term) == sorted(other) and edits(term, other) == 1
    return edits(term, other) <= (2 if len(term) >= TWO_FROM else 1)


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
