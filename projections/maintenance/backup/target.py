"""Where backups are: what every place offers, and the place that a setting names. Calls block; use a thread."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ingest.errors import InvalidSetting
from projections.maintenance.backup.directory import DirectoryTarget
from projections.maintenance.backup.manifest import MANIFEST, DamagedBackup, Listed, MissingFile, read_manifest

DATASETS = "hf://datasets/"


class Target(Protocol):
    """A place for backups. Everything raises BackupFailed when the place cannot be reached or refuses."""

    def names(self) -> list[str]:
        """The backups that are complete, oldest first; none where the place does not exist yet."""
        ...

    def fetch(self, name: str, file: str, work: Path) -> Path:
        """A file of a backup on this machine: where it is, or a copy in `work`. Raises MissingFile without it."""
        ...

    def put(self, name: str, folder: Path) -> None:
        """Keep the files in `folder` as backup `name`: all of them, or (also when it is killed) none."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete backups for good, also from what the place remembers. One that is not there is no error."""
        ...


def target_of(setting: str, token: str = "") -> Target:
    """The place that a setting names: a directory, or `hf://datasets/OWNER/REPO`. Raises InvalidSetting."""
    if setting.startswith(DATASETS):
        from projections.maintenance.backup.hugging_face import HuggingFaceTarget  # an extra, and slow to import

        return HuggingFaceTarget(setting.removeprefix(DATASETS), token)
    if "://" in setting:
        raise InvalidSetting(f"{setting!r} is no place for backups: name a directory, or {DATASETS}OWNER/REPO")
    return DirectoryTarget(Path(setting).expanduser())


def listed(target: Target, work: Path) -> list[Listed]:
    """All backups of a place with their manifests, oldest first."""
    found: list[Listed] = []
    for name in target.names():
        try:
            found.append(Listed(name, read_manifest(name, target.fetch(name, MANIFEST, work).read_bytes())))
        except DamagedBackup as error:
            found.append(Listed(name, None, error.trouble))
        except MissingFile:
            continue  # it was deleted a moment ago
    return found
