"""Checks, backups and copies of a log: what the CLI and the workers use of them.

`reconcile` compares log, documents, listings and index, and repairs what follows from documents. Backups go to a
folder, a bucket or a dataset repository, and are restored into an empty log. Without this room mnemolog stores and
recalls as before, but cannot be checked, backed up or restored. Rebuilds use its comparison of documents and its
repairs.
"""

from ingest.errors import InvalidSetting
from ingest.log.store import store_of
from projections.maintenance.backups import (
    BackupFailed,
    BackupJob,
    BackupManifest,
    DamagedBackup,
    StoreTarget,
    Target,
    choose,
    listed,
    no_such_backup,
)
from projections.maintenance.differences import manifest_differences, manifest_of, replay_manifest
from projections.maintenance.reconciling import IndexNames, NewestSnapshot, ReconcileJob
from projections.maintenance.restoring import (
    Progress,
    Verified,
    Window,
    is_empty,
    point_of,
    refuse_if_used,
    restore,
    verify,
)

__all__ = [
    "BackupFailed", "BackupJob", "BackupManifest", "DamagedBackup", "IndexNames", "NewestSnapshot", "Progress",
    "ReconcileJob", "Target", "Verified", "Window", "choose", "is_empty", "listed", "manifest_differences",
    "manifest_of", "no_such_backup", "point_of", "refuse_if_used", "replay_manifest", "restore", "target_of", "verify",
]  # fmt: skip

HUGGING_FACE, DATASETS = "hf://", "hf://datasets/"


def target_of(setting: str, token: str = "") -> Target:
    """The target that a setting names: `hf://datasets/OWNER/REPO`, or what `store_of` takes. Raises InvalidSetting."""
    if setting.startswith(DATASETS):
        from projections.maintenance.hugging_face import HuggingFaceTarget  # an extra, and slow to import

        return HuggingFaceTarget(setting.removeprefix(DATASETS), token)
    if setting.startswith(HUGGING_FACE):
        raise InvalidSetting(f"{setting!r} is not a backup location: name a directory, or {DATASETS}OWNER/REPO")
    return StoreTarget(store_of(setting))
