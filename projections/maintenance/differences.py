"""Manifests of documents, which backups compare, and replays of a log.

A manifest says what a log's documents and listings are, in a few numbers and two digests a partition. Two manifests are
equal exactly when documents and listings are: whatever the generation, however a row is stored, whether they come from
Redis or from a replay in memory. Making one reads every document (DOCUMENTS_PER_READ at a time) and keeps about 250
bytes of memory for each, so that a comparison can name those that differ.

A replay folds a log from zero: what the documents must be. It holds one partition's documents at a time, as Python
objects (some 3 to 5 times the bytes of its entries).
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, msgpack

from ingest.errors import MnemologError
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.nouns.registry import decode as decode_event
from ingest.platform.connections import Client
from projections.index.comparing import differences
from projections.index.replica import live_generation
from projections.nouns.document import Document, encode
from projections.nouns.rows import Row
from projections.nouns.tombstone import SupersededEvent
from projections.store.protocol import MemoryStore, project
from projections.store.redis_store import load, scanned

DOCUMENTS_PER_READ = 500
MEMBERS_PER_READ = 5_000
STEADY_ATTEMPTS = 5
"""How often a partition is read again that changed while it was read."""
NAMED = 20
"""Differing documents and listings that a comparison names, a partition."""

_encoder = msgpack.Encoder(order="deterministic")


class ManifestUnsteady(MnemologError):
    """A partition kept changing while it was read: ask when nothing is written to it."""

    code = "manifest_unsteady"


class PartitionSummary(Struct, frozen=True, kw_only=True):
    """A partition's manifest as it is written down. `position`: every event up to there was applied."""

    position: str
    documents: dict[str, int]
    members: int
    documents_sha256: str
    listings_sha256: str


class PartitionManifest(NamedTuple):
    """What one partition holds: number of documents by kind, of listing members, a SHA-256 by document and listing.

    `position` says where it was taken and is not compared: two manifests may be equal at two positions.
    """

    position: Position
    kinds: Mapping[str, int]
    members: int
    documents: Mapping[str, bytes]
    listings: Mapping[str, bytes]

    @property
    def summary(self) -> PartitionSummary:
        """What is written down of it: counts, and a digest over (name, SHA-256) in the order of names, of each sort."""
        return PartitionSummary(
            position=str(self.position),
            documents=dict(sorted(self.kinds.items())),
            members=self.members,
            documents_sha256=_digest_of(self.documents),
            listings_sha256=_digest_of(self.listings),
        )


class DocumentManifest(NamedTuple):
    """The manifest of a log, by partition."""

    partitions: Mapping[int, PartitionManifest]

    @property
    def summary(self) -> dict[int, PartitionSummary]:
        """What is written down of it; its digests decide whether two logs hold the same."""
        return {partition: self.partitions[partition].summary for partition in sorted(self.partitions)}


class ManifestDifference(Struct, frozen=True, kw_only=True):
    """What differs between two manifests of a partition: counts, and the first NAMED documents and listings by name."""

    partition: int
    documents: int
    first_documents: list[str]
    listings: int
    first_listings: list[str]

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: {self.documents} documents differ ({', '.join(self.first_documents)}), "
            f"{self.listings} listings differ ({', '.join(map(repr, self.first_listings))})"
        )


_EMPTY = PartitionManifest(START, {}, 0, {}, {})


def manifest_differences(expected: DocumentManifest, actual: DocumentManifest) -> list[ManifestDifference]:
    """Where two manifests differ, by partition; empty when equal. A partition that one lacks is empty there."""
    result: list[ManifestDifference] = []
    for partition in sorted(expected.partitions.keys() | actual.partitions.keys()):
        old, new = expected.partitions.get(partition, _EMPTY), actual.partitions.get(partition, _EMPTY)
        documents = sorted(name for name, _, _ in differences(old.documents, new.documents))
        listings = sorted(name for name, _, _ in differences(old.listings, new.listings))
        if documents or listings:
            result.append(
                ManifestDifference(
                    partition=partition,
                    documents=len(documents),
                    first_documents=documents[:NAMED],
                    listings=len(listings),
                    first_listings=listings[:NAMED],
                )
            )
    return result


async def manifest_of(redis: Client, partitions: Iterable[int], generation: int | None = None) -> DocumentManifest:
    """The manifest of partitions in Redis: of one generation, or of the live one of each.

    A partition that is written to while it is read is read again; raises ManifestUnsteady when that does not end.
    """
    return DocumentManifest(
        {partition: await _steady(redis, PartitionKeys(partition), generation) for partition in partitions}
    )


def manifest_of_store(store: MemoryStore, position: Position = START) -> PartitionManifest:
    """The manifest of one partition's documents in memory. Nothing may be saved while they are read."""
    contents = _Contents({name: _kind_and_digest(document) for name, document in store.documents.items()}, {})
    for listing, members in store.listings.items():
        encoded = sorted(member.encode() for member in members)
        contents.listings[listing] = len(encoded), hashlib.sha256(b"".join(map(_framed, encoded))).digest()
    return contents.manifest(position)


