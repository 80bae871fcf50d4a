"""The documents of one generation of a partition: what is stored, and where the searchable ones are in the log."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.document import SEARCHED_LETTERS, Document, Searched, decode, key_of, row_type

BATCH = 256
SORTED_AT_ONCE = 10_000


class StoredPlace(NamedTuple):
    """Where a searchable document is in the log; some 200 bytes each are in memory at once."""

    position: Position
    id: DocumentId


async def places(redis: Client, keys: GenerationKeys) -> list[StoredPlace]:
    """All searchable documents, in the order of the log. What is written meanwhile may be among them or not."""
    found: list[StoredPlace] = []
    async for batch in scanned(redis, keys, BATCH):
        found += _searched(await load(redis, keys, batch))
    return await asyncio.to_thread(_in_order, found)


async def scanned(redis: Client, keys: GenerationKeys, batch: int) -> AsyncGenerator[list[DocumentId]]:
    """The ids of all documents, some at a time; a scan may name one twice."""
    for prefix in (keys.doc(""), keys.row("")):
        names: list[DocumentId] = []
        async for raw in redis.scan_iter(match=f"{prefix}*", count=1000):
            names.append(DocumentId(raw.decode().removeprefix(prefix)))
            if len(names) == batch:
                yield names
                names = []
        if names:
            yield names


async def load(redis: Client, keys: GenerationKeys, names: list[DocumentId]) -> list[Document | None]:
    """The documents as they are now, in this order; None for one that is not there."""
    if not names:
        return []
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(key_of(keys, name)) if row_type(name) else pipe.get(key_of(keys, name))
        stored = await pipe.execute()
    return [decode(name, raw) for name, raw in zip(names, stored, strict=True)]


async def are_searched(redis: Client, keys: GenerationKeys, names: Sequence[DocumentId]) -> list[bool]:
    """Whether each of these ids is that of a searchable document now. Reads a byte of each."""
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            if row_type(name):
                pipe.exists(key_of(keys, name))
            else:
                pipe.execute_command("GETRANGE", key_of(keys, name), 0, 0)
        answers: list[bytes | int] = await pipe.execute()
    return [answer in SEARCHED_LETTERS if isinstance(answer, bytes) else bool(answer) for answer in answers]


def _in_order(found: list[StoredPlace]) -> list[StoredPlace]:
    """Sorted, each once, though a scan may name a key twice. By parts: sorting lets no other thread run meanwhile."""
    runs = [sorted(found[start : start + SORTED_AT_ONCE]) for start in range(0, len(found), SORTED_AT_ONCE)]
    return [place for place, _ in groupby(merge(*runs))]


def _searched(documents: list[Document | None]) -> list[StoredPlace]:
    return [
        StoredPlace(Position.parse(document.position or str(START)), DocumentId(document.id))
        for document in documents
        if isinstance(document, Searched)
    ]
