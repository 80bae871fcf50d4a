"""Writing into one partition of an index: changes and the new state of the partition, in one script.

It writes only if the partition still has the state that the writer has read or written. So a writer that was held up
cannot restore what another one has removed since: its write is refused, and it reads the state again.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ingest.errors import MnemologError
from ingest.log.position import Position
from ingest.log.scripts import Script
from ingest.platform.connections import Client
from projections.search_engine.layout import (
    VECTOR,
    Identity,
    PartitionIndex,
    State,
    fields_of,
    order_of,
    packed,
    state_of,
)
from projections.store.feed import FeedItem, Put, Remove, Vectors
from projections.vectors.columns import TermRows, hashed_text
from projections.vectors.embedder import unit_rows
from projections.vectors.static import StaticTable

PUTS_AT_ONCE = 16
"""Documents put by one script: searches wait behind it, some 4 ms."""
BYTES_AT_ONCE = 256 << 10
"""Of the changes of one script."""

_WRITE = Script("write", package="projections.search_engine")
_REMOVE = Script("write", package="projections.search_engine", past_limit=True)
"""For removals alone: forgetting continues while the engine is at its `maxmemory`."""


class Stale(MnemologError):
    """A partition of an index has another state than its writer expects: another one has written, or it is gone."""

    code = "stale_index_state"


class Placed(NamedTuple):
    """A feed item with the place that a new document gets in its episode; `exact` also moves one that is there."""

    item: FeedItem
    order: str
    exact: bool = False


Change: TypeAlias = Sequence[str | bytes]
"""What `write.lua` applies: the kind of change, and its arguments."""


def placed(items: Iterable[FeedItem], covers: Position) -> list[Placed]:
    """The items of a feed entry: after all documents of earlier entries, in the order of the entry."""
    return [Placed(item, order_of(covers, place)) for place, item in enumerate(items)]


@dataclass
class Changes:
    """Makes the changes of an index of feed items.

    `table` is the one that the identity names.
    """

    _identity: Identity
    _table: StaticTable | None

    def of(self, partition: int, items: Sequence[Placed]) -> list[Change]:
        """The changes of items, in order. Vectors of another model are ignored."""
        puts = [placed.item.entry for placed in items if isinstance(placed.item, Put)]
        # the static vector of each, as the engine takes it; empty for none
        static = iter([b""] * len(puts))
        if self._table is not None and puts:
            rows = self._table.embed(TermRows.of(entry.terms for entry in puts))
            static = iter([_float16(row) if row.any() else b"" for row in rows])
        changes: list[Change] = []
        for item, order, exact in items:
            match item:
                case Put(entry):
                    fields: list[str | bytes] = [part for pair in fields_of(partition, entry).items() for part in pair]
                    if vector := next(static):
                        fields += [VECTOR, vector]
                    about = (packed(entry), hashes_of(entry.terms), entry.episode, order, "1" if exact else "")
                    changes.append(["put", entry.id, *about, *fields])
                case Remove(name):
                    changes.append(["remove", name])
                case Vectors() if (item.model, item.dimensions) == (self._identity.model, self._identity.dimensions):
                    mean = b""
                    if not self._identity.table:  # the unit mean of the document's vectors
                        vectors = np.frombuffer(item.rows, "<f2").reshape(-1, item.dimensions).astype(np.float32)
                        mean = _float16(unit_rows(vectors.mean(axis=0, keepdims=True))[0])
                    changes.append(["vectors", item.id, item.rows, mean])
                case _:
                    pass
        return changes


def hashes_of(terms: str) -> bytes:
    """The hashes of terms that are joined by spaces, as the field `h` has them."""
    return hashed_text(terms).astype("<u4").tobytes()


def _float16(row: NDArray[np.float32]) -> bytes:
    return row.astype("<f2").tobytes()


def parts_of(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """The changes in order, as many at a time as one script is to apply; one empty part where there are none."""
    part: list[Change] = []
    puts = size = 0
    for change in changes:
        length = sum(map(len, change))
        if part and (puts == PUTS_AT_ONCE or size + length > BYTES_AT_ONCE):
            yield part
            part, puts, size = [], 0, 0
        part.append(change)
        puts, size = puts + (change[0] == "put"), size + length
    yield part


async def read_state(engine: Client, keys: PartitionIndex) -> State | None:
    """The state of a partition in an index; None if nothing was written."""
    stored: Mapping[bytes, bytes] = await engine.hgetall(keys.state)
    return state_of(stored)


class Standing(NamedTuple):
    """The next state of a partition; see `State`."""

    generation: int
    feed: str
    covers: str
    phase: str


def standing(state: State) -> Standing:
    """The current state, to write it again."""
    return Standing(state.generation, state.feed, state.covers, state.phase)


async def write(
    engine: Client, keys: PartitionIndex, before: State, changes: Sequence[Change], then: Standing
) -> State:
    """Apply changes to a partition in state `before`, and set it to `then`; returns the new state.

    By several scripts if there are many: it stays in `before` until the last, and applying all of them again does no
    harm. Raises Stale, at the first script or a later one, when another writer has written.
    """
    parts = list(parts_of(changes))
    for part in parts[:-1]:
        before = await _write(engine, keys, before, part, standing(before))
    return await _write(engine, keys, before, parts[-1], then)


async def begin(engine: Client, keys: PartitionIndex, before: State | None, then: Standing) -> State:
    """Set a partition to `then` if it is in state `before`, or nothing was written; raises Stale."""
    return await _write(engine, keys, before, [], then)


async def _write(
    engine: Client, keys: PartitionIndex, before: State | None, changes: Sequence[Change], then: Standing
) -> State:
    # the script compares the token with the stored one: a writer that was held up is refused, never overwrites
    token = secrets.token_hex(8)
    expected = "" if before is None else before.token
    counted = [part for change in changes for part in (len(change), *change)]
    arguments = [expected, token, *keys.prefixes, *then, *counted]
    script = _REMOVE if all(change[0] == "remove" for change in changes) else _WRITE
    done, *counts = await script.call(engine, [keys.state], arguments)
    if not done:
        raise Stale(f"partition {keys.partition} of {keys.name} was written by another worker")
    documents, embedded, removed = counts
    return State(token=token, documents=documents, embedded=embedded, removed=removed, **then._asdict())
