"""Memories: listed, by when they happened, the versions of one, and what a new one supersedes or resembles."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace
from redis.exceptions import RedisError

from ingest.commands.handler import Accepted
from ingest.errors import LogUnavailable, NotFound, ProjectionBehind, ReaderUnknown
from ingest.ids import DocumentId
from ingest.log.position import Position, Token
from projections.index.protocol import IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document, Tombstone
from projections.nouns.memory import Memory, is_similar, memories, probe_listings, resembling
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup, key_scope
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, page_view, public_view

MAX_VERSIONS = 1_000
"""Of one memory's history."""
# how long the answer to a write waits for the fold: ten times what projecting usually takes
OUTCOME_WAIT_S = 0.5
# with so many entries not projected yet the answer does not wait: they take about that long
FAR_BEHIND = 500
MAX_SIMILAR = 10
MAX_PROBED = 200
"""Members of each key that are looked at for similar memories, and memories that are read."""

MemoryView = public_view(Memory)


class RememberAnswer(Accepted, frozen=True):
    """An acknowledged memory; the memories that it superseded, and current ones that are similar and were left alone.

    The newest first, at most ten. Both are absent where they are not known in time, or the caller can't read.
    """

    superseded: list[str] | UnsetType = UNSET
    similar: list[str] | UnsetType = UNSET


@dataclass
class Memories:
    """Answers questions about memories."""

    _documents: DocumentReader
    _lookup: Lookup
    _index: IndexService

    async def answer_to(self, accepted: Accepted, reader: Callable[[], Reader]) -> RememberAnswer:
        """The answer to a write, with what the memory superseded and what it resembles.

        Without these if they are not known in time, the log's server fails, or `reader` raises ReaderUnknown: the
        memory is stored, so none of these may turn the answer into a failure.
        """
        answer = RememberAnswer(**asdict(accepted))
        token = Token.parse(accepted.position)  # the fold decides what it supersedes, so wait for the fold, briefly
        try:
            if not await self._projected(token):
                return answer
            partition = next(iter(token))
            (memory,) = await self._documents.get([(partition, DocumentId(accepted.id))])
            if not isinstance(memory, Memory):
                return answer
            similar = await self._similar(memory, partition, reader())
        except (LogUnavailable, RedisError, ReaderUnknown):
            return answer
        superseded = [memory.parent_id] if memory.separate_parent else []
        return replace(answer, superseded=superseded, similar=[name for name in similar if name not in superseded])

    async def count_restatements(self, names: Collection[DocumentId], tenant: str, after: Token) -> int:
        """How many of these memories superseded another one; 0 if that is not projected in time, or the log's server
        fails: they are stored."""
        try:
            if not names or not await self._projected(after):
                return 0
            located = await self._documents.find_all(list(names))
        except (LogUnavailable, RedisError):
            return 0
        memories = [memory for _, memory in located if isinstance(memory, Memory)]
        return sum(memory.separate_parent and memory.tenant == tenant for memory in memories)

    async def _projected(self, token: Token) -> bool:
        if any(self._index.lag.get(partition, 0) > FAR_BEHIND for partition in token):
            return False
        try:
            # short: the write is stored already, and its outcome is only a courtesy
            await self._index.wait_for(token, OUTCOME_WAIT_S)
        except ProjectionBehind:
            return False
        return True

    async def _similar(self, memory: Memory, partition: int, reader: Reader) -> list[str]:
        """Current memories about the same user that are similar and that the reader can see, the newest first."""
        members = await self._documents.parts(probe_listings(memory, by_words=True), partition, MAX_PROBED)
        names = dict.fromkeys(member.rpartition("|")[2] for member in filter(resembling(memory.content), members))
        documents = await self._documents.get([(partition, DocumentId(name)) for name in list(names)[:MAX_PROBED]])
        similar = [
            other
            for other in documents
            if isinstance(other, Memory)
            and other.user_id == memory.user_id
            and is_similar(memory, other)
            and may_read(other, reader)
        ]
        similar.sort(key=lambda other: Position.parse(other.position), reverse=True)
        return [other.id for other in similar[:MAX_SIMILAR]]

    async def page(
        self,
        reader: Reader,
        project: str,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        latest: bool = False,
    ) -> Page[Any]:
        """A project's memories, newest first; superseded ones included unless `latest`."""
        listing, within = memories(reader.tenant, project), times.in_log_order()
        page = await self._documents.newest(listing, reader, project, cursor, limit, within, at_home=True)
        return page_view(page, lambda memory: not latest or (isinstance(memory, Memory) and memory.is_latest))

    async def history(self, name: str, reader: Reader) -> list[Memory]:
        """Every version of a memory that the reader can see, oldest first. Forgotten ones are not there."""
        located = await self._lookup.document(name, reader)
        if not isinstance(located.document, Memory):
            raise NotFound(f"there is no memory {name!r}")
        versions = [located.document]
        for link in ("parent_id", "superseded_by"):
            at: Document | None = located.document
            while (
                isinstance(at, Memory | Tombstone)
                and (towards := getattr(at, link, ""))
                and len(versions) < MAX_VERSIONS
            ):
                (at,) = await self._documents.get([(located.partition, DocumentId(towards))])
                if isinstance(at, Memory) and may_read(at, reader):
                    versions.append(at)
        return sorted(versions, key=lambda version: version.version)


class MemoryPage(Struct, frozen=True):
    """Some memories, and how many there are on all pages."""

    memories: list[Memory]
    total: int


@dataclass
class MemoryPages:
    """Answers from the index, which finds and counts, and the documents of the page."""

    _index: IndexService
    _documents: DocumentReader

    async def page(
        self,
        reader: Reader,
        project: str,
        offset: int,
        limit: int,
        name: Callable[[Memory], str] = lambda memory: memory.id,
        **narrowing: Any,
    ) -> MemoryPage:
        """The memories from `offset` on, as far as the reader can see them, narrowed as a Filter can be.

        Those of one millisecond are ordered by `name`, the greatest first; very many of one by document id. Raises
        ProjectionBehind before the index is loaded.
        """
        allowed = key_scope(reader, project, kinds=["memory"], **narrowing)
        window = await self._index.ask(lambda index: index.window(allowed, offset, limit))
        documents = await self._documents.get([location for _, location in window.located])
        dated = [
            ((at_ms, "" if at_ms in window.crowded else name(memory)), memory)
            for (at_ms, _), memory in zip(window.located, documents, strict=True)
            if isinstance(memory, Memory) and may_read(memory, reader)
        ]
        ordered = [memory for _, memory in sorted(dated, key=lambda pair: pair[0], reverse=True)]
        return MemoryPage(ordered[window.skipped : window.skipped + limit], window.total)
