"""Results that say nearly the same as a better one, so that a reader is told it once. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from projections.search.term_rows import TermRows

SAME_FROM = 0.97
"""Jaccard similarity of the distinct terms of two documents from which the second tells nothing new."""
DATE_TERMS = 3
"""At the end of a document's terms: what was said again on another day is still the same."""


class Distinct(NamedTuple):
    """The place of a document in its pool, and those of documents behind it that say nearly the same."""

    place: int
    repeats: list[int]


def distinct(documents: TermRows, places: Sequence[int], limit: int) -> list[Distinct]:
    """The first `limit` of `places`, best first, that do not repeat one before them, each with what repeats it.

    What stands behind the last of them is not looked at, so `repeats` counts what a reader would have been shown.
    """
    found: list[Distinct] = []
    said: list[frozenset[int]] = []
    for place in places:
        terms = documents.distinct(place, DATE_TERMS)
        same = next((one for one, other in zip(found, said, strict=True) if _alike(terms, other)), None)
        if same is not None:
            same.repeats.append(place)
        elif len(found) == limit:
            break
        else:
            found.append(Distinct(place, []))
            said.append(terms)
    return found


def _alike(one: frozenset[int], other: frozenset[int]) -> bool:
    shorter, longer = sorted((len(one), len(other)))
    if not shorter or shorter < SAME_FROM * longer:
        return False
    shared = len(one & other)
    return shared >= SAME_FROM * (shorter + longer - shared)
