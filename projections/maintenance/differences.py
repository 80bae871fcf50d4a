"""The document manifest of a log: what its documents and listings are, in a few numbers and two digests a partition.

Two manifests are equal exactly when documents and listings are: whatever the generation, however a row is stored,
whether they come out of Redis or of a replay in memory. This is a tool: it reads every document (in batches of
DOCUMENTS_PER_READ), and keeps about 250 bytes of memory for each, so that a comparison can name those that differ.

A replay folds a log from zero: what the documents must be. It holds one partition's documents at a time, as Python
objects (some 3 to 5 times the bytes of its entries), and nothing that grows with the log beyond them.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, msgpack

from ingest.errors import MnemologError
from ingest.events.envelope import decode as decode_event
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.document import Document, encode
from projections.documents.rows import Row
from projections.documents.tombstones import SupersededEvent
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
    """A partition went on changing while it was read: ask when nothing is written to it."""

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

    `position` says where it was taken and is no part of what it is: two manifests may be equal at two positions.
    """

    position: Position
    kinds: Mapping[str, int]
    members: int
    documents: Mapping[str, bytes]
    listings: Mapping[str, bytes]

    @property
    def documents_sha256(self) -> str:
        """Over (id, SHA-256 of the canonical bytes) of every document, in the order of ids."""
        return _over(self.documents)

    @property
    def listings_sha256(self) -> str:
        """Over (listing, SHA-256 of its members in order) of every listing that has any, in the order of names."""
        return _over(self.listings)

    @property
    def summary(self) -> PartitionSummary:
        """What is written down of it."""
        return PartitionSummary(
            position=str(self.position),
            documents=dict(sorted(self.kinds.items())),
            members=self.members,
            documents_sha256=self.documents_sha256,
            listings_sha256=self.listings_sha256,
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


def differences(mine: DocumentManifest, other: DocumentManifest) -> list[ManifestDifference]:
    """Where two manifests differ, by partition; none when they are equal. A partition that one lacks is empty there."""
    found: list[ManifestDifference] = []
    for partition in sorted(mine.partitions.keys() | other.partitions.keys()):
        one, two = mine.partitions.get(partition, _EMPTY), other.partitions.get(partition, _EMPTY)
        documents, listings = _differing(one.documents, two.documents), _differing(one.listings, two.listings)
        if documents or listings:
            found.append(
                ManifestDifference(
                    partition=partition,
                    documents=len(documents),
                    first_documents=documents[:NAMED],
                    listings=len(listings),
                    first_listings=listings[:NAMED],
                )
            )
    return found


async def manifest_of(redis: Client, partitions: Iterable[int], generation: int | None = None) -> DocumentManifest:
    """The manifest of partitions in Redis: of one generation, or of the live one of each.

    A partition that is written to meanwhile is read again; raises ManifestUnsteady when that does not end.
    """
    return DocumentManifest({one: await _steady(redis, PartitionKeys(one), generation) for one in partitions})


def manifest_of_store(store: MemoryStore, position: Position = START) -> PartitionManifest:
    """The manifest of one partition's documents in memory. They are read as they are, so nobody may save meanwhile."""
    found = _Gathering()
    for name, document in store.documents.items():
        found.document(name, document)
    for listing, members in store.listings.items():
        digest = _Members()
        digest.add(sorted(member.encode() for member in members))
        found.listing(listing, digest)
    return found.manifest(position)


def canonical(document: Document) -> bytes:
    """Bytes that two documents share exactly when they are equal. A row's place (`pk`) is no part of it."""
    if isinstance(document, Row):
        return _encoder.encode([type(document).__name__, document.model_dump(exclude={"pk"})])
    return encode(document)[:1] + _encoder.encode(document)


class _Gathering:
    """A partition's manifest while its documents and listings come in, in any order, some of them twice."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[str, bytes]] = {}
        self._listings: dict[str, tuple[int, bytes]] = {}

    def document(self, name: str, document: Document) -> None:
        digest = hashlib.sha256(canonical(document)).digest()
        kind = "mark" if isinstance(document, SupersededEvent) else type(document).__name__.lower()
        self._documents[name] = kind, digest

    def listing(self, name: str, members: "_Members") -> None:
        """One listing; one without members is none."""
        if members.count:
            self._listings[name] = members.count, members.digest.digest()

    def manifest(self, position: Position) -> PartitionManifest:
        return PartitionManifest(
            position,
            Counter(kind for kind, _ in self._documents.values()),
            sum(count for count, _ in self._listings.values()),
            {name: digest for name, (_, digest) in self._documents.items()},
            {name: digest for name, (_, digest) in self._listings.items()},
        )


class _Members:
    """A listing's members while they come in, in order, some at a time."""

    def __init__(self) -> None:
        self.count, self.digest = 0, hashlib.sha256()

    def add(self, members: Sequence[bytes]) -> None:
        self.count += len(members)
        self.digest.update(b"".join(map(_framed, members)))


_EMPTY = PartitionManifest(START, {}, 0, {}, {})


async def _steady(redis: Client, keys: PartitionKeys, generation: int | None) -> PartitionManifest:
    for _ in range(STEADY_ATTEMPTS):
        of = keys.of_generation(generation or int(await redis.get(keys.generation) or 1))
        before = await redis.get(of.checkpoint)
        found = await _gathered(redis, of)
        steady = await redis.get(of.checkpoint) == before
        if steady and (generation is not None or int(await redis.get(keys.generation) or 1) == of.generation):
            return found.manifest(Position.parse(before) if before else START)
    raise ManifestUnsteady(f"partition {keys.partition} is written to; stop the writers, or ask again later")


async def _gathered(redis: Client, keys: GenerationKeys) -> _Gathering:
    found = _Gathering()
    async for names in scanned(redis, keys, DOCUMENTS_PER_READ):
        for name, document in zip(names, await load(redis, keys, names), strict=True):
            if document is not None:  # else it went meanwhile
                found.document(name, document)
    prefix = keys.listing("")
    async for key in redis.scan_iter(match=f"{prefix}*", count=1000):
        await _listing(redis, key.decode(), prefix, found)
    return found


async def _listing(redis: Client, key: str, prefix: str, found: _Gathering) -> None:
    """A listing's members in order. All score 0, so that they are in the order of their bytes."""
    members = _Members()
    while True:
        page: list[bytes] = await redis.zrange(key, members.count, members.count + MEMBERS_PER_READ - 1)
        members.add(page)
        if len(page) < MEMBERS_PER_READ:
            break
    found.listing(key.removeprefix(prefix), members)


def _framed(value: bytes) -> bytes:
    """A value behind its length, so that no two sequences of values give the same bytes."""
    return len(value).to_bytes(4, "big") + value


def _over(digests: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name in sorted(digests, key=str.encode):
        found.update(_framed(name.encode()) + digests[name])
    return found.hexdigest()


def _differing(mine: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))


ENTRIES_PER_READ = 500


class Replay:
    """One partition's documents, made from its entries in their order.

    An entry that cannot be read or applied is passed over, as a worker passes over it when it is parked; `parked` has
    the positions. Those of `without` (discarded dead letters) are passed over unread.
    """

    def __init__(self, without: Collection[Position] = ()) -> None:
        self.store = MemoryStore()
        self.position = START
        self.parked: list[Position] = []
        self._without = without

    async def apply(self, entries: Sequence[Stored]) -> None:
        """Go on with these entries; if any of them fails, each alone."""
        wanted = [entry for entry in entries if entry.payload and entry.position not in self._without]
        try:
            await self._save(wanted)
        except Exception:  # whatever a fold raises parks the event, in a worker too
            for entry in wanted:
                try:
                    await self._save([entry])
                except Exception:
                    self.parked.append(entry.position)
        if entries:
            self.position = max(self.position, entries[-1].position)

    @property
    def manifest(self) -> PartitionManifest:
        """The manifest of what is there so far."""
        return manifest_of_store(self.store, self.position)

    async def _save(self, entries: Sequence[Stored]) -> None:
        if entries:
            changes = await project(self.store, [decode_event(entry.payload, entry.position) for entry in entries])
            await self.store.save(changes, entries[-1].position)


async def replay(
    log: EventLog, partition: int, up_to: Position | None = None, without: Collection[Position] = ()
) -> Replay:
    """A partition's log, up to a position (to its end, when none is given), folded from zero."""
    made = Replay(without)
    async for entries in pages(log, partition, up_to, limit=ENTRIES_PER_READ):
        await made.apply(entries)
    return made


async def replay_manifest(
    log: EventLog, partitions: Iterable[int], without: Mapping[int, Collection[Position]] | None = None
) -> DocumentManifest:
    """The manifest that the live documents of partitions must have, one partition in memory at a time.

    `without` has the positions that are discarded, by partition.
    """
    discarded = without or {}
    return DocumentManifest(
        {one: (await replay(log, one, without=discarded.get(one, ()))).manifest for one in partitions}
    )
