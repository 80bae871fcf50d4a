"""The change feed: a partition's changes for index replicas, in order.

An entry is written in one transaction with the documents that it is about. It has the log position that it covers, so a
reader knows how far it is even when nothing in the index changed. Vectors come later, in entries of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, msgpack

from ingest.log.position import Position
from projections.nouns.document import Searched, index_entry, searchable_text
from projections.nouns.fold import Changes
from projections.nouns.index_entry import IndexEntry, texts_in
from projections.nouns.observation import Observation
from projections.nouns.session import Summary
from projections.vectors.embedder import Urgency, changed_place, place


class Put(Struct, frozen=True, tag=1, array_like=True):
    """A document is new or has changed. With the terms it had before, it keeps its vectors."""

    entry: IndexEntry


class Remove(Struct, frozen=True, tag=2, array_like=True):
    """A document is gone."""

    id: str


class Vectors(Struct, frozen=True, tag=3, array_like=True):
    """A document's vectors, one a chunk: unit length, float16 little endian, `2 * dimensions` bytes a row."""

    id: str
    model: str
    dimensions: int
    rows: bytes


class Switched(Struct, frozen=True, tag=4, array_like=True):
    """The last entry of this generation: readers go on with the feed of `generation`, behind its entry `feed`.

    Both generations' documents were of the same position then. `feed` is "" where that is not known: see `comparing`.
    """

    generation: int
    feed: str = ""


class Cleared(Struct, frozen=True, tag=5, array_like=True):
    """The feed was rewritten while its generation was not live: all documents follow."""


FeedItem: TypeAlias = Put | Remove | Vectors | Switched | Cleared

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(list[FeedItem])


def entry_fields(items: list[FeedItem], covers: Position | None, contexts: Sequence[str] = ()) -> dict[str, bytes]:
    """The fields of one feed entry; `covers` is None for vectors, which cover no position.

    `contexts` are the traces that the entry is a part of; older readers ignore their field.
    """
    fields = {"p": str(covers).encode() if covers else b"", "c": encode_items(items)}
    return {**fields, "t": " ".join(contexts).encode()} if contexts else fields


def encode_items(items: Sequence[FeedItem]) -> bytes:
    """The bytes of items, for an entry that a script appends."""
    return _encoder.encode(items)


def read_entry(fields: dict[bytes, bytes]) -> tuple[list[FeedItem], Position | None]:
    """The items of one feed entry and the log position it covers."""
    return _decoder.decode(fields[b"c"]), Position.parse(fields[b"p"]) if fields[b"p"] else None


def contexts_of(entries: Iterable[Mapping[bytes, bytes]]) -> list[str]:
    """The traces that feed entries are a part of."""
    return [context for fields in entries for context in fields.get(b"t", b"").decode().split()]


def feed_items(changes: Changes) -> list[FeedItem]:
    """What replicas must know of a batch, in the order of the log."""
    items: list[FeedItem] = []
    for name, (before, after) in changes.documents.items():
        if (entry := index_entry(after)) is not None:
            items.append(Put(entry))
        elif isinstance(before, Searched):
            items.append(Remove(name))
    return items


def to_embed(changes: Changes, position: Position) -> Iterable[tuple[str, float]]:
    """The documents whose text is new as of a position, and their places in the embedding queue.

    Another text has another place: the vector of the old text, if that is being made, must not take it off the queue.
    """
    for name, (before, after) in changes.documents.items():
        if isinstance(after, Searched):
            if before is None and isinstance(after, Observation):  # most: a new text, which need not be put together
                if after.content or any(texts_in(after.data)):
                    yield name, queue_place(after)
                continue
            text = searchable_text(after)
            existing = isinstance(before, Searched) and searchable_text(before) == text
            if text and not existing:
                yield name, queue_place(after) if before is None else changed_place(urgency(after), position.ms)


def queue_place(document: Searched) -> float:
    """The place of a document in the embedding queue."""
    return place(urgency(document), int(document.position.partition("-")[0] or 0))


def urgency(document: Searched) -> Urgency:
    """What was reported comes behind what was kept on purpose, and a summary behind the statements that it repeats."""
    if isinstance(document, Summary):
        return Urgency.SUMMARIZED
    if not isinstance(document, Observation):
        return Urgency.KEPT
    return Urgency.TOOL_OUTPUT if document.trust in ("tool_output", "external") else Urgency.SAID
