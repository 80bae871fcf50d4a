"""Imports an export of agentmemory: its rows become events, whose ids are derived from the rows.

A row already exists if its document does: it was imported before, or the export was made on this server. Its changeable
parts (the text of a memory or slot, an action's status) are then updated; the rest stays unchanged. Deleted documents
stay deleted.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, get_args

from starlette.requests import Request

from api.dialects.agentmemory.endpoints import Arguments, at_least_one, call_of, every, object_in, one_of
from api.dialects.agentmemory.importer import END, LAST, SESSION, SYSTEM, Export
from api.dialects.agentmemory.memories import relation_record
from api.dialects.agentmemory.operations import REQUESTS, failure, success
from api.dialects.agentmemory.records import Record, iso, memory_record, observation_record, summary_record
from api.dialects.agentmemory.sessions import AT_ONCE, session_records
from api.dialects.agentmemory.work import action_record, edge_records, lesson_record, slot_record
from api.http.http import body
from api.importing.mapping import (
    SOURCE,
    ImportRow,
    Mapped,
    Step,
    as_list,
    as_object,
    checked,
    events_of,
)
from api.services import services
from ingest.commands.decide import Caller, SetSlot, SummariseSession, TrackSession, WriteAction, decide
from ingest.errors import CommandRejected, Forbidden, NotFound, Overloaded, ProjectionBehind, ReaderUnknown
from ingest.events.envelope import Event
from ingest.ids import DocumentId, imported_event_id
from ingest.log.position import Token, partition_of, session_route
from ingest.platform.clock import system_clock
from ingest.platform.partial import whole_reads
from ingest.platform.tasks import in_thread
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import server_version
from mcp_gateway.tools.tool import Call
from projections.forgetting.forget import Clear
from projections.nouns.access import Reader, may_forget, may_read
from projections.nouns.action import Action
from projections.nouns.document import Document, Tombstone
from projections.nouns.memory import Memory
from projections.nouns.session import session_document_id, summary_id
from projections.nouns.slot import Slot
from projections.operations.memory import MemoryChanges
from projections.queries.views import Page, view
from projections.services import Queries

Strategy = Literal["merge", "replace", "skip"]
# Larger exports need `mnemolog import agentmemory`, which reads a file.
MAX_IMPORT_BYTES = 64 << 20
MAX_IMPORT_VALUES = 2_000_000
LIMITS = {"sessions": 10_000, "memories": 50_000, "summaries": 10_000}
MAX_PER_SESSION, MAX_OBSERVATIONS = 5_000, 500_000
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
FIRST = (0, 3, 0)
"""The first version of agentmemory whose exports are supported; our own are as well."""
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
# An export stays in memory while it is imported.
_one_at_a_time = asyncio.Semaphore(1)
# Mapped in a thread, looked up and appended at a time.
ROWS = 200
OVERLOADED_S = 30
MAX_REFUSALS = 20
"""Listed in the answer; all are counted."""
_OURS = re.compile(r"(obs|mem|act|lsn|rel)_[0-9a-f]{20}")


async def import_export(request: Request) -> Record:
    """Import an export."""
    services(request).key_scope.check_whole()
    if _one_at_a_time.locked():
        raise Overloaded("another export is being imported", retry_after_s=10)
    async with _one_at_a_time:
        raw = await body(request, MAX_IMPORT_BYTES)
        arguments = lenient.read(await in_thread(object_in, raw, MAX_IMPORT_VALUES), REQUESTS["POST import"])
        strategy = one_of(arguments["strategy"], STRATEGIES, "strategy")
        export: Record = arguments["exportData"]
        if reason := _unsupported(export):
            return failure(reason)
        call = call_of(request)
        done = ExportImport(call, strategy)
        try:
            await done.run(export)
        except CommandRejected as error:
            return failure(error.message)
        call.wrote(call.caller().agent_id, str(done.token))
        counts = {f"{name[:-1]}ies" if name.endswith("y") else f"{name}s": count for name, count in done.rows.items()}
        record: Record = {**dict.fromkeys(("sessions", "observations", "memories", "summaries"), 0), **counts}
        record |= {"refused": done.refused, "refusals": done.refusals} if done.refused else {}
        return success(strategy=strategy, skipped=done.skipped, **record)


def _unsupported(export: Mapping[str, Any]) -> str:
    """Why an export cannot be imported; empty when it can."""
    version: Any = export.get("version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    own_match = _VERSION.match(server_version() or "")
    stated = tuple(map(int, match.groups())) if match else ()
    ours = tuple(map(int, own_match.groups())) if own_match else ()
    if not stated or not (FIRST <= stated <= LAST or stated <= ours):
        return f"Unsupported export version: {version}"
    for name, most in LIMITS.items():
        count = len(as_list(export.get(name)))
        if count > most:
            return f"too many {name}: {count:,}, and the limit is {most:,}"
    counts = [len(as_list(rows)) for rows in as_object(export.get("observations")).values()]
    if max(counts, default=0) > MAX_PER_SESSION or sum(counts) > MAX_OBSERVATIONS:
        return f"too many observations: the limit is {MAX_PER_SESSION:,} a session and {MAX_OBSERVATIONS:,} in all"
    return ""


class ExportImport:
    """One import of an export, and what it has done so far.

    `rows` counts the rows of each kind that are stored now, `skipped` those that were skipped; `refusals` says why some
    could not be imported.
    """

    def __init__(self, call: Call, strategy: Strategy) -> None:
        self._call, self._strategy, self._replaces = call, strategy, strategy == "replace"
        self._reader, self._caller = call.reader(), call.caller()
        self._documents = call.operations.current.documents
        self.rows, self.skipped, self.refused = Counter[str](), 0, 0
        self.refusals: list[str] = []
        # the documents of all rows; the sessions that this import opened
        self._kept, self._opened = set[str](), set[str]()
        self.token = Token()

    async def run(self, export: Mapping[str, Any]) -> None:
        """Import an export; with `skip`, existing documents stay as they are; with `replace`, all others are deleted.

        Raises CommandRejected for anything else. Raises Overloaded or LogUnavailable on the way: repeating all of it
        is safe.
        """
        operations, queries = self._call.operations, self._call.queries
        await operations.current.settle()
        source = await asyncio.to_thread(Export, export, self._caller.tenant)
        await self._find_own(source)
        rows = source.rows()
        while some := await asyncio.to_thread(lambda: list(islice(rows, ROWS))):
            await self._import(source, some)
        if self._replaces:
            await operations.current.settle()
            clear = Clear(operations.current, operations.forgetting, queries.lookup, queries.actions)
            self.token.include_all(await clear.others(self._kept, self._reader, self._caller))

    async def _import(self, source: Export, rows: Sequence[ImportRow]) -> None:
        mapped = await asyncio.to_thread(lambda: list(self._mapped(source, rows)))
        documents = await self._documents.get([location for _, _, location, _ in mapped])
        fresh: list[Event] = []
        for (row, mapped_row, (_, name), events), stored in zip(mapped, documents, strict=True):
            document = stored or source.own.get(row.name)
            first = mapped_row.steps[0].command
            self._kept.add(name if document is None else document.id)
            if row.kind == END:
                fresh += events if row.name in self._opened else []
            elif document is None and (not isinstance(first, SummariseSession) or first.session_id in self._opened):
                # a summary is stored only in a session that the same import opened
                fresh += events
                self.rows[row.kind] += 1
                self._opened |= {row.name} if row.kind == SESSION else set()
            elif document is None or isinstance(document, Tombstone) or self._strategy == "skip":
                self.skipped += 1
            else:
                self.rows[row.kind] += 1
                await self._bring_up_to_date(document, row, mapped_row.steps[0])
        self.token.include_all(await self._append(fresh))

    async def _bring_up_to_date(self, document: Document, row: ImportRow, step: Step) -> None:
        """Change an existing document to what its row says."""
        command, position, operations = step.command, "", self._call.operations
        try:
            match document:
                case Memory() if row.value.get("isLatest") is not False and (document.is_latest or self._replaces):
                    content = getattr(command, "content", document.content)
                    if content != document.content or not document.is_latest:
                        changes = MemoryChanges(content=content, title=getattr(command, "title", None) or None)
                        changed = await operations.memories.change(document.id, changes, self._reader, self._caller)
                        position = changed.position
                        self._kept.add(changed.id)
                case Slot() if isinstance(command, SetSlot) and command.content != document.content:
                    position = (await operations.slots.set(command, self._caller)).position
                case Action() if isinstance(command, WriteAction):
                    stated = {name: getattr(command, name) for name in ("title", "description", "status", "priority")}
                    if other := {name: value for name, value in stated.items() if value != getattr(document, name)}:
                        action = WriteAction(action=document.id, **other)
                        position = (await operations.work.write_action(action, self._reader, self._caller)).position
                case _:
                    pass
        except (CommandRejected, NotFound, Forbidden) as error:
            self._refuse(row, error)
        if position:
            self.token.include_all(Token.parse(position))

    async def _append(self, events: Sequence[Event]) -> Token:
        """Append events as soon as there is room for them."""
        waited_s = 0
        while True:
            try:
                return (await self._call.commands.append_events(events)).token if events else Token()
            except Overloaded:
                if waited_s == OVERLOADED_S:
                    raise
            waited_s += 1
            await asyncio.sleep(1)

    async def _find_own(self, source: Export) -> None:
        """Find the rows that are documents of this server under their own names."""
        names = iter(dict.fromkeys(row.name for row in source.rows() if _OURS.fullmatch(row.name)))
        while some := [DocumentId(name) for name in islice(names, ROWS)]:
            documents = [located.document for located in await self._documents.find_all(some)]
            # Another agent's document is not one of them: the next version of its row, which is appended without a
            # further check, would be a version of that document.
            source.own |= {
                document.id: document
                for document in documents
                if isinstance(document, Tombstone)
                or (may_read(document, self._reader) and may_forget(document, self._reader))
            }

    def _mapped(
        self, source: Export, rows: Sequence[ImportRow]
    ) -> Iterator[tuple[ImportRow, Mapped, tuple[int, DocumentId], list[Event]]]:
        """The rows that can be imported: their commands, the locations of their documents, and their events."""
        for row in rows:
            if not source.reads(row.kind):
                continue
            try:
                mapped = source.mapped(row)
                location = _location(mapped.steps[0], source.tenant, self._documents.partitions)
                yield row, mapped, location, events_of(mapped, SYSTEM, source.tenant)
            except CommandRejected as error:
                if row.kind != END:  # of a session that goes on
                    self._refuse(row, error)

    def _refuse(self, row: ImportRow, error: Exception) -> None:
        self.refused += 1
        if len(self.refusals) < MAX_REFUSALS:
            field = error.field if isinstance(error, CommandRejected) and error.field else ""
            self.refusals.append(f"{row.kind} {row.name}: {f'{field} ' if field else ''}{error}")


def _location(step: Step, tenant: str, partitions: int) -> tuple[int, DocumentId]:
    """Where the document of a row is, or will be."""
    command = step.command
    if isinstance(command, TrackSession | SummariseSession):
        name = session_document_id(tenant, command.project, command.session_id)
        home = partition_of(session_route(tenant, command.project, command.session_id), partitions)
        return home, summary_id(name) if isinstance(command, SummariseSession) else name
    decision = decide(checked(command), Caller(tenant, SOURCE), imported_event_id(SYSTEM, step.key), step.at)
    return partition_of(decision.route, partitions), DocumentId(decision.subject)


# For sessions with their observations; clients wait 15 s for all of it.
DEADLINE_S = 10.0
# For the rest.
LAST_S = 13.0
MAX_SESSIONS = 10_000
MAX_PAGE_SESSIONS = 1_000
MAX_EXPORTED_PER_SESSION = 5_000
MAX_EXPORTED_OBSERVATIONS = 20_000
MAX_MEMORIES = 50_000


async def get_export(call: Call, arguments: Arguments) -> Record:
    """The export; `maxSessions` and `offset` page the sessions."""
    at_least_one(arguments, "maxSessions")
    if arguments["offset"] < 0:
        raise BadArgument("offset must be at least 0", "offset")
    try:
        return await export(call, arguments)
    except (ProjectionBehind, ReaderUnknown) as error:  # an empty export would look complete
        return failure(f"nothing can be exported: {error}")


async def export(call: Call, arguments: Arguments) -> Record:
    """The export; sessions are paged by `maxSessions` and `offset`, the rest is always there.

    It fails while a node of the log's cluster is away: an export without some partitions would look complete.
    """
    with whole_reads():
        return await _export(call, arguments)


async def _export(call: Call, arguments: Arguments) -> Record:
    await call.wait_for_own_writes()
    reader, queries, started = call.reader(), call.queries, time.monotonic()
    sessions = [session async for session in every(queries.sessions.page, reader, None, MAX_SESSIONS)]
    offset = max(0, int(arguments["offset"]))
    stated: Any = arguments["maxSessions"]
    most = MAX_SESSIONS if stated is None else max(1, min(MAX_PAGE_SESSIONS, int(stated)))
    selected = sessions[offset : offset + most]
    observations: dict[str, list[Record]] = {}
    done = count = 0
    while done < len(selected) and time.monotonic() - started < DEADLINE_S and count < MAX_EXPORTED_OBSERVATIONS:
        some = selected[done : done + AT_ONCE]
        lists = await asyncio.gather(*(_observations(queries, reader, session) for session in some))
        for session, records in zip(some, lists, strict=True):
            if records:
                observations.setdefault(session["id"], []).extend(records)
                count += len(records)
        done += len(some)
    record: Record = {
        "version": server_version() or "0.0.0",
        "exportedAt": iso(system_clock()),
        "sessions": [],
        "observations": observations,
        "memories": [],
        "summaries": [],
    }
    projects = {"", *(session["project"] for session in sessions), *await queries.lookup.projects(reader)}
    cut = False
    for project in sorted(projects):
        if cut := time.monotonic() - started > LAST_S or len(record["memories"]) >= MAX_MEMORIES:
            break
        for name, records in (await _of_project(queries, reader, project)).items():
            record.setdefault(name, []).extend(records)
    summaries = {(summary["project"], summary["session_id"]): summary for summary in record["summaries"]}
    record["sessions"] = await session_records(call, reader, selected[:done], summaries)
    record["summaries"] = list(map(summary_record, record["summaries"]))
    record |= {"truncated": True} if cut else {}
    if stated is not None or done < len(selected):
        limit, total = done if stated is None else most, len(sessions)
        record["pagination"] = {"offset": offset, "limit": limit, "total": total, "hasMore": offset + done < total}
    return record


async def _observations(queries: Queries, reader: Reader, session: Record) -> list[Record]:
    def page(reader: Reader, project: str, *limits: Any) -> Awaitable[Page[Record]]:
        return queries.sessions.observations(reader, session["id"], project, *limits)

    observations = every(page, reader, session["project"], MAX_EXPORTED_PER_SESSION)
    return [observation_record(observation) async for observation in observations]


async def _of_project(queries: Queries, reader: Reader, project: str) -> dict[str, list[Record]]:
    """What a project has beside sessions, by the name of its list; optional lists only if there is anything.

    Summaries as readers get them: sessions are shown with them.
    """

    def turns(listing: Callable[..., Awaitable[Page[Record]]]) -> AsyncIterator[Record]:
        return every(listing, reader, project, MAX_MEMORIES)

    actions = [action async for action in turns(queries.actions.page)]
    optional: dict[str, list[Record]] = {
        # The confidence as of the last confirmation: an import computes today's from it.
        "lessons": [lesson_record(lesson, lesson["confidence"]) async for lesson in turns(queries.lessons.page)],
        "slots": [
            slot_record(view(slot))
            for slot in await queries.slots.of_project(reader, project)
            if slot.created_ms and slot.project == project
        ],
        "actions": [action_record(action, {}) for action in actions],
        "actionEdges": [edge for action in actions for edge in edge_records(action)],
        "relations": [relation_record(relation) async for relation in turns(queries.relations.page)],
    }
    return {
        "memories": [memory_record(memory) async for memory in turns(queries.memories.page)],
        "summaries": [summary async for summary in turns(queries.summaries.page)],
        **{name: records for name, records in optional.items() if records},
    }
