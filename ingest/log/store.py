"""The file store of archives and backups: a directory, or an fsspec URL. The only file that imports fsspec.

A write is atomic, and on disk when it returns. Calls block; use a thread. Everything raises ArchiveUnavailable if the
location is unreachable or refuses; the caller decides whether to retry.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

from ingest.errors import ArchiveUnavailable, InvalidSetting
from ingest.log.segments import MissingFile
from ingest.platform.files import sync

_BESIDE = ".writing-"


class Store(Protocol):
    """Files by path, `folder/…/name`. A file is written once and never changed."""

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises MissingFile without it."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Keep the bytes at a path, in the place of what may be there; folders are made."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files. One that is not there is no error."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of what is directly in a folder, sorted, folders among them; none where there is no such folder."""
        ...


def store_of(setting: str) -> Store:
    """The place that a setting names: a directory, or a URL of fsspec (`s3://bucket/path`). Raises InvalidSetting."""
    if "://" not in setting:
        return DirectoryStore(Path(setting).expanduser().absolute())
    if setting.startswith("file://"):
        return DirectoryStore(Path(setting.removeprefix("file://")).absolute())
    return UrlStore(setting)


class DirectoryStore:
    """Files below a directory, which is made with the first one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    def read(self, path: str) -> bytes:
        with _failing(f"{self}/{path} cannot be read"):
            return (self._directory / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """See Store. Writes beside and renames, so that a crash leaves the whole file or none; syncs its folders."""
        with _failing(f"{self}/{path} cannot be written"):
            target = self._directory / path
            folders = [target.parent, *target.parent.parents]
            folders = folders[: folders.index(self._directory) + 1]
            for folder in reversed(folders):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # the mode is that of the last folder alone
            beside = target.with_name(f"{_BESIDE}{target.name}")
            opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(target)
            for folder in folders:
                sync(folder)

    def delete(self, paths: Sequence[str]) -> None:
        with _failing(f"files in {self} cannot be deleted"):
            for path in paths:
                (self._directory / path).unlink(missing_ok=True)
            for folder in {(self._directory / path).parent for path in paths}:
                if folder.exists():
                    sync(folder)
                    with suppress(OSError):  # it is not empty
                        folder.rmdir()

    def names(self, folder: str) -> list[str]:
        """See Store. Also what an interrupted write left, so that it can be deleted."""
        with _failing(f"{self}/{folder} cannot be read"):
            directory = self._directory / folder
            return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


class UrlStore:
    """Files below a URL. The file systems that fsspec reaches so replace an object whole or not at all."""

    def __init__(self, url: str) -> None:
        """Raises InvalidSetting for a protocol that fsspec does not know, or whose package is not installed."""
        self._url = url.rstrip("/")
        # loaded only for a URL
        from fsspec.core import url_to_fs  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

        try:
            self._files, self._root = cast(tuple[Any, str], url_to_fs(self._url, use_listings_cache=False))
        except (ImportError, ValueError, TypeError) as error:
            raise InvalidSetting(f"{url!r} is not a directory or an fsspec URL: {error}") from None

    def __str__(self) -> str:
        return self._url

    def read(self, path: str) -> bytes:
        with _failing(f"{self}/{path} cannot be read"):
            return cast(bytes, self._files.cat_file(f"{self._root}/{path}"))

    def write(self, path: str, data: bytes) -> None:
        with _failing(f"{self}/{path} cannot be written"):
            self._files.makedirs(f"{self._root}/{path}".rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(f"{self._root}/{path}", data)

    def delete(self, paths: Sequence[str]) -> None:
        with _failing(f"files in {self} cannot be deleted"):
            for path in paths:
                with suppress(FileNotFoundError):
                    self._files.rm_file(f"{self._root}/{path}")

    def names(self, folder: str) -> list[str]:
        with _failing(f"{self}/{folder} cannot be read"):
            self._files.invalidate_cache()
            try:
                paths = cast(list[str], self._files.ls(f"{self._root}/{folder}", detail=False))
            except FileNotFoundError:
                return []
            return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)


@contextmanager
def _failing(what: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFile(f"{what}: it does not exist") from error
    except Exception as error:  # every file system of fsspec raises errors of its own
        raise ArchiveUnavailable(f"{what}: {' '.join(str(error).split())[:500] or repr(error)}") from error
