"""Documents by id and by listing, from the generation that is live."""

import base64
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from operator import eq
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ingest.errors import CommandRejected, LogUnavailable
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import partition_of, project_route
from ingest.platform.connections import Client, ask, keys_may_be_apart
from ingest.platform.partial import UNREACHABLE, check_missing, leave_out, left_out
from ingest.platform.redis_client import Command
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document, decode, row_type
from projections.nouns.rows import whole_of

D = TypeVar("D", bound=Document)
PAGE = 100
"""Members of a listing looked at in one round trip where all are."""
MAX_SCANNED = 2_000
"""Documents of a listing that one filtered request reads; it then answers what it has and where to continue."""
SCANNED_AT_ONCE = 200
_LAST = ("BYLEX", "REV", "LIMIT", 0)
_GREATEST = "\U0010ffff"
"""Behind every other character."""
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


class Within(NamedTuple):
    """The part of a listing that is wanted: members between two bounds whose documents `keep` keeps; None keeps all."""

    low: bytes = b"-"
    high: bytes = b"+"
    keep: Callable[[Document], bool] | None = None


EVERYTHING = Within()
Readable: TypeAlias = Callable[[list[Document]], Awaitable[Sequence[Document]]]
"""Those of some documents that a reader can see."""


class DocumentReader:
    """Reads documents of every partition. One round trip in the common case; two just after a rebuild switched.

    `hint` may say in which partition a document is; where it is wrong or silent, every partition is asked. Within
    `partial_reads`, of several partitions those on a node that is down are as if they were empty.
    """

    def __init__(
        self, redis: Client, partitions: int, hint: Callable[[DocumentId], int | None] = lambda name: None
    ) -> None:
        self._redis, self._hint = redis, hint
        self.partitions = partitions
        self._one_server = keys_may_be_apart(redis)
        self._generation = [1] * partitions
        self._live_keys = [PartitionKeys(partition).of_generation(1) for partition in range(partitions)]
        self._generation_keys = [PartitionKeys(partition).generation for partition in range(partitions)]

    async def get(self, locations: Sequence[tuple[int, DocumentId]]) -> list[Document | None]:
        """The documents, in the order asked for; None for one that is not there, or left out."""
        texts: dict[int, list[DocumentId]] = {}
        rows: list[tuple[int, DocumentId]] = []
        for partition, name in locations:
            names = texts.setdefault(partition, [])
            if row_type(name):
                rows.append((partition, name))
            else:
                names.append(name)

        stored, hashes = await self._ask(
            texts, lambda: [("HGETALL", self._keys(partition).row(name)) for partition, name in rows], others=True
        )
        for row, answer in zip(rows, hashes, strict=True):  # a flat list on RESP2: fields and values in turn
            stored[row] = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
        return [decode(name, stored.get((partition, name))) for partition, name in locations]

    async def readable(self, locations: Sequence[tuple[int, DocumentId]], reader: Reader, kind: type[D]) -> list[D]:
        """Those of the documents that are of a kind and that the reader can see, in the order asked for."""
        documents = await self.get(locations)
        return [document for document in documents if isinstance(document, kind) and may_read(document, reader)]

    async def find(self, name: DocumentId) -> Located | None:
        """The document with this id, wherever it is.

        Raises LogUnavailable where it is not found and may be in a partition that could not be read.
        """
        located = next(iter(await self.find_all([name])), None)
        if located is None:
            check_missing(f"a document {name!r}")
        return located

    async def find_all(self, names: Sequence[DocumentId]) -> list[Located]:
        """Those of the documents that exist, in the order asked for, wherever they are.

        One round trip for those that the hint knows, and one that asks every partition for the others.
        """
        hinted = [(partition, name) for name in names if (partition := self._hint(name)) is not None]
        existing = {
            name: Located(partition, document)
            for (partition, name), document in zip(hinted, await self.get(hinted), strict=True)
            if document
        }
        missing = [(partition, name) for name in names if name not in existing for partition in range(self.partitions)]
        for (partition, name), document in zip(missing, await self.get(missing), strict=True):
            if document:
                existing[name] = Located(partition, document)
        return [existing[name] for name in names if name in existing]

    async def fields(self, locations: Sequence[tuple[int, DocumentId]], fields: Sequence[str]) -> list[list[str]]:
        """Some fields of documents that are rows, as texts; empty texts for a document that is not there."""
        _, rows = await self._ask(
            {partition: () for partition, _ in locations},
            lambda: [("HMGET", self._keys(partition).row(name), *fields) for partition, name in locations],
        )
        return [[(value or b"").decode() for value in row or [None] * len(fields)] for row in rows]

    async def members_of(self, listings: Sequence[str], partitions: Sequence[int]) -> list[DocumentId]:
        """The documents in several listings, of several partitions, in one round trip; at most MANY of each."""
        if not listings:
            return []
        pairs = [(listing, partition) for listing in listings for partition in partitions]
        _, rows = await self._ask(
            dict.fromkeys(partitions, ()),
            lambda: [("ZRANGE", self._keys(partition).listing(name), 0, MANY - 1) for name, partition in pairs],
        )
        members = (member.decode().rpartition("|")[2] for row in rows for member in row)
        return [DocumentId(name) for name in dict.fromkeys(members)]

    async def range(self, listing: str, partition: int, low: bytes, high: bytes, limit: int) -> list[str]:
        """Up to `limit` members of a listing in one partition between two bounds (`[a`, `(a`, `-`, `+`), in order."""
        return (await self.ranges([(listing, partition)], low, high, limit=limit))[0]

    async def first(self, listing: str, partition: int, low: bytes, high: bytes, limit: int) -> tuple[int, list[str]]:
        """How many members of a listing in one partition are between two bounds, and the first of them; at once."""

        def more() -> list[Command]:
            name = self._keys(partition).listing(listing)
            return [("ZLEXCOUNT", name, low, high), ("ZRANGE", name, low, high, "BYLEX", "LIMIT", 0, limit)]

        _, (count, members) = await self._ask({partition: ()}, more, at_once=True)
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
        within: Within = EVERYTHING,
        readable: Readable | None = None,
    ) -> DocumentPage:
        """A page of a listing that is spread over `partitions`, merged in the order of its members.

        `cursor` is the `next` of the previous page; members added since do not shift the pages. A page can have fewer
        than `limit` documents, even none, and a `next`: after MAX_SCANNED documents that are not wanted or not
        `readable`. Partitions that a page left out are left out of the pages after it. A cursor names the last document
        of its page, never one that is not on it.
        """
        edge, unread = _decode_cursor(cursor)
        if gone := unread.intersection(partitions):
            reason = "the previous page was made without this partition; start again without a cursor"
            leave_out(gone, partitions, LogUnavailable(reason))
            partitions = [partition for partition in partitions if partition not in gone]
        selected: list[Located] = []
        for at_once in (limit, *[SCANNED_AT_ONCE] * (MAX_SCANNED // SCANNED_AT_ONCE)):
            listed, following = await self._cut(listing, partitions, within, edge, at_once, newest_first)
            documents = [document for _, _, document in listed if document is not None]
            requested = [document for document in documents if within.keep is None or within.keep(document)]
            visible = {document.id for document in (await readable(requested) if readable else requested)}
            for number, (member, partition, document) in enumerate(listed, 1):
                if document is not None and document.id in visible:
                    selected.append(Located(partition, document))
                    if len(selected) == limit:
                        more = following is not None or number < len(listed)
                        return DocumentPage(selected, _encode_cursor(member) if more else None)
            if following is None:
                return DocumentPage(selected, None)
            # a text between two members that names neither: one's beginning up to where they differ. It tells a time,
            # and where both have the same time a part of an id
            last = listed[-1][0]
            edge = last[: sum(takewhile(bool, map(eq, last, following))) + 1] + ("" if newest_first else _GREATEST)
        return DocumentPage(selected, _encode_cursor(edge))

    async def _cut(
        self, listing: str, partitions: Sequence[int], within: Within, edge: str, limit: int, newest_first: bool
    ) -> tuple[list[tuple[str, int, Document | None]], str | None]:
        """The next members of a listing, their partitions and documents, behind `edge`; and the member behind them."""
        low, high = within.low, within.high
        if edge:
            bound = b"(" + edge.encode()
            low, high = (low, bound) if newest_first else (bound, high)
        listings = [(listing, partition) for partition in partitions]
        rows = await self.ranges(listings, low, high, limit=limit + 1, newest_first=newest_first)
        merged = heapq.merge(
            *([(member, partition) for member in row] for partition, row in zip(partitions, rows, strict=True)),
            reverse=newest_first,
        )
        taken = list(islice(merged, limit + 1))
        documents = await self.get([location_of(partition, member) for member, partition in taken[:limit]])
        listed = [(*row, document) for row, document in zip(taken[:limit], documents, strict=True)]
        return listed, taken[limit][0] if len(taken) > limit else None

    async def pages(self, listing: str, partitions: Sequence[int], limit: int = PAGE) -> AsyncGenerator[list[Document]]:
        """All documents of a listing, oldest first, a page at a time, as they stand when the page is read."""
        async for page in self.located(listing, partitions, limit):
            yield [located.document for located in page]

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

    async def newest(
        self,
        listing: str,
        reader: Reader,
        project: str | None,
        cursor: str | None,
        limit: int,
        within: Within = EVERYTHING,
        *,
        at_home: bool = False,
        readable: Readable | None = None,
    ) -> DocumentPage:
        """A page of what the reader can see of a listing, newest first; nothing of a project outside the key's scope.

        The listing is a project's, or with None of the whole tenant. It is in all partitions, or, `at_home`, in the
        project's own. `readable` replaces `readable_by`.
        """
        if project is not None and not reader.key_scope.allows(project):
            return DocumentPage([], None)
        partitions = [self.home(reader.tenant, project or "")] if at_home else range(self.partitions)
        readable = readable or readable_by(reader)
        return await self.page(listing, partitions, cursor=cursor, limit=limit, within=within, readable=readable)

    def home(self, tenant: str, project: str) -> int:
        """The partition of a project."""
        return partition_of(project_route(tenant, project), self.partitions)

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
        bounds = (high, low, "BYLEX", "REV") if newest_first else (low, high, "BYLEX")
        _, rows = await self._ask(
            {partition: () for _, partition in listings},
            lambda: [
                ("ZRANGE", self._keys(partition).listing(listing), *bounds, "LIMIT", 0, limit)
                for listing, partition in listings
            ],
        )
        return [[member.decode() for member in row] for row in rows]

    async def count(self, listings: Sequence[str]) -> list[int]:
        """How many members each listing has in all partitions that can be reached; one round trip for all."""
        names = [(listing, partition) for listing in listings for partition in range(self.partitions)]
        _, sizes = await self._ask(
            dict.fromkeys(range(self.partitions), ()),
            lambda: [("ZCARD", self._keys(partition).listing(listing)) for listing, partition in names],
        )
        rows = (sizes[start : start + self.partitions] for start in range(0, len(names), self.partitions))
        return [sum(size or 0 for size in row) for row in rows]

    async def parts(self, names: Sequence[str], partition: int, limit: int) -> list[str]:
        """Up to `limit` members of each of some parts of listings (`part_of`) of one partition; one round trip."""
        bounds = [(listing, beginning.encode()) for listing, beginning in map(whole_of, names)]
        ranges = [(listing, b"[" + low, b"(" + low + b"\xff") for listing, low in bounds]
        _, rows = await self._ask(
            {partition: ()},
            lambda: [
                ("ZRANGE", self._keys(partition).listing(listing), low, high, "BYLEX", "LIMIT", 0, limit)
                for listing, low, high in ranges
            ],
        )
        return [member.decode() for row in rows for member in row]

    async def newest_between(self, bounds: Sequence[tuple[str, str, str]], limit: int) -> list[list[str]]:
        """Of each `(listing, from, to)` the members between two texts, in all partitions; up to `limit` of each
        partition, the last ones. One round trip for all."""
        _, rows = await self._ask(
            dict.fromkeys(range(self.partitions), ()),
            lambda: [
                ("ZRANGE", self._keys(partition).listing(listing), f"({high}", f"[{low}", *_LAST, limit)
                for listing, low, high in bounds
                for partition in range(self.partitions)
            ],
        )
        firsts = range(0, len(rows), self.partitions)
        return [[name.decode() for row in rows[first : first + self.partitions] for name in row] for first in firsts]

    def _keys(self, partition: int) -> GenerationKeys:
        return self._live_keys[partition]

    async def _ask(
        self,
        texts: Mapping[int, Sequence[DocumentId]],
        more: Callable[[], Sequence[Command]],
        *,
        at_once: bool = False,
        others: bool = False,
    ) -> tuple[dict[tuple[int, DocumentId], Any], list[Any]]:
        """What is stored of `texts`, and what the live generations answer to the commands that `more` makes.

        `texts` names every partition that is asked, with those of its documents that are wanted and are not rows: they
        are read with one command, on a cluster one a partition, because each costs more than what it reads. With
        `others` all of them may be left out, because the caller has asked more than these.
        """
        if not texts:
            return {}, []
        together = [list(texts)] if self._one_server else [[partition] for partition in texts]
        while True:
            commands: list[Command] = []
            for partitions in together:
                live_keys = [self._generation_keys[partition] for partition in partitions]
                names = [(self._keys(partition), name) for partition in partitions for name in texts[partition]]
                commands.append(("MGET", *live_keys, *(keys.doc(name) for keys, name in names)))
            answers = await ask(self._redis, [*commands, *more()], at_once=at_once)
            if any(isinstance(answer, Exception) for answer in answers):
                answers = _without(answers, together, range(self.partitions) if others else texts)
            live: dict[int, int] = {}
            stored: dict[tuple[int, DocumentId], Any] = {}
            for partitions, row in zip(together, answers, strict=False):
                if not row:  # left out
                    continue
                live.update((partition, int(now or 1)) for partition, now in zip(partitions, row, strict=False))
                locations = ((partition, name) for partition in partitions for name in texts[partition])
                stored.update(zip(locations, row[len(partitions) :], strict=True))
            if all(self._generation[partition] == now for partition, now in live.items()):
                return stored, answers[len(together) :]
            for partition, now in live.items():  # a rebuild switched between two reads: ask the new generation
                self._generation[partition] = now
                self._live_keys[partition] = PartitionKeys(partition).of_generation(now)


def _without(answers: Sequence[Any], together: Sequence[Sequence[int]], requested: Iterable[int]) -> list[Any]:
    """The answers as of partitions without documents where a node is down; raises the first error where it is not."""
    unread: set[int] = set()
    for partitions, answer in zip(together, answers, strict=False):
        if isinstance(answer, UNREACHABLE):
            unread.update(partitions)
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    if not unread or not all(isinstance(error, UNREACHABLE) for error in errors):
        raise errors[0]
    leave_out(unread, requested, errors[0])
    return [() if isinstance(answer, UNREACHABLE) else answer for answer in answers]


def location_of(partition: int, member: str) -> tuple[int, DocumentId]:
    """Where the document of a listing's member is."""
    return partition, DocumentId(member.rpartition("|")[2])


def readable_by(reader: Reader) -> Readable:
    """What tells the documents that a reader can see."""

    async def readable(documents: list[Document]) -> list[Document]:
        return [document for document in documents if may_read(document, reader)]

    return readable


def _encode_cursor(member: str) -> str:
    unread = f"\0{','.join(map(str, sorted(left_out())))}\0" if left_out() else ""
    return base64.urlsafe_b64encode(f"{unread}{member}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str | None) -> tuple[str, frozenset[int]]:
    """The text that a page starts after, empty for the first, and the partitions that the previous page left out."""
    if not cursor:
        return "", frozenset()
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        unread, member = text[1:].split("\0", 1) if text.startswith("\0") else ("", text)
        return member, frozenset(map(int, filter(None, unread.split(","))))
    except ValueError:
        raise CommandRejected("not a cursor; use the `next` of the previous page", "cursor") from None
