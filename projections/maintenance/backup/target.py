"""Where backups are: a store of files, or a dataset repository on a Hugging Face Hub. Calls block; use a thread."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from ingest.errors import InvalidSetting
from ingest.log.archive.segments import ArchiveUnavailable, MissingFile
from ingest.log.archive.store import Store, store_of
from projections.maintenance.backup.manifest import (
    MANIFEST,
    BackupFailed,
    DamagedBackup,
    ListedBackup,
    LogState,
    is_backup_name,
    read_manifest,
)

HUGGING_FACE, DATASETS = "hf://", "hf://datasets/"
_BEING_WRITTEN = "being-written.json"
"""A copy of the manifest, which is there first: it says whose backup it is that has no manifest yet."""


class Target(Protocol):
    """A place for backups. Everything raises BackupFailed when the place cannot be reached or refuses."""

    def names(self) -> list[str]:
        """The backups that are complete, oldest first; none where the place does not exist yet."""
        ...

    def read(self, name: str, file: str, work: Path) -> bytes:
        """A file of a backup, of which a copy may be kept in `work`. Raises MissingFile without it."""
        ...

    def put(self, name: str, folder: Path) -> None:
        """Keep the files in `folder` as backup `name`: all of them, or (also when it is killed) none."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete backups for good, also from what the place remembers. One that is not there is no error."""
        ...


def target_of(setting: str, token: str = "") -> Target:
    """The place that a setting names: `hf://datasets/OWNER/REPO`, or what `store_of` takes. Raises InvalidSetting."""
    if setting.startswith(DATASETS):
        from projections.maintenance.backup.hugging_face import HuggingFaceTarget  # an extra, and slow to import

        return HuggingFaceTarget(setting.removeprefix(DATASETS), token)
    if setting.startswith(HUGGING_FACE):
        raise InvalidSetting(f"{setting!r} is no place for backups: name a directory, or {DATASETS}OWNER/REPO")
    return StoreTarget(store_of(setting))


class StoreTarget:
    """Backups as folders of a store. One counts as soon as it has its manifest, which is written last."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def names(self) -> list[str]:
        """See Target. A folder with another name than a backup's is passed over."""
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
            there = self._store.names(name)
            if MANIFEST in there or _BEING_WRITTEN not in there:
                continue
            if msgspec.json.decode(self._store.read(f"{name}/{_BEING_WRITTEN}"), type=LogState).log == log:
                self._delete(name, _BEING_WRITTEN)

    def _delete(self, name: str, last: str) -> None:
        files = self._store.names(name)
        self._store.delete([f"{name}/{file}" for file in files if file != last])
        if last in files:
            self._store.delete([f"{name}/{last}"])


def listed(target: Target, work: Path) -> list[ListedBackup]:
    """All backups of a place with their manifests, oldest first."""
    found: list[ListedBackup] = []
    for name in target.names():
        try:
            found.append(ListedBackup(name, read_manifest(name, target.read(name, MANIFEST, work))))
        except DamagedBackup as error:
            found.append(ListedBackup(name, None, error.trouble))
        except MissingFile:
            continue  # it was deleted a moment ago
    return found


@contextmanager
def _failing(what: str = "") -> Generator[None]:
    """What a store raises, as what a target raises."""
    try:
        yield
    except MissingFile:
        raise
    except ArchiveUnavailable as error:
        raise BackupFailed(f"{what}: {error}" if what else str(error)) from error
