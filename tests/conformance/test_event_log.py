"""What every EventLog must do, run against each back end.

Left open: which positions a log assigns beyond that they ascend; how long past its window an id is still known (Redis
remembers up to three times as long, memory forgets on the dot); what becomes of a batch that fails half-way; what an
acknowledgement survives.
"""

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import pytest
from altering import Fields, alter
from archiving import RestlessLog, erase
from factories import ManualClock

from ingest.durability import LEVELS, Durability
from ingest.errors import DurabilityUnavailable, LogUnavailable, PartitionCountMismatch
from ingest.ids import EventId
from ingest.log.archive.archive import Archive
from ingest.log.archived import load_archived
from ingest.log.event_log import Appended, Entry, EventLog, LogHistory, Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import ALTERED, START, Position
from ingest.log.redis_log import ENTRIES_PER_CALL, RedisLog, stub_member
from ingest.log.scripts import begin_window, restore_entries
from ingest.log.store import store_of
from ingest.platform import clock as clock_module
from ingest.platform.clock import from_ms
from ingest.platform.connections import Client
from tests.support.memory_log import MemoryLog

WINDOW_MS = 120
WINDOW_IDS = 20
PARTITIONS = 3


class Backend(NamedTuple):
    """A back end under test, and where it differs from the others.

    `open` gives a log on the same storage: `log` has wide windows, `open(window_ms=...)` narrow ones. `pass_ms` lets
    time pass. `erase` puts a stub in the place of an entry of partition 0. `outlives_its_process` is true where another
    opening finds what was appended.
    """

    log: EventLog
    open: Callable[..., Awaitable[EventLog]]
    pass_ms: Callable[[int], Awaitable[None]]
    erase: Callable[[Position, bytes], Awaitable[None]]
    outlives_its_process: bool
    confirms: bool
    """Whether it can be waited for that an append is on disk (`WAITAOF`, of Redis >= 7.2 or Valkey >= 8)."""


def entry(name: str, payload: bytes = b"") -> Entry:
    """An entry whose payload is its name unless given."""
    return Entry(EventId(name), payload or name.encode())


def entries(prefix: str, count: int) -> list[Entry]:
    """`count` entries with event ids of their own."""
    return [entry(f"{prefix}{n}") for n in range(count)]


async def everything(log: EventLog, partition: int = 0) -> list[Stored]:
    """All entries of a partition."""
    return await log.read(partition, START, 100_000)


async def confirmed(backend: Backend, newest: Mapping[int, Position]) -> None:
    """Check that the partitions are on disk up to these positions, or that the log says that it cannot tell."""
    if backend.confirms:
        assert await backend.log.confirm(newest, "fsync") == "fsync"
    else:
        with pytest.raises(DurabilityUnavailable):
            await backend.log.confirm(newest, "fsync")