def canonical(document: Document) -> bytes:
    """Bytes that two documents share exactly when they are equal. A row's key (`pk`) is not compared."""
    if isinstance(document, Row):
        return _encoder.encode([type(document).__name__, document.model_dump(exclude={"pk"})])
    return encode(document)[:1] + _encoder.encode(document)


def _kind_and_digest(document: Document) -> tuple[str, bytes]:
    kind = "mark" if isinstance(document, SupersededEvent) else type(document).__name__.lower()
    return kind, hashlib.sha256(canonical(document)).digest()


class _Contents(NamedTuple):
    """A partition's documents (kind and digest) and listings (count and digest), collected in any order."""

    documents: dict[str, tuple[str, bytes]]
    listings: dict[str, tuple[int, bytes]]

    def manifest(self, position: Position) -> PartitionManifest:
        return PartitionManifest(
            position,
            Counter(kind for kind, _ in self.documents.values()),
            sum(count for count, _ in self.listings.values()),
            {name: digest for name, (_, digest) in self.documents.items()},
            {name: digest for name, (count, digest) in self.listings.items() if count},
        )


async def _steady(redis: Client, keys: PartitionKeys, generation: int | None) -> PartitionManifest:
    for _ in range(STEADY_ATTEMPTS):
        generation_keys = keys.of_generation(generation or await live_generation(redis, keys.partition))
        before = await redis.get(generation_keys.checkpoint)
        contents = await _read_contents(redis, generation_keys)
        # a saved batch moves the checkpoint, a switch the generation: with both as before, all was read of one moment
        after = await redis.get(generation_keys.checkpoint)
        live = generation or await live_generation(redis, keys.partition)
        if (after, live) == (before, generation_keys.generation):
            return contents.manifest(stored_position(before))
    raise ManifestUnsteady(f"partition {keys.partition} is being written to; stop the writers, or try again later")


async def _read_contents(redis: Client, keys: GenerationKeys) -> _Contents:
    contents = _Contents({}, {})
    async for names in scanned(redis, keys, DOCUMENTS_PER_READ):
        for name, document in zip(names, await load(redis, keys, names), strict=True):
            if document is not None:  # else it was deleted after the scan found it
                contents.documents[name] = _kind_and_digest(document)
    prefix = keys.listing("")
    async for key in redis.scan_iter(match=f"{prefix}*", count=1000):
        count, digest = 0, hashlib.sha256()
        while True:  # all members score 0, so they come in the order of their bytes
            page: list[bytes] = await redis.zrange(key.decode(), count, count + MEMBERS_PER_READ - 1)
            count += len(page)
            digest.update(b"".join(map(_framed, page)))
            if len(page) < MEMBERS_PER_READ:
                break
        contents.listings[key.decode().removeprefix(prefix)] = count, digest.digest()
    return contents


def _framed(value: bytes) -> bytes:
    """A value after its length, so that no two sequences of values give the same bytes."""
    return len(value).to_bytes(4, "big") + value


def _digest_of(digests: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(digests, key=str.encode):
        whole.update(_framed(name.encode()) + digests[name])
    return whole.hexdigest()


ENTRIES_PER_READ = 500


class Replay:
    """One partition's documents, made from its entries in their order.

    An entry that cannot be read or applied is skipped, like one that a worker parks; `parked` has their positions.
    Those in `without` (discarded dead letters) are skipped unread.
    """

    def __init__(self, without: Collection[Position] = ()) -> None:
        self.store = MemoryStore()
        self.position = START
        self.parked: list[Position] = []
        self._without = without

    async def apply(self, entries: Sequence[Stored]) -> None:
        """Apply the next entries; if any of them fails, each alone."""
        readable = [entry for entry in entries if entry.payload and entry.position not in self._without]
        try:
            await self._save(readable)
        except Exception:  # whatever a fold raises parks the event, in a worker too
            for entry in readable:
                try:
                    await self._save([entry])
                except Exception:
                    self.parked.append(entry.position)
        if entries:
            self.position = max(self.position, entries[-1].position)

    @property
    def manifest(self) -> PartitionManifest:
        """The manifest of the documents so far."""
        return manifest_of_store(self.store, self.position)

    async def _save(self, entries: Sequence[Stored]) -> None:
        if entries:
            changes = await project(self.store, [decode_event(entry.payload, entry.position) for entry in entries])
            await self.store.save(changes, entries[-1].position)


async def replay(log: EventLog, partition: int, without: Collection[Position] = ()) -> Replay:
    """A partition's log, folded from zero."""
    replayed = Replay(without)
    async for entries in pages(log, partition, limit=ENTRIES_PER_READ):
        await replayed.apply(entries)
    return replayed


async def replay_manifest(
    log: EventLog, partitions: Iterable[int], without: Mapping[int, Collection[Position]] | None = None
) -> DocumentManifest:
    """The manifest that the live documents of partitions must have, one partition in memory at a time.

    `without` has the positions that are discarded, by partition.
    """
    discarded, manifests = without or {}, dict[int, PartitionManifest]()
    for partition in partitions:
        manifests[partition] = (await replay(log, partition, discarded.get(partition, ()))).manifest
    return DocumentManifest(manifests)
