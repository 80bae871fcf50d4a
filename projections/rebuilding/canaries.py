"""Canaries: samples that are compared between the live and the rebuilt side before a switch.

The same code makes the same documents from a log, so every difference matters, unless another version of the folds made
the live documents. A partition's two generations are read in one transaction, so both answer for the same position:
documents of the newest events and of events at eight positions across the log, and the listings that have these
documents, whose counts cover everything in a project. Two embedders rank differently, as they should: documents are
searched for with words of their own, and must be found about as often.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ingest.errors import UnreadableEvent
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.nouns.registry import decode
from ingest.platform.connections import Client, Transaction
from projections.index.comparing import differences
from projections.nouns.document import Document, listings, queue_read
from projections.nouns.document import decode as decode_document
from projections.nouns.fold import documents_of, rebuild_due

NOT_REBUILT = "not in the rebuilt data"
LISTED = 20
"""Differences that are listed; all are counted."""


class Difference(Struct, frozen=True, kw_only=True):
    """One canary that differs. Names and counts, no content: an operator need not be able to read it."""

    partition: int
    what: Literal["document", "listing", "position", "recall"]
    name: str
    said: str


class Canaries(Struct, frozen=True, kw_only=True):
    """The result: how many canaries were compared and differ, the first that do, and whether both sides agree."""

    asked: int
    differing: int
    differences: list[Difference]
    agree: bool
    said: str


class ListingAnswer(Struct, frozen=True):
    """The first page of a listing: how many members there are, and the newest ones."""

    count: int
    newest: tuple[bytes, ...]


NO_MEMBERS = ListingAnswer(0, ())


class Answers(Struct, frozen=True):
    """One side's sampled documents and listings of a partition; None for a missing document."""

    documents: Mapping[str, Document | None]
    listings: Mapping[str, ListingAnswer]


def answer_differences(partition: int, live: Answers, candidate: Answers) -> list[Difference]:
    """How the candidate's answers differ from the live ones."""
    differing: list[Difference] = []
    for name, mine, other in differences(live.documents, candidate.documents):
        if mine is None or other is None:
            text = "only in the rebuilt data" if mine is None else NOT_REBUILT
        else:
            text = f"other {', '.join(sorted(field for field, _, _ in differences(_fields(mine), _fields(other))))}"
        differing.append(Difference(partition=partition, what="document", name=name, said=text))
    for name, *sides in differences(live.listings, candidate.listings):
        before, after = (side or NO_MEMBERS for side in sides)
        if before.count != after.count:
            text = f"{before.count} members, {after.count} in the rebuilt data"
        else:
            text = "different members or order"
        if before != after:
            differing.append(Difference(partition=partition, what="listing", name=name, said=text))
    return differing


def verdict(count: int, differing: Sequence[Difference], rebuild_due: str = "") -> Canaries:
    """Return whether the canaries of all partitions agree.

    With `rebuild_due`, another version of the folds made the live documents, so they may differ wherever its rules do.
    Then only a document that the rebuilt data lacks, and positions that differ, are signs of damage.
    """
    damage = differing
    if rebuild_due:
        damage = [canary for canary in differing if canary.what == "position" or canary.said == NOT_REBUILT]
    text = f"{len(differing)} of {count} canaries differ" if differing else f"all {count} canaries agree"
    if differing and rebuild_due:
        text += f"; {len(differing) - len(damage)} of them may, because of a newer rule: {rebuild_due}"
    listed = [*damage, *(canary for canary in differing if canary not in damage)][:LISTED]
    return Canaries(asked=count, differing=len(differing), differences=listed, agree=not damage, said=text)


FOUND_AT_LEAST = 0.5
"""Share of what a search by words finds that vectors must find; wrong vectors find almost nothing."""
WORSE_AT_MOST = 0.1
"""Share of the canaries by which the new vectors may find fewer than the live ones."""


class RecallProbe(Struct, frozen=True, kw_only=True):
    """A document that was searched for: whether it is among the first ten by words, by live vectors, by new ones.

    `overlap` is overlap@10: the share of the ten best of both, by words and vectors, that they have in common.
    """

    name: str
    partition: int
    words: bool
    live: bool
    candidate: bool
    overlap: float


def recall_verdict(probes: Sequence[RecallProbe], not_compared: str = "") -> Canaries:
    """Whether the new vectors find enough: at least half of what words find, and at most a tenth less than live ones.

    What only the live ones find is listed. With `not_compared`, which says why the live ones could not be asked, an
    operator decides.
    """
    count = len(probes)
    live, candidate = sum(probe.live for probe in probes), sum(probe.candidate for probe in probes)
    words = sum(probe.words for probe in probes)
    lost = [
        Difference(partition=probe.partition, what="recall", name=probe.name, said="not among the first ten by meaning")
        for probe in probes
        if probe.live and not probe.candidate
    ]
    agree = not not_compared and candidate >= max(FOUND_AT_LEAST * words, live - WORSE_AT_MOST * count)
    overlap = sum(probe.overlap for probe in probes) / count if count else 1.0
    text = (
        f"by meaning, the new vectors find {candidate} of {count} documents among the first ten, the live ones {live}, "
        f"words {words}; overlap@10 {overlap:.2f}"
    )
    if not_compared:
        text += f"; the live ones could not be searched: {not_compared}"
    return Canaries(asked=count, differing=len(lost), differences=lost[:LISTED], agree=agree, said=text)


