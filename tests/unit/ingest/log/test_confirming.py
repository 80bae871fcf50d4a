"""Waiting for durability: shared between writes, and only where the server does not give it anyway."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from factories import ManualClock
from waiting import wait_until

from ingest.durability import Durability
from ingest.errors import LogUnavailable
from ingest.log import group_commit
from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import Confirmations
from ingest.log.position import Position
from tests.support.memory_log import MemoryLog

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

    async def confirm(self, newest: Mapping[int, Position], wanted: Durability) -> Durability:
        self.asked.append((dict(newest), wanted))
        await self.gate.wait()
        return self.key_scope


@pytest.mark.parametrize("wanted", [None, "memory", "fsync"])
async def test_nobody_waits_for_what_the_server_gives_anyway(wanted: Durability | None):
    disk = SlowDisk("fsync", "memory")
    assert await Confirmations(disk).reached({0: AT}, wanted) == "fsync"
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
    waiting = [asyncio.create_task(confirmations.reached({0: AT}, wanted)) for wanted in ("replicated", "fsync")]
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
