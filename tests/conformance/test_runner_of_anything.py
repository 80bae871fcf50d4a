"""A partition that somebody else wrote to: whatever stands in its log, the runner gets to the end.

What is no event is a dead letter, at its first attempt; what is one is applied. Left open: which bytes are which.
"""

import asyncio
from typing import cast

from any_events import DEEP, payloads
from factories import event
from hypothesis import Phase, given, settings
from key_leaks import KeyLeaks
from waiting import wait_until

from ingest.errors import UnreadableEvent
from ingest.events.envelope import decode, encode
from ingest.events.session import ObservationRecorded
from ingest.ids import DocumentId, EventId, document_id
from ingest.log.event_log import Entry
from ingest.log.keys import LEASE_TTL, PartitionKeys
from ingest.log.position import Position, session_route
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client
from projections.dead_letters.records import PartitionDeadLetters, dead_letters
from projections.documents.observations import Observation
from projections.store.redis_store import RedisStore
from workers.runner import PartitionRunner

PARTITION, KEYS = 0, PartitionKeys(0)


def anything() -> list[bytes]:
    """A hundred payloads, the same in every run."""
    results: list[bytes] = [DEEP]

    @settings(max_examples=100, database=None, phases=[Phase.generate], derandomize=True)
    @given(payloads)
    def collect(payload: bytes) -> None:
        results.append(payload)

    collect()
    return results


def readable(payload: bytes) -> bool:
    """Whether the bytes are an event."""
    try:
        decode(payload, Position(1, 0))
    except UnreadableEvent:
        return False
    return True


async def test_a_runner_gets_past_whatever_is_in_its_log(redis: Client, key_leaks: KeyLeaks):
    key_leaks.allow(r"(mnemolog:)?\{p00\}:.*:doc:.*")  # an event that nobody decided may call a document anything
    written = [payload for payload in anything() if payload]  # an empty one is an entry that a purge has emptied
    last = event(ObservationRecorded(content="behind all that"), event_id="last")
    log = RedisLog(redis, 1)
    entries = [Entry(EventId(f"any{n}"), payload) for n, payload in enumerate([*written, encode(last)])]
    appended = (await log.append({PARTITION: entries}))[PARTITION]
    fence = await acquire_lease(redis, KEYS, "w1", int(LEASE_TTL.total_seconds() * 1000))
    runner = PartitionRunner(redis, log, PARTITION, fence, lambda partition, changes: None, PartitionDeadLetters)
    running = asyncio.create_task(runner.run())
    store = RedisStore(redis, KEYS, 1, None)

    async def done() -> bool:
        return await store.checkpoint() >= appended[-1].position

    try:
        await wait_until(done, 120)
        name = document_id("obs", session_route("default", "atlas", "s1"), "last")
        results = (await store.load([name])).get(DocumentId(name))
        assert cast(Observation, results).content == "behind all that"
        parked = {letter.position: letter.attempts async for letter in dead_letters(redis, KEYS)}
        positions = [item.position for item in appended]
        garbage = {str(at) for at, payload in zip(positions, written, strict=False) if not readable(payload)}
        assert parked == dict.fromkeys(garbage, 1)
    finally:
        runner.stop()
        await asyncio.wait([running])
