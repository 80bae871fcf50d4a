"""API processes on one port: the state that they share."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ingest.errors import ProjectionBehind
from ingest.log.shared_positions import SharedPositions, file_size
from ingest.platform.settings import Settings
from projections.index.protocol import IndexService

JOIN_WITHIN_S = 60.0
"""A process that joins others starts listening once its index is ready, or after this time."""


class ApiProcess(NamedTuple):
    """One of several API processes on one port. `joins`: others are already serving, so it starts listening once its
    index is ready.

    Only the first process drains the spools and runs the listeners whose clients have in-process sessions.
    """

    number: int
    processes: int
    folder: Path
    """The folder with their shared files."""
    joins: bool

    @property
    def is_first(self) -> bool:
        """Whether this is the process for tasks that only one process can do."""
        return self.number == 0

    def positions(self, partitions: int) -> SharedPositions:
        """The positions that all of them acknowledged."""
        fd = os.open(self.folder / "positions", os.O_RDWR | os.O_CLOEXEC)
        try:
            return SharedPositions(fd, self.number, self.processes, partitions)
        finally:
            os.close(fd)  # the mapping outlives the descriptor

    @property
    def _mark(self) -> Path:
        return self.folder / f"served-{self.number}"

    def serves(self) -> None:
        """Record that it has started."""
        self._mark.touch()

    @property
    def has_served(self) -> bool:
        """Whether it has started at least once."""
        return self._mark.exists()


def shared_folder(settings: Settings) -> Path:
    """A new folder for the processes of this server, with their shared memory."""
    folder = Path(tempfile.mkdtemp(prefix="mnemolog-api-"))
    with (folder / "positions").open("wb") as file:
        file.truncate(file_size(settings.api_processes, settings.partitions))
    return folder


async def wait_to_listen(api_process: ApiProcess, index: IndexService) -> None:
    """Return when the process can start listening."""
    if api_process.joins:
        with suppress(ProjectionBehind):
            await index.wait_ready(JOIN_WITHIN_S)
    api_process.serves()
