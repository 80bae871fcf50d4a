"""Canaries: questions asked of what is read and of what was rebuilt, before the one takes the place of the other. Pure.

The same code makes the same documents of a log, so every difference is worth a look. Two embedders answer differently,
as they should: documents are asked for with words of their own, and must be found about as often.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from projections.documents.document import Document

LISTED = 20
"""Differences that are listed; all are counted."""


class Difference(Struct, frozen=True, kw_only=True):
    """One canary that is answered differently. Names and counts, no content: operators of a tenant need not read it."""

    partition: int
    what: Literal["document", "listing", "position", "recall"]
    name: str
    said: str


class Canaries(Struct, frozen=True, kw_only=True):
    """What the canaries answered: how many were asked and differ, the first that do, and whether that will do."""

    asked: int
    differing: int
    differences: list[Difference]
    agree: bool
    said: str


class Listing(Struct, frozen=True):
    """What a page of a listing would show: how many there are and the newest members."""

    count: int
    newest: tuple[bytes, ...]


class Answers(Struct, frozen=True):
    """What one side answered: a partition's sampled documents and listings, None for what is not there."""

    documents: Mapping[str, Document | None]
    listings: Mapping[str, Listing]


def differences(partition: int, live: Answers, candidate: Answers) -> list[Difference]:
    """How the candidate's answers differ from the live ones."""
    found = [
        Difference(partition=partition, what="document", name=name, said=said)
        for name, document in live.documents.items()
        if (said := _differing(document, candidate.documents.get(name)))
    ]
    for name, listing in live.listings.items():
        other = candidate.listings.get(name, Listing(0, ()))
        if listing.count != other.count:
            said = f"{listing.count} members, {other.count} in what was rebuilt"
        elif listing.newest != other.newest:
            said = "other members, or in another order"
        else:
            continue
        found.append(Difference(partition=partition, what="listing", name=name, said=said))
    return found


def verdict(asked: int, found: Sequence[Difference]) -> Canaries:
    """Whether the canaries of all partitions agree."""
    said = f"all {asked} canaries agree" if not found else f"{len(found)} of {asked} canaries differ"
    return Canaries(asked=asked, differing=len(found), differences=list(found[:LISTED]), agree=not found, said=said)


FOUND_AT_LEAST = 0.5
"""Share of what a search by words finds that vectors must find; wrong vectors find next to none."""
WORSE_AT_MOST = 0.1
"""Share of the canaries that the new vectors may find fewer than the live ones."""


class Sought(Struct, frozen=True, kw_only=True):
    """A document that was asked for: whether it is among the first ten by words, by live vectors, by new ones.

    `overlap` is overlap@10: the share of the ten best of both, by words and vectors, that they have in common.
    """

    name: str
    partition: int
    words: bool
    live: bool
    candidate: bool
    overlap: float


def recall_verdict(sought: Sequence[Sought], not_compared: str = "") -> Canaries:
    """Whether new vectors find what was sought: at least half of what words find, a tenth less than live ones at most.

    What the live ones find and the new ones do not is listed. With `not_compared`, why the live ones could not be asked
    just now, an operator decides.
    """
    asked = len(sought)
    live, found = sum(one.live for one in sought), sum(one.candidate for one in sought)
    words = sum(one.words for one in sought)
    lost = [
        Difference(partition=one.partition, what="recall", name=one.name, said="not among the first ten by meaning")
        for one in sought
        if one.live and not one.candidate
    ]
    agree = not not_compared and found >= max(FOUND_AT_LEAST * words, live - WORSE_AT_MOST * asked)
    overlap = sum(one.overlap for one in sought) / asked if asked else 1.0
    said = (
        f"by meaning the new vectors find {found} of {asked} documents among the first ten, the live ones {live}, "
        f"words {words}; overlap@10 {overlap:.2f}"
    )
    if not_compared:
        said += f"; the live ones could not be asked: {not_compared}"
    return Canaries(asked=asked, differing=len(lost), differences=lost[:LISTED], agree=agree, said=said)


def _differing(live: Document | None, candidate: Document | None) -> str:
    if live == candidate:
        return ""
    if live is None:
        return "only in what was rebuilt"
    if candidate is None:
        return "not in what was rebuilt"
    mine, other = _fields(live), _fields(candidate)
    names = sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
    return f"other {', '.join(names)}"


def _fields(document: Document) -> dict[str, Any]:
    """A document's fields by name; rows and structs keep them alike."""
    if isinstance(document, Struct):
        return msgspec.structs.asdict(document)
    return dict(document)
