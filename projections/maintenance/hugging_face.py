"""Backups in a dataset repository on a Hugging Face Hub: one commit each. The one file that imports huggingface_hub.

The repository is made private when it does not exist. It should be for backups alone: deleting one also deletes it from
the repository's history, and with it the history of everything else there.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.errors import InvalidSetting
from ingest.log.segments import MissingFile
from projections.maintenance.backups import MANIFEST, BackupFailed

try:
    import httpx2
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, is_offline_mode
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.utils import disable_progress_bars
except ImportError as error:  # pragma: no cover - the tests have it
    raise InvalidSetting(
        f"backups to a Hugging Face Hub need huggingface_hub: pip install 'mnemolog[huggingface]' ({error})"
    ) from error

SEGMENT = ".zst"
_UNREACHABLE = (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError, RuntimeError)
"""What the library raises when the Hub is unreachable, refuses, or answers nonsense."""


class HuggingFaceTarget:
    """Stores backups in a dataset repository, `OWNER/NAME`. `endpoint` is the Hub's, by default that of HF_ENDPOINT."""

    def __init__(self, repository: str, token: str, endpoint: str | None = None) -> None:
        """Raises InvalidSetting for an invalid name, without a token, and in offline mode."""
        if repository.count("/") != 1 or not all(repository.split("/")):
            raise InvalidSetting(f"{repository!r} is not a dataset repository: write OWNER/NAME")
        if not token:
            raise InvalidSetting("backups to a Hugging Face Hub need an HF_TOKEN with write permission")
        if is_offline_mode():
            raise InvalidSetting("backups to a Hugging Face Hub do not work with HF_HUB_OFFLINE")
        disable_progress_bars()
        self._repository, self._api = repository, HfApi(endpoint=endpoint, token=token, library_name="mnemolog")
        self._location: dict[str, Any] = {"repo_id": repository, "repo_type": "dataset"}

    def __str__(self) -> str:
        return f"hf://datasets/{self._repository}"

    def names(self) -> list[str]:
        """The folders that have a manifest; see Target."""
        with _failing(f"{self} cannot be read"):
            return sorted(path.removesuffix(f"/{MANIFEST}") for path in self._files() if _is_manifest(path))

    def read(self, name: str, file: str, work: Path) -> bytes:
        """See Target. The cached copy is downloaded again only where the Hub has another version."""
        with _failing(f"{file} of backup {name} cannot be read from {self}"):
            try:
                path = self._api.hf_hub_download(
                    self._repository, f"{name}/{file}", repo_type="dataset", local_dir=work
                )
            except EntryNotFoundError:
                raise MissingFile(f"there is no {self}/{name}/{file}") from None
            return Path(path).read_bytes()

    def put(self, name: str, folder: Path) -> None:
        """Add the files in one commit; see Target."""
        with _failing(f"backup {name} cannot be written to {self}"):
            self._api.create_repo(**self._location, private=True, exist_ok=True)
            added = [CommitOperationAdd(f"{name}/{source.name}", str(source)) for source in sorted(folder.iterdir())]
            self._commit(added, f"Backup {name}")

    def delete(self, names: Sequence[str]) -> None:
        """Remove the folders, the history that has them, and the large files that nothing else refers to.

        Manifests go last, so that a backup whose deletion was interrupted is still listed and deleted later.
        """
        with _failing(f"backups cannot be deleted from {self}"):
            files = self._files()
            gone = {name for name in names if any(path.startswith(f"{name}/") for path in files)}
            if not gone:
                return
            content = [path for path in files if path.partition("/")[0] in gone and not _is_manifest(path)]
            if content:
                self._commit([CommitOperationDelete(path) for path in content], "Delete what backups hold")
            remaining = set(self._files().values())
            stored = self._api.list_lfs_files(**self._location)
            large = [file for file in stored if file.filename.endswith(SEGMENT) and file.oid not in remaining]
            self._api.permanently_delete_lfs_files(**self._location, lfs_files=large)
            self._api.super_squash_history(**self._location, commit_message="Backups")
            self._commit([CommitOperationDelete(f"{name}/", is_folder=True) for name in sorted(gone)], "Delete backups")

    def _commit(self, operations: Sequence[CommitOperationAdd | CommitOperationDelete], message: str) -> None:
        self._api.create_commit(**self._location, operations=operations, commit_message=message)

    def _files(self) -> dict[str, str]:
        """The paths of all files, with the SHA-256 of large ones; empty without a repository."""
        try:
            tree = [*self._api.list_repo_tree(**self._location, recursive=True)]
        except (RepositoryNotFoundError, RevisionNotFoundError) as error:
            if error.response.status_code == 404:
                return {}
            raise
        files: list[Any] = [entry for entry in tree if hasattr(entry, "size")]
        return {file.path: file.lfs.sha256 if file.lfs is not None else "" for file in files}


def _is_manifest(path: str) -> bool:
    return path.count("/") == 1 and path.endswith(f"/{MANIFEST}")


@contextmanager
def _failing(what: str) -> Generator[None]:
    try:
        yield
    except _UNREACHABLE as error:
        text = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise BackupFailed(f"{what}: {' '.join(text.split())[:500]}") from error
