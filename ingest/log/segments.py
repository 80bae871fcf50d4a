"""The files of the archive: segments of entries, and the manifest that chains them. Pure.

A segment is consecutive entries of one partition: a zstd frame of msgpack
`["mnemolog-segment", 1, partition, [[ms, seq, payload], …]]`. The manifest has its SHA-256; anything else that is wrong
with the bytes is found too.

The manifest lists the segments that hold a partition's beginning, each chained to the previous one. The chain's head is
also in Redis: a manifest that was altered, or replaced by an earlier one, leads to another head and is noticed.
There is one error class per decision of the caller.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import ArchiveUnavailable, MnemologError
from ingest.log.event_log import MAX_ENTRY_BYTES, Stored
from ingest.log.position import START, Position

MANIFEST_FORMAT, MANIFEST_VERSION = "mnemolog-archive", 1


class MissingFile(ArchiveUnavailable):
    """The place can be reached, and the file is not there."""


class DamagedArchive(MnemologError):
    """What a partition's manifest says is not what was sealed."""

    code = "damaged_archive"

    def __init__(self, partition: int, name: str, trouble: str) -> None:
        super().__init__(f"partition {partition}: {name} is damaged: {trouble}")
        self.partition, self.name, self.trouble = partition, name, trouble


class DamagedSegment(DamagedArchive):
    """The bytes of a segment are not those that were sealed."""

    code = "damaged_segment"


class Outrun(MnemologError):
    """Another process changed a partition's archive, or something was erased from it, in between: begin again."""

    code = "archive_outrun"


class Content(Struct, frozen=True, kw_only=True):
    """What a segment is: its first and last position, how many entries, and its bytes."""

    first: str
    last: str
    entries: int
    bytes: int
    sha256: str


class Sealed(Struct, frozen=True, kw_only=True):
    """A segment in a manifest. `chain` is made of the previous segment's chain and its own content."""

    name: str
    content: Content
    chain: str

    @property
    def first(self) -> Position:
        """The oldest position in it."""
        return Position.parse(self.content.first)

    @property
    def last(self) -> Position:
        """The newest position in it."""
        return Position.parse(self.content.last)


class ArchiveManifest(Struct, frozen=True, kw_only=True):
    """The archive of one partition. `log` is when the log was created, `archive` names this life of it.

    `version` counts every change; `writer` is an id made for the change, so that no two writers ever write the same
    file. A segment takes about 350 bytes, so a partition of six million events has 210 kB.
    """

    format: str = MANIFEST_FORMAT
    format_version: int = MANIFEST_VERSION
    log: str
    archive: str
    partition: int
    version: int = 0
    writer: str = ""
    segments: tuple[Sealed, ...] = ()

    @property
    def head(self) -> str:
        """The head of the chain; that of an empty archive is made of its name."""
        return self.segments[-1].chain if self.segments else chain_start(self.archive, self.partition)

    @property
    def sealed(self) -> Position:
        """Everything up to here is in segments."""
        return self.segments[-1].last if self.segments else START

    @property
    def name(self) -> str:
        """The file of this version."""
        return f"manifest-{self.version:010d}-{self.writer}.json"

    def behind(self, position: Position) -> tuple[Sealed, ...]:
        """The segments that hold anything behind a position, oldest first."""
        return self.segments[bisect_right(self.segments, position, key=attrgetter("last")) :]

    def holding(self, position: Position) -> Sealed:
        """The segment that holds a position, which must be sealed."""
        return self.segments[bisect_left(self.segments, position, key=attrgetter("last"))]


SEGMENT_ENTRIES = 10_000
"""A segment is unpacked as a whole to read any entry: this many take about 20 ms."""
SEGMENT_BYTES = 8 << 20
"""Size of a segment's payloads before compression, which a reader holds in memory. The last entry can exceed it."""
MAX_UNPACKED_BYTES = SEGMENT_BYTES + MAX_ENTRY_BYTES + 64 * SEGMENT_ENTRIES
"""A frame that declares a larger size was not written by mnemolog, and is not unpacked."""

FORMAT, FORMAT_VERSION = "mnemolog-segment", 1


