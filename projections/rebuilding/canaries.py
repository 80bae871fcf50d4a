"""Canaries: questions asked of what is read and of what was rebuilt, before the one takes the place of the other.

The same code makes the same documents of a log, so every difference is worth a look, but for a field that is newer than
the live document: it is named, and not compared. A partition's two generations are asked in one transaction, so both
answer for the same position: documents of the newest events and of events at eight places all over the log, and the
listings that these documents stand for, whose counts speak for everything in a project. Two embedders answer
differently, as they should: documents are asked for with words of their own, and must be found about as often.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded, decode
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client, Transaction
from projections.documents.document import Document, Packed, key_of, listings, row_type
from projections.documents.document import decode as decode_document
from projections.documents.observations import Observation
from projections.documents.rows import Row
from projections.documents.sessions import Commit
from projections.folds.fold import documents_of

LATER_FIELDS: Mapping[type[Packed], frozenset[str]] = {
    Commit: frozenset({"occurred_ms"}),
    Observation: frozenset({"role"}),
}
"""Fields that the fold makes from events of before it had them. A document that lacks one was stored by an earlier
release, or has its default, which is not stored; a row stores every field of its release."""
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


class ListingAnswer(Struct, frozen=True):
    """What a page of a listing would show: how many there are and the newest members."""

    count: int
    newest: tuple[bytes, ...]


class Answers(Struct, frozen=True):
    """What one side answered: a partition's sampled documents and listings, None for what is not there."""

    documents: Mapping[str, Document | None]
    listings: Mapping[str, ListingAnswer]


def differences(partition: int, live: Answers, candidate: Answers) -> list[Difference]:
    """How the candidate's answers differ from the live ones."""
    found = [
        Difference(partition=partition, what="document", name=name, said=said)
        for name, document in live.documents.items()
        if (said := _differing(document, candidate.documents.get(name)))
    ]
    for name, listing in live.listings.items():
        other = candidate.listings.get(name, ListingAnswer(0, ()))
        if listing.count != other.count:
            said = f"{listing.count} members, {other.count} in what was rebuilt"
        elif listing.newest != other.newest:
            said = "other members, or in another order"
        else:
            continue
        found.append(Difference(partition=partition, what="listing", name=name, said=said))
    return found


def without_newer(live: Answers, candidate: Answers, stored: Mapping[str, Any]) -> tuple[Answers, set[str]]:
    """What the candidate would answer without the fields that live documents lack as they are `stored`, because an
    earlier release made them; and those fields, as `kind.field`."""
    documents, newer = dict(candidate.documents), set[str]()
    for name, document in live.documents.items():
        other = documents.get(name)
        if document is not None and other is not None and type(other) is type(document):
            lacking = {one: getattr(document, one) for one in _lacking(document, stored[name])}
            changed = {one: value for one, value in lacking.items() if getattr(other, one) != value}
            newer.update(f"{name.partition('_')[0]}.{one}" for one in changed)
            is_row = isinstance(other, Row)
            documents[name] = other.model_copy(update=changed) if is_row else replace(other, **changed)
    return Answers(documents, candidate.listings), newer


def verdict(asked: int, found: Sequence[Difference], newer: Collection[str] = ()) -> Canaries:
    """Whether the canaries of all partitions agree; `newer` fields are named, and were not compared."""
    said = f"all {asked} canaries agree" if not found else f"{len(found)} of {asked} canaries differ"
    if newer:
        said += f"; not compared, because the documents that are read now are older: {', '.join(sorted(newer))}"
    return Canaries(asked=asked, differing=len(found), differences=list(found[:LISTED]), agree=not found, said=said)


FOUND_AT_LEAST = 0.5
"""Share of what a search by words finds that vectors must find; wrong vectors find next to none."""
WORSE_AT_MOST = 0.1
"""Share of the canaries that the new vectors may find fewer than the live ones."""


class RecallProbe(Struct, frozen=True, kw_only=True):
    """A document that was asked for: whether it is among the first ten by words, by live vectors, by new ones.

    `overlap` is overlap@10: the share of the ten best of both, by words and vectors, that they have in common.
    """

    name: str
    partition: int
    words: bool
    live: bool
    candidate: bool
    overlap: float


def recall_verdict(sought: Sequence[RecallProbe], not_compared: str = "") -> Canaries:
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


def _lacking(document: Document, stored: bytes | Mapping[bytes, bytes]) -> set[str]:
    if isinstance(stored, bytes):
        later = LATER_FIELDS.get(cast(Any, type(document)), ())
        return {name for name in later if not getattr(document, name)}
    return _fields(document).keys() - {name.decode() for name in stored}


