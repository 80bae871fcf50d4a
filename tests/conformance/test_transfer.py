"""Export and import, against each log: what comes out goes in, and comes out again.

Logs with equally many partitions export equal bytes; other ones equal lines, in the same order within each stream.

Left open: how an export is cut into chunks, how an import is cut into appends; what becomes of an import that is cut
off but that it can be repeated.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from factories import ManualClock
from replay_compare import read_log

from ingest.commands.decide import (
    AnyCommand,
    Caller,
    ChangeVisibility,
    CondenseMemories,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    ReinforceLesson,
    Relate,
    Remember,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    WriteAction,
)
from ingest.commands.handler import CommandHandler
from ingest.errors import CommandRejected, Overloaded, ProjectionBehind
from ingest.events.envelope import Event, encode, route_of
from ingest.ids import EventId
from ingest.log.event_log import MAX_ENTRY_BYTES, Entry, EventLog, Stored
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog, stub_member
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.connections import Client
from projections.nouns.access import Reader
from projections.nouns.document import Document
from projections.nouns.rows import Row
from projections.nouns.session import Summary, session_document_id
from projections.nouns.tombstone import Ledger, unpacked
from projections.operations import transfer
from projections.operations.transfer import (
    MAX_LINE_BYTES,
    MAX_REJECTED,
    Imported,
    Importer,
    KnownEvents,
    export_events,
    read_event,
)
from projections.queries.documents import DocumentReader
from projections.store.protocol import MemoryStore, project
from projections.store.redis_store import RedisStore
from tests.compat.test_stored_samples import SAMPLES
from tests.compat.test_stored_samples import stored as stored_sample
from tests.support.memory_log import MemoryLog

TENANT = "default"
ADMIN = Reader(TENANT, operator=True)
ADA, BOB = Caller(TENANT, agent_id="ada"), Caller(TENANT, agent_id="bob")
PARTITIONS = 4
SECRET = "the-forgotten-word"
SUMMARISED = session_document_id(TENANT, "atlas", "s2")
OF_PLACE = {"position", "forgotten_at", "pk"}
"""What differs between logs that say the same."""


class Backend(NamedTuple):
    """A kind of log under test.

    `fresh(partitions)` gives an empty one; what was written before may be gone then. `erase` puts stubs in the place of
    entries, as forgetting does. `outlast_window` lets more time pass than a log opened with a `window_ms` remembers.
    """

    fresh: Callable[..., Awaitable[EventLog]]
    erase: Callable[[EventLog, int, Mapping[Position, Event]], Awaitable[None]]
    outlast_window: Callable[[], Awaitable[None]]


class Folded:
    """The documents of every partition of a log; reads like DocumentReader."""

    def __init__(self, stores: Sequence[MemoryStore]) -> None:
        self.stores = stores

    async def get(self, locations: Sequence[tuple[int, Any]]) -> list[Document | None]:
        return [self.stores[partition].documents.get(name) for partition, name in locations]

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        """All documents, without what depends on the place in the log."""
        return {str(name): _content(document) for store in self.stores for name, document in store.documents.items()}


def _content(document: Document) -> dict[str, Any]:
    if isinstance(document, Ledger):  # its columns are packed by positions
        noted = sorted(item._replace(position=START) for item in unpacked(document))
        return {"": "Ledger", "id": document.id, "session": document.session, "parts": document.parts, "noted": noted}
    fields = document.model_dump() if isinstance(document, Row) else msgspec.structs.asdict(document)
    return {"": type(document).__name__, **{name: value for name, value in fields.items() if name not in OF_PLACE}}


async def fold(log: EventLog, partition: int) -> MemoryStore:
    """The documents of a partition, from nothing, event by event."""
    store = MemoryStore()
    for event in await read_log(log, partition):
        await store.save(await project(store, [event]), event.position)
    return store


async def projected(backend: Backend, log: EventLog) -> Folded:
    """Project a log as a worker does, erasures included."""
    stores: list[MemoryStore] = []
    for partition in range(log.partitions):
        store = await fold(log, partition)
        if store.erased:
            await backend.erase(log, partition, store.erased)
        stores.append(store)
    return Folded(stores)


async def exported(
    log: EventLog, documents: Folded | None = None, reader: Reader = ADMIN, of: str | None = None
) -> bytes:
    """A whole export."""
    return b"".join([chunk async for chunk in export_events(log, documents or Folded([]), reader, of)])


async def chunks(body: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """The body as it may arrive."""
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def imported(log: EventLog, body: bytes, size: int = 1000, tenant: str = TENANT) -> Imported:
    """Import into a log."""
    return await Importer(CommandHandler(GroupCommit(log), log.partitions), tenant).run(chunks(body, size))


def lines_of(body: bytes) -> list[dict[str, Any]]:
    """The events of an export."""
    return [json.loads(line) for line in body.splitlines()[1:-1]]


async def lived(backend: Backend, clock: ManualClock) -> tuple[EventLog, Folded, bytes]:
    """A log with everything there is, its documents, and its export."""
    log = await backend.fresh(PARTITIONS)
    documents = await write_history(log, clock, backend)
    return log, documents, await exported(log)


async def copied(
    backend: Backend, body: bytes, partitions: int = PARTITIONS, size: int = 1000
) -> tuple[EventLog, Imported]:
    """An empty log into which an export was imported."""
    target = await backend.fresh(partitions)
    return target, await imported(target, body, size)


async def round_trip(backend: Backend, payloads: Sequence[bytes], size: int = 1000) -> bytes:
    """The export of these entries, which is imported and exported again."""
    source = await backend.fresh(1)
    await source.append({0: [Entry(EventId(f"e{n}"), payload) for n, payload in enumerate(payloads)]})
    body = await exported(source)
    target, report = await copied(backend, body, 1, size)
    assert report == Imported(len(payloads), 0, 0, [], complete=True)
    assert await exported(target) == body
    return body


def streams(body: bytes) -> dict[str, list[str]]:
    """The event ids of an export by stream, in order."""
    results: dict[str, list[str]] = {}
    for line in body.splitlines()[1:-1]:
        event = read_event(line, TENANT)
        results.setdefault(route_of(*event), []).append(event.envelope.event_id)
    return results


async def write_history(log: EventLog, clock: ManualClock, backend: Backend) -> Folded:
    """Everything there is, some of it forgotten, projected and erased."""
    handler = CommandHandler(GroupCommit(log), log.partitions, clock)

    async def say(command: AnyCommand, caller: Caller = ADA) -> str:
        clock.advance(timedelta(seconds=1))
        return (await handler.handle(command, caller)).id

    first = await say(Observe(project="atlas", session_id="s1", content=f"saw {SECRET}", data={"n": [1, 2.5, None]}))
    for n in range(3):
        await say(Observe(project="atlas", session_id="s2", content=f"step {n} \u2028 é\n", event_id=f"o{n}"))
    await say(TrackSession(project="atlas", session_id="s2", status="ended"))
    answer = await say(Remember(project="atlas", content="likes tea", ttl_days=3, metadata={"a": "b"}, tags=["t"]))
    newer = await say(
        ReviseMemory(
            project="atlas", memory=answer, content="likes green tea", memory_type="semantic", purpose="information"
        )
    )
    gone = await say(Remember(project="atlas", content=f"the word is {SECRET}"))
    await say(Remember(project="atlas", content="bob keeps this to himself", visibility="private"), BOB)
    turned = await say(Remember(project="atlas", content="bob hid this later"), BOB)
    await say(ChangeVisibility(project="atlas", memory=turned, visibility="private"), BOB)
    parts = [await say(Remember(content=f"{item} is a part", keep_duplicates=True)) for item in ("salt", "rye")]
    await say(CondenseMemories(originals=parts, content="salt and rye", memory_type="semantic"))
    lesson = await say(RecordLesson(project="atlas", content="round last", event_id="l1"))
    await say(ReinforceLesson(project="atlas", lesson=lesson))
    await say(SetSlot(project="atlas", label="persona", content="terse", scope="global"))
    action = await say(WriteAction(project="atlas", title="ship"))
    await say(WriteAction(project="atlas", action=action, status="done", result="shipped"))
    await say(Relate(project="atlas", source=newer, target=lesson, relation="supports"))
    await say(LinkCommit(project="atlas", session_id="s2", commit="c0ffee"))
    await say(Observe(project="hermes", session_id="s1", content="another project", event_id="o0"), BOB)
    await say(ForgetSubject(project="atlas", kind="memory", subject=gone))
    await say(ForgetSubject(project="atlas", session_id="s1", kind="observation", subject=first))
    state = await projected(backend, log)
    documents = state.documents.values()
    told_from = next(row["told_from"] for row in documents if row.get("session_id") == "s2" and "told_from" in row)
    summary = SummariseSession(
        project="atlas", session_id="s2", title="three steps", narrative="one by one", observation_count=3,
        forgotten_at=told_from,
    )  # fmt: skip
    await say(summary)
    clock.advance(timedelta(days=1))
    return await projected(backend, log)


class TransferConformance:
    """Each back end subclasses this and gives the fixture `backend`."""

    async def test_a_round_trip_is_equal_byte_for_byte(self, backend: Backend, clock: ManualClock):
        _, before, body = await lived(backend, clock)
        count = len(lines_of(body))
        assert json.loads(body.splitlines()[0]) == {
            "format": "mnemolog-export", "version": 1, "tenant": TENANT, "project": None,
        }  # fmt: skip
        assert json.loads(body.splitlines()[-1]) == {"end": True, "events": count}
        target, report = await copied(backend, body)
        assert report == Imported(count, 0, 0, [], complete=True)
        assert await exported(target) == body
        assert (await projected(backend, target)).documents == before.documents
        assert await exported(target) == body
        assert await imported(target, body) == Imported(0, count, 0, [], complete=True), "nothing is stored twice"
        assert await exported(target) == body

    async def test_documents_keep_their_times_and_their_summaries(self, backend: Backend, clock: ManualClock):
        _, _, body = await lived(backend, clock)
        clock.advance(timedelta(days=30))
        target, _ = await copied(backend, body)
        stores = (await projected(backend, target)).stores
        documents = [document for store in stores for document in store.documents.values()]
        recorded = {item.recorded_at for item in documents if hasattr(item, "recorded_at")}  # pyright: ignore
        listed = {datetime.fromisoformat(line["recorded_at"]) for line in lines_of(body)}
        assert recorded
        assert recorded <= listed
        assert [document.session for document in documents if isinstance(document, Summary)] == [SUMMARISED]

    @pytest.mark.parametrize("partitions", [1, 3, 16])
    async def test_another_number_of_partitions_keeps_the_lines_and_the_order_of_each_stream(
        self, backend: Backend, clock: ManualClock, partitions: int
    ):
        _, before, body = await lived(backend, clock)
        target, report = await copied(backend, body, partitions)
        assert report.events == len(lines_of(body))
        again = await exported(target)
        assert sorted(again.splitlines()) == sorted(body.splitlines())
        assert streams(again) == streams(body)
        assert (await projected(backend, target)).documents == before.documents

    async def test_of_one_project_only_its_events_are_exported(self, backend: Backend, clock: ManualClock):
        source, _, body = await lived(backend, clock)
        parts = {name: lines_of(await exported(source, of=name)) for name in ("atlas", "hermes", "", "nobody's")}
        assert {name: {line.get("project", "") for line in lines} for name, lines in parts.items()} == {
            "atlas": {"atlas"}, "hermes": {"hermes"}, "": {""}, "nobody's": set(),
        }  # fmt: skip
        assert sum(map(len, parts.values())) == len(lines_of(body))
        hermes = await exported(source, of="hermes")
        assert json.loads(hermes.splitlines()[0])["project"] == "hermes"
        target, report = await copied(backend, hermes)
        assert report.complete
        assert await exported(target, of="hermes") == hermes

    async def test_what_was_forgotten_stays_forgotten(self, backend: Backend, clock: ManualClock):
        _, _, body = await lived(backend, clock)
        assert SECRET.encode() not in body
        types = [line["type"] for line in lines_of(body)]
        assert types.count("event.erased") == types.count("subject.forgotten") == 2

    async def test_what_was_forgotten_after_an_export_is_not_brought_back_by_it(
        self, backend: Backend, clock: ManualClock
    ):
        log = await backend.fresh(PARTITIONS)
        handler = CommandHandler(GroupCommit(log), PARTITIONS, clock)
        answer = await handler.handle(Remember(project="atlas", content=f"the word is {SECRET}"), ADA)
        lesson = await handler.handle(RecordLesson(project="atlas", content=f"say {SECRET}", event_id="l1"), ADA)
        old = await exported(log)
        assert SECRET.encode() in old
        await handler.handle(ForgetSubject(project="atlas", kind="memory", subject=answer.id), ADA)
        await projected(backend, log)
        await handler.handle(ForgetSubject(project="atlas", kind="lesson", subject=lesson.id), ADA)
        before = await projected(backend, log)
        assert SECRET.encode() not in await exported(log)
        clock.advance(timedelta(days=1))
        assert (await imported(log, old)).events == 2
        assert (await projected(backend, log)).documents == before.documents
        assert SECRET.encode() not in await exported(log)

    async def test_a_reader_exports_what_it_may_read(self, backend: Backend, clock: ManualClock):
        """In an isolated scope only what is its own."""
        source, documents, body = await lived(backend, clock)
        for agent, hidden in (("bob", set[str]()), ("ada", {"himself", "later"}), ("", {"himself", "later"})):
            lines = lines_of(await exported(source, documents, Reader(TENANT, agent)))
            assert {word for word in ("himself", "later") if word not in json.dumps(lines)} == hidden, agent
            left_out = [line for line in lines_of(body) if line not in lines]
            assert len(left_out) == (3 if hidden else 0), "both memories and the change of one's visibility"
            assert "withheld" not in json.dumps(lines)
        isolated = lines_of(await exported(source, documents, Reader(TENANT, "bob", "isolated")))
        assert {line["agent_id"] for line in isolated} == {"bob"}

    async def test_other_tenants_are_left_out(self, backend: Backend, clock: ManualClock):
        source = await backend.fresh(1)
        handler = CommandHandler(GroupCommit(source), 1, clock)
        await handler.handle(Remember(content="ours"), ADA)
        await handler.handle(Remember(content="theirs"), Caller("emca"))
        assert [line["data"]["content"] for line in lines_of(await exported(source))] == ["ours"]

    async def test_importing_again_behind_the_window_changes_no_document(self, backend: Backend, clock: ManualClock):
        _, before, body = await lived(backend, clock)
        target = await backend.fresh(PARTITIONS, window_ms=50)
        await imported(target, body)
        await projected(backend, target)
        await backend.outlast_window()
        assert (await imported(target, body)).complete
        assert (await projected(backend, target)).documents == before.documents

    async def test_an_event_id_that_was_used_twice_is_kept_twice(self, backend: Backend, clock: ManualClock):
        """Behind its window a log takes an id again, also for the repeat that the fold then erases."""
        source = await backend.fresh(1, window_ms=50)
        handler = CommandHandler(GroupCommit(source), 1, clock)
        await handler.handle(Remember(content="said", event_id="e1"), ADA)
        await backend.outlast_window()
        await handler.handle(Remember(content="said", event_id="e1"), ADA)
        await backend.outlast_window()
        await handler.handle(RecordLesson(content="learned", event_id="e1"), ADA)
        before = await projected(backend, source)
        body = await exported(source)
        assert [line["type"] for line in lines_of(body)] == ["memory.recorded", "event.erased", "lesson.recorded"]
        target = await backend.fresh(1)
        assert (await imported(target, body)).events == 3
        assert await exported(target) == body
        assert (await projected(backend, target)).documents == before.documents

    async def test_a_file_that_is_cut_off_is_incomplete_and_can_be_completed(
        self, backend: Backend, clock: ManualClock
    ):
        _, _, body = await lived(backend, clock)
        lines = body.splitlines(keepends=True)
        target, whole_lines = await copied(backend, b"".join(lines[:6]))
        assert (whole_lines.events, whole_lines.rejected_lines, whole_lines.complete) == (5, 0, False)
        within = await imported(target, b"".join(lines[:7])[:-9])
        assert (within.events, within.duplicates, within.complete) == (0, 5, False)
        assert [(line.line, line.code) for line in within.rejected] == [(7, "malformed")]
        missing = await imported(target, b"".join([*lines[:6], lines[-1]]))
        assert not missing.complete
        assert (await imported(target, body)).complete
        assert await exported(target) == body

    async def test_a_bad_line_rejects_that_line_only(self, backend: Backend, clock: ManualClock):
        good = (await lived(backend, clock))[2].splitlines()
        item = json.loads(good[1])

        def bad(**changes: Any) -> bytes:
            return json.dumps({**item, **changes}).encode()

        wrong = {
            b"{": "malformed", b"[1]": "invalid", b'{"event_id":"\xff"}': "malformed",
            bad(type="memory.dreamt"): "unknown_event_type", bad(version=99): "newer_event_version",
            bad(version=0): "invalid", bad(data={"content": 7}): "invalid", bad(data=[]): "invalid",
            bad(data={**item["data"], "mood": 1}): "invalid", bad(mood="good"): "invalid",
            bad(tenant="emca"): "invalid", bad(event_id=""): "invalid", bad(project="a\0b"): "invalid",
            bad(recorded_at="2026-01-31T12:00:00"): "invalid", bad(recorded_at="1969-12-31T12:00:00Z"): "invalid",
            bad(occurred_at="0001-01-01T00:00:00+05:00"): "invalid", b'{"end":tru': "invalid",
            bad(occurred_at="yesterday"): "invalid", bad(data={"content": "x" * (MAX_ENTRY_BYTES + 100)}): "invalid",
            b'{"x":"' + b"x" * MAX_LINE_BYTES + b'"}': "malformed",
            json.dumps({name: value for name, value in item.items() if name != "recorded_at"}).encode(): "invalid",
        }  # fmt: skip
        body = b"\n".join([good[0], *wrong, b"", b"  ", *good[1:-1]])
        end = json.dumps({"end": True, "events": len(wrong) + len(good) - 2}).encode()
        target = await backend.fresh(PARTITIONS)
        answer = await imported(target, body + b"\r\n" + end + b"\nbehind", size=1 << 16)
        expected = [(n, code) for n, code in enumerate(wrong.values(), 2)]
        assert [(result.line, result.code) for result in answer.rejected[:-1]] == expected
        assert answer.rejected[-1].message == "this line is after the end of the export"
        assert (answer.events, answer.rejected_lines, answer.complete) == (len(good) - 2, len(wrong) + 1, True)
        assert (await exported(target)).splitlines() == good

    async def test_only_the_first_faults_are_described(self, backend: Backend):
        target = await backend.fresh(1)
        body = header() + b"{\n" * (MAX_REJECTED + 5)
        answer = await imported(target, body)
        assert (len(answer.rejected), answer.rejected_lines) == (MAX_REJECTED, MAX_REJECTED + 5)

    @pytest.mark.parametrize(
        ("first", "message"),
        [
            (b"", "Unsupported export version"),
            (b"\n\n", "Unsupported export version"),
            (b"{", "Unsupported export version"),
            (b'{"format":"other","version":1,"tenant":"default","project":null}', "Unsupported export version"),
            (b'{"format":"mnemolog-export","version":2,"tenant":"default","project":null}', "version 2"),
            (b'{"format":"mnemolog-export","version":1,"tenant":"emca","project":null}', "MNEMOLOG_TENANT"),
        ],
    )
    async def test_without_a_header_that_fits_nothing_is_stored(
        self, backend: Backend, clock: ManualClock, first: bytes, message: str
    ):
        rest = (await lived(backend, clock))[2].partition(b"\n")[2]
        target = await backend.fresh(PARTITIONS)
        for body in (first + b"\n" + rest if first.strip() else first, rest):
            with pytest.raises(CommandRejected, match=message if body is not rest else "Unsupported export version"):
                await imported(target, body)
        assert [await target.head(partition) for partition in range(PARTITIONS)] == [START] * PARTITIONS

    @pytest.mark.parametrize("size", [1, 7, 1 << 20])
    async def test_lines_may_arrive_in_pieces(self, backend: Backend, clock: ManualClock, size: int):
        _, _, body = await lived(backend, clock)
        target, report = await copied(backend, body, size=size)
        assert report.complete
        assert await exported(target) == body

    async def test_every_version_of_every_event_makes_the_round_trip(self, backend: Backend):
        """And one that says as little as it can."""
        least: dict[str, Any] = {"type": "session.ended", "version": 1, "data": {}}
        stored = [
            {**sample, "tenant": TENANT, "event_id": f"e{n}"}
            for n, sample in enumerate([*map(stored_sample, SAMPLES), least])
        ]
        body = await round_trip(backend, [msgspec.msgpack.encode(event) for event in stored])
        assert [line["type"] for line in lines_of(body)] == [event["type"] for event in stored]

    async def test_the_biggest_event_makes_the_round_trip(self, backend: Backend):
        """Its line has six times the bytes, and it becomes bigger by the time it was recorded."""
        envelope = {"event_id": "e", "type": "observation.recorded", "version": 1, "tenant": TENANT, "session_id": "s"}
        room = MAX_ENTRY_BYTES - len(msgspec.msgpack.encode({**envelope, "data": {"content": "\1" * 70_000}})) + 70_000
        payload = msgspec.msgpack.encode({**envelope, "data": {"content": "\1" * room}})
        assert len(payload) == MAX_ENTRY_BYTES
        assert len(await round_trip(backend, [payload], 1 << 16)) > 6 * room

    async def test_what_this_release_does_not_know_is_exported_as_it_is_stored(self, backend: Backend):
        """And refused on import, by line: the release that wrote it can take it."""
        source = await backend.fresh(1)
        fields = {"event_id": "e", "type": "lesson.recorded", "version": 1, "tenant": TENANT, "data": {"content": "c"}}
        strangers: list[dict[str, Any]] = [
            {**fields, "type": "memory.dreamt", "data": {"deep": 7}},
            {**fields, "version": 2, "data": {"said": "c"}},
            {**fields, "data": {"content": "c", "mood": "good"}},
            {**fields, "mood": "good"},
            {**fields, "data": {"content": 7}},
        ]
        payloads = [msgspec.msgpack.encode(result) for result in [*strangers, fields]]
        await source.append({0: [Entry(EventId(f"e{n}"), payload) for n, payload in enumerate([*payloads, b"\xc1"])]})
        body = await exported(source)
        results = lines_of(body)
        for line, result in zip(results, strangers, strict=False):
            assert {name: line[name] for name in result} == result
            assert line["recorded_at"].endswith("Z")
        assert json.loads(body.splitlines()[-1]) == {"end": True, "events": 6, "unreadable": 1}
        answer = await imported(await backend.fresh(1), body)
        assert (answer.events, answer.rejected_lines, answer.complete) == (1, 5, True)
        assert [result.line for result in answer.rejected] == [2, 3, 4, 5, 6]

    async def test_many_events_are_read_and_appended_in_parts(self, backend: Backend, clock: ManualClock):
        source = await backend.fresh(2)
        handler = CommandHandler(GroupCommit(source), 2, clock)
        await handler.handle_batch([Observe(session_id=f"s{n % 3}", content=f"n{n}") for n in range(1300)], ADA)
        body = await exported(source)
        assert len(lines_of(body)) == 1300
        target = await backend.fresh(2)
        assert (await imported(target, body, 1 << 16)).events == 1300
        assert await exported(target) == body


def header() -> bytes:
    """The first line of an export."""
    return b'{"format":"mnemolog-export","version":1,"tenant":"default","project":null}\n'


class TestMemoryLog(TransferConformance):
    @pytest.fixture
    def backend(self, clock: ManualClock) -> Backend:
        async def fresh(partitions: int, **options: Any) -> EventLog:
            return MemoryLog(partitions, clock.ms, **options)

        async def erase(log: EventLog, partition: int, stubs: Mapping[Position, Event]) -> None:
            assert isinstance(log, MemoryLog)
            log.erase(partition, {position: encode(stub) for position, stub in stubs.items()})

        async def outlast_window() -> None:
            clock.advance(timedelta(hours=2))

        return Backend(fresh, erase, outlast_window)


class TestRedisLog(TransferConformance):
    @pytest.fixture
    def backend(self, redis: Client) -> Backend:
        async def fresh(partitions: int, **options: Any) -> EventLog:
            await redis.flushall()
            return RedisLog(redis, partitions, **options)

        async def erase(log: EventLog, partition: int, stubs: Mapping[Position, Event]) -> None:
            keys = PartitionKeys(partition)
            await redis.xdel(keys.log, *map(str, stubs))
            members = {stub_member(keys, Stored(at, encode(stub))): 0 for at, stub in stubs.items()}
            await redis.zadd(keys.erased, members)  # pyright: ignore

        async def outlast_window() -> None:
            await asyncio.sleep(0.2)

        return Backend(fresh, erase, outlast_window)


class Full:
    """Commands whose queue is full for a while."""

    def __init__(self, handler: CommandHandler, times: int) -> None:
        self._handler, self.left = handler, times

    async def append_events(self, events: Sequence[Event]) -> Any:
        if self.left:
            self.left -= 1
            raise Overloaded("full")
        return await self._handler.append_events(events)


async def test_an_import_stands_back_while_the_queue_is_full(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(transfer.asyncio, "sleep", sleep)
    log = MemoryLog(1, clock.ms)
    line = {
        "event_id": "e", "type": "observation.recorded", "version": 1, "tenant": TENANT, "session_id": "s",
        "recorded_at": datetime(2026, 1, 1, tzinfo=UTC), "data": ObservationRecorded(content="c"),
    }  # fmt: skip
    body = header() + msgspec.json.encode(line) + b"\n"
    full: Any = Full(CommandHandler(GroupCommit(log), 1), 3)
    late = [1, 2]

    async def settle() -> None:
        if late:
            raise ProjectionBehind(1.0, {0: late.pop()})

    assert (await Importer(full, TENANT, settle=settle).run(chunks(body))).events == 1
    assert (pauses, late) == ([1, 1, 1], [])
    late += range(100)
    with pytest.raises(ProjectionBehind):
        await Importer(full, TENANT, settle=settle).run(chunks(body))
    full.left = 1_000
    with pytest.raises(Overloaded):
        await Importer(full, TENANT).run(chunks(body))


async def test_an_export_ends_where_the_log_ended_when_it_began(clock: ManualClock):
    log = MemoryLog(1, clock.ms)
    handler = CommandHandler(GroupCommit(log), 1, clock)
    await handler.handle_batch([Remember(content=f"n{n}") for n in range(250)], ADA)
    results: list[bytes] = []
    async for chunk in export_events(log, Folded([]), ADMIN, None):
        results.append(chunk)
        await handler.handle(Remember(content="meanwhile"), ADA)
    assert len(lines_of(b"".join(results))) == 250


LOG_ADMIN, LOG_ADA = Reader("default", operator=True), Caller("default", agent_id="ada")
TWO_PARTITIONS = 2
FENCE = 1


async def project_all(redis: Client, log: RedisLog) -> None:
    """Apply what the log has and the documents lack, as a worker does."""
    for partition in range(log.partitions):
        keys = PartitionKeys(partition)
        await redis.set(keys.fence, str(FENCE))
        store = RedisStore(redis, keys, 1, FENCE)
        for stored in await log.read(partition, await store.checkpoint(), 10_000):
            await store.save(await project(store, [decode(stored.payload, stored.position)]), stored.position)


async def forget_window(redis: Client) -> None:
    """Let the window of duplicates be over."""
    for partition in range(TWO_PARTITIONS):
        await redis.delete(PartitionKeys(partition).dedup, PartitionKeys(partition).dedup_previous)


async def export_of(redis: Client, log: RedisLog) -> bytes:
    return b"".join(
        [chunk async for chunk in export_events(log, DocumentReader(redis, TWO_PARTITIONS), LOG_ADMIN, None)]
    )


async def import_into(redis: Client, log: RedisLog, handler: CommandHandler, export: bytes) -> Imported:
    async def body() -> AsyncIterator[bytes]:
        yield export

    report = await Importer(handler, "default", KnownEvents(redis, log)).run(body())
    await project_all(redis, log)
    assert report.complete
    return report


async def entries(log: RedisLog) -> list[tuple[Position, bytes]]:
    return [row for partition in range(log.partitions) for row in await log.read(partition, START, 10_000)]


def history(memories: Sequence[str]) -> list[AnyCommand]:
    """Events of every kind; the first two memories are condensed."""
    return [
        TrackSession(session_id="s", project="p", status="started"),
        Observe(session_id="s", project="p", content="the ferry was late"),
        SummariseSession(session_id="s", project="p", title="a ferry", narrative="it was late"),
        ReviseMemory(
            memory=memories[2], project="p", content="coffee at five", memory_type="semantic", purpose="information"
        ),
        ChangeVisibility(memory=memories[3], project="p", visibility="private"),
        CondenseMemories(originals=[*memories[:2]], project="p", content="tea and rain"),
        RecordLesson(content="pack an umbrella", project="p"),
        SetSlot(label="plan", content="tea", project="p"),
        WriteAction(title="buy tea", project="p"),
        Relate(source="tea", relation="is_a", target="drink", project="p"),
        LinkCommit(commit="a" * 40, project="p", session_id="s"),
        ForgetSubject(kind="memory", subject=memories[4], documents=[memories[4]], project="p"),
    ]


async def written(redis: Client, clock: ManualClock) -> tuple[RedisLog, CommandHandler]:
    log = RedisLog(redis, TWO_PARTITIONS)
    handler = CommandHandler(GroupCommit(log), TWO_PARTITIONS, clock)
    texts = ("tea at four", "rain in the evening", "coffee", "a secret", "a name to be forgotten")
    names = [(await handler.handle(Remember(content=text, project="p"), LOG_ADA)).id for text in texts]
    for command in history(names):
        await handler.handle(command, LOG_ADA)
    await project_all(redis, log)
    return log, handler


async def test_an_import_into_the_log_that_was_exported_changes_nothing(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export, before = await export_of(redis, log), await entries(log)
    await forget_window(redis)
    report = await import_into(redis, log, handler, export)
    assert (report.events, report.duplicates) == (0, len(before))
    assert await entries(log) == before


async def test_an_import_that_is_repeated_behind_the_window_changes_nothing(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export, count = await export_of(redis, log), len(await entries(log))
    await redis.flushall()
    first = await import_into(redis, log, handler, export)
    assert (first.events, first.duplicates) == (count, 0)
    before = await entries(log)
    assert await export_of(redis, log) == export, "an import keeps what was imported"
    for _ in range(2):
        await forget_window(redis)
        again = await import_into(redis, log, handler, export)
        assert (again.events, again.duplicates) == (0, count)
        assert await entries(log) == before


async def test_an_import_brings_back_nothing_that_was_forgotten_since(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export = await export_of(redis, log)
    (memory,) = [item for item in (await export_of(redis, log)).split(b"\n") if b"a secret" in item]
    assert memory
    stored = await handler.handle(Remember(content="unlike all others", project="p", event_id="gone"), LOG_ADA)
    await project_all(redis, log)
    export = await export_of(redis, log)
    forget = ForgetSubject(kind="memory", subject=stored.id, documents=[stored.id], project="p")
    await handler.handle(forget, LOG_ADA)
    await project_all(redis, log)
    before = await entries(log)
    await forget_window(redis)
    report = await import_into(redis, log, handler, export)
    assert report.events == 0
    assert await entries(log) == before
    assert b"unlike all others" not in await export_of(redis, log)


async def test_events_recorded_at_any_time_are_imported_once(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    (line,) = [item for item in (await export_of(redis, log)).split(b"\n") if b"a secret" in item]
    event = json.loads(line)
    others = [
        {**event, "event_id": when, "recorded_at": when, "data": {**event["data"], "content": f"unlike {when}"}}
        for when in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z")
    ]
    header = {"format": "mnemolog-export", "version": 1, "tenant": "default", "project": None}
    rows = [header, *others, {"end": True, "events": len(others)}]
    export = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    first = await import_into(redis, log, handler, export)
    assert (first.events, first.rejected_lines) == (2, 2), "nothing was recorded before 1970"
    await forget_window(redis)
    again = await import_into(redis, log, handler, export)
    assert (again.events, again.duplicates) == (0, 2)
