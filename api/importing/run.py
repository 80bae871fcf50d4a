"""Runs an import: maps rows to events, sends them to the server in chunks, and saves the state after each chunk.

A chunk contains rows of one kind. The next run sends unacknowledged events again; the server recognizes duplicates.
"""

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from api.importing.mapping import ImportRow, events_of
from api.importing.source import Cursor, Placed, Source, Unusable
from ingest.errors import CommandRejected
from ingest.events.envelope import Recorded
from ingest.log.position import START
from projections.operations.transfer import FORMAT, FORMAT_VERSION, End, ExportHeader, Imported, RejectedLine, line_of

MAX_REASONS, MAX_EXAMPLES = 50, 5
"""The most reasons of a kind, and the most rows that are named for each; the counts cover all of them."""
OTHER = "other reasons"


class ReasonCount(Struct):
    """Why rows were skipped, or which of their parts were lost: the count, and some examples."""

    rows: int = 0
    examples: list[str] = []


class KindCounts(Struct):
    """Rows of one kind: imported and skipped; and the events of the imported ones, new or already on the server.

    `superseded`: earlier memories that later rows replace.
    """

    taken: int = 0
    skipped: int = 0
    new: int = 0
    known: int = 0
    superseded: int = 0
    why: dict[str, ReasonCount] = {}
    lost: dict[str, ReasonCount] = {}


class ImportReport(Struct):
    """The results by kind of row, in the order in which the kinds occurred."""

    kinds: dict[str, KindCounts] = {}

    def kind(self, name: str) -> KindCounts:
        """The counts of a kind."""
        return self.kinds.setdefault(name, KindCounts())

    def skip(self, kind: str, row: str, reason: str) -> None:
        """Count a skipped row."""
        self.kind(kind).skipped += 1
        _count(self.kind(kind).why, reason, row)

    def lose(self, kind: str, row: str, what: str) -> None:
        """Count an imported row with lost parts."""
        _count(self.kind(kind).lost, what, row)

    @property
    def rows(self) -> int:
        """The number of processed rows."""
        return sum(kind.taken + kind.skipped for kind in self.kinds.values())


def _count(reasons: dict[str, ReasonCount], reason: str, row: str) -> None:
    if reason not in reasons and len(reasons) >= MAX_REASONS:
        reason = OTHER
    counted = reasons.setdefault(reason, ReasonCount())
    counted.rows += 1
    if len(counted.examples) < MAX_EXAMPLES:
        counted.examples.append(row[:100])


def document(report: ImportReport, **more: Any) -> dict[str, Any]:
    """The report as a JSON document."""
    return {**more, "rows": report.rows, "kinds": report.kinds}


class ImportState(Struct):
    """An import's state, for one location and one server; `cursor` is after the last row that the server
    acknowledged."""

    system: str
    location: str
    server: str
    fingerprint: str = ""
    cursor: Cursor = field(default_factory=list[str | int])
    report: ImportReport = field(default_factory=ImportReport)
    finished_at: datetime | None = None


class StateFile:
    """The file with the state of one import. An unreadable file counts as missing, because importing again is safe."""

    def __init__(self, system: str, location: str, server: str, options: str, folder: Path) -> None:
        digest = blake2b("\0".join((system, location, server, options)).encode(), digest_size=16).hexdigest()
        self.path = folder / f"{digest}.json"

    def read(self) -> ImportState | None:
        """The last saved state, if any."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ImportState)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def save(self, state: ImportState) -> None:
        """Replace the saved state atomically; raises Unusable."""
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(state))
            part.replace(self.path)
        except OSError as error:
            raise Unusable(f"the state of the import cannot be saved: {error}; set XDG_STATE_HOME") from None


def state_folder() -> Path:
    """The folder with import states."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "mnemolog" / "imports"


BATCH, MAX_BATCH = 500, 5_000
"""Events of a chunk: what the server appends at once; and the most that can be asked for."""
MAX_CHUNK_BYTES = 4 << 20
# Rows without events are not sent; they end a chunk, so that the state is saved.
ROWS_PER_SAVE = 10_000


Sender = Callable[[bytes, int], Imported]
"""Sends a chunk (its lines and the number of events) and returns the result. Raises ClientError."""


def nowhere(lines: bytes, events: int) -> Imported:
    """For a dry run: everything is accepted, nothing is sent."""
    return Imported(events, 0, 0, [], complete=True)


