"""Documents by id and by listing, from the generation that is live."""

import base64
import heapq
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ingest.errors import CommandRejected
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.partitions import partition_of, project_route
from ingest.platform.connections import Client
from projections.documents.document import Document, decode, row_type

PAGE = 100
"""Members of a listing looked at in one round trip where all are."""
MANY = 1_000
"""Members of one listing that are looked at where all are wanted and few are expected."""


class Located(NamedTuple):
    """A document and the partition it is in."""

    partition: int
    document: Document


class DocumentPage(NamedTuple):
    """Part of a listing, and the cursor of the next part; None at the end."""

    documents: list[Located]
    next: str | None


class DocumentReader:
    """Reads documents of every partition. One round trip in the common case; two just after a rebuild switched.

    `hint` may say in which partition a document is; where it is wrong or silent, every partition is asked.
    """

    def __init__(
        self, redis: Client, partitions: int, hint: Callable[[DocumentId], int | None] = lambda name: None
    ) -> None:
        self._redis, self._hint = redis, hint
        self.partitions = partitions
        self._generation = [1] * partitions

    async def get(self, wanted: Sequence[tuple[int, DocumentId]]) -> list[Document | None]:
        """The documents, in the order asked for; None for one that is not there."""
        texts: dict[int, list[DocumentId]] = {partition: [] for partition, _ in wanted}
        rows: list[tuple[int, DocumentId]] = []
        for partition, name in wanted:
            if row_type(name):
                rows.append((partition, name))
            else:
                texts[partition].append(name)

        def ask(pipe: Any) -> None:
            for partition, name in rows:
                pipe.hgetall(self._keys(partition).row(name))

        stored, hashes = await self._ask(texts, ask)
        stored.update(zip(rows, hashes, strict=True))
        return [decode(name, stored[partition, name]) for partition, name in wanted]

    async def find(self, name: DocumentId) -> Located | None:
        """The document with this id, wherever it is."""
        return next(iter(await self.find_all([name])), None)

    async def find_all(self, names: Sequence[DocumentId]) -> list[Located]:
        """Those of the documents that exist, in the order asked for, wherever they are.

        One round trip for those that the hint knows, and one that asks every partition for the others.
        """
        hinted = [(partition, name) for name in names if (partition := self._hint(name)) is not None]
        found = {
            name: Located(partition, document)
            for (partition, name), document in zip(hinted, await self.get(hinted), strict=True)
            if document
        }
        missing = [(partition, name) for name in names if name not in found for partition in range(self.partitions)]
        for (partition, name), document in zip(missing, await self.get(missing), strict=True):
            if document:
                found[name] = Located(partition, document)
        return [found[name] for name in names if name in found]

    async def fields(self, wanted: Sequence[tuple[int, DocumentId]], fields: Sequence[str]) -> list[list[str]]:
        """Some fields of documents that are rows, as texts; empty texts for a document that is not there."""

        def ask(pipe: Any) -> None:
            for partition, name in wanted:
                pipe.hmget(self._keys(partition).row(name), fields)

        _, rows = await self._ask({partition: () for partition, _ in wanted}, ask)
        return [[(value or b"").decode() for value in row] for row in rows]

    async def members_of(self, listings: Sequence[str], partitions: Sequence[int]) -> list[DocumentId]:
        """The documents in several listings, of several partitions, in one round trip; at most MANY of each."""
        if not listings:
            return []

        def ask(pipe: Any) -> None:
            for name in listings:
                for partition in partitions:
                    pipe.zrange(self._keys(partition).listing(name), 0, MANY - 1)

        _, rows = await self._ask(dict.fromkeys(partitions, ()), ask)
        found = (member.decode().rpartition("|")[2] for row in rows for member in row)
        return [DocumentId(name) for name in dict.fromkeys(found)]

    async def range(self, listing: str, partition: int, low: bytes, high: bytes, limit: int) -> list[str]:
        """Up to `limit` members of a listing in one partition between two bounds (`[a`, `(a`, `-`, `+`), in order."""
        return (await self.ranges([(listing, partition)], low, high, limit=limit))[0]

    async def first(self, listing: str, partition: int, low: bytes, high: bytes, limit: int) -> tuple[int, list[str]]:
        """How many members of a listing in one partition are between two bounds, and the first of them; at once."""

        def ask(pipe: Any) -> None:
            name = self._keys(partition).listing(listing)
            pipe.zlexcount(name, low, high)
            pipe.zrange(name, low, high, bylex=True, offset=0, num=limit)

        _, (count, members) = await self._ask({partition: ()}, ask, at_once=True)
        return int(count), [member.decode() for member in members]

    async def members(self, listing: str, partitions: Sequence[int], limit: int) -> list[tuple[int, str]]:
        """Up to `limit` members of a listing in each partition, first ones first, with their partition."""
        rows = await self.ranges([(listing, partition) for partition in partitions], limit=limit)
        return [(partition, member) for partition, row in zip(partitions, rows, strict=True) for member in row]

    async def page(
        self,
        listing: str,
        partitions: Sequence[int],
        *,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> DocumentPage:
        """A page of a listing that is spread over `partitions`, merged in the order of its members.

        `cursor` is what the page before answered as `next`; members added meanwhile do not shift the pages.
        """
        edge = _decode_cursor(cursor)
        low, high = b"-", b"+"
        if edge is not None:
            low, high = (b"-", b"(" + edge) if newest_first else (b"(" + edge, b"+")
        places = [(listing, partition) for partition in partitions]
        rows = await self.ranges(places, low, high, limit=limit + 1, newest_first=newest_first)
        merged = heapq.merge(
            *([(member, partition) for member in row] for partition, row in zip(partitions, rows, strict=True)),
            reverse=newest_first,
        )
        taken = [row for row, _ in zip(merged, range(limit + 1), strict=False)]
        wanted = [(partition, DocumentId(member.rpartition("|")[2])) for member, partition in taken[:limit]]
        documents = await self.get(wanted)
        located = [
            Located(partition, document)
            for (partition, _), document in zip(wanted, documents, strict=True)
            if document is not None
        ]
        return DocumentPage(located, _encode_cursor(taken[limit - 1][0]) if len(taken) > limit else None)

    async def pages(self, listing: str, partitions: Sequence[int], limit: int = PAGE) -> AsyncGenerator[list[Document]]:
        """All documents of a listing, oldest first, a page at a time, as they stand when the page is read."""
        async for page in self.located(listing, partitions, limit):
            yield [one.document for one in page]

    async def located(
        self, listing: str, partitions: Sequence[int], limit: int = PAGE
    ) -> AsyncGenerator[list[Located]]:
        """The same, with their partitions. No page is empty."""
        cursor: str | None = None
        while True:
            page = await self.page(listing, partitions, cursor=cursor, limit=limit, newest_first=False)
            if page.documents:
                yield page.documents
            if (cursor := page.next) is None:
                return

    async def newest(self, listing: str, cursor: str | None, limit: int) -> DocumentPage:
        """A page of a listing that is spread over all partitions, newest first."""
        return await self.page(listing, range(self.partitions), cursor=cursor, limit=limit)

    async def of_project(
        self, listing: str, tenant: str, project: str, cursor: str | None, limit: int, *, newest_first: bool = True
    ) -> DocumentPage:
        """A page of a listing that is in the project's partition."""
        partition = partition_of(project_route(tenant, project), self.partitions)
        return await self.page(listing, [partition], cursor=cursor, limit=limit, newest_first=newest_first)

    @staticmethod
    def cursor_at(member: str) -> str:
        """The cursor that makes a page begin next to `member`, which need not exist."""
        return _encode_cursor(member)

    async def ranges(
        self,
        listings: Sequence[tuple[str, int]],
        low: bytes = b"-",
        high: bytes = b"+",
        *,
        limit: int,
        newest_first: bool = False,
    ) -> list[list[str]]:
        """Up to `limit` members between two bounds of each `(listing, partition)`, in order; one round trip for all."""
        start, end = (high, low) if newest_first else (low, high)

        def ask(pipe: Any) -> None:
            for listing, partition in listings:
                name = self._keys(partition).listing(listing)
                pipe.zrange(name, start, end, desc=newest_first, bylex=True, offset=0, num=limit)

        _, rows = await self._ask({partition: () for _, partition in listings}, ask)
        return [[member.decode() for member in row] for row in rows]

    def _keys(self, partition: int) -> GenerationKeys:
        return PartitionKeys(partition).of_generation(self._generation[partition])

    async def _ask(
        self, texts: Mapping[int, Sequence[DocumentId]], ask: Callable[[Any], None], *, at_once: bool = False
    ) -> tuple[dict[tuple[int, DocumentId], Any], list[Any]]:
        """What is stored of `texts`, and what the live generations answer to the commands that `ask` queues.

        `texts` names every partition that is asked, with those of its documents that are wanted and are not rows: a
        partition answers for all of them with one command, because each command costs more than what it reads.
        """
        if not texts:
            return {}, []
        while True:
            async with self._redis.pipeline(transaction=at_once) as pipe:
                for partition, names in texts.items():
                    keys = self._keys(partition)
                    pipe.mget(PartitionKeys(partition).generation, *(keys.doc(name) for name in names))
                ask(pipe)
                answers = await pipe.execute()
            found = dict(zip(texts, answers, strict=False))
            if self._hold({partition: int(row[0] or 1) for partition, row in found.items()}):
                stored = {
                    (partition, name): raw
                    for partition, names in texts.items()
                    for name, raw in zip(names, found[partition][1:], strict=True)
                }
                return stored, answers[len(texts) :]

    def _hold(self, live: Mapping[int, int]) -> bool:
        """True when these live generations are those that were asked; else remembers them, for another try."""
        held = all(self._generation[partition] == now for partition, now in live.items())
        for partition, now in live.items():
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
