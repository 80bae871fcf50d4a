"""The layout of the engine: its keys, the fields of a document, and an encoding of values that needs no escaping in
queries.

All keys of a partition have the partition's hash tag, so that one script can change them, also in a cluster:

| key | type | what it is |
|---|---|---|
| mnemolog:search | string | the catalogue: which index readers use, which one is being filled, which ones go |
| NAME:d:{pNN}:ID | hash | a document: what is searched, and what ranking needs |
| NAME:m:{pNN}:ID | string | the model's vectors of a document, one a chunk: unit length, float16 little endian |
| NAME:e:{pNN}:EPISODE | sorted set | the documents of an episode, `ORDER` then `|` then the id, all scores 0 |
| NAME:at:{pNN} | hash | where the partition's index stands: see `State` |

The engine treats every hash that begins with `NAME:d:` as a document. The model's vectors have a key of their own,
because whenever a field of a document's hash is set, all of it is indexed again, including its place in the graph.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct, msgpack
from msgspec.structs import replace

from ingest.ids import DocumentId
from ingest.log.position import Position
from projections.index.replica import FeedPosition
from projections.nouns.index_entry import IndexEntry
from projections.search.question import entry_facets
from projections.vectors.embedder import Embedder
from projections.vectors.static import table_of

SCHEMA = 2
"""Version of this layout. An index of another schema is replaced by a new one."""
CATALOGUE = "mnemolog:search"
ALIAS = "mnemolog:search:live"
"""The engine's alias of the index that readers use."""
INDEX_PREFIX = "mnemolog:search:index:"

FACETS = (
    "tenant", "project", "kind", "session", "agent", "user", "retired", "expiring", "restricted", "visibility", "tag",
    "reader", "type", "file", "concept", "partition", "trust",
    "hidden",
)  # fmt: skip
"""The TAG fields: the facets of `entry_facets`."""
STATED = ("retired", "expiring", "restricted")
"""Facets that also have `no`: a search for what lacks `yes` costs the engine a walk through all documents."""
YES, NO = "yes", "no"
SORTABLE = ("occurred", "recorded", "confidence")
NUMERIC = (*SORTABLE, "retired_at", "expires_at", "importance")
TERMS, VECTOR = "terms", "vector"
ENTRY, HASHES, EPISODE, ORDER = "x", "h", "e", "o"
"""Fields that are not searched: the entry without its terms, the hashes of those (uint32, little endian), its episode
(absent without one) and its place there."""

EMPTY = "_e"
SEPARATOR = ","
MAX_VALUE = 200
"""Characters of a written tag value; the engine keeps them all."""
MAX_TERM = 100
"""Bytes of a written term: the engine cuts longer words, in documents and not in queries."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(IndexEntry)
_all_decoder = msgpack.Decoder(list[IndexEntry])


class Identity(Struct, frozen=True, kw_only=True):
    """What an index was made with. Vectors of two identities must never be compared."""

    schema: int = SCHEMA
    model: str
    dimensions: int
    """Of the model's vectors; 0 where there are none."""
    table: str = ""
    """The table of static vectors; "" for none."""
    vector_dimensions: int
    """Of the vectors that have a graph: the static ones, else the model's; 0 where there are none."""


def identity_of(embedder: Embedder) -> Identity:
    """What an index is made with, for an embedder."""
    table = table_of(embedder)
    if table is not None and not table.of_model:
        table = None  # an engine finds by one kind of vectors, and these do not know other languages
    return Identity(
        model=embedder.model,
        dimensions=embedder.dimensions,
        table="" if table is None else table.name,
        vector_dimensions=embedder.dimensions if table is None else table.dimensions,
    )


class PartitionIndex(NamedTuple):
    """The keys of one partition in the index of a name."""

    name: str
    partition: int

    def _prefix(self, kind: str) -> str:
        return f"{self.name}:{kind}:{{p{self.partition:02d}}}:"

    @property
    def state(self) -> str:
        return self._prefix("at")[:-1]

    @property
    def prefixes(self) -> tuple[str, str, str]:
        """What the keys of its documents, of their vectors and of its episodes begin with."""
        return self._prefix("d"), self._prefix("m"), self._prefix("e")

    def document(self, name: str) -> str:
        return self._prefix("d") + name

    def vectors(self, name: str) -> str:
        return self._prefix("m") + name

    def episode(self, name: str) -> str:
        return self._prefix("e") + name


def place_of(document: bytes) -> tuple[int, DocumentId]:
    """The partition and the id of a document, by its key."""
    start = document.index(b"{p") + 2
    end = document.index(b"}", start)
    return int(document[start:end]), DocumentId(document[end + 2 :].decode())


