"""What is wrong, if anything: gathers the findings that `diagnosis` judges, in bounded work; how far projections are.

It reads the newest NEWEST memories, lessons and summaries, as many relations and slots of the PROJECTS with the newest
writes, and as many of the oldest open actions and sessions: an error elsewhere goes unseen. What the reader cannot see
is not named.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from ingest.errors import ProjectionBehind
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, partition_of, project_route, stored_position
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.partial import UNREACHABLE, leaving_out, left_out, readable
from projections.health.diagnosis import Diagnosis, Measured, diagnose
from projections.health.watch import Watch
from projections.index.protocol import DocumentLocation, Index, IndexService
from projections.maintenance.backups import backup_trouble, load_status
from projections.nouns.access import Reader, may_read
from projections.nouns.action import Action, cycles, open_actions, work_item
from projections.nouns.lesson import Lesson
from projections.nouns.memory import MADE_TAGS, Memory
from projections.nouns.relation import Relation, relations
from projections.nouns.session import OPEN_SESSIONS, Session, Summary
from projections.nouns.slot import Slot, slots
from projections.queries.documents import DocumentReader
from projections.queries.lookup import key_scope

T = TypeVar("T")

NEWEST = 500
PROJECTS = 10
DAY_MS = 86_400_000


@dataclass
class Diagnose:
    """Answers what is wrong. `llm` names what is configured, empty for none; `backup_every` is how often backups are
    looked after, None for never."""

    _redis: Client
    _watch: Watch
    _index: IndexService
    _documents: DocumentReader
    _: KW_ONLY
    llm: str = ""
    backup_every: timedelta | None = None
    clock: Clock = system_clock

    async def __call__(self, reader: Reader, categories: Sequence[str] = ()) -> Diagnosis:
        """The checks of these categories, of all without any; for a reader who is no operator, of its tenant's."""
        sample, embedder = await self._watch.look(), self._index.embedder
        conditions = self._watch.readiness.conditions  # of the same sample: nothing is awaited in between
        written, unscoped = await self._written(reader)
        documents = [row for row in await self._documents.get(written) if row is not None and may_read(row, reader)]
        memories = [document for document in documents if isinstance(document, Memory)]
        projects = list(dict.fromkeys(["", *(getattr(document, "project", "") for document in documents)]))
        projects = projects[: PROJECTS + 1]
        relations_listed, slots_listed, work, sessions = await asyncio.gather(
            self._listed(reader, relations, Relation, projects),
            self._listed(reader, slots, Slot, projects),
            self._everywhere(open_actions(reader.tenant), Action, reader),
            self._everywhere(OPEN_SESSIONS, Session, reader),
        )
        day_ago_ms = to_ms(self.clock()) - DAY_MS
        gone = await self._gone(memories, work, relations_listed)
        offenders = {
            "active-over-a-day": [item.session_id for item in sessions if item.seen_ms < day_ago_ms],
            "missing-parent": [item.id for item in memories if item.parent_id in gone],
            "latest-but-superseded": [item.id for item in memories if item.is_latest and item.superseded_by],
            "confidence": [item.id for item in documents if isinstance(item, Lesson) and not 0 <= item.confidence <= 1],
            "title": [item.id for item in documents if isinstance(item, Summary) and not item.title.strip()],
            "missing-requirement": [item.id for item in work if gone.intersection(work_item(item, 0).requires)],
            "cycle": [" → ".join(cycle) for cycle in cycles({item.id: work_item(item, 0) for item in work})],
            "dangling": [item.id for item in relations_listed if {item.source, item.target} & gone],
            "over-limit": [item.label for item in slots_listed if len(item.content) > item.size_limit],
        }
        measured = Measured(
            sample=sample,
            conditions=conditions,
            embedder=embedder.model if embedder.dimensions else "",
            offenders=offenders,
            unscoped_memories=unscoped,
            backup_trouble=await self._backup_trouble(),
            llm=self.llm,
        )
        return diagnose(measured, categories, operator=not reader.key_scope.within_tenant)

    async def _written(self, reader: Reader) -> tuple[list[DocumentLocation], int]:
        """The newest documents of each kind, and how many memories that somebody wrote have no project.

        Nothing without an index.
        """
        allowed = key_scope(reader, now=self.clock())
        of_kind = {kind: replace(allowed, kinds=[kind]) for kind in ("memory", "lesson", "summary")}
        unscoped = replace(of_kind["memory"], project="", without=[("tag", tag) for tag in MADE_TAGS])

        def newest_of_each(index: Index) -> tuple[list[DocumentLocation], int]:
            newest = [row for filter_ in of_kind.values() for row in index.recorded_last(filter_, NEWEST)]
            return newest, index.count(unscoped)

        try:
            return await self._index.ask(newest_of_each)
        except ProjectionBehind:
            return [], 0

    async def _listed(
        self, reader: Reader, listing: Callable[[str, str], str], kind: type[T], projects: Sequence[str]
    ) -> list[T]:
        """The newest documents of some projects."""

        async def of(project: str) -> list[T]:
            partition = partition_of(project_route(reader.tenant, project), self._documents.partitions)
            with leaving_out(partition, range(self._documents.partitions)):
                return await self._page(listing(reader.tenant, project), [partition], kind, reader)
            return []

        return [document for page in await asyncio.gather(*map(of, projects)) for document in page][:NEWEST]

    async def _everywhere(self, listing: str, kind: type[T], reader: Reader) -> list[T]:
        return await self._page(listing, range(self._documents.partitions), kind, reader, newest_first=False)

    async def _page(
        self, listing: str, partitions: Sequence[int], kind: type[T], reader: Reader, newest_first: bool = True
    ) -> list[T]:
        page = await self._documents.page(listing, partitions, limit=NEWEST, newest_first=newest_first)
        readable = [row.document for row in page.documents if may_read(row.document, reader)]
        return [document for document in readable if isinstance(document, kind)]

    async def _gone(self, memories: Sequence[Memory], work: Sequence[Action], stated: Sequence[Relation]) -> set[str]:
        """The ids that these documents refer to and that have no document, not even a tombstone.

        Empty while some partition cannot be read. An end that is no id (`concept:…`) need not exist.
        """
        names = {memory.parent_id for memory in memories} | {
            name for item in work for name in work_item(item, 0).requires
        }
        names |= {end for relation in stated for end in (relation.source, relation.target) if ":" not in end}
        names.discard("")
        rows = await self._documents.find_all([*map(DocumentId, names)])
        return set() if left_out() else names - {row.document.id for row in rows}

    async def _backup_trouble(self) -> str:
        if self.backup_every is None:
            return ""
        try:
            status = await load_status(self._redis)
        except UNREACHABLE as error:
            return f"the record of the newest backup cannot be read: {error}"
        return backup_trouble(status, self.clock(), self.backup_every)


