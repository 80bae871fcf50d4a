"""What a backup is, where backups are stored, when a new one is due and which ones are deleted.

Calls of a target block; use a thread.
"""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ingest.errors import MnemologError
from ingest.log.archive.archive import count_erased
from ingest.log.archive.segments import ArchiveUnavailable, MissingFile
from ingest.log.archive.store import Store
from ingest.log.event_log import EventLog
from ingest.log.keys import BACKUP_STATUS, FORGOTTEN_BEFORE
from ingest.log.keys import MANIFEST as MANIFEST_KEY
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.forgetting.receipts import all_receipts

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


class LogState(Struct, frozen=True, kw_only=True):
    """What decides whether a log has changed since a backup.

    `log` is when the log was created, which identifies it. `forgotten` counts the entries ever erased from it and the
    requests to forget that are done: a backup with a smaller number still has what was forgotten since.
    """

    log: str
    heads: dict[int, str]
    forgotten: int

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return all(Position.parse(head) == START for head in self.heads.values())


class BackupManifest(LogState, frozen=True, kw_only=True):
    """What a backup is. `heads` are its position: the segments hold each partition exactly up to there.

    `records` counts entries and keys beside the log, `bytes` is the size of all segments, `sha256` is of the index.
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


class ListedBackup(NamedTuple):
    """A backup in a target. `manifest` is None where it cannot be read; `trouble` says why."""

    name: str
    manifest: BackupManifest | None
    trouble: str = ""


def read_manifest(name: str, raw: bytes) -> BackupManifest:
    """The manifest of a backup; raises DamagedBackup."""
    try:
        manifest = msgspec.json.decode(raw, type=BackupManifest)
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


def newest_of(log: str, backups: Iterable[BackupManifest]) -> BackupManifest | None:
    """The newest of one log's backups; None without any."""
    return max(_of(log, backups), key=_age, default=None)


def changed(state: LogState, newest: LogState | None) -> bool:
    """Whether a backup would have something that the newest one lacks, or lack what was forgotten since."""
    if newest is None or newest.log != state.log:
        return not state.empty
    return (state.heads, state.forgotten) != (newest.heads, newest.forgotten)


def due(state: LogState, newest: LogState | None, listed_at: datetime | None, now: datetime, every: timedelta) -> bool:
    """Whether it is time to look at the existing backups: at once when they have what was forgotten since."""
    if newest is None or newest.log != state.log or state.forgotten > newest.forgotten:
        return changed(state, newest)
    return listed_at is None or now - listed_at >= every


def to_delete(newest: BackupManifest, backups: Iterable[BackupManifest], keep: int) -> list[str]:
    """Names of the backups of one log that have what was forgotten since, and of the oldest beyond `keep`.

    Those of another log in the same target are left alone.
    """
    own = sorted(_of(newest.log, backups), key=_age)
    stale = [backup for backup in own if backup.forgotten < newest.forgotten]
    good = [backup for backup in own if backup.forgotten >= newest.forgotten]
    return [backup.name for backup in (*stale, *good[: max(0, len(good) - keep)])]


def _of(log: str, backups: Iterable[BackupManifest]) -> list[BackupManifest]:
    return [backup for backup in backups if backup.log == log]


def _age(backup: BackupManifest) -> tuple[datetime, str]:
    return backup.created_at, backup.name


LATE_AFTER = timedelta(minutes=5)
"""How late a job may be: others run before it, and a large log takes time."""


class Status(Struct, frozen=True, kw_only=True):
    """The newest backup in `target`, when it was last found to be new enough, and what failed since."""

    target: str
    newest: BackupManifest | None = None
    listed_at: datetime | None = None
    error: str = ""


async def measure(redis: Client, log: EventLog) -> LogState:
    """The state of a log. What is read of the log afterwards is at least as new."""
    created, before = await redis.hmget(MANIFEST_KEY, ["created_at", FORGOTTEN_BEFORE])
    return LogState(
        log=(created or b"").decode(),
        forgotten=int(before or 0) + await count_forgotten(redis, log.partitions),
        heads={partition: str(await log.head(partition)) for partition in range(log.partitions)},
    )


async def count_forgotten(redis: Client, partitions: int) -> int:
    """Entries that this log erased, and requests to forget that are done."""
    erased = await count_erased(redis, partitions)
    return erased + sum(receipt.status == "done" for receipt in await all_receipts(redis))


