"""What a partition's runner guarantees, against a real Valkey.

Every entry is applied once and in order; one that cannot be applied is parked after five attempts and holds nothing up;
only the owner of the lease writes.

Left open: how entries are divided into batches; how long a runner pauses.
"""

import asyncio
from typing import Any, cast

import pytest
from altering import alter
from one_partition import KEYS, PARTITION, POISON, TTL_MS, Fold, Log, running
from waiting import wait_until

import workers.runner
from ingest.errors import LeaseLost
from ingest.log.keys import CONSUMER_GROUP
from ingest.log.position import Position
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease, release_lease
from ingest.platform.connections import Client
from projections.store.dead_letters import PartitionDeadLetters
from workers.runner import MAX_ATTEMPTS, PartitionRunner


@pytest.fixture
async def log(redis: Client) -> Log:
    """An empty partition."""
    return Log(redis, RedisLog(redis, 1))


@pytest.fixture
def fold(monkeypatch: pytest.MonkeyPatch) -> Fold:
    """The faulty fold, in the place of the right one."""
    faulty = Fold()
    monkeypatch.setattr(workers.runner, "project", faulty)
    monkeypatch.setattr(workers.runner, "FIRST_PAUSE_S", 0.01)
    return faulty


async def test_what_is_in_the_log_and_what_comes_is_applied_in_order_and_acknowledged(log: Log):
    entries: list[int] = []
    before = [f"history {n}" for n in range(600)]
    await log.append(*before)
    async with running(log, await log.fence(), lambda partition, changes: entries.append(partition)):
        live = [f"live {n}" for n in range(20)]
        *_, last = [await log.append(content) for content in live]
        await wait_until(lambda: log.applied_up_to(last[-1]))
    assert await log.contents() == before + live
    assert await log.observation_count() == 620
    assert await log.pending() == 0
    assert await log.dead() == []
    assert set(entries) == {PARTITION}


async def test_an_event_that_cannot_be_applied_is_parked_after_exactly_five_attempts(log: Log, fold: Fold):
    """Its batch-mates are applied once, in order; what comes after it too."""
    positions = await log.append("a", "b", POISON, "c", "d")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
        (later,) = await log.append("e")
        await wait_until(lambda: log.applied_up_to(later))
    assert fold.alone == MAX_ATTEMPTS == 5
    (letter,) = await log.dead()
    assert (letter.position, letter.code, letter.attempts) == (str(positions[2]), "ZeroDivisionError", 5)
    assert letter.message == "the fold does not like this one"
    assert await log.contents() == ["a", "b", "c", "d", "e"]
    assert await log.observation_count() == 5
    assert await log.pending() == 0
    assert await log.redis.hlen(KEYS.attempts) == 0


async def test_attempts_are_counted_across_a_crash(log: Log, fold: Fold):
    """A worker that dies between attempts does not start them again for the next one."""
    positions = await log.append("a", POISON, "b")

    async def two_attempts() -> bool:
        return fold.alone >= 2

    async with running(log, await log.fence()) as task:
        await wait_until(two_attempts)
        task.cancel()
    counted = int(await log.redis.hget(KEYS.attempts, str(positions[1])) or 0)
    assert counted in (fold.alone, fold.alone + 1)
    async with running(log, await log.fence("w2")):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    (letter,) = await log.dead()
    assert letter.attempts == 5
    assert fold.alone <= 5
    assert await log.contents() == ["a", "b"]
    assert await log.observation_count() == 2
    assert await log.pending() == 0


async def test_an_event_that_kills_its_worker_is_parked_when_its_attempts_are_used_up(log: Log, fold: Fold):
    positions = await log.append("a", POISON, "b")
    fold.well = True
    await log.redis.hincrby(KEYS.attempts, str(positions[1]), 5)
    async with running(log, await log.fence()) as task:  # delivers all three, and "dies" before it saves them
        await wait_until(lambda: log.applied_up_to(positions[-1]))
        task.cancel()
    assert await log.dead() == []  # a batch that works is applied as a whole, whatever was counted before
    await log.redis.flushall()
    positions = await log.append("a", POISON, "b")
    await log.redis.xgroup_create(KEYS.log, CONSUMER_GROUP, id="0-0", mkstream=True)
    await log.redis.xreadgroup(CONSUMER_GROUP, workers.runner.CONSUMER, {KEYS.log: ">"}, count=10, block=None)
    await log.redis.hincrby(KEYS.attempts, str(positions[1]), 5)
    async with running(log, await log.fence("w2")):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    (letter,) = await log.dead()
    assert (letter.position, letter.code, letter.attempts) == (str(positions[1]), "crashed", 5)
    assert await log.contents() == ["a", "b"]