def encoded(value: str) -> str:
    """A tag value as it is written: letters and digits, other bytes as `_xx`; of a long one, a digest."""
    if _PLAIN.issuperset(value):
        written = value or EMPTY
    else:
        written = "".join(letter if letter in _PLAIN else _hex(letter) for letter in value)
    return written if len(written) <= MAX_VALUE else _digest(value)


def decoded(written: str) -> str | None:
    """The value that was written so; None for a digest, which cannot be decoded."""
    if written == EMPTY:
        return ""
    return None if written.startswith("_h") else _unhex(written)


@lru_cache(maxsize=1 << 14)
def encoded_term(term: str) -> str:
    """An index term as a word of the engine: letters and digits of any script, other bytes as `_xx`; or a digest."""
    written = term if term.isalnum() else "".join(letter if letter.isalnum() else _hex(letter) for letter in term)
    return written if len(written.encode()) <= MAX_TERM else _digest(term)


def decoded_term(written: str) -> str:
    """The index term that was written so; a digest stays as it is, which no document says."""
    return written if "_" not in written or written.startswith("_h") else _unhex(written)


def encoded_terms(terms: str) -> str:
    """Terms that are joined by spaces, each as a word of the engine."""
    return " ".join(map(encoded_term, terms.split()))


def _unhex(written: str) -> str:
    first, *rest = written.split("_")
    return b"".join([first.encode(), *(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)]).decode()


def _hex(character: str) -> str:
    return "".join(f"_{byte:02x}" for byte in character.encode())


def _digest(value: str) -> str:
    return f"_h{blake2b(value.encode(), digest_size=20).hexdigest()}"


def fields_of(partition: int, entry: IndexEntry) -> dict[str, str]:
    """The searched fields of a document, but its vector. One that has no value is left out."""
    fields: dict[str, str] = {}
    for key in entry_facets(partition, entry):
        name, _, value = key.partition("\x1f")
        written = encoded(value)
        fields[name] = f"{fields[name]}{SEPARATOR}{written}" if name in fields else written
    for facet in STATED:
        fields.setdefault(facet, NO)
    fields |= {
        "occurred": str(entry.occurred_ms),
        "recorded": str(entry.recorded_ms),
        "importance": repr(entry.importance),
        "confidence": repr(entry.confidence),
    }
    if entry.retired_ms:
        fields["retired_at"] = str(entry.retired_ms)
    if entry.expires_ms:
        fields["expires_at"] = str(entry.expires_ms)
    if entry.terms:
        fields[TERMS] = encoded_terms(entry.terms)
    return fields


def packed(entry: IndexEntry) -> bytes:
    """An entry without its terms, for its field `x`."""
    return _encoder.encode(replace(entry, terms=""))


def entry_of(stored: bytes) -> IndexEntry:
    """The entry in a field `x`; its terms are empty."""
    return _decoder.decode(stored)


def entries_of(stored: Sequence[bytes]) -> list[IndexEntry]:
    """The entries in some fields `x`, decoded as one array: in a third of the time."""
    return _all_decoder.decode(b"".join([b"\xdd", len(stored).to_bytes(4), *stored]))


def order_of(position: Position, place: int = 0) -> str:
    """Where a document is in its episode: sorts as positions of the log do, then as `place` does."""
    return f"{position.ms:012x}{position.seq:06x}{place:04x}"


class State(Struct, frozen=True, kw_only=True):
    """The state of one partition in an index, which has everything up to log position `covers`.

    Unless `phase` is `filling`: then documents may be missing or out of date. `comparing` means that it is complete and
    is compared with the documents because another generation became live; `ready` that it only follows the feed after
    entry `feed` of `generation`. `token` changes with each write: see `writing`.
    """

    token: str
    generation: int
    feed: str
    covers: str
    phase: str
    documents: int = 0
    embedded: int = 0
    """Documents that have vectors of the model."""
    removed: int = 0
    """Documents that were removed since the index was made."""

    @property
    def complete(self) -> bool:
        """Whether readers can rely on `covers`."""
        return self.phase != FILLING

    @property
    def position(self) -> Position:
        """The log position covered."""
        return Position.parse(self.covers)

    @property
    def at(self) -> FeedPosition:
        """Where the partition stands in its feed."""
        return FeedPosition(generation=self.generation, feed=self.feed, covers=self.covers)


FILLING, COMPARING, READY = "filling", "comparing", "ready"
_TEXTS = ("token", "feed", "covers", "phase")


def state_of(stored: Mapping[bytes, bytes]) -> State | None:
    """The state in a hash; None without a state."""
    if b"token" not in stored:
        return None
    fields = {name.decode(): value.decode() for name, value in stored.items()}
    return State(
        **{name: fields[name] for name in _TEXTS},
        generation=int(fields["generation"]),
        documents=int(fields.get("documents", 0)),
        embedded=int(fields.get("embedded", 0)),
        removed=int(fields.get("removed", 0)),
    )