def backup_trouble(status: Status | None, now: datetime, every: timedelta) -> str:
    """What is wrong with the backups of a log, if anything; empty where no worker has looked yet."""
    if status is None:
        return ""
    if status.error:
        return f"the newest backup failed: {status.error}"
    if status.listed_at is not None and now - status.listed_at > max(3 * every, LATE_AFTER):
        return f"nobody has looked after the backups since {status.listed_at:%Y-%m-%d %H:%M} UTC; does a worker run?"
    return ""


async def load_status(redis: Client) -> Status | None:
    """The last stored status; None when there is none."""
    raw = await redis.get(BACKUP_STATUS)
    return msgspec.json.decode(raw, type=Status) if raw else None


async def save_status(redis: Client, status: Status) -> None:
    """Store the status."""
    await redis.set(BACKUP_STATUS, msgspec.json.encode(status))


_BEING_WRITTEN = "being-written.json"
"""A copy of the manifest, written first: it says which log an unfinished backup is of."""


class Target(Protocol):
    """Where backups are stored. Everything raises BackupFailed when it cannot be reached or refuses."""

    def names(self) -> list[str]:
        """The complete backups, oldest first; empty where the target does not exist yet."""
        ...

    def read(self, name: str, file: str, work: Path) -> bytes:
        """A file of a backup; a copy may be cached in `work`. Raises MissingFile."""
        ...

    def put(self, name: str, folder: Path) -> None:
        """Store the files in `folder` as backup `name`: all of them, or (also when it is killed) none."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete backups permanently, history included. A missing one is not an error."""
        ...


class StoreTarget:
    """Backups as folders of a store. One counts as soon as it has its manifest, which is written last."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def names(self) -> list[str]:
        """See Target. Folders that are not named like a backup are skipped."""
        with _failing():
            return [name for name in self._folders() if MANIFEST in self._store.names(name)]

    def read(self, name: str, file: str, work: Path) -> bytes:
        """See Target."""
        with _failing():
            return self._store.read(f"{name}/{file}")

    def put(self, name: str, folder: Path) -> None:
        """See Target. Also deletes what interrupted backups of the same log left."""
        manifest = (folder / MANIFEST).read_bytes()
        files = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
        with _failing(f"backup {name} cannot be written"):
            self._delete_unfinished(msgspec.json.decode(manifest, type=LogState).log)
            self._store.write(f"{name}/{_BEING_WRITTEN}", manifest)
            for file in files:
                self._store.write(f"{name}/{file}", (folder / file).read_bytes())
            if not {*files} <= {*self._store.names(name)}:
                raise BackupFailed(f"backup {name}: another process deleted files of it from {self}")
            # last: a backup without its manifest does not count, so one that is killed here was never made
            self._store.write(f"{name}/{MANIFEST}", manifest)
            self._store.delete([f"{name}/{_BEING_WRITTEN}"])

    def delete(self, names: Sequence[str]) -> None:
        """See Target. Manifests go last, so that one whose deletion was interrupted is still there to be deleted."""
        with _failing("backups cannot be deleted"):
            for name in names:
                self._delete(name, MANIFEST)

    def _folders(self) -> list[str]:
        return [name for name in self._store.names("") if is_backup_name(name)]

    def _delete_unfinished(self, log: str) -> None:
        for name in self._folders():
            files = self._store.names(name)
            if MANIFEST in files or _BEING_WRITTEN not in files:
                continue
            if msgspec.json.decode(self._store.read(f"{name}/{_BEING_WRITTEN}"), type=LogState).log == log:
                self._delete(name, _BEING_WRITTEN)

    def _delete(self, name: str, last: str) -> None:
        files = self._store.names(name)
        self._store.delete([f"{name}/{file}" for file in files if file != last])
        if last in files:
            self._store.delete([f"{name}/{last}"])


def listed(target: Target, work: Path) -> list[ListedBackup]:
    """All backups of a target with their manifests, oldest first."""
    backups: list[ListedBackup] = []
    for name in target.names():
        try:
            backups.append(ListedBackup(name, read_manifest(name, target.read(name, MANIFEST, work))))
        except DamagedBackup as error:
            backups.append(ListedBackup(name, None, error.trouble))
        except MissingFile:
            continue  # it was deleted a moment ago
    return backups


@contextmanager
def _failing(what: str = "") -> Generator[None]:
    try:
        yield
    except MissingFile:
        raise
    except ArchiveUnavailable as error:
        raise BackupFailed(f"{what}: {error}" if what else str(error)) from error
