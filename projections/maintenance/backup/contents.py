"""What is in a backup: the log as segments, sealed to its head, and the keys that are kept beside it, as segments, too.

The manifest has the SHA-256 of the index, and the index that of each segment.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ingest.log.archive.manifest import ArchiveManifest as Chain
from ingest.log.archive.manifest import DamagedArchive, MissingFile, Sealed
from ingest.log.archive.segments import unpack
from ingest.log.event_log import Stored
from projections.maintenance.backup.manifest import INDEX, BackupFailed, DamagedBackup, Listed, Manifest
from projections.maintenance.backup.target import Target, listed

KEPT = -1
"""In the place of a partition: the segments of the keys that are kept. Their positions only count them."""


class HashField(Struct, frozen=True, array_like=True, tag="field"):
    """A field of a hash."""

    key: str
    field: str
    value: bytes


class Text(Struct, frozen=True, array_like=True, tag="text"):
    """A string."""

    key: str
    value: bytes


class Member(Struct, frozen=True, array_like=True, tag="member"):
    """A member of a sorted set; all of them score 0."""

    key: str
    value: bytes


Kept = HashField | Text | Member
encode_kept = msgspec.msgpack.Encoder().encode
_decode_kept = msgspec.msgpack.Decoder(Kept).decode


class Index(Struct, frozen=True):
    """The segments of the kept keys, and those of each partition."""

    kept: Chain
    partitions: list[Chain]


class Backup(Struct, frozen=True):
    """A backup whose index is what its manifest says. Reading raises DamagedBackup or BackupFailed, and blocks."""

    target: Target
    work: Path
    manifest: Manifest
    index: Index

    def entries(self, chain: Chain) -> Iterator[list[Stored]]:
        """The entries of a partition, a segment at a time."""
        for sealed in chain.segments:
            yield self._unpacked(chain, sealed)

    def kept(self) -> Iterator[list[Kept]]:
        """The keys that are kept, a segment at a time."""
        for entries in self.entries(self.index.kept):
            try:
                yield [_decode_kept(entry.payload) for entry in entries]
            except msgspec.MsgspecError as error:
                raise DamagedBackup(self.manifest.name, f"a kept key cannot be read: {error}") from None

    def check(self) -> None:
        """Read everything; raises DamagedBackup unless all of it is what was written."""
        for _ in self.kept():
            pass
        for chain in self.index.partitions:
            for _ in self.entries(chain):
                pass

    def _unpacked(self, chain: Chain, sealed: Sealed) -> list[Stored]:
        try:
            return unpack(self.target.read(self.manifest.name, sealed.name, self.work), chain.partition, sealed)
        except MissingFile:
            raise DamagedBackup(self.manifest.name, f"{sealed.name} is missing") from None
        except DamagedArchive as error:
            raise DamagedBackup(self.manifest.name, f"{sealed.name}: {error.trouble}") from error


def opened(target: Target, one: Listed, work: Path) -> Backup:
    """A backup, with its index; raises DamagedBackup or BackupFailed."""
    if one.manifest is None:
        raise DamagedBackup(one.name, one.trouble)
    try:
        raw = target.read(one.name, INDEX, work)
    except MissingFile:
        raise DamagedBackup(one.name, f"{INDEX} is missing") from None
    if hashlib.sha256(raw).hexdigest() != one.manifest.sha256:
        raise DamagedBackup(one.name, f"{INDEX} is not the file that was written (its SHA-256 differs)")
    index = msgspec.json.decode(raw, type=Index)
    for chain in index.partitions:
        if str(chain.sealed) != one.manifest.heads.get(chain.partition):
            raise DamagedBackup(one.name, f"partition {chain.partition} does not end where the manifest says")
    return Backup(target, work, one.manifest, index)


def choose(target: Target, name: str | None, work: Path) -> Backup | None:
    """The newest backup, or the one of that name, with all of it checked; None when there is none at all.

    Raises BackupFailed where there is none of that name. Raises DamagedBackup for a damaged one, also naming the newest
    good one before it: which one is restored then is for a person to say.
    """
    found = listed(target, work)
    if name is not None:
        found = found[: next((place for place, one in enumerate(found, 1) if one.name == name), 0)]
        if not found:
            raise no_such_backup(name, target)
    if not found:
        return None
    *older, wanted = found
    try:
        return _checked(target, wanted, work)
    except DamagedBackup as error:
        raise DamagedBackup(error.name, f"{error.trouble}; {_instead(target, older, work)}") from error


def no_such_backup(name: str, target: Target) -> BackupFailed:
    """The refusal of a name that no backup has."""
    return BackupFailed(f"there is no backup {name} in {target}; `mnemolog backups` lists those there are")


def _checked(target: Target, one: Listed, work: Path) -> Backup:
    backup = opened(target, one, work)
    backup.check()
    return backup


def _instead(target: Target, older: list[Listed], work: Path) -> str:
    for one in reversed(older):
        try:
            _checked(target, one, work)
        except DamagedBackup:
            continue
        return f"the newest good one before it: `mnemolog restore --backup {one.name}`"
    return "there is no good one before it"
