"""The newest acknowledged position of each partition, kept in a file beside the log's own.

What the log's server has after a start is compared with it: an acknowledged event that is not there is then known, with
its position. A record is written before the answer is sent, and survives the end of the process that wrote it. It is
not synced: after a power cut it may be older than the log, never newer.
"""

import logging
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from ingest.log.event_log import Appended
from ingest.log.position import START, Position

logger = logging.getLogger(__name__)

FILE = "acknowledged"
_RECORD = struct.Struct("<QQ")


class Acknowledged:
    """The file of one log; of several processes that write it, the last one's position stands."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._newest = load_acknowledged(folder)

    def note(self, appended: Mapping[int, Iterable[Appended]]) -> None:
        """Record what was appended, by partition. A file that cannot be written is logged: the log has the events."""
        for partition, rows in appended.items():
            newest = max((row.position for row in rows), default=START)
            if newest > self._newest.get(partition, START):
                self._newest[partition] = newest
                try:
                    os.pwrite(self._fd, _RECORD.pack(*newest), partition * _RECORD.size)
                except OSError as error:
                    logger.warning("what was acknowledged is not recorded: %s", error)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)


def load_acknowledged(folder: Path) -> dict[int, Position]:
    """The newest acknowledged position of each partition that has one. Raises OSError."""
    try:
        raw = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return {}
    whole = raw[: len(raw) // _RECORD.size * _RECORD.size]
    found = (Position(*record) for record in _RECORD.iter_unpack(whole))
    return {partition: position for partition, position in enumerate(found) if position > START}


def save_acknowledged(folder: Path, positions: Mapping[int, Position]) -> None:
    """Set these partitions to what the log has, once what it lacks has been recorded. Raises OSError."""
    fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for partition, position in positions.items():
            os.pwrite(fd, _RECORD.pack(*position), partition * _RECORD.size)
    finally:
        os.close(fd)
