"""Results that probably say the same as a better one, by the index terms that both say. Pure.

Index terms have no order and no "not": whether two documents do say the same, their texts tell (`states_the_same`).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from projections.search.cues import DATE_TERMS
from projections.search.term_rows import TermRows

SAME_FROM = 0.97
"""Jaccard similarity of the distinct terms of two documents from which the second may tell nothing new."""
TERMS = 1_000
"""Of a document, from its beginning."""
SMALLEST = 3
"""Of the hashes of a document's terms: of two that are as alike as SAME_FROM at least one is the same, but for one pair
in some ten thousand. So each is compared with few."""


class Distinct(NamedTuple):
    """The place of a document in its pool, and those of documents behind it that probably say the same."""

    place: int
    repeats: list[int]


def distinct(documents: TermRows, places: Sequence[int], limit: int) -> list[Distinct]:
    """The first `limit` of `places`, best first, that do not repeat one before them, each with what repeats it.

    What stands behind the last of them is not looked at, so `repeats` are what a reader would have been shown.
    """
    found: list[Distinct] = []
    said: list[frozenset[int]] = []
    having: defaultdict[int, list[int]] = defaultdict(list)
    for place in places:
        # without its date: said again on another day, it is still the same
        terms = frozenset(documents.beginning(place, DATE_TERMS, TERMS).tolist())
        smallest = sorted(terms)[:SMALLEST]
        near = sorted({number for hashed in smallest for number in having[hashed]})
        same = next((number for number in near if _alike(terms, said[number])), None)
        if same is not None:
            found[same].repeats.append(place)
        elif len(found) == limit:
            break
        else:
            for hashed in smallest:
                having[hashed].append(len(found))
            found.append(Distinct(place, []))
            said.append(terms)
    return found


def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
    shorter, longer = sorted((len(one), len(other)))
    if not shorter or shorter < SAME_FROM * longer:
        return False
    shared = len(one & other)
    return shared >= SAME_FROM * (shorter + longer - shared)