def _fields(document: Document) -> dict[str, Any]:
    """A document's fields by name; rows and structs keep them alike."""
    if isinstance(document, Struct):
        return msgspec.structs.asdict(document)
    return dict(document)


DOCUMENTS = 50
LISTINGS = 50
"""Canaries of a partition, at most."""
NEWEST = 128
PLACES = 8
AT_A_PLACE = 8
PAGE = 10


class PartitionCanaries(NamedTuple):
    """How many canaries a partition was asked, what differed, and which fields were not compared."""

    canaries: int
    differing: list[Difference]
    newer: Collection[str] = ()


async def ask(redis: Client, log: EventLog, partition: int, live: int, candidate: int) -> PartitionCanaries | None:
    """Compare two generations of a partition; None when they do not stand at the same position at this moment."""
    keys = PartitionKeys(partition)
    sides = keys.of_generation(live), keys.of_generation(candidate)
    names = _documents(await _sample(log, partition))
    known = await _loaded(redis, sides[0], names)
    pages = _listings(known.values())
    async with redis.pipeline(transaction=True) as pipe:
        for side in sides:
            pipe.get(side.checkpoint)
            _queue(pipe, side, names, pages)
        answers = await pipe.execute()
    half = len(answers) // 2
    if answers[0] != answers[half]:
        return None
    mine, other = (_answers(rows, names, pages) for rows in (answers[1:half], answers[half + 1 :]))
    other, newer = without_newer(mine, other, dict(zip(map(str, names), answers[1:], strict=False)))
    return PartitionCanaries(len(names) + len(pages), differences(partition, mine, other), newer)


async def _sample(log: EventLog, partition: int) -> list[Stored]:
    """The newest entries, newest first, then some from places all over the log."""
    newest = await log.read_back(partition, None, NEWEST)
    if len(newest) < NEWEST:
        return newest
    (oldest,) = await log.read(partition, START, 1)
    step = (newest[-1].position.ms - oldest.position.ms) // PLACES
    for place in range(PLACES):
        newest += await log.read(partition, Position(oldest.position.ms + place * step, 0), AT_A_PLACE)
    return newest


def _documents(sample: Iterable[Stored]) -> list[DocumentId]:
    """Documents that the events touch: of each kind in turn, so that none is crowded out."""
    by_kind: dict[str, dict[DocumentId, None]] = {}
    for event in _readable(sample):
        for name in sorted(documents_of([event])):
            by_kind.setdefault(name.partition("_")[0], {})[name] = None
    found: list[DocumentId] = []
    waiting = [list(names) for _, names in sorted(by_kind.items())]
    while waiting and len(found) < DOCUMENTS:
        found += (names.pop(0) for names in waiting)
        waiting = [names for names in waiting if names]
    return found[:DOCUMENTS]


def _readable(sample: Iterable[Stored]) -> Iterable[Recorded]:
    for entry in sample:
        try:
            yield decode(entry.payload, entry.position)
        except UnreadableEvent:  # it has no documents in either
            continue


def _listings(documents: Iterable[Document]) -> list[str]:
    """The listings that the documents are in; the first of each document before the second of any."""
    found: dict[str, None] = {}
    every = [sorted(name for name, _ in listings(document)) for document in documents]
    for place in range(max(map(len, every), default=0)):
        for names in every:
            if place < len(names):
                found[names[place]] = None
    return list(found)[:LISTINGS]


async def _loaded(redis: Client, keys: GenerationKeys, names: Collection[DocumentId]) -> dict[DocumentId, Document]:
    async with redis.pipeline(transaction=False) as pipe:
        _queue(pipe, keys, names, ())
        rows = await pipe.execute()
    found = _answers(rows, names, ()).documents
    return {DocumentId(name): document for name, document in found.items() if document is not None}


def _queue(pipe: Transaction, keys: GenerationKeys, names: Collection[DocumentId], pages: Collection[str]) -> None:
    for name in names:
        pipe.hgetall(keys.row(name)) if row_type(name) else pipe.get(key_of(keys, name))
    for page in pages:
        pipe.zcard(keys.listing(page))
        pipe.zrange(keys.listing(page), -PAGE, -1)


def _answers(rows: list[Any], names: Collection[DocumentId], pages: Collection[str]) -> Answers:
    counts, members = rows[len(names) :: 2], rows[len(names) + 1 :: 2]
    documents = {str(name): decode_document(name, raw) for name, raw in zip(names, rows, strict=False)}
    found = {
        page: ListingAnswer(int(count), tuple(newest))
        for page, count, newest in zip(pages, counts, members, strict=True)
    }
    return Answers(documents, found)
