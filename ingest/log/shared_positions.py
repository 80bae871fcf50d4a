"""What the API processes of one server wrote, by writer, in memory that they share."""

import mmap
from zlib import crc32

from ingest.log.position import Position, Token

TABLE_BYTES = 1 << 20
"""Of one process: some 8,000 writers at 16 partitions."""
_SEQ_BITS = 20
_MAX_SEQ = (1 << _SEQ_BITS) - 1


def file_size(processes: int, partitions: int) -> int:
    """How large the file is that they share."""
    return processes * _writers(partitions) * partitions * 8


def _writers(partitions: int) -> int:
    return max(64, TABLE_BYTES // (8 * partitions))


class SharedPositions:
    """The tables of all processes, of which this one writes its own."""

    def __init__(self, fd: int, process: int, processes: int, partitions: int) -> None:
        self._file = mmap.mmap(fd, file_size(processes, partitions))
        self._cells = memoryview(self._file).cast("Q")
        self._partitions, self._writers = partitions, _writers(partitions)
        self._own, self._others = process, [other for other in range(processes) if other != process]

    def wrote(self, writer: str, written: Token) -> None:
        """Tell the others what was acknowledged to a writer."""
        row = self._row(self._own, writer)
        for partition, position in written.items():
            cell = position.ms << _SEQ_BITS | min(position.seq, _MAX_SEQ)
            # eight aligned bytes are written whole: readers in other processes need no lock
            if self._cells[row + partition] < cell:
                self._cells[row + partition] = cell

    def after(self, writer: str) -> Token:
        """What a writer, or one that shares its digest, wrote through the other processes."""
        token = Token()
        for process in self._others:
            row = self._row(process, writer)
            for partition, cell in enumerate(self._cells[row : row + self._partitions]):
                if cell:
                    token.include(partition, Position(cell >> _SEQ_BITS, cell & _MAX_SEQ))
        return token

    def close(self) -> None:
        """Give the memory back."""
        self._cells.release()
        self._file.close()

    def _row(self, process: int, writer: str) -> int:
        row = crc32(writer.encode(errors="replace")) % self._writers
        return (process * self._writers + row) * self._partitions
