"""Documents by id and by listing, from the generation that is live."""

import base64
import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.connections import Client
from ingest.errors import CommandRejected
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys
from projections.documents.codec import decode, key_of, row_type
from projections.documents.document import Document


class Located(NamedTuple):
    """A document and the partition it is in."""

    partition: int
    document: Document


class Page(NamedTuple):
    """Part of a listing, and the cursor of the next part; None at the end."""

    documents: list[Located]
    next: str | None


class DocumentReader:
    """Reads documents of every partition. One round trip in the common case; two just after a rebuild switched."""

    def __init__(self, redis: Client, partitions: int) -> None:
        self._redis = redis
        self.partitions = partitions
        self._generation = [1] * partitions

    async def get(self, wanted: Sequence[tuple[int, DocumentId]]) -> list[Document | None]:
        """The documents, in the order asked for; None for one that is not there."""
        if not wanted:
            return []
        while True:
            async with self._redis.pipeline(transaction=False) as pipe:
                touched = self._queue_generations(pipe, {partition for partition, _ in wanted})
                for partition, name in wanted:
                    key = key_of(self._keys(partition), name)
                    pipe.hgetall(key) if row_type(name) else pipe.get(key)
                answers = await pipe.execute()
            if self._generations_hold(touched, answers):
                stored = answers[len(touched) :]
                return [decode(name, raw) for (_, name), raw in zip(wanted, stored, strict=True)]

    async def find(self, name: DocumentId) -> Located | None:
        """The document with this id, wherever it is: one round trip that asks every partition."""
        found = await self.get([(partition, name) for partition in range(self.partitions)])
        return next((Located(partition, document) for partition, document in enumerate(found) if document), None)

    async def members(self, listing: str, partitions: Sequence[int], limit: int) -> list[tuple[int, str]]:
        """Up to `limit` members of a listing in each partition, first ones first, with their partition."""
        rows = await self._ranges(listing, partitions, b"-", b"+", limit, reverse=False)
        return [(partition, member) for partition, members in rows for member in members]

    async def page(
        self, listing: str, partitions: Sequence[int], *, cursor: str | None, limit: int, newest_first: bool
    ) -> Page:
        """A page of a listing that is spread over `partitions`, merged in the order of its members.

        `cursor` is what the page before answered as `next`; members added meanwhile do not shift the pages.
        """
        edge = _decode_cursor(cursor)
        low, high = b"-", b"+"
        if edge is not None:
            low, high = (b"-", b"(" + edge) if newest_first else (b"(" + edge, b"+")
        rows = await self._ranges(listing, partitions, low, high, limit + 1, reverse=newest_first)
        merged = heapq.merge(
            *([(member, partition) for member in members] for partition, members in rows), reverse=newest_first
        )
        taken = [row for row, _ in zip(merged, range(limit + 1), strict=False)]
        wanted = [(partition, DocumentId(member.rpartition("|")[2])) for member, partition in taken[:limit]]
        documents = await self.get(wanted)
        located = [
            Located(partition, document)
            for (partition, _), document in zip(wanted, documents, strict=True)
            if document is not None
        ]
        return Page(located, _encode_cursor(taken[limit - 1][0]) if len(taken) > limit else None)

    @staticmethod
    def cursor_at(member: str) -> str:
        """The cursor that makes a page begin next to `member`, which need not exist."""
        return _encode_cursor(member)

    async def _ranges(
        self, listing: str, partitions: Sequence[int], low: bytes, high: bytes, limit: int, *, reverse: bool
    ) -> list[tuple[int, list[str]]]:
        while True:
            async with self._redis.pipeline(transaction=False) as pipe:
                touched = self._queue_generations(pipe, set(partitions))
                for partition in partitions:
                    start, end = (high, low) if reverse else (low, high)
                    pipe.zrange(
                        self._keys(partition).listing(listing),
                        start,
                        end,
                        desc=reverse,
                        bylex=True,
                        offset=0,
                        num=limit,
                    )
                answers = await pipe.execute()
            if self._generations_hold(touched, answers):
                rows: list[list[bytes]] = answers[len(touched) :]
                return [(p, [member.decode() for member in row]) for p, row in zip(partitions, rows, strict=True)]

    def _keys(self, partition: int) -> GenerationKeys:
        return PartitionKeys(partition).of_generation(self._generation[partition])

    def _queue_generations(self, pipe: Any, partitions: set[int]) -> list[int]:
        touched = sorted(partitions)
        for partition in touched:
            pipe.get(PartitionKeys(partition).generation)
        return touched

    def _generations_hold(self, touched: Sequence[int], answers: Sequence[Any]) -> bool:
        """True when the answers are of the live generations; else remembers the live ones, for another try."""
        live = [int(raw or 1) for raw in answers[: len(touched)]]
        held = all(self._generation[partition] == now for partition, now in zip(touched, live, strict=True))
        for partition, now in zip(touched, live, strict=True):
            self._generation[partition] = now
        return held


def _encode_cursor(member: str) -> str:
    return base64.urlsafe_b64encode(member.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str | None) -> bytes | None:
    if not cursor:
        return None
    try:
        edge = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        edge.decode()
    except ValueError:
        raise CommandRejected("not a cursor; pass on the `next` of the page before", "cursor") from None
    return edge
