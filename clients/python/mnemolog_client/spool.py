"""Where encoded commands wait until the server has acknowledged them, in order: in memory, or in a folder.

Neither is safe to share between threads: an emitter uses it from one at a time.
"""

import logging
import os
import sys
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from mnemolog_client.errors import EmitterFull, SpoolInUse

SEGMENT_BYTES = 4 << 20
SMALLEST_SEGMENT_BYTES = 64 << 10
"""A spool of little room has four segments, or segments of this size."""
REJECTED_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20
logger = logging.getLogger(__name__)

_ENDING = ".ndjson"
_DIGITS = 12


class Waiting(Protocol):
    """Commands in the order they came, each a line of JSON without its end."""

    survives: bool
    """Whether what waits is still there when the process has ended."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def append(self, line: bytes) -> None:
        """Take one more; raises EmitterFull, or OSError, and has not taken it then."""
        ...

    def first(self, count: int, size: int) -> list[bytes]:
        """The oldest, at most `count` and, if more than one, about `size` bytes. They stay."""
        ...

    def drop(self, lines: Sequence[bytes]) -> None:
        """Forget the oldest, which are these."""
        ...

    def keep_rejected(self, record: bytes) -> bool:
        """Keep what the server refused for a person to look at; false when there is no place for it."""
        ...

    def close(self) -> None:
        """Let go of files; what waits stays in them."""
        ...


class InMemory:
    """Ends with its process, and all that waits with it."""

    survives = False

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._lines: deque[bytes] = deque()
        self._size, self._max_events, self._max_bytes = 0, max_events, max_bytes

    @property
    def count(self) -> int:
        return len(self._lines)

    def append(self, line: bytes) -> None:
        check_room(self.count, self._size + len(line), self._max_events, self._max_bytes)
        self._lines.append(line)
        self._size += len(line)

    def first(self, count: int, size: int) -> list[bytes]:
        return _within(islice(self._lines, count), size)

    def drop(self, lines: Sequence[bytes]) -> None:
        for _ in lines:
            self._size -= len(self._lines.popleft())

    def keep_rejected(self, record: bytes) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


class Spool:
    """A folder of segments, numbered files of lines; what was acknowledged is deleted segment by segment.

    An appended line has been handed to the operating system when `append` returns: it survives the end of this process,
    however that comes. With `fsync` it is on the disk, and survives the machine's end, too. `cursor` says how much of
    the oldest segment was acknowledged; it may be behind after a crash, and then some is sent again, with the same
    event ids. What the server refused is kept
    in `rejected`, a file of lines, up to 16 MiB.
    """

    survives = True

    def __init__(self, folder: Path, max_events: int, max_bytes: int, *, fsync: bool) -> None:
        """Opens what an earlier process left. Raises SpoolInUse while another emitter has the folder, and OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._fsync = folder, fsync
        self._max_events, self._max_bytes = max_events, max_bytes
        self._segment_bytes = max(SMALLEST_SEGMENT_BYTES, min(SEGMENT_BYTES, max_bytes // 4))
        self._lock = _locked(folder / "lock", folder)
        self._open: BinaryIO | None = None
        """The newest segment, while lines are appended to it."""
        self._sizes = {number: self._path(number).stat().st_size for number in self._numbers()}
        self._offset = self._acknowledged()
        self._repair()
        self._count = sum(_lines_behind(self._path(siz), self._start(siz)) for siz in self._sizes)

    @property
    def count(self) -> int:
        return self._count

    def append(self, line: bytes) -> None:
        check_room(self._count, sum(self._sizes.values()) + len(line) + 1, self._max_events, self._max_bytes)
        file = self._newest()
        number = next(reversed(self._sizes))
        try:
            _write_all(file, line + b"\n")
            if self._fsync:
                os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), self._sizes[number])  # half a line would be read as a whole line
            raise
        self._sizes[number] += len(line) + 1
        self._count += 1

    def first(self, count: int, size: int) -> list[bytes]:
        """Of the oldest segment only: a batch may be shorter than it could be."""
        if not self._count:
            return []
        oldest = next(iter(self._sizes))
        with self._path(oldest).open("rb") as file:
            file.seek(self._offset)
            block = file.read(size)
            if b"\n" not in block:
                block += file.readline()
        return block[: block.rindex(b"\n")].split(b"\n", count)[:count]

    def drop(self, lines: Sequence[bytes]) -> None:
        """A segment that is acknowledged to its end is deleted, also the newest: the next line begins another.

        What cannot be noted on the disk is logged; at worst the next process sends it again, with the same event ids.
        """
        oldest = next(iter(self._sizes))
        self._offset += sum(map(len, lines)) + len(lines)
        self._count -= len(lines)
        try:
            if self._offset < self._sizes[oldest]:
                self._note(oldest)
                return
            if len(self._sizes) == 1:
                self._end_newest()
            del self._sizes[oldest]
            self._offset = 0
            self._path(oldest).unlink()
        except OSError as fault:
            logger.warning("%s: what was sent could not be noted: %s", self._folder, fault)

    def keep_rejected(self, record: bytes) -> bool:
        try:
            with (self._folder / "rejected").open("ab") as file:
                if file.tell() + len(record) > REJECTED_BYTES:
                    return False
                file.write(record + b"\n")
        except OSError as fault:
            logger.warning("%s: what was refused could not be kept: %s", self._folder, fault)
            return False
        return True

    def close(self) -> None:
        self._end_newest()
        self._lock.close()

    def _numbers(self) -> list[int]:
        names = (path.stem for path in self._folder.glob(f"*{_ENDING}"))
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:0{_DIGITS}}{_ENDING}"

    def _start(self, number: int) -> int:
        """Where in a segment what waits begins."""
        return self._offset if number == next(iter(self._sizes)) else 0

    def _acknowledged(self) -> int:
        """How much of the oldest segment was acknowledged, as far as that was noted."""
        oldest = next(iter(self._sizes), None)
        try:
            number, _, offset = (self._folder / "cursor").read_text().partition(" ")
            return int(offset) if int(number) == oldest else 0
        except (FileNotFoundError, ValueError):
            return 0

    def _note(self, number: int) -> None:
        beside = self._folder / "cursor.new"
        beside.write_text(f"{number} {self._offset}")
        beside.replace(self._folder / "cursor")

    def _repair(self) -> None:
        """Pass over half a line at the end of a segment, whose `append` never returned; forget empty segments."""
        for number, size in list(self._sizes.items()):
            whole = _whole_lines(self._path(number), size)
            start = self._start(number)
            self._sizes[number] = whole
            if whole <= start:
                if number == next(iter(self._sizes)):
                    self._offset = 0
                del self._sizes[number]
                self._path(number).unlink()

    def _newest(self) -> BinaryIO:
        """The segment to append to: another one when that is full."""
        newest = next(reversed(self._sizes), None)
        if self._open is not None and newest is not None and self._sizes[newest] < self._segment_bytes:
            return self._open
        self._end_newest()
        number = (newest or self._last_number()) + 1
        self._open = self._path(number).open("ab", buffering=0)
        self._sizes[number] = 0
        if self._fsync:
            _fsync_folder(self._folder)
        return self._open

    def _last_number(self) -> int:
        """The number that the cursor is about: no later segment has it, or the cursor would be read as its own."""
        try:
            return int((self._folder / "cursor").read_text().partition(" ")[0])
        except (FileNotFoundError, ValueError):
            return 0

    def _end_newest(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def check_room(count: int, size: int, max_events: int, max_bytes: int) -> None:
    """Raise EmitterFull when one more than `count`, or `size` bytes in all, is more than allowed."""
    if count >= max_events:
        raise EmitterFull(f"{count:,} events wait to be acknowledged, the limit")
    if size > max_bytes:
        raise EmitterFull(f"with this event {size:,} bytes would wait; the limit is {max_bytes:,}")


def _within(lines: "islice[bytes]", size: int) -> list[bytes]:
    taken: list[bytes] = []
    for line in lines:
        size -= len(line) + 1
        if taken and size < 0:
            break
        taken.append(line)
    return taken


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _lines_behind(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK_BYTES), b""))


def _whole_lines(path: Path, size: int) -> int:
    """Where the last whole line ends."""
    with path.open("rb") as file:
        end = size
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _fsync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _locked(path: Path, folder: Path) -> BinaryIO:
    """An open file with a lock that ends with it, or with the process; raises SpoolInUse."""
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SpoolInUse(str(folder)) from None
    return file
