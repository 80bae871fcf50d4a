"""Which backup to restore: the newest one, or a named one, if it is what its manifest says."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from projections.maintenance.backup.manifest import RECORDS, BackupFailed, DamagedBackup, Listed, Manifest, MissingFile
from projections.maintenance.backup.target import Target, listed

BLOCK_BYTES = 1 << 20


class Checked(NamedTuple):
    """A backup whose records are what its manifest says, on this machine."""

    manifest: Manifest
    records: Path


def check(target: Target, one: Listed, work: Path) -> Checked:
    """Fetch the records of a backup and compare their hash; raises DamagedBackup or BackupFailed."""
    if one.manifest is None:
        raise DamagedBackup(one.name, one.trouble)
    try:
        records = target.fetch(one.name, RECORDS, work)
    except MissingFile:
        raise DamagedBackup(one.name, f"{RECORDS} is missing") from None
    digest = hashlib.sha256()
    with records.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != one.manifest.sha256:
        raise DamagedBackup(one.name, f"{RECORDS} is not the file that was written (its SHA-256 differs)")
    return Checked(one.manifest, records)


def choose(target: Target, name: str | None, work: Path) -> Checked | None:
    """The newest backup, or the one of that name, with its records checked; None when there is none at all.

    Raises BackupFailed where there is none of that name. Raises DamagedBackup for a damaged one, also naming the newest
    good one before it: which one is restored then is for a person to say.
    """
    found = listed(target, work)
    if name is not None:
        found = found[: next((place for place, one in enumerate(found, 1) if one.name == name), 0)]
        if not found:
            raise BackupFailed(f"there is no backup {name} in {target}; `mnemolog backups` lists those there are")
    if not found:
        return None
    *older, wanted = found
    try:
        return check(target, wanted, work)
    except DamagedBackup as error:
        raise DamagedBackup(error.name, f"{error.trouble}; {_instead(target, older, work)}") from error


def _instead(target: Target, older: list[Listed], work: Path) -> str:
    for one in reversed(older):
        try:
            check(target, one, work)
        except DamagedBackup:
            continue
        return f"the newest good one before it: `mnemolog restore --backup {one.name}`"
    return "there is no good one before it"
