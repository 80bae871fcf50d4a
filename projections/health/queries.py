"""What is wrong, if anything: gathers the findings that `diagnosis` judges, in bounded work; how far projections are.

Looked at are the newest NEWEST memories, lessons and summaries, as many relations and slots of the PROJECTS that were
written to last, and as many of the oldest open actions and sessions: a fault elsewhere goes unseen. What the reader may
not see is not named.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from ingest.errors import ProjectionBehind
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, partition_of, project_route
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.partial import UNREACHABLE, leaving_out, left_out, readable
from projections.condensing.claims import MADE_TAGS
from projections.documents.access import Reader, may_read
from projections.documents.actions import Action, cycles, open_actions, work_item
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.relations import Relation, relations
from projections.documents.sessions import OPEN_SESSIONS, Session, Summary
from projections.documents.slots import Slot, slots
from projections.health.diagnosis import Diagnosis, Measured, diagnose
from projections.health.watch import Watch
from projections.maintenance.backups import backup_trouble, load_status
from projections.queries.documents import DocumentReader
from projections.queries.lookup import key_scope
from projections.search.index import DocumentLocation, Index, IndexService
from projections.search.question import Filter

NEWEST = 500
PROJECTS = 10
DAY_MS = 86_400_000


class Diagnose:
    """Answers what is wrong. `llm` names what is configured, empty for none; `backup_every` is how often backups are
    looked after, None for never."""

    def __init__(
        self,
        redis: Client,
        watch: Watch,
        index: IndexService,
        documents: DocumentReader,
        *,
        llm: str = "",
        backup_every: timedelta | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._watch, self._index, self._documents = redis, watch, index, documents
        self._llm, self._clock = llm, clock
        self._backup_every = backup_every

    async def __call__(self, reader: Reader, categories: Sequence[str] = ()) -> Diagnosis:
        """The checks of these categories, of all without any; for a reader who is no operator, of its tenant's."""
        return diagnose(await self._findings(reader), categories, operator=not reader.key_scope.within_tenant)

    async def _findings(self, reader: Reader) -> Measured:
        vitals, embedder = await self._watch.look(), self._index.embedder
        conditions = self._watch.readiness.conditions  # of the same look: nothing is awaited between
        written, unscoped = await self._written(reader)
        found = [one for one in await self._documents.get(written) if one is not None and may_read(one, reader)]
        memories = [one for one in found if isinstance(one, Memory)]
        projects = list(dict.fromkeys(["", *(getattr(one, "project", "") for one in found)]))[: PROJECTS + 1]
        listed, slotted, open_work, old_sessions = await asyncio.gather(
            self._listed(reader, relations, projects),
            self._listed(reader, slots, projects),
            self._everywhere(open_actions(reader.tenant), reader),
            self._old_sessions(reader),
        )
        stated = [one for one in listed if isinstance(one, Relation)]
        held = [one for one in slotted if isinstance(one, Slot)]
        work = [one for one in open_work if isinstance(one, Action)]
        gone = await self._gone(_ends(memories, work, stated))
        return Measured(
            vitals=vitals,
            conditions=conditions,
            embedder=embedder.model if embedder.dimensions else "",
            active_sessions_over_a_day=old_sessions,
            memories_with_missing_parent=[one.id for one in memories if one.parent_id in gone],
            latest_but_superseded=[one.id for one in memories if one.is_latest and one.superseded_by],
            lessons_out_of_range=[one.id for one in found if isinstance(one, Lesson) and not 0 <= one.confidence <= 1],
            summaries_without_title=[one.id for one in found if isinstance(one, Summary) and not one.title.strip()],
            actions_waiting_for_nothing=[one.id for one in work if gone.intersection(work_item(one).requires)],
            action_cycles=[" → ".join(one) for one in cycles({one.id: work_item(one) for one in work})],
            dangling_relations=[one.id for one in stated if {one.source, one.target} & gone],
            slots_over_limit=[one.label for one in held if len(one.content) > one.size_limit],
            unscoped_memories=unscoped,
            backup_trouble=await self._backup_trouble(),
            llm=self._llm,
        )

    async def _written(self, reader: Reader) -> tuple[list[DocumentLocation], int]:
        """The newest documents of each kind, and how many memories that somebody wrote have no project.

        Nothing without an index.
        """
        allowed, now_ms = key_scope(reader), to_ms(self._clock())
        try:
            return await self._index.ask(lambda index: _newest_of_each(index, allowed, now_ms))
        except ProjectionBehind:
            return [], 0

    async def _listed(
        self, reader: Reader, listing: Callable[[str, str], str], projects: Sequence[str]
    ) -> list[Document]:
        """The newest of some projects' documents."""

        async def of(project: str) -> list[Document]:
            partition = partition_of(project_route(reader.tenant, project), self._documents.partitions)
            with leaving_out(partition, range(self._documents.partitions)):
                page = await self._documents.page(listing(reader.tenant, project), [partition], limit=NEWEST)
                return [one.document for one in page.documents if may_read(one.document, reader)]
            return []

        return [one for found in await asyncio.gather(*map(of, projects)) for one in found][:NEWEST]

    async def _everywhere(self, listing: str, reader: Reader) -> list[Document]:
        page = await self._documents.page(listing, range(self._documents.partitions), limit=NEWEST, newest_first=False)
        return [one.document for one in page.documents if may_read(one.document, reader)]

    async def _old_sessions(self, reader: Reader) -> list[str]:
        """Sessions that are active though nothing was recorded of them for a day."""
        day_ago_ms = to_ms(self._clock()) - DAY_MS
        found = [one for one in await self._everywhere(OPEN_SESSIONS, reader) if isinstance(one, Session)]
        return [one.session_id for one in found if one.seen_ms < day_ago_ms]

    async def _gone(self, names: Sequence[str]) -> set[str]:
        """Those of which nothing is known, not even that they were forgotten; none while not all can be read."""
        found = {one.document.id for one in await self._documents.find_all([DocumentId(name) for name in names])}
        return set() if left_out() else {*names} - found

    async def _backup_trouble(self) -> str:
        if self._backup_every is None:
            return ""
        try:
            status = await load_status(self._redis)
        except UNREACHABLE as error:
            return f"the note of the newest backup cannot be read: {error}"
        return backup_trouble(status, self._clock(), self._backup_every)


