"""The entries of the log in the append-only file of a server that does not run, each compared with its checksum.

The server's own check knows no more than how commands are framed. This one reads them: every entry and every stub has
its checksum, in the right stream and order; what was deleted left a stub; the newest acknowledged position is there.
Entries of releases before checksums are counted, and must be events. Other keys are made from the log and are not
looked at.
"""

import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ingest.embedded.acknowledged import load_acknowledged
from ingest.embedded.log_file import files_of, missing
from ingest.events.envelope import as_json_object
from ingest.log.checksum import ALTERED, CHECKSUM, EVENT, TRACE, payload_of
from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import read_stub

LISTED = 100
"""Faults that are listed; all are counted."""
_LOG = re.compile(rb"mnemolog:\{p(\d{2,4})\}:log")
_FEED = re.compile(rb"mnemolog:\{p\d{2,4}\}:g\d+:changes")
_ERASED = re.compile(rb"mnemolog:\{p(\d{2,4})\}:erased")
_STUB = re.compile(rb"\d{14}-\d{6}\|(=[0-9a-f]{8}\||[\x80-\x8f\xde\xdf])", re.DOTALL)
"""A stub, with its checksum or of before; a map of msgpack begins with one of these bytes."""
_COMMAND = re.compile(rb"\r\n(?=\*\d+\r\n\$\d+\r\n[A-Z]+\r\n)")
_OF_A_LOG = frozenset({b"XADD", b"XDEL", b"XTRIM", b"XSETID", b"XGROUP", b"XACK", b"XCLAIM", b"DEL", b"UNLINK"})
_OF_STUBS = frozenset({b"ZADD", b"ZREM", b"DEL", b"UNLINK"})


class EntryFault(Struct, frozen=True):
    """One thing that is wrong: the byte of a file at which its command begins, the partition and position it names."""

    file: str
    at: int
    what: str

    def __str__(self) -> str:
        return f"{self.file} at byte {self.at:,}: {self.what}" if self.file else self.what


class Checked(Struct):
    """How many entries and stubs there are, how many of them have no checksum, and what is wrong, some of it listed."""

    entries: int = 0
    unchecked: int = 0
    wrong: int = 0
    faults: list[EntryFault] = []

    def note(self, file: str, at: int, what: str) -> None:
        """One more fault."""
        self.wrong += 1
        if len(self.faults) < LISTED:
            self.faults.append(EntryFault(file, at, what))


def check_entries(folder: Path) -> Checked:
    """What the files of a data folder hold of the log. Raises OSError, and ServerStartFailed without a manifest."""
    check = _Check()
    for file in files_of(folder):
        if file.stat().st_size:
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data[:5] != b"REDIS":  # an RDB file has a checksum of its own, which the server compares
                    check.read(file.name, data)
    for lost in missing(load_acknowledged(folder), check.newest):
        check.found.note("", 0, f"acknowledged entries are not there: {lost}")
    for partition, position in sorted(check.deleted - check.stubs):
        check.found.note("", 0, f"the entry of partition {partition} at {position} was deleted without a stub")
    return check.found


