"""Group commit: many writers, few appends, shared waits for durability; what was accepted is written."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from factories import ManualClock
from waiting import wait_until

from ingest.durability import Durability
from ingest.errors import LogUnavailable, Overloaded
from ingest.ids import EventId
from ingest.log import group_commit
from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import Confirmations, GroupCommit
from ingest.log.position import START, Position
from tests.support.memory_log import MemoryLog


class WatchedLog(MemoryLog):
    """A MemoryLog that notes its appends, waits at a gate and fails as often as told."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(2, clock.ms)
        self.appends: list[Mapping[int, Sequence[Entry]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: Sequence[Exception] = []
        self.stores_before_failing = False
        self.servers: Mapping[int, str] = {}
        self.away: set[str] = set()
        """Servers that hold whatever they are told for as long as the gate is closed."""

    def server_of(self, partition: int) -> str:
        return self.servers.get(partition, "")

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        self.appends.append({partition: list(batch) for partition, batch in batches.items()})
        if not self.away or not self.away.isdisjoint(map(self.server_of, batches)):
            await self.gate.wait()
        if self.failures:
            if self.stores_before_failing:
                await super().append(batches)
            failure, *self.failures = self.failures
            raise failure
        return await super().append(batches)

    async def payloads(self, partition: int = 0) -> list[bytes]:
        return [stored.payload for stored in await self.read(partition, START, 100_000)]


@pytest.fixture
def log(clock: ManualClock) -> WatchedLog:
    return WatchedLog(clock)


@pytest.fixture
def commit(log: WatchedLog) -> GroupCommit:
    return GroupCommit(log)


def write(name: str, partition: int = 0, payload: bytes = b"") -> tuple[int, Entry]:
    """One entry for one partition; its payload is its name unless given."""
    return partition, Entry(EventId(name), payload or name.encode())


async def started(commit: GroupCommit, *names: str) -> "list[asyncio.Task[list[Appended]]]":
    """Writers of one entry each, started in this order and waiting."""
    tasks = [asyncio.create_task(commit.append([write(name)])) for name in names]
    await asyncio.sleep(0)
    return tasks


async def test_a_write_is_answered_with_its_position(log: WatchedLog, commit: GroupCommit):
    (answer,) = await commit.append([write("a")])
    assert answer == Appended(await log.head(0), duplicate=False)
    assert await commit.append([write("a")]) == [Appended(answer.position, duplicate=True)]


async def test_nothing_to_write_is_no_append(log: WatchedLog, commit: GroupCommit):
    assert await commit.append([]) == []
    assert log.appends == []


async def test_concurrent_writes_share_appends(log: WatchedLog, commit: GroupCommit):
    """The first append is under way while the others gather; they go together in the second.

    Each caller is told the position of its own event.
    """
    log.gate.clear()
    first = await started(commit, "first")
    await wait_until(lambda: len(log.appends) == 1)
    others = await started(commit, *(f"n{n}" for n in range(99)))
    log.gate.set()
    answers = await asyncio.gather(*first, *others)
    assert [len(append[0]) for append in log.appends] == [1, 99]
    places = {stored.payload: stored.position for stored in await log.read(0, START, 100)}
    names = ["first", *(f"n{n}" for n in range(99))]
    assert [answer.position for (answer,) in answers] == [places[name.encode()] for name in names]


async def test_writes_keep_the_order_they_came_in(log: WatchedLog, commit: GroupCommit):
    names = [f"n{n:03d}" for n in range(200)]
    answers = await asyncio.gather(*await started(commit, *names))
    positions = [answer.position for (answer,) in answers]
    assert positions == sorted(positions)
    assert await log.payloads() == [name.encode() for name in names]


async def test_answers_come_in_the_order_of_the_entries_across_partitions(log: WatchedLog, commit: GroupCommit):
    entries = [write("a", 1), write("b", 0), write("c", 1), write("a", 1), write("d", 0)]
    answers = await commit.append(entries)
    assert [answer.duplicate for answer in answers] == [False, False, False, True, False]
    assert answers[0].position == answers[3].position < answers[2].position
    assert (await log.payloads(0), await log.payloads(1)) == ([b"b", b"d"], [b"a", b"c"])


async def test_a_server_that_is_away_holds_up_writes_to_its_own_partitions_only(log: WatchedLog, commit: GroupCommit):
    """More of them wait than there are appends at once, and one is for both servers."""
    log.servers, log.away = {0: "a", 1: "b"}, {"a"}
    log.gate.clear()
    held = await started(commit, *(f"n{n}" for n in range(100)))
    both = asyncio.create_task(commit.append([write("c", 0), write("c", 1), write("d", 0), write("d", 1)]))
    await asyncio.sleep(0)
    answers = [await commit.append([write(name, 1)]) for name in ("e", "f")]
    assert [answer.duplicate for (answer,) in answers] == [False, False]
    assert await log.payloads(1) == [b"c", b"d", b"e", b"f"]
    assert not any(task.done() for task in (*held, both))
    log.gate.set()
    await asyncio.gather(*held)
    positions = [answer.position for answer in await both]
    assert positions[0] < positions[2] == await log.head(0)
    assert positions[1] < positions[3] < answers[0][0].position
    assert commit.waiting_events == 0


async def test_what_one_server_refuses_of_a_write_is_told_and_the_rest_of_it_is_there(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 0.0)
    log.servers, log.failures = {0: "a", 1: "b"}, [LogUnavailable("away")]
    both = [write("a", 0), write("a", 1)]
    with pytest.raises(LogUnavailable):
        await commit.append(both)
    await commit.aclose()
    assert [answer.duplicate for answer in await commit.append(both)] == [False, True]
    assert commit.waiting_events == 0


async def test_an_append_is_bounded_and_a_bigger_write_goes_alone(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "EVENTS_PER_APPEND", 5)
    log.gate.clear()
    tasks = await started(commit, "first")
    await wait_until(lambda: len(log.appends) == 1)
    tasks += await started(commit, *(f"n{n}" for n in range(7)))
    tasks.append(asyncio.create_task(commit.append([write(f"big{n}") for n in range(9)])))
    await asyncio.sleep(0)
    log.gate.set()
    await asyncio.gather(*tasks)
    assert [len(append[0]) for append in log.appends] == [1, 5, 2, 9]


async def test_past_the_bound_of_events_a_write_is_refused_and_not_stored(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "MAX_WAITING_EVENTS", 3)
    log.gate.clear()
    tasks = await started(commit, "a", "b", "c")
    assert commit.waiting_events == 3
    with pytest.raises(Overloaded) as refused:
        await commit.append([write("d")])
    assert refused.value.retry_after_s >= 1
    log.gate.set()
    await asyncio.gather(*tasks)
    assert await log.payloads() == [b"a", b"b", b"c"]
    assert commit.waiting_events == 0
    await commit.append([write("d")])


async def test_past_the_bound_of_bytes_a_write_is_refused(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "MAX_WAITING_BYTES", 10)
    log.gate.clear()
    tasks = [asyncio.create_task(commit.append([write("a", payload=b"x" * 8)]))]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await commit.append([write("b", payload=b"x" * 3)])
    tasks.append(asyncio.create_task(commit.append([write("c", payload=b"x" * 2)])))
    await asyncio.sleep(0)
    log.gate.set()
    await asyncio.gather(*tasks)
    assert len(await log.payloads()) == 2


async def test_a_log_that_is_away_is_tried_again(log: WatchedLog, commit: GroupCommit):
    """A restart of the server costs its callers time, no error."""
    log.failures = [LogUnavailable("away"), LogUnavailable("away")]
    (answer,) = await commit.append([write("a")])
    assert not answer.duplicate
    assert len(log.appends) == 3
    assert await log.payloads() == [b"a"]


async def test_an_append_that_was_stored_but_not_acknowledged_is_not_stored_twice(log: WatchedLog, commit: GroupCommit):
    log.failures, log.stores_before_failing = [LogUnavailable("the answer was lost")], True
    (answer,) = await commit.append([write("a")])
    assert answer == Appended(await log.head(0), duplicate=True)
    assert await log.payloads() == [b"a"]


async def test_a_log_that_stays_away_is_told_to_every_waiting_caller(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 0.1)
    log.failures = [LogUnavailable("away") for _ in range(1000)]
    answers = await asyncio.gather(*await started(commit, "a", "b", "c"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [LogUnavailable] * 3
    assert commit.waiting_events == 0
    log.failures = []
    assert len(await commit.append([write("a")])) == 1


async def test_a_write_that_has_waited_for_long_enough_behind_others_is_refused_at_the_first_failure(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    log.gate.clear()
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 0.0)
    (first,) = await started(commit, "first")
    (waited,) = await started(commit, "waited")
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 60.0)
    (fresh,) = await started(commit, "fresh")
    log.failures = [LogUnavailable("away"), LogUnavailable("away")]
    log.gate.set()
    answers = await asyncio.gather(first, waited, fresh, return_exceptions=True)
    assert [type(answer) for answer in answers] == [LogUnavailable, LogUnavailable, list]
    assert await log.payloads() == [b"fresh"]
    assert commit.waiting_events == 0


async def test_another_error_is_raised_at_once_and_the_next_write_goes_on(log: WatchedLog, commit: GroupCommit):
    log.failures = [ValueError("a bug")]
    with pytest.raises(ValueError, match="a bug"):
        await commit.append([write("a")])
    assert len(log.appends) == 1
    await commit.append([write("b")])
    assert await log.payloads() == [b"b"]


async def test_the_entry_of_a_cancelled_caller_is_still_written(log: WatchedLog, commit: GroupCommit):
    """A client that hangs up gets no answer; its event, once accepted, is not lost."""
    log.gate.clear()
    first, hung_up = await started(commit, "a", "b")
    hung_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hung_up
    log.gate.set()
    await first
    await commit.aclose()
    assert await log.payloads() == [b"a", b"b"]
    assert commit.waiting_events == 0


async def test_a_cancelled_caller_spoils_nobody_elses_failure(
    log: WatchedLog, commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 0.0)
    log.failures = [LogUnavailable("away")]
    log.gate.clear()
    hung_up, other = await started(commit, "a", "b")
    hung_up.cancel()
    await asyncio.sleep(0)
    log.gate.set()
    with pytest.raises(LogUnavailable):
        await other
    assert commit.waiting_events == 0


async def test_closing_waits_for_everything_accepted(log: WatchedLog, commit: GroupCommit):
    log.gate.clear()
    tasks = await started(commit, "a", "b")
    closing = asyncio.create_task(commit.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    log.gate.set()
    await closing
    assert all(task.done() for task in tasks)
    await GroupCommit(log).aclose()


AT = Position(5, 0)


class SlowDisk(MemoryLog):
    """Confirms when told to, as far as `reach`, and notes what it was asked."""

    def __init__(self, standing: Durability, key_scope: Durability) -> None:
        super().__init__(4, ManualClock().ms)
        self.standing: Durability = standing
        self.key_scope: Durability = key_scope
        self.asked: list[tuple[dict[int, Position], Durability]] = []
        self.gate = asyncio.Event()
        self.away = False

    def server_of(self, partition: int) -> str:
        return "first" if partition < 3 else "second"

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        raise NotImplementedError

    async def standing_durability(self) -> Durability:
        if self.away:
            raise LogUnavailable("away")
        return self.standing

    async def confirm(self, newest: Mapping[int, Position], requested: Durability) -> Durability:
        self.asked.append((dict(newest), requested))
        await self.gate.wait()
        return self.key_scope


@pytest.mark.parametrize("requested", [None, "memory", "fsync"])
async def test_nobody_waits_for_what_the_server_gives_anyway(requested: Durability | None):
    disk = SlowDisk("fsync", "memory")
    assert await Confirmations(disk).reached({0: AT}, requested) == "fsync"
    assert disk.asked == []


async def test_writes_that_come_during_a_wait_share_the_next_one():
    disk = SlowDisk("fsync", "replicated")
    confirmations = Confirmations(disk)
    first = asyncio.create_task(confirmations.reached({0: AT}, "replicated"))
    await wait_until(lambda: disk.asked != [])
    others = [asyncio.create_task(confirmations.reached({n % 3: Position(n, 0)}, "replicated")) for n in range(50)]
    await asyncio.sleep(0)
    disk.gate.set()
    assert {await first, *await asyncio.gather(*others)} == {"replicated"}
    newest = {0: Position(48, 0), 1: Position(49, 0), 2: Position(47, 0)}
    assert disk.asked == [({0: AT}, "replicated"), (newest, "replicated")]


async def test_levels_do_not_wait_for_each_other():
    disk = SlowDisk("memory", "fsync")
    confirmations = Confirmations(disk)
    waiting = [asyncio.create_task(confirmations.reached({0: AT}, requested)) for requested in ("replicated", "fsync")]
    await wait_until(lambda: len(disk.asked) == 2)
    disk.gate.set()
    assert await asyncio.gather(*waiting) == ["fsync", "fsync"]


async def test_a_caller_that_goes_away_leaves_the_others_waiting():
    disk = SlowDisk("memory", "fsync")
    confirmations = Confirmations(disk)
    gone, stays = (asyncio.create_task(confirmations.reached({0: AT}, "fsync")) for _ in range(2))
    await wait_until(lambda: disk.asked != [])
    gone.cancel()
    disk.gate.set()
    assert await stays == "fsync"


async def test_servers_do_not_wait_for_each_other():
    """Who has written to both hears of the weaker."""
    disk = SlowDisk("memory", "fsync")
    confirmations = Confirmations(disk)
    both = asyncio.create_task(confirmations.reached({2: AT, 3: AT}, "fsync"))
    other = asyncio.create_task(confirmations.reached({3: Position(6, 0)}, "fsync"))
    await wait_until(lambda: len(disk.asked) == 2)
    assert disk.asked == [({2: AT}, "fsync"), ({3: Position(6, 0)}, "fsync")]
    disk.gate.set()
    assert await asyncio.gather(both, other) == ["fsync", "fsync"]


async def test_a_server_that_is_away_leaves_what_was_known_of_it(monkeypatch: pytest.MonkeyPatch):
    disk = SlowDisk("fsync", "memory")
    disk.away = True
    confirmations = Confirmations(disk)
    assert await confirmations.standing() == "memory", "the least there is, as long as nobody knows"
    monkeypatch.setattr(group_commit, "LOOK_AGAIN_S", 0.0)
    disk.away = False

    async def known() -> bool:
        return await confirmations.standing() == "fsync"

    await wait_until(known)
    disk.away = True
    assert [await confirmations.standing() for _ in range(3)] == ["fsync"] * 3
    disk.away, disk.standing = False, "memory"

    async def noticed() -> bool:
        return await confirmations.standing() == "memory"

    await wait_until(noticed)
