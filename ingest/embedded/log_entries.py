"""The entries of the log in the append-only file of a server that does not run, each compared with its checksum.

The server's own check only knows how commands are framed. This one knows that every entry and every stub has its
checksum, in the right stream and order, that what was deleted left a stub, and that the newest acknowledged position is
there. Entries from before checksums must at least be events. Other keys are made from the log, and not looked at.
"""

import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.embedded.acknowledged import load_acknowledged
from ingest.embedded.log_file import files_of, mapped, missing
from ingest.events.envelope import as_json_object
from ingest.log.checksum import ALTERED, CHECKSUM, EVENT, TRACE, payload_of
from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import read_stub

_LOG = re.compile(rb"mnemolog:\{p(\d{2,4})\}:log")
_FEED = re.compile(rb"mnemolog:\{p\d{2,4}\}:g\d+:changes")
_ERASED = re.compile(rb"mnemolog:\{p(\d{2,4})\}:erased")
_STUB = re.compile(rb"\d{14}-\d{6}\|(?:(=[0-9a-f]{8}\|)|[\x80-\x8f\xde\xdf])")
"""A stub with its checksum, or an older one: a map of msgpack begins with one of these bytes."""
_NEXT = re.compile(rb"\r\n(?=\*\d+\r\n\$\d+\r\n[A-Z]+\r\n)")
_OF_A_LOG = frozenset({b"XADD", b"XDEL", b"XTRIM", b"XSETID", b"XGROUP", b"XACK", b"XCLAIM", b"DEL", b"UNLINK"})
_OF_STUBS = frozenset({b"ZADD", b"ZREM", b"DEL", b"UNLINK"})


class LogCheck:
    """How many entries and stubs the files of a data folder have, how many of those without a checksum, all faults.

    Raises OSError, and DamagedLogFile for a damaged manifest.
    """

    def __init__(self, folder: Path) -> None:
        self.entries = self.unchecked = 0
        self.faults: list[str] = []
        self._newest: dict[int, Position] = {}
        self._deleted: set[tuple[int, Position]] = set()
        self._stubs: set[tuple[int, Position]] = set()
        for file in files_of(folder):
            if file.stat().st_size:
                with mapped(file) as data:
                    if data[:5] != b"REDIS":  # an RDB file has a checksum of its own, which the server compares
                        for at, command in _commands(data):
                            self.faults += (f"{file.name} at byte {at:,}: {what}" for what in self._wrong(command))
        self.faults += (
            f"acknowledged entries are not there: {lost}" for lost in missing(load_acknowledged(folder), self._newest)
        )
        self.faults += (
            f"the entry of partition {partition} at {position} was deleted without a stub"
            for partition, position in sorted(self._deleted - self._stubs)
        )

    def _wrong(self, command: Sequence[bytes]) -> Iterator[str]:
        """What is wrong with a command; an empty one is none."""
        name = command[0] if command else b""
        key = next(iter(command[2 if name == b"XGROUP" else 1 :]), b"")
        log, erased = _LOG.fullmatch(key), _ERASED.fullmatch(key)
        if not name:
            yield "it is no command"
        elif (log and name not in _OF_A_LOG) or (erased and name not in _OF_STUBS):
            yield f"{_text(name)} is no command for {_text(key)}"
        elif log:
            try:
                yield from self._of_a_log(name, PartitionKeys(int(log[1])), command[2:])
            except (ValueError, IndexError) as error:
                yield f"{_text(name)} for {_text(key)} cannot be read: {error}"
        elif erased and name == b"ZADD":
            for score, member in zip(command[2::2], command[3::2], strict=False):
                yield from self._stub(PartitionKeys(int(erased[1])), score, member)
        elif name[:1] in b"Xx" and not _FEED.fullmatch(key):
            yield f"{_text(name)} names an unknown stream, {_text(key)}"
        elif not erased and any((stub := _STUB.match(one)) and stub[1] for one in command[2:]):
            yield f"the stub of an erased entry is in {_text(key)}"

    def _of_a_log(self, name: bytes, keys: PartitionKeys, rest: Sequence[bytes]) -> Iterator[str]:
        match name:
            case b"XADD" if rest[0] != b"MAXLEN":  # that makes an empty stream, in a rewritten file
                position, fields = Position.parse(rest[0]), dict(zip(rest[1::2], rest[2::2], strict=True))
                names = (EVENT, CHECKSUM, TRACE) if CHECKSUM in fields else (EVENT, TRACE)
                whole = tuple(rest[1::2]) == names[: len(rest) // 2]
                payload = payload_of(keys.log, position, fields) if whole else ALTERED
                yield from self._judged("entry", keys, Stored(position, payload), checked=CHECKSUM in fields)
                if position <= self._newest.get(keys.partition, START):
                    yield f"the entry of partition {keys.partition} at {position} is out of order"
                self._newest[keys.partition] = position
            case b"XSETID":
                self._newest[keys.partition] = Position.parse(rest[0])
            case b"XDEL":
                self._deleted.update((keys.partition, Position.parse(one)) for one in rest)
            case b"DEL" | b"UNLINK":
                self._newest.pop(keys.partition, None)
            case _:
                pass

    def _stub(self, keys: PartitionKeys, score: bytes, member: bytes) -> Iterator[str]:
        matched = _STUB.match(member)
        if matched is None or score != b"0":
            yield f"a stub of partition {keys.partition} was altered"
            return
        stub = read_stub(keys, member)
        self._stubs.add((keys.partition, stub.position))
        yield from self._judged("stub", keys, stub, checked=matched[1] is not None)

    def _judged(self, kind: str, keys: PartitionKeys, stored: Stored, *, checked: bool) -> Iterator[str]:
        self.entries += 1
        self.unchecked += not checked
        suspect = not checked or stored.payload.startswith(ALTERED)
        if suspect and (why := as_json_object(stored.payload, stored.position).get("unreadable")):
            yield f"the {kind} of partition {keys.partition} at {stored.position}: {why}"


def _commands(data: mmap.mmap) -> Iterator[tuple[int, list[bytes]]]:
    """The commands of a file, each with its first byte; an empty one stands for bytes that are none, also where the
    server would pass over that."""
    at = 0
    while at < len(data):
        begin, found = at, list[bytes]()
        try:
            count, at = _number(data, at, b"*")
            for _ in range(count):
                size, at = _number(data, at, b"$")
                found.append(data[at : at + size])
                at += size + 2
                if data[at - 2 : at] != b"\r\n":
                    raise ValueError
        except ValueError:
            following, found = _NEXT.search(data, begin), []
            at = following.end() if following else len(data)
        yield begin, found


def _number(data: mmap.mmap, at: int, kind: bytes) -> tuple[int, int]:
    end = data.find(b"\r\n", at, at + 20)
    if end < 0 or data[at : at + 1] != kind or not data[at + 1 : end].isdigit():
        raise ValueError
    return int(data[at + 1 : end]), end + 2


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