async def test_a_fault_that_passes_parks_nothing(log: Log, fold: Fold):
    positions = await log.append("a", POISON, "b")

    async def three_attempts() -> bool:
        return fold.alone >= 3

    async with running(log, await log.fence()):
        await wait_until(three_attempts)
        fold.well = True
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    assert await log.dead() == []
    assert await log.contents() == ["a", POISON, "b"]
    assert await log.redis.hlen(KEYS.attempts) == 0


async def test_what_cannot_be_read_is_parked_at_the_first_attempt(log: Log):
    (first,) = await log.append("a")
    strange = Position.parse(await log.redis.xadd(KEYS.log, {"e": b"\xc1"}))
    (last,) = await log.append("b")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(last))
    assert first < strange < last
    (letter,) = await log.dead()
    assert (letter.position, letter.code, letter.attempts) == (str(strange), "unreadable_event", 1)
    assert await log.contents() == ["a", "b"]


async def test_an_altered_entry_is_parked_at_the_first_attempt_and_the_rest_goes_on(log: Log):
    """Though its bytes are still an event: it would have been applied as if somebody had said it."""
    positions = await log.append("before", "tea at four", "after")
    await alter(log.redis, KEYS.log, positions[1], lambda was: was | {b"e": was[b"e"].replace(b"four", b"five")})
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    (letter,) = await log.dead()
    assert (letter.position, letter.code, letter.attempts) == (str(positions[1]), "altered_entry", 1)
    assert letter.message == f"entry {positions[1]} was altered: its bytes do not match its checksum"
    assert await log.contents() == ["before", "after"]
    assert await log.pending() == 0


async def test_what_a_crash_left_unacknowledged_is_applied_once(log: Log):
    """Delivered to a worker that died before it saved them."""
    saved = await log.append("a")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(saved[-1]))
    positions = await log.append("b", "c")
    await log.redis.xreadgroup(CONSUMER_GROUP, workers.runner.CONSUMER, {KEYS.log: ">"}, count=10, block=None)
    assert await log.pending() == 2
    async with running(log, await log.fence("w2")):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    assert await log.contents() == ["a", "b", "c"]
    assert await log.observation_count() == 3
    assert await log.pending() == 0


async def test_what_is_behind_the_checkpoint_is_acknowledged_and_not_folded_again(log: Log, fold: Fold):
    """Saved and not acknowledged: the group was made anew, and passed on what is applied."""
    positions = await log.append("a", "b")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    await cast(Any, log.redis).xgroup_destroy(KEYS.log, CONSUMER_GROUP)
    await log.redis.xgroup_create(KEYS.log, CONSUMER_GROUP, id="0-0", mkstream=True)
    await log.redis.xreadgroup(CONSUMER_GROUP, workers.runner.CONSUMER, {KEYS.log: ">"}, count=10, block=None)
    folded = sum(fold.sizes)

    async def all_acknowledged() -> bool:
        return await log.pending() == 0

    async with running(log, await log.fence("w2")):
        await wait_until(all_acknowledged)
    assert sum(fold.sizes) == folded == 2


async def test_what_a_crash_left_is_applied_at_once_unless_a_worker_ended_by_it_before(log: Log, fold: Fold):
    positions = await _delivered(log, "a", "b", "c")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    assert fold.sizes == [3]
    positions = await _delivered(log, "d", "e", "f")
    await log.redis.hincrby(KEYS.attempts, str(positions[0]), 1)
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    assert fold.sizes == [3, 1, 1, 1]
    assert await log.contents() == ["a", "b", "c", "d", "e", "f"]
    assert await log.redis.hlen(KEYS.attempts) == 0


