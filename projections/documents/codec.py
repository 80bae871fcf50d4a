"""Documents as bytes: msgpack behind one letter that tells the type; flat ones of low volume are rows (hashes)."""

from msgspec import msgpack

from ingest.ids import ACTION, LESSON, RELATION, SLOT, DocumentId
from ingest.log.keys import GenerationKeys
from projections.documents.actions import Action
from projections.documents.commits import Commit
from projections.documents.document import Document, Mark, Tombstone
from projections.documents.ledgers import Ledger
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.rows import Row, read_row
from projections.documents.sessions import SESSION, Session
from projections.documents.slots import Slot
from projections.documents.summaries import Summary

RowType = type[Session] | type[Lesson] | type[Slot] | type[Action] | type[Relation]

_LETTERS: dict[type[Observation | Memory | Summary | Commit | Tombstone | Mark | Ledger], bytes] = {
    Observation: b"o",
    Memory: b"m",
    Summary: b"s",
    Commit: b"c",
    Tombstone: b"t",
    Mark: b"k",
    Ledger: b"l",
}
_DECODERS = {letter: msgpack.Decoder(cls) for cls, letter in _LETTERS.items()}
_ROWS: dict[str, RowType] = {SESSION: Session, LESSON: Lesson, SLOT: Slot, ACTION: Action, RELATION: Relation}
_encoder = msgpack.Encoder()


def row_type(name: str) -> RowType | None:
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
