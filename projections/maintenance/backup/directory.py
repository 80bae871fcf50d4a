"""Backups in a directory: each is a folder, written beside its place and renamed when it is whole and on disk."""

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ingest.platform.files import sync
from projections.maintenance.backup.manifest import MANIFEST, BackupFailed, MissingFile

_WRITING = ".writing-"


class DirectoryTarget:
    """Keeps backups below a directory, which is made with the first one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    def names(self) -> list[str]:
        """The folders that have a manifest; see Target."""
        with _failing(f"{self} cannot be read"):
            if not self._directory.exists():
                return []
            return sorted(
                path.name
                for path in self._directory.iterdir()
                if not path.name.startswith(".") and (path / MANIFEST).is_file()
            )

    def fetch(self, name: str, file: str, work: Path) -> Path:
        """The file itself; see Target."""
        path = self._directory / name / file
        if not path.is_file():
            raise MissingFile(f"there is no {path}")
        return path

    def put(self, name: str, folder: Path) -> None:
        """Copy the files; see Target. Also removes what an interrupted one left."""
        with _failing(f"backup {name} cannot be written to {self}"):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self._directory.glob(f"{_WRITING}*"):
                shutil.rmtree(left)
            beside = self._directory / f"{_WRITING}{name}"
            beside.mkdir(mode=0o700)
            for source in folder.iterdir():
                shutil.copyfile(source, beside / source.name)
                sync(beside / source.name)
            sync(beside)
            beside.rename(self._directory / name)
            sync(self._directory)

    def delete(self, names: Sequence[str]) -> None:
        """Remove the folders; see Target.

        Manifests go last, so that one whose deletion was interrupted is still there to be deleted.
        """
        with _failing(f"backups cannot be deleted from {self}"):
            for path in [self._directory / name for name in names if (self._directory / name).is_dir()]:
                for file in sorted(path.iterdir(), key=lambda file: file.name == MANIFEST):
                    file.unlink()
                path.rmdir()


@contextmanager
def _failing(what: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise BackupFailed(f"{what}: {error.strerror or error}") from error