async def test_a_worker_that_ends_by_what_another_left_leaves_a_count(log: Log, fold: Fold):
    positions = await _delivered(log, "a", POISON, "b")
    fold.well, fold.ends_workers = True, True
    with pytest.raises(SystemExit):
        await PartitionRunner(
            log.redis, log.log, PARTITION, await log.fence(), lambda partition, changes: None, PartitionDeadLetters
        ).run()
    assert await log.redis.hlen(KEYS.attempts) == 1
    fold.ends_workers = False
    async with running(log, await log.fence("w2")):
        await wait_until(lambda: log.applied_up_to(positions[-1]))
    assert fold.sizes == [3, 1, 1, 1]
    assert await log.contents() == ["a", POISON, "b"]
    assert await log.redis.hlen(KEYS.attempts) == 0


async def _delivered(log: Log, *contents: str) -> list[Position]:
    """Append what a worker is then given that does nothing with it."""
    positions = await log.append(*contents)
    if not await log.redis.exists(KEYS.fence):
        await log.redis.xgroup_create(KEYS.log, CONSUMER_GROUP, id="0-0", mkstream=True)
    await log.redis.xreadgroup(CONSUMER_GROUP, workers.runner.CONSUMER, {KEYS.log: ">"}, count=10, block=None)
    return positions


async def test_a_lost_consumer_group_starts_at_the_checkpoint(log: Log):
    """Somebody deleted it: nothing is skipped and nothing applied twice."""
    first = await log.append("a", "b")
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(first[-1]))
        await cast(Any, log.redis).xgroup_destroy(KEYS.log, CONSUMER_GROUP)
        last = await log.append("c")
        await wait_until(lambda: log.applied_up_to(last[-1]))
    assert await log.contents() == ["a", "b", "c"]
    assert await log.observation_count() == 3


async def test_a_runner_whose_lease_was_taken_saves_nothing_and_says_so(log: Log):
    first = await log.append("a")
    fence = await log.fence("w1")
    async with running(log, fence) as task:
        await wait_until(lambda: log.applied_up_to(first[-1]))
        newer = await log.fence("w2")
        assert newer > fence
        await log.append("b")
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(asyncio.shield(task), 5)
    assert await log.contents() == ["a"]
    assert not await log.applied_up_to((await log.append("c"))[-1])
    async with running(log, newer):
        await wait_until(lambda: _all_there(log, ["a", "b", "c"]))
    assert await log.observation_count() == 3


async def test_what_a_runner_took_that_had_lost_its_lease_is_applied_by_the_owner(log: Log):
    """A worker that stood still for longer than its lease wakes up and reads once more before it knows.

    What it was handed it may not save; the owner, who was reading already, must not pass over it.
    """
    first = await log.append("a")
    async with running(log, await log.fence("slow")) as slow:
        await wait_until(lambda: log.applied_up_to(first[-1]))
        async with running(log, await log.fence("owner")):
            await wait_until(lambda: _both_wait(log))
            stolen = 0
            while not slow.done():  # whichever of the two is handed an entry, it must be applied
                stolen += 1
                await log.append(f"b{stolen}")
                await asyncio.sleep(0.02)
                assert stolen < 200
            last = await log.append("c")
            await wait_until(lambda: log.applied_up_to(last[-1]))
            expected = ["a", *(f"b{n}" for n in range(1, stolen + 1)), "c"]
            await wait_until(lambda: _all_there(log, expected))
    assert await log.contents() == expected
    assert await log.observation_count() == len(expected)
    assert await log.pending() == 0


async def test_a_lease_is_held_by_one_and_its_tokens_only_rise(log: Log):
    first = await acquire_lease(log.redis, KEYS, "w1", TTL_MS)
    assert await acquire_lease(log.redis, KEYS, "w2", TTL_MS) == 0
    await release_lease(log.redis, KEYS, "w2")
    assert await acquire_lease(log.redis, KEYS, "w2", TTL_MS) == 0
    await release_lease(log.redis, KEYS, "w1")
    assert await acquire_lease(log.redis, KEYS, "w2", TTL_MS) > first > 0


async def _all_there(log: Log, expected: list[str]) -> bool:
    return await log.contents() == expected


async def _both_wait(log: Log) -> bool:
    """Whether two runners stand in a blocking read."""
    return (await cast(Any, log.redis).info("clients"))["blocked_clients"] == 2
