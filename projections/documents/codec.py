"""Documents as bytes: msgpack behind one letter that tells the type; rows (sessions, lessons) are hashes instead."""

from msgspec import msgpack

from ingest.ids import LESSON, DocumentId
from ingest.log.keys import GenerationKeys
from projections.documents.document import Document, Mark, Tombstone
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.rows import Row, read_row
from projections.documents.sessions import SESSION, Session

_LETTERS: dict[type[Observation | Memory | Tombstone | Mark], bytes] = {
    Observation: b"o",
    Memory: b"m",
    Tombstone: b"t",
    Mark: b"k",
}
_DECODERS = {letter: msgpack.Decoder(cls) for cls, letter in _LETTERS.items()}
_ROWS: dict[str, type[Session | Lesson]] = {SESSION: Session, LESSON: Lesson}
_encoder = msgpack.Encoder()


def row_type(name: str) -> type[Session | Lesson] | None:
    """The row class of a document id, None when its document is stored as bytes."""
    return _ROWS.get(name.partition("_")[0])


def key_of(keys: GenerationKeys, name: DocumentId) -> str:
    """Where the document is stored."""
    return keys.row(name) if row_type(name) else keys.doc(name)


def encode(document: Document) -> bytes:
    """The bytes of a document that is not a row."""
    if isinstance(document, Row):
        raise TypeError(f"{type(document).__name__} is stored as a hash")
    return _LETTERS[type(document)] + _encoder.encode(document)


def decode(name: DocumentId, stored: bytes | dict[bytes, bytes] | None) -> Document | None:
    """The document in what Redis returned for `key_of(name)`; None when there is none."""
    if not stored:
        return None
    if isinstance(stored, dict):
        cls = row_type(name)
        return read_row(cls, stored) if cls else None
    return _DECODERS[stored[:1]].decode(memoryview(stored)[1:])