class _Body(Struct, frozen=True, array_like=True):
    format: str
    version: int
    partition: int
    entries: list[tuple[int, int, bytes]]


def is_full(entries: Sequence[Stored]) -> bool:
    """Whether a segment takes no more than these."""
    return len(entries) >= SEGMENT_ENTRIES or sum(len(entry.payload) for entry in entries) >= SEGMENT_BYTES


async def filled(pages: AsyncIterator[Sequence[Stored]]) -> AsyncGenerator[list[Stored]]:
    """The entries again, as many at a time as a segment takes; the last of them may be fewer."""
    segment: list[Stored] = []
    size = 0
    async for page in pages:
        for entry in page:
            segment.append(entry)
            size += len(entry.payload)
            if len(segment) >= SEGMENT_ENTRIES or size >= SEGMENT_BYTES:
                yield segment
                segment, size = [], 0
    if segment:
        yield segment


def pack(partition: int, entries: Sequence[Stored]) -> bytes:
    """The bytes of a segment. The same entries always give the same bytes with one release of zstd. Raises ValueError
    for more than `unpack` takes: no entry of the log is as big as that."""
    rows = [(position.ms, position.seq, payload) for position, payload in entries]
    body = _encode(_Body(FORMAT, FORMAT_VERSION, partition, rows))
    if len(body) > MAX_UNPACKED_BYTES:
        raise ValueError(f"a segment of {len(body):,} bytes could not be unpacked; the limit is {MAX_UNPACKED_BYTES:,}")
    return zstandard.ZstdCompressor().compress(body)