@dataclass
class ProjectionProgress:
    """Answers how far every partition is."""

    _redis: Client
    _log: EventLog
    _index: IndexService

    async def __call__(self) -> list[dict[str, Any]]:
        """For every partition: head of the log, checkpoint, what is searchable, how many entries wait, dead letters."""
        applied, behind = self._index.applied, await self._index.measure_lag()
        rows = await readable(
            {partition: self._of(partition, applied, behind) for partition in range(self._log.partitions)}
        )
        return list(rows.values())

    async def _of(self, partition: int, applied: Mapping[int, Position], behind: Mapping[int, int]) -> dict[str, Any]:
        keys = PartitionKeys(partition)
        head = await self._log.head(partition)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.get(keys.generation)
            pipe.get(keys.lease)
            generation, lease = await pipe.execute()
        live = keys.of_generation(int(generation or 1))
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.get(live.checkpoint)
            pipe.zcard(live.embed_queue)
            pipe.xlen(live.changes)
            pipe.zcard(live.dead)
            stored, waiting, feed, dead = await pipe.execute()
        checkpoint = stored_position(stored)
        return {
            "partition": partition,
            "generation": live.generation,
            "head": str(head),
            "checkpoint": str(checkpoint),
            "searchable": str(applied.get(partition, START)),
            "lag": behind.get(partition, 0),
            "to_embed": waiting,
            "feed": feed,
            "dead_letters": dead,
            "worker": lease.decode() if lease else None,
        }
