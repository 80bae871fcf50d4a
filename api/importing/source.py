"""Sources of rows: the interface, sources that read a whole document first, and file reading."""

import json
import re
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from io import BufferedReader, TextIOWrapper
from itertools import filterfalse, islice
from lzma import LZMAError
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, cast
from urllib.parse import urlsplit
from zipfile import BadZipFile, ZipFile, is_zipfile

import httpx
import msgspec

from api.importing.claude_code import TranscriptLine
from api.importing.mapping import ImportRow, Mapped, Record, as_object, objects, text
from ingest.errors import reason_of
from ingest.platform.addresses import proxy_options
from ingest.secrets.scrub import repair_text

Cursor: TypeAlias = list[str | int]
"""A position in a source, in its own format; empty for the beginning. Rows before it are done."""
Map: TypeAlias = Callable[[ImportRow], Mapped]


class Unusable(Exception):
    """A source cannot be read; the message says why, and what to do. `busy`: a later retry may help."""

    def __init__(self, message: str, *, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class ImportRequest(NamedTuple):
    """What to import: the location as passed, and the other options."""

    location: str
    tenant: str
    secret: str = ""
    project: str | None = None
    form: str = "auto"
    """The format of the lines in a file."""

    def project_or(self, usual: str) -> str:
        """The project to import into."""
        return usual if self.project is None else self.project

    def required_location(self, what: str) -> str:
        """The location; without one, raises Unusable that says `what` is expected."""
        if not self.location:
            raise Unusable(f"a location is needed: {what}")
        return self.location


class Placed(NamedTuple):
    """A row, and the cursor after it."""

    row: ImportRow
    cursor: Cursor


class Source(ABC):
    """Rows of another system, in an order that stays the same.

    `system` is the system of the latest row: part of its events' ids. `notes` are messages for the user about the
    source. A different `fingerprint` invalidates earlier cursors; it is empty if rows are only ever added.
    """

    def __init__(self, system: str, mapped: Map, fingerprint: str = "") -> None:
        self.system, self.fingerprint, self.notes = system, fingerprint, list[str]()
        self._map = mapped

    def total(self) -> int | None:
        """The number of rows; None if it is unknown before they are read."""
        return None

    @abstractmethod
    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor; raises Unusable."""

    def mapped(self, row: ImportRow) -> Mapped:
        """The commands of a row; raises CommandRejected if it cannot be imported."""
        return self._map(row)

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Release its resources."""


class WholeSource(Source):
    """Rows of a document that was read whole; a cursor is the number of processed rows."""

    def __init__(
        self, system: str, rows: Callable[[], Iterator[ImportRow]], total: int, mapped: Map, fingerprint: str
    ) -> None:
        super().__init__(system, mapped, fingerprint)
        self._rows, self._total = rows, total

    def total(self) -> int:
        """The number of rows."""
        return self._total

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor."""
        done = int(after[0]) if after else 0
        for number, row in enumerate(islice(self._rows(), done, None), done + 1):
            yield Placed(row, [number])


def newer(what: str, version: str, newest_known: str) -> list[str]:
    """A note if a version is newer than the newest known one."""
    stated, newest = ([int(part) for part in re.findall(r"\d{1,9}", each)[:4]] for each in (version, newest_known))
    if stated <= newest:
        return []
    return [
        f"{what} has version {version}; the newest known version is {newest_known}, so parts of it "
        "might not be imported"
    ]


def of_rows(system: str, rows: Sequence[ImportRow], mapped: Map, *also: object) -> WholeSource:
    """The source of rows; their values, and what `also` decides what they become, tell it from another one."""
    fingerprint = fingerprint_of([also, [row.value for row in rows]])
    return WholeSource(system, lambda: iter(rows), len(rows), mapped, fingerprint)


Opener: TypeAlias = Callable[[ImportRequest], Source]


def fingerprint_of(value: Any) -> str:
    """What tells a document from another one."""
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


# The size limit of a JSON document, which is read whole and then needs about ten times as much memory.
MAX_DOCUMENT_BYTES = 512 << 20
# The total size limit of the documents in a zip archive.
MAX_UNPACKED_BYTES = 2 << 30
# A longer line is skipped, because it would not fit into an event.
MAX_LINE_BYTES = 32 << 20
_SQLITE = b"SQLite format 3\0"


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Raises Unusable for a file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database; raises Unusable when it cannot be read."""
    with reading(path), path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def document(path: Path) -> Any:
    """The content of a JSON file; raises Unusable."""
    with reading(path):
        size = path.stat().st_size
        if size > MAX_DOCUMENT_BYTES:
            raise Unusable(
                f"{path} has {size >> 20:,} MiB; the limit is {MAX_DOCUMENT_BYTES >> 20} MiB, because "
                "a document is read whole: "
                "export it in parts, or import from the running server or its database"
            )
        return decoded(path.read_bytes(), str(path))


def exported(path: Path, is_read: Callable[[str], object]) -> tuple[dict[str, Any], list[str]]:
    """The JSON documents of an export by their names, and the names of its other files; raises Unusable.

    `path` is a zip archive, the folder it was unpacked to, or one of the documents; `is_read` chooses by name.
    """
    if path.is_dir():
        files = {
            repair_text(file.relative_to(path).as_posix()): file for file in sorted(path.rglob("*")) if file.is_file()
        }
        return {name: document(file) for name, file in files.items() if is_read(name)}, [*filterfalse(is_read, files)]
    if not is_zipfile(path):
        return {path.name: document(path)}, []
    try:
        with ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
            chosen = {name: entry for name, entry in entries.items() if is_read(name)}
            if any(entry.file_size > MAX_DOCUMENT_BYTES for entry in chosen.values()):
                raise Unusable(f"{path} has a document of over {MAX_DOCUMENT_BYTES >> 20} MiB, which is the limit")
            if sum(entry.file_size for entry in chosen.values()) > MAX_UNPACKED_BYTES:
                raise Unusable(f"{path} has over {MAX_UNPACKED_BYTES >> 20:,} MiB of documents; export it in parts")
            documents = {name: decoded(archive.read(entry), f"{name} in {path}") for name, entry in chosen.items()}
            return documents, [*filterfalse(is_read, entries)]
    except (BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise Unusable(f"{path} cannot be read as a zip archive: {str(error) or 'it is truncated'}") from None


def modified(path: Path) -> datetime:
    """When a file was last changed; raises Unusable."""
    with reading(path):
        return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


def decoded(content: bytes, what: str) -> Any:
    """The JSON value, its half surrogate pairs repaired; raises Unusable for anything else."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.json.decode(repair_text(json.dumps(json.loads(content), ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{what} is not JSON: {error}") from None


def listed(value: Any, *fields: str) -> list[Any] | None:
    """The document if it is a list, or the list in one of the fields, if any."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    lists = (as_object(value).get(field) for field in fields)
    return next((cast("list[Any]", items) for items in lists if isinstance(items, list)), None)


class Readable(Protocol):
    """The file interface that readers of lines and blocks need."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


class _Recoded:
    """A file of another encoding, as UTF-8; sizes count characters."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        self._text = TextIOWrapper(file, encoding, errors="replace", newline="\n")

    def read(self, size: int, /) -> bytes:
        return self._text.read(size).encode()

    def readline(self, size: int, /) -> bytes:
        return self._text.readline(size).encode()


def utf8(file: BufferedReader) -> Readable:
    """A JSON file that was just opened, as UTF-8 without a byte order mark. JSON begins with an ASCII character, so its
    first bytes tell UTF-16 and UTF-32 with or without a mark (RFC 4627, section 3): what PowerShell's `>` writes."""
    encoding = json.detect_encoding(file.peek(4)[:4])
    return file if encoding == "utf-8" else _Recoded(file, encoding)


def lines(path: Path) -> Iterator[TranscriptLine]:
    """The lines of a file that are not blank, counted from 1; raises Unusable."""
    with reading(path), path.open("rb") as file:
        number, source = 0, utf8(file)
        while text := source.readline(MAX_LINE_BYTES):
            number += 1
            whole = len(text) < MAX_LINE_BYTES or text.endswith(b"\n")
            while not whole:
                rest = source.readline(MAX_LINE_BYTES)
                whole = len(rest) < MAX_LINE_BYTES or rest.endswith(b"\n")
                text = b"{"
            if text.strip():
                yield TranscriptLine(number, _object(text))


def _object(text: bytes) -> Record | None:
    try:
        value = decoded(text, "the line")
    except Unusable:
        return None
    return cast(Record, value) if isinstance(value, dict) else None


def list_in(path: Path, *fields: str) -> list[Record]:
    """The objects of the list in a file; anything else becomes an empty one, and is rejected with a reason."""
    items = listed(document(path), *fields)
    if items is None:
        raise Unusable(f"{path} is neither a list nor an object with a list in {' or '.join(map(repr, fields))}")
    return list(map(as_object, items))


def rows_by_time(records: list[Record], kind: str, time: str) -> list[ImportRow]:
    """Rows by time, oldest first."""
    ordered = sorted(enumerate(records), key=lambda pair: (text(pair[1], time), text(pair[1], "id"), pair[0]))
    return [ImportRow(kind, text(record, "id") or f"number {index}", record) for index, record in ordered]


TIMEOUT_S = 60.0
# How long a request is retried while the server is busy or unreachable; the pause doubles.
MAX_ATTEMPTS, PATIENCE_S, FIRST_PAUSE_S = 6, 10.0, 0.2
# The most items that are gathered from one list, because they are all in memory.
MAX_ITEMS = 2_000_000


def is_url(location: str) -> bool:
    """Whether a location is a server's address."""
    return urlsplit(location).scheme in ("http", "https")


class RestServer:
    """A server of another system; a context manager."""

    def __init__(self, url: str, secret: str = "") -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._http = httpx.Client(headers=headers, timeout=TIMEOUT_S, **proxy_options(url))

    def __enter__(self) -> "RestServer":
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.close()

    def get(self, path: str, **query: str | int) -> Any:
        """The decoded response; raises Unusable for any status but 200."""
        from mnemolog_client.retry import Attempts, Retry  # loads the client, which files do not need

        attempts = Attempts(Retry(MAX_ATTEMPTS, PATIENCE_S, FIRST_PAUSE_S), max)
        while True:
            try:
                answer = self._http.get(f"{self.url}{path}", params=query)
                if answer.status_code == 200:
                    return decoded(answer.content, f"the response of {self.url}{path}")
                reason = f"{self.url}{path} answered {answer.status_code}: {' '.join(answer.text.split())[:200]}"
                if answer.status_code != 429 and answer.status_code < 500:
                    raise Unusable(reason)
            except httpx.TransportError as error:
                reason = f"{self.url} is not responding: {reason_of(error)}"
            time.sleep(attempts.pause_s(Unusable(reason, busy=True)))

    def pages(self, path: str, field: str, limit: int) -> list[Record]:
        """All items of a list that is paged by `limit` and `offset`; `field` is where an answer has them, if any."""
        records: list[Record] = []
        while True:
            items = self.items(path, field, limit=limit, offset=len(records))
            records += items
            if len(records) > MAX_ITEMS:
                raise Unusable(f"{self.url}{path} has over {MAX_ITEMS:,} items; import from its database instead")
            if len(items) < limit:
                return records

    def items(self, path: str, field: str, **query: str | int) -> list[Record]:
        """The objects in one answer's list."""
        answer = self.get(path, **query)
        items: Any = cast(Record, answer).get(field) if field and isinstance(answer, dict) else answer
        if not isinstance(items, list):
            raise Unusable(f"{self.url}{path} did not return a list; is this the right server?")
        return objects(cast(object, items))
