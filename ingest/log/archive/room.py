"""The archive: the beginning of the log in sealed segments, on disk or in an object store, so that Redis can drop it.

Hands out the log that `open_log` opens with MNEMOLOG_ARCHIVE, the worker's job, and what `mnemolog admin archive` shows
and verifies. Without this room the log stays in Redis; MNEMOLOG_ARCHIVE and `mnemolog admin archive` go.
"""

from ingest.log.archive.archive import Archive, PartitionArchive, look, verify
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import ArchiveJob, ArchiveRun

__all__ = ["Archive", "ArchiveJob", "ArchiveRun", "ArchivedLog", "PartitionArchive", "look", "verify"]