def content_of(data: bytes, entries: Sequence[Stored]) -> Content:
    """What a manifest says of a segment of these bytes; `entries` are what is in it, at least one."""
    return Content(
        first=str(entries[0].position),
        last=str(entries[-1].position),
        entries=len(entries),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def unpack(data: bytes, partition: int, sealed: Sealed) -> list[Stored]:
    """The entries of a segment, oldest first; raises DamagedSegment unless it is exactly what was sealed."""

    def damaged(trouble: str) -> DamagedSegment:
        return DamagedSegment(partition, sealed.name, trouble)

    content = sealed.content
    if len(data) != content.bytes:
        raise damaged(f"it has {len(data):,} bytes, but {content.bytes:,} were sealed")
    if hashlib.sha256(data).hexdigest() != content.sha256:
        raise damaged("its SHA-256 does not match the sealed one")
    try:
        body = _decode(_decompressed(data))
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise damaged(f"it cannot be unpacked: {error}") from None
    if (body.format, body.version) != (FORMAT, FORMAT_VERSION):
        raise damaged(f"this release reads version {FORMAT_VERSION} of {FORMAT}, but it is version {body.version}")
    if body.partition != partition:
        raise damaged(f"it belongs to partition {body.partition}")
    entries = [Stored(Position(ms, seq), payload) for ms, seq, payload in body.entries]
    if not entries or len(entries) != content.entries:
        raise damaged(f"it has {len(entries):,} entries, but {content.entries:,} were sealed")
    if (str(entries[0].position), str(entries[-1].position)) != (content.first, content.last):
        raise damaged(f"it contains {entries[0].position} to {entries[-1].position}")
    if any(earlier.position >= later.position for earlier, later in pairwise(entries)):
        raise damaged("its entries are out of order")
    return entries


def overlaid(entries: Sequence[Stored], stubs: Mapping[Position, bytes]) -> list[Stored]:
    """The entries, with stubs in the place of those that were erased since they were sealed."""
    if not stubs:
        return list(entries)
    return [Stored(position, stubs.get(position, payload)) for position, payload in entries]


def _decompressed(frame: bytes) -> bytes:
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= MAX_UNPACKED_BYTES:  # checked first: what claims more is not unpacked
        raise ValueError(f"it declares {size:,} bytes")
    return zstandard.ZstdDecompressor().decompress(frame, max_output_size=MAX_UNPACKED_BYTES, allow_extra_data=False)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


def chain_start(archive: str, partition: int) -> str:
    """What the chain of a partition begins with."""
    return hashlib.sha256(f"{archive}/{partition}".encode()).hexdigest()


def link(before: str, content: Content) -> str:
    """The chain behind a segment: SHA-256 of the chain before it, its hash, first and last position and count."""
    text = f"{before}\n{content.sha256}\n{content.first}\n{content.last}\n{content.entries}"
    return hashlib.sha256(text.encode()).hexdigest()


def file_of(version: int, content: Content, writer: str) -> str:
    """The name of a segment's file: which version of the manifest it was written for, its hash, and by whom."""
    return f"segment-{version:010d}-{content.sha256[:16]}-{writer}.zst"


def version_of(name: str) -> int | None:
    """The version of the manifest that a file was written for; None for any other file name."""
    kind, _, rest = name.partition("-")
    digits = rest.partition("-")[0]
    return int(digits) if kind in ("segment", "manifest") and digits.isascii() and digits.isdigit() else None


def appended(manifest: ArchiveManifest, content: Content, writer: str) -> ArchiveManifest:
    """The next version, with one more segment; raises ValueError when that does not lie behind the others."""
    if Position.parse(content.first) <= manifest.sealed:
        raise ValueError(f"{content.first} is already sealed: up to {manifest.sealed}")
    version = manifest.version + 1
    added = Sealed(name=file_of(version, content, writer), content=content, chain=link(manifest.head, content))
    return replace(manifest, version=version, writer=writer, segments=(*manifest.segments, added))


def replaced(manifest: ArchiveManifest, contents: Mapping[str, Content], writer: str) -> ArchiveManifest:
    """The next version, with other contents in the place of segments by name; the chain after them is recomputed."""
    version, chain = manifest.version + 1, chain_start(manifest.archive, manifest.partition)
    segments: list[Sealed] = []
    for segment in manifest.segments:
        content = contents.get(segment.name, segment.content)
        name = file_of(version, content, writer) if segment.name in contents else segment.name
        chain = link(chain, content)
        segments.append(Sealed(name=name, content=content, chain=chain))
    return replace(manifest, version=version, writer=writer, segments=tuple(segments))


def encode(manifest: ArchiveManifest) -> bytes:
    """The bytes of a manifest."""
    return msgspec.json.encode(manifest)


def decode(raw: bytes, expected: ArchiveManifest, head: str) -> ArchiveManifest:
    """A manifest of the log, archive, partition and version of `expected`, whose chain ends in `head`. Raises
    DamagedArchive for everything else."""
    name = f"the manifest of version {expected.version}"

    def damaged(trouble: str) -> DamagedArchive:
        return DamagedArchive(expected.partition, name, trouble)

    try:
        manifest = msgspec.json.decode(raw, type=ArchiveManifest)
        error = _fault(manifest)
    except (msgspec.MsgspecError, ValueError) as invalid:
        raise damaged(f"it cannot be read: {invalid}") from None
    if (manifest.format, manifest.format_version) != (MANIFEST_FORMAT, MANIFEST_VERSION):
        raise damaged(
            f"this release reads version {MANIFEST_VERSION} of {MANIFEST_FORMAT}, but it is version "
            f"{manifest.format_version}"
        )
    if (manifest.log, manifest.archive, manifest.partition) != (expected.log, expected.archive, expected.partition):
        raise damaged(f"it belongs to partition {manifest.partition} of archive {manifest.archive}, log {manifest.log}")
    if manifest.version != expected.version:
        raise damaged(f"it declares version {manifest.version}")
    if error:
        raise damaged(error)
    if manifest.head != head:
        raise damaged("its chain does not end as the log requires: it is outdated, or was altered")
    return manifest


def _fault(manifest: ArchiveManifest) -> str:
    """What is wrong with a chain in itself; empty for a good one."""
    chain = chain_start(manifest.archive, manifest.partition)
    for segment in manifest.segments:
        chain = link(chain, segment.content)
        if segment.chain != chain:
            return f"the chain breaks at {segment.name}"
        if segment.first > segment.last or segment.content.entries < 1:
            return f"{segment.name} is empty"
    pairs = pairwise(manifest.segments)
    broken = next((segment for before, segment in pairs if before.last >= segment.first), None)
    return f"{broken.name} does not start after the previous segment" if broken else ""
