"""Reading files of other systems: whole JSON documents, and JSON lines one at a time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from api.importing.claude_code import TranscriptLine
from api.importing.mapping import Record
from api.importing.source import Unusable
from ingest.secrets.scrub import repair_text

MAX_DOCUMENT_BYTES = 512 << 20
"""Of a JSON document, which is read whole and then takes some ten times as much memory."""
MAX_LINE_BYTES = 32 << 20
"""A longer line is passed over: nothing of it would fit into an event."""
_SQLITE = b"SQLite format 3\0"


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database; raises Unusable when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None


def document(path: Path) -> Any:
    """What a JSON file says; raises Unusable."""
    try:
        size = path.stat().st_size
        if size > MAX_DOCUMENT_BYTES:
            raise Unusable(
                f"{path} has {size >> 20:,} MiB, and a document is read whole, up to {MAX_DOCUMENT_BYTES >> 20} MiB; "
                "export it in parts, or import from the running server or its database"
            )
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None


def decoded(content: bytes, what: str) -> Any:
    """The JSON value, its half surrogate pairs repaired; raises Unusable when it is none."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.json.decode(repair_text(json.dumps(json.loads(content), ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{what} is no JSON: {error}") from None


def listed(value: Any, *fields: str) -> list[Any] | None:
    """The list that a document is, or has in one of the fields; None when there is none."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, dict):
        found = (cast(Record, value).get(field) for field in fields)
        return next((cast("list[Any]", one) for one in found if isinstance(one, list)), None)
    return None


def lines(path: Path) -> Iterator[TranscriptLine]:
    """The lines of a file that are not blank, counted from 1; raises Unusable."""
    try:
        with path.open("rb") as file:
            number = 0
            while text := file.readline(MAX_LINE_BYTES):
                number += 1
                whole = len(text) < MAX_LINE_BYTES or text.endswith(b"\n")
                while not whole:
                    rest = file.readline(MAX_LINE_BYTES)
                    whole = len(rest) < MAX_LINE_BYTES or rest.endswith(b"\n")
                    text = b"{"
                if text.strip():
                    yield TranscriptLine(number, _object(text))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None


def _object(text: bytes) -> Record | None:
    try:
        found = decoded(text, "the line")
    except Unusable:
        return None
    return cast(Record, found) if isinstance(found, dict) else None
