"""An import of what the log has already changes nothing, however long ago the log took it."""

import json
from collections.abc import AsyncIterator, Sequence

from factories import ManualClock

from ingest.commands.decide import (
    AnyCommand,
    Caller,
    ChangeVisibility,
    CondenseMemories,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    Relate,
    Remember,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    WriteAction,
)
from ingest.commands.handler import CommandHandler
from ingest.events.envelope import decode
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client
from projections.documents.access import Reader
from projections.operations.exporting import export_events
from projections.operations.importing import Imported, Importer, KnownEvents
from projections.queries.documents import DocumentReader
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

ADMIN, ADA = Reader("default", operator=True), Caller("default", agent_id="ada")
PARTITIONS = 2
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
    for partition in range(PARTITIONS):
        await redis.delete(PartitionKeys(partition).dedup, PartitionKeys(partition).dedup_previous)


async def exported(redis: Client, log: RedisLog) -> bytes:
    return b"".join([chunk async for chunk in export_events(log, DocumentReader(redis, PARTITIONS), ADMIN, None)])


async def imported(redis: Client, log: RedisLog, handler: CommandHandler, export: bytes) -> Imported:
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
    log = RedisLog(redis, PARTITIONS)
    handler = CommandHandler(GroupCommit(log), PARTITIONS, clock)
    texts = ("tea at four", "rain in the evening", "coffee", "a secret", "a name to be forgotten")
    names = [(await handler.handle(Remember(content=text, project="p"), ADA)).id for text in texts]
    for command in history(names):
        await handler.handle(command, ADA)
    await project_all(redis, log)
    return log, handler


async def test_an_import_into_the_log_that_was_exported_changes_nothing(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export, before = await exported(redis, log), await entries(log)
    await forget_window(redis)
    report = await imported(redis, log, handler, export)
    assert (report.events, report.duplicates) == (0, len(before))
    assert await entries(log) == before


async def test_an_import_that_is_repeated_behind_the_window_changes_nothing(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export, count = await exported(redis, log), len(await entries(log))
    await redis.flushall()
    first = await imported(redis, log, handler, export)
    assert (first.events, first.duplicates) == (count, 0)
    before = await entries(log)
    assert await exported(redis, log) == export, "an import keeps what was imported"
    for _ in range(2):
        await forget_window(redis)
        again = await imported(redis, log, handler, export)
        assert (again.events, again.duplicates) == (0, count)
        assert await entries(log) == before


async def test_an_import_brings_back_nothing_that_was_forgotten_since(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    export = await exported(redis, log)
    (memory,) = [one for one in (await exported(redis, log)).split(b"\n") if b"a secret" in one]
    assert memory
    kept = await handler.handle(Remember(content="unlike all others", project="p", event_id="gone"), ADA)
    await project_all(redis, log)
    export = await exported(redis, log)
    forget = ForgetSubject(kind="memory", subject=kept.id, documents=[kept.id], project="p")
    await handler.handle(forget, ADA)
    await project_all(redis, log)
    before = await entries(log)
    await forget_window(redis)
    report = await imported(redis, log, handler, export)
    assert report.events == 0
    assert await entries(log) == before
    assert b"unlike all others" not in await exported(redis, log)


async def test_events_recorded_at_any_time_are_imported_once(redis: Client, clock: ManualClock):
    log, handler = await written(redis, clock)
    (line,) = [one for one in (await exported(redis, log)).split(b"\n") if b"a secret" in one]
    event = json.loads(line)
    others = [
        {**event, "event_id": when, "recorded_at": when, "data": {**event["data"], "content": f"unlike {when}"}}
        for when in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z")
    ]
    header = {"format": "mnemolog-export", "version": 1, "tenant": "default", "project": None}
    rows = [header, *others, {"end": True, "events": len(others)}]
    export = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    first = await imported(redis, log, handler, export)
    assert (first.events, first.rejected_lines) == (2, 2), "nothing was recorded before 1970"
    await forget_window(redis)
    again = await imported(redis, log, handler, export)
    assert (again.events, again.duplicates) == (0, 2)