class _Check:
    """What is known of the log up to a place in its files."""

    def __init__(self) -> None:
        self.found = Checked()
        self.newest: dict[int, Position] = {}
        self.deleted: set[tuple[int, Position]] = set()
        self.stubs: set[tuple[int, Position]] = set()

    def read(self, file: str, data: mmap.mmap) -> None:
        """Go on with the commands of a file."""
        at = 0
        while at < len(data):
            try:
                command, end = _command(data, at)
            except ValueError:
                self.found.note(file, at, "it is no command")
                following = _COMMAND.search(data, at)
                end = following.end() if following else len(data)
            else:
                for what in self._command(command):
                    self.found.note(file, at, what)
            at = end

    def _command(self, command: Sequence[bytes]) -> Iterator[str]:
        """What is wrong with a command."""
        name, keys = command[0], command[1:]
        key = keys[1] if name == b"XGROUP" and len(keys) > 1 else keys[0] if keys else b""
        if log := _LOG.fullmatch(key):
            if name not in _OF_A_LOG:
                yield f"{_text(name)} is no command for {_text(key)}"
            elif name in (b"DEL", b"UNLINK"):
                self.newest.pop(int(log[1]), None)
            else:
                yield from self._of_a_log(name, PartitionKeys(int(log[1])), command[2:])
        elif name[:1].upper() == b"X" and not _FEED.fullmatch(key):
            yield f"{_text(name)} names an unknown stream, {_text(key)}"
        elif erased := _ERASED.fullmatch(key):
            if name not in _OF_STUBS:
                yield f"{_text(name)} is no command for {_text(key)}"
            elif name == b"ZADD":
                for score, member in zip(command[2::2], command[3::2], strict=False):
                    yield from self._stub(PartitionKeys(int(erased[1])), score, member)
        elif any(_STUB.match(one) and b"|=" in one[:23] for one in command[2:]):
            yield f"the stub of an erased entry is in {_text(key)}"

    def _of_a_log(self, name: bytes, keys: PartitionKeys, rest: Sequence[bytes]) -> Iterator[str]:
        try:
            if name == b"XADD" and rest[0] != b"MAXLEN":  # that makes an empty stream, in a rewritten file
                yield from self._entry(keys, Position.parse(rest[0]), rest)
            elif name == b"XSETID":
                self.newest[keys.partition] = Position.parse(rest[0])
            elif name == b"XDEL":
                self.deleted.update((keys.partition, Position.parse(one)) for one in rest)
        except (ValueError, IndexError) as error:
            yield f"{_text(name)} in {keys.log} cannot be read: {error}"

    def _entry(self, keys: PartitionKeys, position: Position, rest: Sequence[bytes]) -> Iterator[str]:
        fields = dict(zip(rest[1::2], rest[2::2], strict=True))
        named = [EVENT, CHECKSUM, TRACE] if CHECKSUM in fields else [EVENT, TRACE]
        whole = rest[1::2] == named[: len(rest) // 2]
        place = f"the entry of partition {keys.partition} at {position}"
        if not whole or payload_of(keys.log, rest[0], fields).startswith(ALTERED):
            yield f"{place} was altered"
        else:
            yield from self._counted(Stored(position, fields[EVENT]), place, checked=CHECKSUM in fields)
        if position <= self.newest.get(keys.partition, START):
            yield f"{place} is out of order"
        self.newest[keys.partition] = position

    def _stub(self, keys: PartitionKeys, score: bytes, member: bytes) -> Iterator[str]:
        if not _STUB.match(member) or score != b"0":
            yield f"a stub of partition {keys.partition} was altered"
            return
        stub = read_stub(keys, member)
        self.stubs.add((keys.partition, stub.position))
        place = f"the stub of partition {keys.partition} at {stub.position}"
        if stub.payload.startswith(ALTERED):
            yield f"{place} was altered"
        else:
            yield from self._counted(stub, place, checked=b"|=" in member[:23])

    def _counted(self, stored: Stored, place: str, *, checked: bool) -> Iterator[str]:
        self.found.entries += 1
        if not checked:
            self.found.unchecked += 1
            if why := as_json_object(stored.payload, stored.position).get("unreadable"):
                yield f"{place} cannot be read, and has no checksum: {why}"


def _command(data: mmap.mmap, at: int) -> tuple[list[bytes], int]:
    """The command at a place, and where it ends. Raises ValueError, also for what the server passes over."""
    count, at = _number(data, at, b"*")
    if not count:
        raise ValueError
    found: list[bytes] = []
    for _ in range(count):
        size, at = _number(data, at, b"$")
        if data[at + size : at + size + 2] != b"\r\n":
            raise ValueError
        found.append(data[at : at + size])
        at += size + 2
    return found, at


def _number(data: mmap.mmap, at: int, kind: bytes) -> tuple[int, int]:
    end = data.find(b"\r\n", at, at + 20)
    if end < 0 or data[at : at + 1] != kind or not data[at + 1 : end].isdigit():
        raise ValueError
    return int(data[at + 1 : end]), end + 2


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