def _fields(document: Document) -> dict[str, Any]:
    return msgspec.structs.asdict(document) if isinstance(document, Struct) else dict(document)


DOCUMENTS = 50
LISTINGS = 50
"""Canaries of a partition, at most."""
NEWEST, POSITIONS, AT_A_POSITION = 128, 8, 8
"""Events whose documents are sampled: the newest ones, and some at positions spread over the log."""
PAGE = 10


class PartitionCanaries(NamedTuple):
    """How many canaries of a partition were compared, which differ, and why its live documents need a rebuild."""

    canaries: int
    differing: list[Difference]
    rebuild_due: str = ""


async def ask(redis: Client, log: EventLog, partition: int, live: int, candidate: int) -> PartitionCanaries | None:
    """Compare two generations of a partition; None when they are not at the same position at this moment."""
    keys = PartitionKeys(partition)
    sides = keys.of_generation(live), keys.of_generation(candidate)
    names = _documents(await _sample(log, partition))
    async with redis.pipeline(transaction=False) as pipe:
        _queue(pipe, sides[0], names, ())
        loaded = _answers(await pipe.execute(), names, ()).documents
    # the listings that the documents are in; the first of each document before the second of any
    by_document = [sorted(name for name, _ in listings(document)) for document in loaded.values()]
    in_turn = (name for names in zip_longest(*by_document) for name in names if name is not None)
    pages = list(dict.fromkeys(in_turn))[:LISTINGS]
    # one transaction with both checkpoints: otherwise a write between the two sides looks like a difference
    async with redis.pipeline(transaction=True) as pipe:
        pipe.get(sides[0].folded_by)
        for side in sides:
            pipe.get(side.checkpoint)
            _queue(pipe, side, names, pages)
        folded_by, *answers = await pipe.execute()
    half = len(answers) // 2
    if answers[0] != answers[half]:
        return None
    mine, other = (_answers(rows, names, pages) for rows in (answers[1:half], answers[half + 1 :]))
    differing = answer_differences(partition, mine, other)
    return PartitionCanaries(len(names) + len(pages), differing, rebuild_due(folded_by))


async def _sample(log: EventLog, partition: int) -> list[Stored]:
    """The newest entries, newest first, then some at positions spread over the log."""
    newest = await log.read_back(partition, None, NEWEST)
    if len(newest) < NEWEST:
        return newest
    (oldest,) = await log.read(partition, START, 1)
    step = (newest[-1].position.ms - oldest.position.ms) // POSITIONS
    for number in range(POSITIONS):
        newest += await log.read(partition, Position(oldest.position.ms + number * step, 0), AT_A_POSITION)
    return newest


def _documents(sample: Iterable[Stored]) -> list[DocumentId]:
    """Documents that the events touch: of each kind in turn, so that all kinds are sampled."""
    by_kind: dict[str, dict[DocumentId, None]] = {}
    for entry in sample:
        try:
            event = decode(entry.payload, entry.position)
        except UnreadableEvent:  # it has no documents on either side
            continue
        for name in sorted(documents_of([event])):
            by_kind.setdefault(name.partition("_")[0], {})[name] = None
    selected: list[DocumentId] = []
    waiting = [list(names) for _, names in sorted(by_kind.items())]
    while waiting and len(selected) < DOCUMENTS:
        selected += (names.pop(0) for names in waiting)
        waiting = [names for names in waiting if names]
    return selected[:DOCUMENTS]


def _queue(pipe: Transaction, keys: GenerationKeys, names: Collection[DocumentId], pages: Collection[str]) -> None:
    for name in names:
        queue_read(pipe, keys, name)
    for page in pages:
        pipe.zcard(keys.listing(page))
        pipe.zrange(keys.listing(page), -PAGE, -1)


def _answers(rows: list[Any], names: Collection[DocumentId], pages: Collection[str]) -> Answers:
    counts, members = rows[len(names) :: 2], rows[len(names) + 1 :: 2]
    documents = {str(name): decode_document(name, raw) for name, raw in zip(names, rows, strict=False)}
    listed = {
        page: ListingAnswer(int(count), tuple(newest))
        for page, count, newest in zip(pages, counts, members, strict=True)
    }
    return Answers(documents, listed)
