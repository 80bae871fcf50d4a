"""Asks a partition's canaries of two of its generations, in one transaction: so both answer for the same position.

Which ones: documents of the newest events and of events at eight places all over the log, and the listings that these
documents stand for, whose counts speak for everything in a project.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded, decode
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client, Transaction
from projections.documents.document import Document, key_of, listings, row_type
from projections.documents.document import decode as decode_document
from projections.folds.fold import documents_of
from projections.maintenance.rebuilds.canaries import Answers, Difference, Listing, differences

DOCUMENTS = 50
LISTINGS = 50
"""Canaries of a partition, at most."""
NEWEST = 128
PLACES = 8
AT_A_PLACE = 8
PAGE = 10


class Asked(NamedTuple):
    """How many canaries a partition was asked, and what differed."""

    canaries: int
    differing: list[Difference]


async def ask(redis: Client, log: EventLog, partition: int, live: int, candidate: int) -> Asked | None:
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
    return Asked(len(names) + len(pages), differences(partition, mine, other))


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
        page: Listing(int(count), tuple(newest)) for page, count, newest in zip(pages, counts, members, strict=True)
    }
    return Answers(documents, found)
