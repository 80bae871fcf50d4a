"""Dead letters on a real server: parked, tried again by the partition's runner, discarded, rebuilt, restored.

Left open: how soon a runner looks at what it was asked (between two batches, within about a second when idle).
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from altering import alter, other_event
from factories import TENANT, event
from one_partition import KEYS, PARTITION, POISON, Fold, Log, running
from rebuilding import rebuild
from waiting import wait_until

import projections.rebuilding.documents
import projections.store.dead_letters
import workers.runner
from ingest.embedded.valkey import EmbeddedValkey
from ingest.errors import AlteredEntry, BeingRebuilt, CommandRejected, NotFound
from ingest.events.envelope import encode
from ingest.events.subject import EventErased
from ingest.ids import EventId
from ingest.log.event_log import Entry
from ingest.log.position import START, Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.store import DirectoryStore
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, connect
from ingest.platform.tasks import end
from projections.dead_letters.room import DeadLetters, LogLocation, Reason, Selection
from projections.maintenance.backups import StoreTarget, choose, write_backup
from projections.maintenance.differences import DocumentManifest, manifest_differences, manifest_of, replay
from projections.maintenance.reconciling import Repairs
from projections.maintenance.restoring import restore
from projections.nouns.access import Reader
from projections.queries.documents import DocumentReader
from projections.rebuilding.documents import fill
from projections.rebuilding.rebuilds import Rebuilds
from projections.store.dead_letters import Outcome, PartitionDeadLetters, discarded_places, letter_counts
from workers.runner import PartitionRunner

ADA, STRANGER = Reader(TENANT, "ada"), Reader("elsewhere", "ada")
NOW = datetime(2026, 1, 31, tzinfo=UTC)


class Letters(Log):
    """The partition under test, with what an operator may ask."""

    @property
    def letters(self) -> DeadLetters:
        """What an operator sees and does."""
        return DeadLetters(self.redis, self.log, DocumentReader(self.redis, 1))

    async def counts(self) -> dict[Outcome, int]:
        """What became of letters, but for the noughts."""
        return {name: count for name, count in (await letter_counts(self.redis, KEYS)).items() if count}

    async def places(self, **expected: Any) -> list[str]:
        """The positions that a list shows."""
        page = await self.letters.page(Selection(**expected), ADA, 200)
        return [letter["position"] for letter in page.dead_letters]

    async def redrive(self, *positions: Position) -> None:
        """Ask for these, in this order."""
        for position in positions:
            await self.letters.redrive(LogLocation(PARTITION, position), ADA)

    async def discard(self, position: Position, reason: str = "of a test", *, erase: bool = False) -> None:
        """Discard one."""
        why = Reason(reason=reason, agent_id="eve", erase=erase)
        await self.letters.discard(LogLocation(PARTITION, position), ADA, why)

    async def nothing_asked(self) -> bool:
        """Whether the runner has tried all that it was asked."""
        return await self.redis.zcard(KEYS.redrive) == 0

    async def unlike_a_replay(self) -> list[Any]:
        """Where the documents differ from a replay of the log."""
        again = await replay(self.log, PARTITION, without=await discarded_places(self.redis, KEYS))
        return manifest_differences(
            await manifest_of(self.redis, [PARTITION]), DocumentManifest({PARTITION: again.manifest})
        )


@pytest.fixture
async def log(redis: Client, monkeypatch: pytest.MonkeyPatch) -> Letters:
    """An empty partition, whose runner looks at what it was asked fifty times a second."""
    monkeypatch.setattr(workers.runner, "BLOCK_MS", 20)
    return Letters(redis, RedisLog(redis, 1))


@pytest.fixture
def fold(monkeypatch: pytest.MonkeyPatch) -> Fold:
    """A fold that does not like POISON until it is told to be well, in every place that folds."""
    faulty = Fold()
    for module in (workers.runner, projections.store.dead_letters, projections.rebuilding.documents):
        monkeypatch.setattr(module, "project", faulty)
    monkeypatch.setattr(workers.runner, "FIRST_PAUSE_S", 0.001)
    return faulty


def poisoned(n: int) -> bytes:
    """An observation that the faulty fold rejects; its event id tells it apart."""
    return encode(event(ObservationRecorded(content=POISON), event_id=f"p{n}"))


async def append_poison(log: Letters, many: int = 1) -> list[Position]:
    """Append events that the faulty fold rejects."""
    entries = [Entry(EventId(f"p{n}"), poisoned(n)) for n in range(many)]
    return [appended.position for appended in (await log.log.append({PARTITION: entries}))[PARTITION]]


async def append_raw(log: Letters, raw: bytes = b"\xc1") -> Position:
    """Append bytes that are no event, or none that can be applied."""
    return Position.parse(await log.redis.xadd(KEYS.log, {"e": raw}))


@asynccontextmanager
async def running_until(log: Letters, position: Position) -> AsyncGenerator[None]:
    """A runner, once it has come to a position."""
    async with running(log, await log.fence()):
        await wait_until(lambda: log.applied_up_to(position))
        yield


async def redriven(log: Letters, *positions: Position) -> None:
    """Ask for letters to be tried again, and wait until a runner did."""
    await log.redrive(*positions)
    await wait_until(log.nothing_asked)


@asynccontextmanager
async def parked(log: Letters, many: int = 1) -> AsyncGenerator[list[Position]]:
    """So many poisoned events between two good ones, all dealt with by a runner that goes on."""
    await log.append("before")
    positions = await append_poison(log, many)
    last = await log.append("after")
    async with running_until(log, last[-1]):
        yield positions


# parking


async def test_a_letter_says_what_failed_when_and_how_often(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        shown = await log.letters.show(LogLocation(PARTITION, position), ADA)
    assert (shown["state"], shown["code"], shown["attempts"]) == ("parked", "ZeroDivisionError", 5)
    assert shown["message"] == "the fold does not like this one"
    assert shown["type"] == "observation.recorded"
    assert shown["parked_at"] == shown["tried_at"] is not None
    assert shown["event"]["data"]["content"] == POISON
    assert not shown["redrive_requested"]
    assert await log.counts() == {"parked": 1}


async def test_what_comes_later_of_the_same_session_does_not_wait(log: Letters, fold: Fold):
    async with parked(log):
        assert await log.contents() == ["before", "after"]


# redriving


async def test_a_redriven_event_is_applied_and_its_letter_goes(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        checkpoint = await log.store.checkpoint()
        fold.well = True
        await redriven(log, position)
        assert await log.contents() == ["before", POISON, "after"]
        assert await log.store.checkpoint() == checkpoint
    assert await log.dead() == []
    assert await log.counts() == {"parked": 1, "redriven": 1}
    assert await log.redis.hlen(KEYS.attempts) == 0
    assert await log.unlike_a_replay() == []


async def test_a_redrive_that_fails_again_says_so_in_the_letter(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        (before,) = await log.dead()
        await redriven(log, position)
        (after,) = await log.dead()
    assert (before.attempts, after.attempts) == (5, 6)
    assert after.parked_at == before.parked_at
    assert cast(datetime, after.tried_at) > cast(datetime, before.tried_at)
    assert await log.contents() == ["before", "after"]
    assert await log.counts() == {"parked": 1, "redrive_failed": 1}
    assert await log.redis.hlen(KEYS.attempts) == 0


async def test_a_letter_that_nobody_is_to_try_any_more_is_as_the_last_try_left_it(log: Letters, fold: Fold):
    """Who waits for a redrive goes by that, and would take one that is just being applied for one that failed."""

    async def listed(position: Position) -> dict[str, Any]:
        return (await log.letters.page(Selection(), ADA, 1)).dead_letters[0]

    async def shown(position: Position) -> dict[str, Any]:
        return await log.letters.show(LogLocation(PARTITION, position), ADA)

    async with parked(log) as (position,):
        attempts = 5
        for look in (shown, listed) * 10:
            attempts += 1
            await log.redrive(position)
            while (observation := await look(position))["redrive_requested"]:
                pass
            assert observation["attempts"] == attempts


async def test_asking_twice_does_no_more_than_asking_once(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        fold.well = True
        await redriven(log, position, position)
        with pytest.raises(NotFound):
            await log.redrive(position)
        await log.redis.zadd(KEYS.redrive, {position.sort_key: 0})  # by somebody who had looked before
        await wait_until(log.nothing_asked)
    assert await log.observation_count() == 3
    assert await log.counts() == {"parked": 1, "redriven": 1}


async def test_several_are_applied_in_the_order_of_the_log(log: Letters, fold: Fold):
    """Whatever the order in which they were asked for: one may build on another."""
    order: list[str] = []
    positions: list[Position] = []

    def applied(partition: int, changes: Any) -> None:
        order.extend(change.after.event_id for change in changes.documents.values() if hasattr(change.after, "kind"))

    positions = await append_poison(log, 30)
    async with running_until(log, positions[-1]):
        pass
    fold.well = True
    await log.redrive(*reversed(positions))
    async with running(log, await log.fence(), applied):
        await wait_until(log.nothing_asked)
    assert order == [f"p{n}" for n in range(30)]


async def test_a_runner_that_lost_its_lease_redrives_nothing(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        fold.well = True
        newer = await log.fence("w2")
        await log.redrive(position)
        await asyncio.sleep(0)
        await wait_until(lambda: _no_runner(log, position))
    assert [letter.position for letter in await log.dead()] == [str(position)]
    async with running(log, newer):
        await wait_until(log.nothing_asked)
    assert await log.contents() == ["before", POISON, "after"]
    assert await log.counts() == {"parked": 1, "redriven": 1}


async def _no_runner(log: Letters, position: Position) -> bool:
    """Whether the runner without a lease has met the request: it counts the try, and may save nothing."""
    return int(await log.redis.hget(KEYS.attempts, str(position)) or 0) >= 1


async def test_one_that_kills_its_worker_is_given_up(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        pass
    fold.well = True
    await log.redis.hincrby(KEYS.attempts, str(position), 2)
    await log.redrive(position)
    async with running(log, await log.fence()):
        await wait_until(log.nothing_asked)
    (letter,) = await log.dead()
    assert (letter.code, letter.attempts) == ("crashed", 6)
    assert await log.contents() == ["before", "after"]


async def test_counts_and_documents_agree_whenever_workers_are_killed(log: Letters, fold: Fold, valkey: EmbeddedValkey):
    """Parked and redriven by runners that are cut off at every point of their work."""
    many = 12
    positions = await append_poison(log, many)
    (last,) = await log.append("after")

    async def cut_off(after_s: float) -> None:
        """A worker of its own, which dies with its connections."""
        own = connect(valkey.url)
        runner = PartitionRunner(
            own, log.log, PARTITION, await log.fence(), lambda partition, changes: None, PartitionDeadLetters
        )
        task = asyncio.create_task(runner.run())
        await asyncio.wait([task], timeout=after_s)
        await end(task)
        await own.aclose()

    for n in count():
        if await log.applied_up_to(last):
            break
        await cut_off(0.004 + n * 0.003)
    assert await log.counts() == {"parked": many}
    assert len(await log.dead()) == many
    fold.well = True
    await log.redrive(*positions)
    for n in count():
        if await log.nothing_asked():
            break
        await cut_off(0.004 + n * 0.003)
    results = await log.counts()
    left = len(await log.dead())  # given up, as a worker died of them too often
    assert results["parked"] == many
    assert results.get("redriven", 0) + results.get("redrive_failed", 0) == many
    assert left == results.get("redrive_failed", 0)
    assert await log.observation_count() == many + 1 - left


async def test_an_event_that_the_log_lost_stays_a_letter(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        await log.redis.xdel(KEYS.log, str(position))
        await redriven(log, position)
        shown = await log.letters.show(LogLocation(PARTITION, position), ADA)
    assert (shown["code"], shown["event"], shown["type"]) == ("missing_entry", None, "observation.recorded")


async def test_an_altered_entry_that_is_redriven_stays_a_letter(log: Letters):
    """The request is over; nothing of the altered event is applied."""
    (position,) = await log.append("tea at four")
    before = await alter(log.redis, KEYS.log, position, other_event)
    async with running_until(log, position):
        await redriven(log, position)
        shown = await log.letters.show(LogLocation(PARTITION, position), ADA)
        assert (shown["code"], shown["attempts"], shown["event"]["unreadable"]) == (
            "altered_entry",
            2,
            "it was altered",
        )
        assert await log.contents() == []
    await alter(log.redis, KEYS.log, position, lambda was: before)
    async with running(log, await log.fence()):
        await redriven(log, position)
    assert await log.contents() == ["tea at four"], "the file was put back"
    assert await log.dead() == []


async def test_an_entry_that_was_altered_after_it_was_applied_is_not_applied_twice(log: Letters):
    """Reconciling parks it. Once the file is put back, a redrive takes the letter away and changes no document."""
    (position,) = await log.append("tea at four")
    async with running_until(log, position):
        pass
    before = await alter(log.redis, KEYS.log, position, other_event)
    (entry,) = await log.log.read(PARTITION, START, 1)
    repairs = Repairs(log.redis, KEYS, 1)
    assert await repairs.park(entry, AlteredEntry(str(position)), system_clock())
    assert not await repairs.park(entry, AlteredEntry(str(position)), system_clock()), "it is a letter already"
    async with running(log, await log.fence()):
        await redriven(log, position)
        assert [letter.code for letter in await log.dead()] == ["altered_entry"]
    await alter(log.redis, KEYS.log, position, lambda was: before)
    async with running(log, await log.fence()):
        await redriven(log, position)
    assert await log.dead() == []
    assert await log.observation_count() == 1


# discarding


async def test_a_discarded_letter_leaves_the_list_and_says_why(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        await log.discard(position, "a bug of ours, AKIAIOSFODNN7EXAMPLF")
        await log.discard(position, "another reason")
    assert await log.places() == []
    assert await log.places(state="discarded") == [f"{PARTITION}:{position}"]
    shown = await log.letters.show(LogLocation(PARTITION, position), ADA)
    assert shown["discarded"]["agent_id"] == "eve"
    assert shown["discarded"]["reason"].startswith("a bug of ours")
    assert "AKIAIOSFODNN7EXAMPLF" not in shown["discarded"]["reason"]
    assert shown["event"]["data"]["content"] == POISON
    assert await log.counts() == {"parked": 1, "discarded": 1}


async def test_letters_that_are_discarded_at_the_same_moment_are_all_discarded(log: Letters, fold: Fold):
    async with parked(log, 5) as positions:
        await asyncio.gather(*map(log.discard, positions))
    assert await log.places(state="parked") == []
    assert await log.counts() == {"parked": 5, "discarded": 5}
    with pytest.raises(CommandRejected, match="not a log position"):
        LogLocation.parse("0:tea", 1)


async def test_it_stays_discarded_through_a_rebuild(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        await log.discard(position)
    fold.well = True
    assert await rebuild(log.redis, log.log, PARTITION, 10) == 1
    assert (await manifest_of(log.redis, [PARTITION])).partitions[PARTITION].kinds["observation"] == 2
    assert await log.places(state="discarded") == [f"{PARTITION}:{position}"]
    assert await log.unlike_a_replay() == []


async def test_a_rebuild_ends_level_with_the_live_documents_also_when_the_last_event_is_discarded(
    log: Letters, fold: Fold
):
    positions = await append_poison(log, 2)
    async with running_until(log, positions[-1]):
        await log.discard(positions[-1])
    assert await rebuild(log.redis, log.log, PARTITION, 10) == 1
    assert await log.redis.get(KEYS.of_generation(2).checkpoint) == str(positions[-1]).encode()


async def test_redriving_undoes_it(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        await log.discard(position)
        fold.well = True
        await redriven(log, position)
        assert await log.contents() == ["before", POISON, "after"]
    assert await log.places(state="discarded") == []
    assert await log.counts() == {"parked": 1, "discarded": 1, "redriven": 1}


async def test_one_that_is_asked_to_be_redriven_is_not_discarded(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        pass
    await log.redrive(position)
    with pytest.raises(CommandRejected, match=r"a retry of .* is pending"):
        await log.discard(position)
    assert await log.places() == [f"{PARTITION}:{position}"]


async def test_erasing_leaves_a_stub_and_nothing_that_was_said(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        await log.discard(position, erase=True)
    rows = await log.log.read(PARTITION, START, 10)
    (stub,) = [decode(row.payload, row.position) for row in rows if row.position == position]
    assert isinstance(stub.data, EventErased)
    assert (stub.data.was, stub.data.document, stub.data.mark) == ("observation.recorded", "", "")
    assert stub.envelope.tenant == TENANT
    assert all(POISON.encode() not in value for value in await _every_value(log.redis))
    shown = await log.letters.show(LogLocation(PARTITION, position), ADA)
    assert (shown["discarded"]["erased"], shown["message"]) == (True, "")
    assert await log.redis.scard(KEYS.purge) == 1, "the append-only file and older backups still have it"
    with pytest.raises(CommandRejected, match="erased"):
        await log.redrive(position)
    fold.well = True
    assert await rebuild(log.redis, log.log, PARTITION, 10) == 1
    assert await log.unlike_a_replay() == []


async def test_bytes_that_are_no_event_can_be_erased_too(log: Letters):
    strange = await append_raw(log, b"\xc1 a secret")
    (last,) = await log.append("after")
    async with running_until(log, last):
        await log.discard(strange)
        await log.discard(strange, erase=True)
    assert all(b"a secret" not in value for value in await _every_value(log.redis))
    assert await log.places(state="discarded") == [f"{PARTITION}:{strange}"]
    assert await log.counts() == {"parked": 1, "discarded": 1}


async def _every_value(redis: Client) -> list[bytes]:
    """What can be read of everything on the server. (Blocks of a stream keep deleted entries until a rewrite.)"""
    server = cast(Any, redis)
    results: list[bytes] = []
    async for key in redis.scan_iter(match="*", count=1000):
        is_stream = await server.type(key) == b"stream"
        results.append(repr(await server.xrange(key)).encode() if is_stream else await server.dump(key))
    return results


# rebuilding


async def test_a_rebuild_takes_letters_away_when_it_switches_and_not_before(log: Letters, fold: Fold):
    """One that is interrupted, or never finished, has taken nothing away."""
    async with parked(log, 2):
        pass
    fold.well = True
    assert (await fill(log.redis, log.log, PARTITION, 2, 10)).level
    assert len(await log.dead()) == 2
    assert await rebuild(log.redis, log.log, PARTITION, 10) == 1
    assert await log.dead() == []
    assert await log.counts() == {"parked": 2, "rebuilt": 2}


async def test_what_a_rebuild_cannot_apply_either_is_parked_once(log: Letters, fold: Fold):
    async with parked(log):
        (before,) = await log.dead()
    assert await rebuild(log.redis, log.log, PARTITION, 10) == 1
    (after,) = await log.dead()
    assert (after.position, after.parked_at, after.attempts) == (before.position, before.parked_at, 6)
    assert await log.counts() == {"parked": 1}


async def test_nothing_is_discarded_while_a_rebuild_may_apply_it(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        pass
    (part,) = (await Rebuilds(log.redis).start("documents", [PARTITION])).parts
    await log.redis.set(KEYS.rebuild, "somebody", ex=30)
    with pytest.raises(BeingRebuilt):
        await log.discard(position)
    await log.redis.delete(KEYS.rebuild)
    fold.well = True
    assert (await fill(log.redis, log.log, PARTITION, part.generation, 10)).level, "interrupted, behind the event"
    with pytest.raises(BeingRebuilt):
        await log.discard(position)
    assert await log.places() == [f"{PARTITION}:{position}"]


# restoring


async def test_a_restored_log_passes_over_what_was_discarded(log: Letters, fold: Fold, tmp_path: Path):
    async with parked(log) as (position,):
        await log.discard(position)
    await log.log.create_or_check()
    target = StoreTarget(DirectoryStore(tmp_path / "backups"))
    manifest = await write_backup(log.redis, log.log, tmp_path / "made", lambda: NOW)
    target.put(manifest.name, tmp_path / "made")
    await log.redis.flushall()
    chosen = choose(target, None, tmp_path / "work")
    assert chosen is not None
    await restore(log.redis, 1, chosen)
    fold.well = True
    async with running(log, await log.fence()):
        head = await log.log.head(PARTITION)
        await wait_until(lambda: log.applied_up_to(head))
    assert await log.contents() == ["before", "after"]
    assert await log.places(state="discarded") == [f"{PARTITION}:{position}"]
    assert await log.unlike_a_replay() == []


# reading


async def test_pages_follow_one_another_and_filters_choose(log: Letters, fold: Fold):
    async with parked(log, 5):
        strange = await append_raw(log)
        await wait_until(lambda: log.applied_up_to(strange))
    results: list[str] = []
    cursor: str | None = None
    while True:
        page = await log.letters.page(Selection(cursor=cursor), ADA, 2)
        results += [letter["position"] for letter in page.dead_letters]
        assert len(page.dead_letters) <= 2
        if page.next is None:
            break
        cursor = page.next
    assert results == await log.places()
    assert len(results) == 6
    assert await log.places(code="unreadable_event") == [f"{PARTITION}:{strange}"]
    assert len(await log.places(type="observation.recorded")) == 5
    assert await log.places(code="no_such") == []
    with pytest.raises(CommandRejected):
        await log.places(partition=1)


async def test_all_of_a_code_are_redriven(log: Letters, fold: Fold):
    async with parked(log, 4):
        strange = await append_raw(log)
        await wait_until(lambda: log.applied_up_to(strange))
        fold.well = True
        done = await log.letters.redrive_all(Selection(code="ZeroDivisionError"), ADA)
        assert (len(done.positions), done.next) == (4, None)
        await wait_until(log.nothing_asked)
        assert await log.places() == [f"{PARTITION}:{strange}"]
    assert await log.counts() == {"parked": 5, "redriven": 4}


async def test_another_tenant_sees_only_what_is_nobodys(log: Letters, fold: Fold):
    async with parked(log) as (position,):
        strange = await append_raw(log)
        await wait_until(lambda: log.applied_up_to(strange))
    page = await log.letters.page(Selection(), STRANGER, 50)
    assert [letter["position"] for letter in page.dead_letters] == [f"{PARTITION}:{strange}"]
    with pytest.raises(NotFound):
        await log.letters.show(LogLocation(PARTITION, position), STRANGER)
    with pytest.raises(NotFound):
        await log.letters.redrive(LogLocation(PARTITION, position), STRANGER)


async def test_what_a_private_memory_says_is_withheld_with_its_error(log: Letters):
    """Of a newer release, so that nobody can apply it: whose it is its envelope and data say."""
    body = {"content": "a secret", "visibility": "private", "owner": "eve"}
    fields = {"event_id": "m1", "type": "memory.recorded", "version": 99, "tenant": TENANT, "agent_id": "eve"}
    raw = msgspec.msgpack.encode({**fields, "data": body})
    place = await append_raw(log, raw)
    async with running_until(log, place):
        pass
    withheld = await log.letters.show(LogLocation(PARTITION, place), ADA)
    assert (withheld["event"]["data"], withheld["message"]) == ({"visibility": "private", "withheld": True}, "")
    own = await log.letters.show(LogLocation(PARTITION, place), Reader(TENANT, "eve"))
    assert own["event"]["data"] == body
    assert own["message"]


# forgetting


async def test_letters_about_a_forgotten_subject_are_erased(log: Letters):
    def strange(user: str, event_id: str) -> bytes:
        fields = {"event_id": event_id, "type": "dream.dreamt", "version": 1, "tenant": TENANT, "user_id": user}
        return msgspec.msgpack.encode({**fields, "data": {"of": f"the secret of {user}"}})

    places = [await append_raw(log, strange(user, f"{user}{n}")) for n, user in enumerate(("u1", "u2", "u1"))]
    async with running_until(log, places[-1]):
        pass
    await log.discard(places[2])
    later = Token({PARTITION: places[-1]})

    async def forget(until: Token) -> int:
        return await log.letters.erase_all(
            lambda event: event.get("user_id") == "u1", until, TENANT, reason="forgotten", agent_id="eve"
        )

    assert await forget(Token()) == 0, "they were recorded after it began"
    assert await forget(later) == 2
    assert await forget(later) == 0
    assert await log.places() == [f"{PARTITION}:{places[1]}"]
    values = await _every_value(log.redis)
    assert not any(b"the secret of u1" in value for value in values)
    assert any(b"the secret of u2" in value for value in values)
