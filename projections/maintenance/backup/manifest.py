"""What a backup is, and the decisions about backups: whether a new one is due, and which ones have to go. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ingest.errors import MnemologError
from ingest.log.position import START, Position

FORMAT, FORMAT_VERSION = "mnemolog-backup", 2
MANIFEST, INDEX = "manifest.json", "segments.json"
"""The files of a backup besides its segments."""
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}")


class BackupFailed(MnemologError):
    """No backup was made, or none could be read; the message says where and why."""

    code = "backup_failed"


class DamagedBackup(MnemologError):
    """A backup is not what its manifest says, or of a release that this one does not know."""

    code = "damaged_backup"

    def __init__(self, name: str, trouble: str) -> None:
        super().__init__(f"backup {name} is damaged: {trouble}")
        self.name, self.trouble = name, trouble


class RestoreRefused(MnemologError):
    """The log is not one to restore into: nothing was written."""

    code = "restore_refused"


class State(Struct, frozen=True, kw_only=True):
    """What decides whether a log has changed since a backup.

    `log` is when the log was created, which tells logs apart. `forgotten` counts what was ever erased from it and the
    requests to forget that were carried out: a backup with a smaller number has what was forgotten since.
    """

    log: str
    heads: dict[int, str]
    forgotten: int

    @property
    def empty(self) -> bool:
        """Whether nothing was ever said."""
        return all(Position.parse(head) == START for head in self.heads.values())


class Manifest(State, frozen=True, kw_only=True):
    """What a backup is. `heads` are its position: the segments hold each partition up to there, and nothing behind.

    `records` counts entries and kept keys, `bytes` are those of all segments, `sha256` is that of the index.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    name: str
    created_at: datetime
    release: str
    partitions: int
    events: int
    records: int
    bytes: int
    sha256: str


class Listed(NamedTuple):
    """A backup in a target; without a manifest where that cannot be read, which `trouble` says."""

    name: str
    manifest: Manifest | None
    trouble: str = ""


def read_manifest(name: str, raw: bytes) -> Manifest:
    """The manifest of a backup; raises DamagedBackup."""
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedBackup(name, f"{MANIFEST} cannot be read: {error}") from None
    if (manifest.format, manifest.version) != (FORMAT, FORMAT_VERSION):
        raise DamagedBackup(name, f"this release reads version {FORMAT_VERSION}, and it is {manifest.version}")
    if manifest.name != name:
        raise DamagedBackup(name, f"{MANIFEST} is that of {manifest.name}")
    return manifest


def name_of(created_at: datetime, sha256: str) -> str:
    """`<UTC time>-<hash>`; names sort by time."""
    return f"{stamp_of(created_at)}-{sha256[:8]}"


def stamp_of(created_at: datetime) -> str:
    """The time in the name of a backup."""
    return f"{created_at:%Y%m%dT%H%M%S.%fZ}"


def is_backup_name(name: str) -> bool:
    """Whether a name is one that `name_of` makes."""
    return _NAME.fullmatch(name) is not None


def newest_of(log: str, backups: Iterable[Manifest]) -> Manifest | None:
    """The newest of one log's backups; None without any."""
    return max((one for one in backups if one.log == log), key=lambda one: (one.created_at, one.name), default=None)


def changed(state: State, newest: State | None) -> bool:
    """Whether a backup would say something that the newest one does not; an empty log has nothing to say."""
    if newest is None or newest.log != state.log:
        return not state.empty
    return (state.heads, state.forgotten) != (newest.heads, newest.forgotten)


def due(state: State, newest: State | None, listed_at: datetime | None, now: datetime, every: timedelta) -> bool:
    """Whether it is time to look at the backups that are there: at once when they have what was forgotten since."""
    if newest is None or newest.log != state.log or state.forgotten > newest.forgotten:
        return changed(state, newest)
    return listed_at is None or now - listed_at >= every


def to_delete(newest: Manifest, backups: Iterable[Manifest], keep: int) -> list[str]:
    """Names of the backups of one log that have what was forgotten since, and of the oldest beyond `keep`.

    Those of another log in the same place are left alone.
    """
    own = sorted((one for one in backups if one.log == newest.log), key=lambda one: (one.created_at, one.name))
    stale = [one for one in own if one.forgotten < newest.forgotten]
    good = [one for one in own if one.forgotten >= newest.forgotten]
    return [one.name for one in (*stale, *good[: max(0, len(good) - keep)])]