class EventLogConformance:
    """Each back end subclasses this and gives the fixture `backend`."""

    async def test_an_entry_is_read_back_where_it_was_appended(self, backend: Backend):
        answer = await backend.log.append({1: [entry("a", b"\x00\xff payload")]})
        ((position, duplicate),) = answer[1]
        assert not duplicate
        assert await everything(backend.log, 1) == [Stored(position, b"\x00\xff payload")]
        assert await everything(backend.log, 0) == []

    async def test_what_was_appended_is_confirmed_as_far_as_the_log_can(self, backend: Backend):
        answers = await backend.log.append({0: [entry("a")], 1: [entry("b")]})
        newest = {partition: appended.position for partition, (appended,) in answers.items()}
        standing = await backend.log.standing_durability()
        assert standing in LEVELS
        assert await backend.log.confirm(newest, "memory") == "memory"
        await confirmed(backend, newest)

    async def test_positions_ascend_within_and_between_batches(self, backend: Backend):
        positions: list[Position] = []
        for n in range(5):
            answers = await backend.log.append({0: entries(f"batch{n}-", 20)})
            positions += [answer.position for answer in answers[0]]
        assert len(positions) == 100
        assert positions[0] > START
        assert all(earlier < later for earlier, later in itertools.pairwise(positions))

    async def test_entries_are_read_in_the_order_they_were_appended(self, backend: Backend):
        answers = [*(await backend.log.append({0: entries("a", 30)}))[0]]
        answers += (await backend.log.append({0: entries("b", 30)}))[0]
        stored = await everything(backend.log)
        assert [result.payload for result in stored] == [given.payload for given in entries("a", 30) + entries("b", 30)]
        assert [result.position for result in stored] == [answer.position for answer in answers]

    async def test_a_batch_goes_to_several_partitions_at_once(self, backend: Backend):
        assert backend.log.partitions == PARTITIONS
        answers = await backend.log.append({n: entries(f"p{n}-", n + 1) for n in range(PARTITIONS)})
        for n in range(PARTITIONS):
            stored = await everything(backend.log, n)
            assert [result.payload for result in stored] == [given.payload for given in entries(f"p{n}-", n + 1)]
            assert [result.position for result in stored] == [answer.position for answer in answers[n]]

    async def test_a_repeat_gets_the_position_of_the_first(self, backend: Backend):
        first = await backend.log.append({0: [entry("a"), entry("b")]})
        again = await backend.log.append({0: [entry("b", b"other"), entry("c"), entry("a")]})
        (a, b), (b_again, c, a_again) = first[0], again[0]
        assert (a_again, b_again) == (Appended(a.position, True), Appended(b.position, True))
        assert not c.duplicate
        assert [result.payload for result in await everything(backend.log)] == [b"a", b"b", b"c"]

    async def test_a_repeat_inside_one_batch_is_found_too(self, backend: Backend):
        answers = await backend.log.append({0: [entry("a"), entry("b"), entry("a", b"other"), entry("a")]})
        a, b, second, third = answers[0]
        assert second == third == Appended(a.position, True)
        assert not b.duplicate
        assert len(await everything(backend.log)) == 2

    async def test_fifty_concurrent_appends_of_one_id_store_it_once(self, backend: Backend):
        answers = await asyncio.gather(*(backend.log.append({0: [entry("a")]}) for _ in range(50)))
        assert len({answer[0][0].position for answer in answers}) == 1
        assert sorted(answer[0][0].duplicate for answer in answers) == [False] + [True] * 49
        assert len(await everything(backend.log)) == 1

    async def test_concurrent_appends_are_all_stored(self, backend: Backend):
        await asyncio.gather(*(backend.log.append({n % PARTITIONS: [entry(f"e{n}")]}) for n in range(60)))
        stored = [result.payload for n in range(PARTITIONS) for result in await everything(backend.log, n)]
        assert sorted(stored) == sorted(given.payload for given in entries("e", 60))

    async def test_partitions_know_nothing_of_each_others_ids(self, backend: Backend):
        answers = await backend.log.append({0: [entry("a")], 1: [entry("a")]})
        assert [answer.duplicate for rows in answers.values() for answer in rows] == [False, False]
        assert len(await everything(backend.log, 0)) == len(await everything(backend.log, 1)) == 1

    async def test_an_id_is_known_within_the_window(self, backend: Backend):
        log = await backend.open(window_ms=60_000)
        await log.append({0: [entry("a")]})
        await backend.pass_ms(WINDOW_MS)
        assert (await log.append({0: [entry("a")]}))[0][0].duplicate

    async def test_an_id_is_forgotten_long_after_the_window(self, backend: Backend):
        """Three windows later; the fold, not the log, makes a repeat as late as that harmless."""
        log = await backend.open(window_ms=WINDOW_MS)
        (first,) = (await log.append({0: [entry("a")]}))[0]
        await backend.pass_ms(3 * WINDOW_MS + 50)
        (second,) = (await log.append({0: [entry("a")]}))[0]
        assert not second.duplicate
        assert first.position < second.position

    async def test_an_id_is_known_until_half_the_bound_came_after_it(self, backend: Backend):
        log = await backend.open(window_ids=WINDOW_IDS)
        await log.append({0: [entry("a")]})
        await log.append({0: entries("later", WINDOW_IDS // 2 - 1)})
        assert (await log.append({0: [entry("a")]}))[0][0].duplicate

    async def test_an_id_is_known_after_other_appends_while_it_is_within_half_the_bound(self, backend: Backend):
        log = await backend.open(window_ids=WINDOW_IDS)
        await log.append({0: [entry("a")]})
        await log.append({0: entries("later", WINDOW_IDS // 2 - 1)})
        await log.append({0: [entry("one more")]})
        assert (await log.append({0: [entry("a")]}))[0][0].duplicate

    async def test_an_id_is_forgotten_when_the_bound_is_past(self, backend: Backend):
        """What a window may cost is bounded: twice the ids, one at a time, push out any older one."""
        log = await backend.open(window_ids=WINDOW_IDS)
        await log.append({0: [entry("a")]})
        for later in entries("later", 2 * WINDOW_IDS):
            await log.append({0: [later]})
        assert not (await log.append({0: [entry("a")]}))[0][0].duplicate

    async def test_reading_goes_on_behind_the_last_position_read_in_both_directions(self, backend: Backend):
        log = backend.log
        await log.append({0: entries("a", 25), 1: [entry("other")]})
        whole = await everything(log)
        for read, at, expected in ((log.read, START, whole), (log.read_back, None, whole[::-1])):
            pages: list[list[Stored]] = []
            while page := await cast(Any, read)(0, at, 10):
                pages.append(page)
                at = page[-1].position
            assert [len(page) for page in pages] == [10, 10, 5]
            assert [row for page in pages for row in page] == expected

    async def test_reading_behind_the_head_finds_nothing(self, backend: Backend):
        await backend.log.append({0: [entry("a")]})
        head = await backend.log.head(0)
        assert head > START
        assert await backend.log.read(0, head, 10) == []
        assert await backend.log.read(0, Position(head.ms + 10**6, 0), 10) == []

    async def test_reading_back_begins_ahead_of_a_position_whether_or_not_something_is_there(self, backend: Backend):
        answers = (await backend.log.append({0: entries("a", 3)}))[0]
        first, second, third = await everything(backend.log)
        beyond = Position(answers[-1].position.ms + 10**6, 0)
        assert await backend.log.read_back(0, beyond, 10) == [third, second, first]
        assert await backend.log.read_back(0, second.position, 10) == [first]
        assert await backend.log.read_back(0, first.position, 10) == []
        assert await backend.log.read_back(1, None, 10) == []

    async def test_an_erased_entry_leaves_its_stub_in_its_place_in_both_directions(self, backend: Backend):
        await backend.log.append({0: entries("a", 4)})
        before = await everything(backend.log)
        await backend.erase(before[2].position, b"stub")
        after = [*before[:2], Stored(before[2].position, b"stub"), before[3]]
        assert await everything(backend.log) == after
        assert await backend.log.read_back(0, None, 10) == after[::-1]
        assert await backend.log.read_back(0, None, 2) == after[:1:-1]
        assert await backend.log.read_back(0, before[3].position, 1) == [after[2]]
        assert await backend.log.read_back(0, before[2].position, 1) == [after[1]]

    async def test_the_head_is_the_newest_position_and_a_repeat_does_not_move_it(self, backend: Backend):
        assert await backend.log.head(0) == START
        answers = await backend.log.append({0: entries("a", 3)})
        await backend.log.append({0: entries("a", 1)})
        assert await backend.log.head(0) == answers[0][-1].position > START
        assert await backend.log.head(1) == START

    async def test_appending_nothing_changes_nothing(self, backend: Backend):
        await backend.log.append({0: [entry("a")]})
        assert await backend.log.append({}) == {}
        assert await backend.log.append({0: [], 1: []}) == {0: [], 1: []}
        assert len(await everything(backend.log)) == 1

    async def test_a_batch_bigger_than_one_call_is_appended_in_order(self, backend: Backend):
        given = entries("a", 2 * ENTRIES_PER_CALL + 1)
        answers = await backend.log.append({0: [*given, given[0]]})
        assert [result.payload for result in await everything(backend.log)] == [each.payload for each in given]
        assert answers[0][-1] == Appended(answers[0][0].position, True)

    async def test_opening_it_again_finds_what_was_appended_where_it_outlives_its_process(self, backend: Backend):
        await backend.log.append({0: [entry("a")]})
        documents = await everything(await backend.open())
        assert [stored.payload for stored in documents] == ([b"a"] if backend.outlives_its_process else [])
        assert len(await everything(backend.log)) == 1

    async def test_another_partition_count_is_refused_where_it_outlives_its_process(self, backend: Backend):
        """Events would be routed to the wrong place; a log that starts empty may have any number."""
        await backend.log.append({0: [entry("a")]})
        assert len(await everything(backend.log)) == 1
        if backend.outlives_its_process:
            with pytest.raises(PartitionCountMismatch) as fault:
                await backend.open(partitions=PARTITIONS + 1)
            assert (fault.value.recorded, fault.value.configured) == (PARTITIONS, PARTITIONS + 1)
        else:
            assert (await backend.open(partitions=PARTITIONS + 1)).partitions == PARTITIONS + 1


class TestMemoryLog(EventLogConformance):
    @pytest.fixture
    async def backend(self, clock: ManualClock) -> Backend:
        now = clock.ms()

        async def open_log(
            partitions: int = PARTITIONS, window_ms: int = 3_600_000, window_ids: int = 250_000
        ) -> MemoryLog:
            return MemoryLog(partitions, lambda: now, window_ms, window_ids)

        async def pass_ms(ms: int) -> None:
            nonlocal now
            now += ms

        log = await open_log()

        async def erase(position: Position, stub: bytes) -> None:
            log.erase(0, {position: stub})

        return Backend(log, open_log, pass_ms, erase, outlives_its_process=False, confirms=False)

    async def test_positions_ascend_when_the_clock_stands_still_or_goes_back(self):
        times = iter([5, 5, 3, 6])
        log = MemoryLog(1, lambda: next(times))
        positions = [(await log.append({0: [entry(name)]}))[0][0].position for name in "abcd"]
        assert positions == [Position(5, 0), Position(5, 1), Position(5, 2), Position(6, 0)]


async def _has_waitaof(redis: Client) -> bool:
    version: str = (await redis.info("server"))["redis_version"]
    return tuple(map(int, version.split(".")[:2])) >= (7, 2)


class TestRedisLog(EventLogConformance):
    @pytest.fixture
    async def backend(self, redis: Client) -> Backend:
        async def open_log(
            partitions: int = PARTITIONS, window_ms: int | None = None, window_ids: int = 250_000
        ) -> RedisLog:
            log = RedisLog(redis, partitions, window_ms=window_ms, window_ids=window_ids)
            await log.create_or_check()
            return log

        async def erase(position: Position, stub: bytes) -> None:
            keys = PartitionKeys(0)
            await redis.xdel(keys.log, str(position))
            await redis.zadd(keys.erased, {stub_member(keys, Stored(position, stub)): 0})

        confirms = await _has_waitaof(redis)
        return Backend(await open_log(), open_log, _really_pass_ms, erase, outlives_its_process=True, confirms=confirms)

    async def test_a_log_began_by_the_clock_that_its_positions_are_of(
        self, redis: Client, monkeypatch: pytest.MonkeyPatch
    ):
        class Ahead(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return super().now(tz) + timedelta(hours=1)

        monkeypatch.setattr(clock_module, "datetime", Ahead)
        log = RedisLog(redis, 1)
        await log.create_or_check()
        ((appended,),) = (await log.append({0: [entry("a")]})).values()
        assert log.history.began_at is not None
        assert log.history.began_at <= from_ms(appended.position.ms + 1)

    async def test_a_context_is_beside_the_event_and_only_where_there_is_one(self, backend: Backend, redis: Client):
        """Readers of any release read the event alone, which is the same with and without."""
        answers = await backend.log.append(
            {0: [entry("a", b"x"), entry("b", b"y")._replace(context="00-1"), entry("c")]}
        )
        rows = await redis.xrange(PartitionKeys(0).log)
        assert all(len(fields.pop(b"c")) == 8 for _, fields in rows)
        assert [fields for _, fields in rows] == [{b"e": b"x"}, {b"e": b"y", b"t": b"00-1"}, {b"e": b"c"}]
        positions = [row.position for row in answers[0]]
        assert await everything(backend.log) == list(map(Stored, positions, [b"x", b"y", b"c"]))
        assert await redis.get(PartitionKeys(0).appended) == b"3"

    @pytest.mark.parametrize(
        ("name", "now", "value"),
        [
            (b"e", b"e", b"z"),
            (b"t", b"t", b"00-2"),
            (b"c", b"c", b"00000000"),
            (b"e", b"f", None),
            (b"c", b"d", None),
            (b"t", b"u", None),
        ],
        ids=["event", "trace", "checksum", "event's name", "checksum's name", "trace's name"],
    )
    async def test_an_altered_entry_is_marked_and_the_others_are_not(
        self, backend: Backend, redis: Client, name: bytes, now: bytes, value: bytes | None
    ):
        def change(was: Fields) -> Fields:
            return {now if row == name else row: value or old if row == name else old for row, old in was.items()}

        answers = await backend.log.append({0: [entry("a"), entry("b")._replace(context="00-1"), entry("c")]})
        a, b, c = [row.position for row in answers[0]]
        before = await alter(redis, PartitionKeys(0).log, b, change)
        changed = change(before).get(b"e", b"")
        altered = [Stored(a, b"a"), Stored(b, ALTERED + changed), Stored(c, b"c")]
        assert await everything(backend.log) == altered
        assert await backend.log.read_back(0, None, 10) == altered[::-1]

    async def test_an_entry_at_another_position_or_in_another_partition_is_marked(
        self, backend: Backend, redis: Client
    ):
        (appended,) = (await backend.log.append({0: [entry("a")]}))[0]
        ((at, fields),) = await redis.xrange(PartitionKeys(0).log)
        later = Position(appended.position.ms, appended.position.seq + 1)
        await cast(Any, redis).xadd(PartitionKeys(0).log, fields, id=str(later))
        await cast(Any, redis).xadd(PartitionKeys(1).log, fields, id=at)
        assert await everything(backend.log) == [Stored(appended.position, b"a"), Stored(later, ALTERED + b"a")]
        assert await everything(backend.log, 1) == [Stored(appended.position, ALTERED + b"a")]

    async def test_entries_and_stubs_of_before_checksums_are_read_as_they_are(self, backend: Backend, redis: Client):
        keys, stub = PartitionKeys(0), Position(1, 0)
        await cast(Any, redis).xadd(keys.log, {"e": b"a"}, id="2-0")
        await cast(Any, redis).xadd(keys.log, {"e": b"b", "t": b"00-1"}, id="3-0")
        await redis.zadd(keys.erased, {stub.sort_key.encode() + b"|stub": 0})
        assert [document.payload for document in await everything(backend.log)] == [b"stub", b"a", b"b"]

    async def test_an_altered_stub_is_marked(self, backend: Backend, redis: Client):
        (appended,) = (await backend.log.append({0: [entry("a")]}))[0]
        await backend.erase(appended.position, b"stub")
        (member,) = await redis.zrange(PartitionKeys(0).erased, 0, -1)
        await redis.delete(PartitionKeys(0).erased)
        await redis.zadd(PartitionKeys(0).erased, {member.replace(b"stub", b"stab"): 0})
        assert await everything(backend.log) == [Stored(appended.position, ALTERED + b"stab")]

    async def test_an_append_behind_a_position_of_the_future_ascends_from_there(self, backend: Backend, redis: Client):
        """As behind the entries of a server whose clock was ahead."""
        await cast(Any, redis).xadd(PartitionKeys(0).log, {"e": b"x"}, id="99999999999999-7")
        answers = await backend.log.append({0: entries("a", 2)})
        later = await backend.log.append({0: entries("b", 1)})
        positions = [item.position for item in (*answers[0], *later[0])]
        assert positions == [Position(99999999999999, n) for n in (8, 9, 10)]
        assert [item.payload for item in await everything(backend.log)] == [b"x", b"a0", b"a1", b"b0"]

    async def test_a_restored_entry_has_a_checksum_of_its_own(self, redis: Client):
        """Also one that was altered before it was backed up: it stays marked."""
        keys = PartitionKeys(1)
        await restore_entries(redis, keys, 20, [(Position(5, 1), entry("a")), (Position(6, 0), entry("b", ALTERED))])
        await begin_window(redis, [keys], 1_000)
        assert [fields.keys() for _, fields in await redis.xrange(keys.log)] == [{b"e", b"c"}] * 2
        assert await everything(RedisLog(redis, 2), 1) == [
            Stored(Position(5, 1), b"a"), Stored(Position(6, 0), ALTERED)
        ]  # fmt: skip

    async def test_what_was_erased_since_is_confirmed_like_everything_else(self, backend: Backend):
        (appended,) = (await backend.log.append({0: [entry("a")]}))[0]
        await backend.erase(appended.position, b"stub")
        await confirmed(backend, {0: appended.position})

    async def test_what_the_server_has_lost_since_is_not_confirmed(self, backend: Backend, redis: Client):
        """Another one may have taken its place, to which it had not come yet."""
        (first, lost) = (await backend.log.append({0: entries("a", 2)}))[0]
        await redis.xdel(PartitionKeys(0).log, str(lost.position))
        await confirmed(backend, {0: first.position})
        with pytest.raises(LogUnavailable, match="has lost the events appended to partition 0"):
            await backend.log.confirm({0: lost.position}, "fsync")

    async def test_a_server_that_forgot_the_script_is_told_it_again(self, backend: Backend, redis: Client):
        """A restarted server knows no scripts; the append that finds out still succeeds, once."""
        await backend.log.append({0: [entry("a")]})
        await cast(Any, redis).script_flush()
        answers = await backend.log.append({0: [entry("b")], 1: [entry("c")]})
        assert not answers[0][0].duplicate
        assert len(await everything(backend.log, 0)) == 2
        assert len(await everything(backend.log, 1)) == 1

    async def test_an_erased_entry_is_still_known_by_its_id(self, backend: Backend, redis: Client):
        """And the head stays."""
        (first,) = (await backend.log.append({0: [entry("a")]}))[0]
        await redis.xdel("mnemolog:{p00}:log", str(first.position))
        assert await backend.log.head(0) == first.position
        assert await everything(backend.log) == []
        assert (await backend.log.append({0: [entry("a")]}))[0] == [Appended(first.position, True)]

    async def test_a_server_that_refuses_writes_is_a_log_unavailable(self, backend: Backend, redis: Client):
        await redis.set("mnemolog:{p00}:log", "no stream")
        with pytest.raises(LogUnavailable, match="refused"):
            await backend.log.append({0: [entry("a")]})
        await redis.delete("mnemolog:{p00}:log")

    async def test_an_acknowledgement_of_the_embedded_server_means_on_disk(self, redis: Client):
        assert await RedisLog(redis, 1).standing_durability() == "fsync"


class ArchivedLogConformance(EventLogConformance):
    """A log that is sealed, trimmed and rewritten between any two operations; subclasses give the fixture `place`."""

    @pytest.fixture
    async def backend(self, redis: Client, place: str) -> Backend:
        async def open_log(
            partitions: int = PARTITIONS, window_ms: int | None = None, window_ids: int = 250_000
        ) -> RestlessLog:
            archive = Archive(redis, store_of(place))
            log = RestlessLog(redis, partitions, archive, window_ms=window_ms, window_ids=window_ids)
            await log.create_or_check()
            return log

        async def erase_in_first(position: Position, stub: bytes) -> None:
            await erase(redis, 0, position, stub)

        confirms = await _has_waitaof(redis)
        return Backend(
            await open_log(), open_log, _really_pass_ms, erase_in_first, outlives_its_process=True, confirms=confirms
        )

    async def test_an_entry_that_was_altered_before_it_is_sealed_stays_marked(self, backend: Backend, redis: Client):
        answers = await backend.log.append({0: entries("a", 3)})
        first, second, third = [row.position for row in answers[0]]
        await alter(redis, PartitionKeys(0).log, second, lambda was: was | {b"e": b"z"})
        altered = [Stored(first, b"a0"), Stored(second, ALTERED + b"z"), Stored(third, b"a2")]
        for _ in range(12):  # something is sealed or trimmed before each
            assert await everything(backend.log) == altered
        assert (await load_archived(redis, PartitionKeys(0))).trimmed >= second

    async def test_something_is_archived_meanwhile(self, backend: Backend, redis: Client):
        """Else the suite would show nothing."""
        await backend.log.append({0: entries("a", 40)})
        before = await everything(backend.log)
        for _ in range(10):
            assert await everything(backend.log) == before
        archived = await load_archived(redis, PartitionKeys(0))
        assert START < archived.trimmed == archived.sealed
        assert await redis.xlen(PartitionKeys(0).log) < 40

    async def test_the_head_stays_when_everything_is_trimmed(self, backend: Backend, redis: Client):
        answers = await backend.log.append({0: entries("a", 5)})
        for _ in range(10):
            assert len(await everything(backend.log)) == 5
        assert await redis.xlen(PartitionKeys(0).log) == 0
        assert await backend.log.head(0) == answers[0][-1].position
        (later,) = (await backend.log.append({0: [entry("b")]}))[0]
        assert await backend.log.head(0) == later.position > answers[0][-1].position


class TestArchivedLogInADirectory(ArchivedLogConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "archive")


class TestArchivedLogBehindAUrl(ArchivedLogConformance):
    """What an object store is to us: an fsspec URL."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return f"memory://{tmp_path.name}"


class NothingLog:
    """Honours nothing: stores nothing, answers with nothing."""

    partitions = 0
    history = LogHistory(0)

    def server_of(self, partition: int) -> str:
        return ""

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        return {}

    async def append_past_limit(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        return {}

    async def standing_durability(self) -> Durability:
        return "memory"

    async def why_never(self, requested: Durability) -> str:
        return ""

    async def confirm(self, newest: Mapping[int, Position], requested: Durability) -> Durability:
        return "memory"

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        return []

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        return []

    async def head(self, partition: int) -> Position:
        return START


SUITE = sorted(name for name, _ in inspect.getmembers(EventLogConformance) if name.startswith("test_"))


@pytest.mark.parametrize("name", SUITE)
async def test_a_log_that_does_nothing_fails_every_test_of_the_suite(name: str):
    async def open_nothing(**_: Any) -> EventLog:
        return NothingLog()

    async def pass_nothing(ms: int) -> None:
        pass

    async def erase_nothing(position: Position, stub: bytes) -> None:
        pass

    backend = Backend(NothingLog(), open_nothing, pass_nothing, erase_nothing, outlives_its_process=True, confirms=True)
    with pytest.raises((AssertionError, KeyError, ValueError, IndexError)):
        await getattr(EventLogConformance(), name)(backend)


async def _really_pass_ms(ms: int) -> None:
    """Redis has a clock of its own; nothing but time moves it."""
    await asyncio.sleep(ms / 1000)