def server(post: Callable[[str, bytes], Any], tenant: str) -> Sender:
    """The import route of a server; a chunk is an export of its own."""
    header = _line(ExportHeader(format=FORMAT, version=FORMAT_VERSION, tenant=tenant, project=None))

    def send(lines: bytes, events: int) -> Imported:
        body = b"".join((header, lines, _line(End(end=True, events=events))))
        return msgspec.convert(post("/v1/admin/import", body), Imported)

    return send


@dataclass
class Run:
    """One import. `on_rows` gets the number of processed rows, `save` stores the state."""

    _source: Source
    _sender: Sender
    _state: ImportState
    _save: Callable[[ImportState], None]
    _: KW_ONLY
    tenant: str
    batch: int = BATCH
    on_rows: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        self._chunk = _Chunk(self._state.cursor)

    def run(self, finished_at: Callable[[], datetime]) -> ImportReport:
        """Import all rows after the state's cursor. Raises Unusable or ClientError; the state covers the completed
        rows."""
        for placed in self._source.rows(self._state.cursor):
            if self._chunk.full(self.batch) or (self._chunk.kind not in ("", placed.row.kind)):
                self._flush()
            self._gather(placed)
        self._flush()
        self._state.finished_at = finished_at()
        self._save(self._state)
        return self._state.report

    def _gather(self, placed: Placed) -> None:
        row = placed.row
        try:
            mapped = self._source.mapped(row)
            events = events_of(mapped, self._source.system, self.tenant)
            lines = [line_of(Recorded(START, *event)) for event in events]
            self._chunk.take(row, lines, list(mapped.lost), placed.cursor)
        except CommandRejected as error:
            self._chunk.skip(row, f"{error.field}: {error}" if error.field else str(error), placed.cursor)
        except Exception as error:  # a row that no mapping handles, such as a time past the end of the calendar
            self._chunk.skip(row, f"cannot be read: {type(error).__name__}", placed.cursor)

    def _flush(self) -> None:
        """Send the gathered rows, count them, and save the state."""
        chunk, self._chunk = self._chunk, _Chunk(self._chunk.cursor)
        if not chunk.rows:
            return
        report = self._state.report
        if chunk.lines:
            answer = self._sender(b"".join(chunk.lines), len(chunk.lines))
            refused = chunk.refused(answer.rejected)
            unnamed = answer.rejected_lines - len(answer.rejected)
            counts = report.kind(chunk.kind)
            counts.new, counts.known = counts.new + answer.events, counts.known + answer.duplicates
            counts.superseded += answer.superseded
        else:
            refused, unnamed = {}, 0
        for index, (row, reason, lost) in enumerate(chunk.rows):
            reason = reason or refused.get(index, "")
            if reason:
                report.skip(row.kind, row.name, reason)
                continue
            report.kind(row.kind).taken += 1
            for what in lost:
                report.lose(row.kind, row.name, what)
        if unnamed:
            report.lose(chunk.kind, "", f"{unnamed} events that the server refused without details")
        self._state.cursor = chunk.cursor
        self._save(self._state)
        self.on_rows(len(chunk.rows))


class _Chunk:
    """Rows that were gathered, with their reasons not to be taken and what of them is lost; and their lines."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.kind = cursor, ""
        self.rows: list[tuple[ImportRow, str, list[str]]] = []
        self.lines: list[bytes] = []
        self._row_of: list[int] = []
        self._bytes = 0

    def full(self, batch: int) -> bool:
        """Whether the chunk should be sent."""
        return len(self.lines) >= batch or self._bytes >= MAX_CHUNK_BYTES or len(self.rows) >= ROWS_PER_SAVE

    def take(self, row: ImportRow, lines: list[bytes], lost: list[str], cursor: Cursor) -> None:
        """Add an imported row."""
        self._row_of += [len(self.rows)] * len(lines)
        self.rows.append((row, "", lost))
        self.lines += lines
        self._bytes += sum(map(len, lines))
        self.kind, self.cursor = row.kind, cursor

    def skip(self, row: ImportRow, reason: str, cursor: Cursor) -> None:
        """Add a skipped row."""
        self.rows.append((row, reason, []))
        self.cursor = cursor

    def refused(self, rejected: list[RejectedLine]) -> dict[int, str]:
        """Why rows were refused, by index; lines are numbered from 1, the header."""
        return {self._row_of[rejection.line - 2]: f"{rejection.code}: {rejection.message}" for rejection in rejected}


def _line(value: ExportHeader | End) -> bytes:
    return msgspec.json.encode(value) + b"\n"
