"""Documents of every type: how they are stored, which listings they are in, and what the index has of them.

Every type of document describes itself: `listing_members()`; `LETTER`, which tells a document that is stored as
msgpack, or `PREFIX`, which tells the id of a row; and, when recall searches it, `searchable_text()` and
`index_entry()`. A new type is a file of its own and a member of `Document` (and of `Searched`).
"""

from collections.abc import Awaitable, Set
from typing import Any, TypeAlias, get_args

from msgspec import Struct, msgpack

from ingest.ids import DocumentId
from ingest.kinds import OF_A_PROJECT, SUBJECT_BY_PREFIX, SubjectKind
from ingest.log.keys import GenerationKeys
from ingest.platform.connections import Transaction
from projections.nouns.action import Action
from projections.nouns.index_entry import IndexEntry
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation
from projections.nouns.rows import Row, project_listing, read_row
from projections.nouns.session import Commit, Session, Summary
from projections.nouns.slot import Slot
from projections.nouns.tombstone import Ledger, SupersededEvent, Tombstone

RowDocument: TypeAlias = Session | Lesson | Slot | Action | Relation
Packed: TypeAlias = Observation | Memory | Summary | Commit | Tombstone | SupersededEvent | Ledger
Document: TypeAlias = RowDocument | Packed
Searched: TypeAlias = Observation | Memory | Lesson | Summary
"""The document types that recall searches."""

_ROWS: dict[str, type[RowDocument]] = {cls.PREFIX: cls for cls in get_args(RowDocument)}
_DECODERS: dict[bytes, msgpack.Decoder[Packed]] = {cls.LETTER: msgpack.Decoder(cls) for cls in get_args(Packed)}
SEARCHED_LETTERS = frozenset(letter for letter, of in _DECODERS.items() if of.type in get_args(Searched))
"""What the bytes of a document begin with that recall searches."""
_encoder = msgpack.Encoder()


PROJECT_LISTINGS = [project_listing(kind.collection) for kind in OF_A_PROJECT]
"""The listings of a project's documents, by tenant and project; sessions, with all that they hold, are in none."""


def subject_kind(document: Document) -> SubjectKind | None:
    """Return what a document is forgotten as; None for what goes with another, or is gone."""
    return None if isinstance(document, Tombstone) else SUBJECT_BY_PREFIX.get(document.id.partition("_")[0])


def listings(document: Document | None) -> set[tuple[str, str]]:
    """The `(listing, member)` pairs of a document. Members sort as the listing reads: by position or time."""
    return set() if document is None else document.listing_members()


def index_entry(document: Document | None) -> IndexEntry | None:
    """The document's entry in the index; None for what recall does not search."""
    return document.index_entry() if isinstance(document, Searched) else None


def searchable_text(document: Searched) -> str:
    """The text for the lexical index and the embedding. Titles, facts and narratives repeat it, so stay out."""
    return document.searchable_text()


def row_type(name: str) -> type[RowDocument] | None:
    """The row class of a document id, None when its document is stored as bytes."""
    return _ROWS.get(name.partition("_")[0])


def key_of(keys: GenerationKeys, name: DocumentId) -> str:
    """Where the document is stored."""
    return keys.row(name) if row_type(name) else keys.doc(name)


def queue_read(pipe: Transaction, keys: GenerationKeys, name: DocumentId) -> Awaitable[Any]:
    """Read a document on a pipeline; the answer is for `decode`."""
    return pipe.hgetall(keys.row(name)) if row_type(name) else pipe.get(keys.doc(name))


def carried(document: Document, command: type[Struct], without: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the document's values of all fields that a command has, too, except those in `without`.

    Computed, so that a revision or a successor of a document loses no field that is added later.
    """
    names = [name for name in command.__struct_fields__ if name not in without and hasattr(document, name)]
    return {name: getattr(document, name) for name in names}


def encode(document: Document) -> bytes:
    """The bytes of a document that is not a row: a letter that tells its type, then msgpack."""
    if isinstance(document, Row):
        raise TypeError(f"{type(document).__name__} is stored as a hash")
    return document.LETTER + _encoder.encode(document)


def decode(name: DocumentId, stored: bytes | dict[bytes, bytes] | None) -> Document | None:
    """The document in what Redis returned for `key_of(name)`; None if there is no document."""
    if not stored:
        return None
    if isinstance(stored, dict):
        cls = row_type(name)
        return read_row(cls, stored) if cls else None
    return _DECODERS[stored[:1]].decode(memoryview(stored)[1:])