def _newest_of_each(index: Index, allowed: Filter, now_ms: int) -> tuple[list[DocumentLocation], int]:
    of_kind = {kind: replace(allowed, kinds=[kind]) for kind in ("memory", "lesson", "summary")}
    unscoped = replace(of_kind["memory"], project="", without=[("tag", tag) for tag in MADE_TAGS])
    newest = [place for one in of_kind.values() for place in index.recorded_last(one, now_ms, NEWEST)]
    return newest, index.count(unscoped, now_ms)


def _ends(memories: Sequence[Memory], work: Sequence[Action], stated: Sequence[Relation]) -> list[str]:
    """Everything that these refer to by an id; an end that says what it is (`concept:…`) need not be anywhere."""
    named = [one.parent_id for one in memories]
    named += [name for one in work for name in work_item(one).requires]
    named += [end for one in stated for end in (one.source, one.target) if ":" not in end]
    return list(dict.fromkeys(name for name in named if name))


class ProjectionProgress:
    """Answers how far every partition is."""

    def __init__(self, redis: Client, log: EventLog, index: IndexService) -> None:
        self._redis, self._log, self._index = redis, log, index

    async def __call__(self) -> list[dict[str, Any]]:
        """For every partition: head of the log, checkpoint, what is searchable, how many entries wait, dead letters."""
        applied, behind = self._index.applied, await self._index.measure_lag()
        rows = await readable({one: self._of(one, applied, behind) for one in range(self._log.partitions)})
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
        checkpoint = Position.parse(stored) if stored else START
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
