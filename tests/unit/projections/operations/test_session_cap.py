"""The cap on a session's observations, whoever arrives together."""

import asyncio
from typing import Any, cast

import pytest

from ingest.commands.decide import Observe
from ingest.errors import SessionFull
from projections.nouns.session import Session
from projections.operations import session_cap as module
from projections.operations.current import Current
from projections.operations.session_cap import SessionCap


class Stored:
    """A test double for speed: a session with so many observations; a look at it takes a while."""

    def __init__(self, count: int = 0) -> None:
        self.count, self.looks, self.fails = count, 0, False

    async def get(self, route: str, name: str) -> Session | None:
        self.looks += 1
        count = self.count
        await asyncio.sleep(0.05)
        if self.fails:
            raise TimeoutError
        return Session(observation_count=count) if name.startswith("ses") else None


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The process's clock, at the moment the machine was started."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def capped(stored: Stored, limit: int = 3) -> SessionCap:
    return SessionCap(cast(Current, stored), limit)


async def enter(cap: SessionCap, many: int = 1) -> list[bool]:
    """Which of so many that arrive together are let in."""

    async def one() -> bool:
        try:
            await cap.enter(Observe(content="x", session_id="s1"), "default", "obs_1")
        except SessionFull:
            return False
        return True

    return await asyncio.gather(*(one() for _ in range(many)))


async def test_of_those_that_arrive_together_as_many_enter_as_there_is_room_for():
    stored = Stored(count=1)
    assert (await enter(capped(stored), 10)).count(True) == 2
    assert stored.looks == 1


async def test_a_session_is_looked_up_on_a_machine_that_was_just_started(time: Clock):
    assert await enter(capped(Stored(count=3))) == [False]


async def test_what_is_on_its_way_when_the_count_is_looked_up_again_counts(time: Clock):
    stored = Stored()
    cap = capped(stored)
    assert await enter(cap) == [True]
    stored.count = 1
    time.now = module.REFRESH_S - 1
    assert await enter(cap) == [True]  # and it is not in the log yet
    time.now = module.REFRESH_S + 1
    assert (await enter(cap, 5)).count(True) == 1
    assert stored.looks == 2


async def test_what_was_forgotten_makes_room_when_the_count_is_looked_up_again(time: Clock):
    stored = Stored()
    cap = capped(stored)
    assert (await enter(cap, 4)).count(True) == 3
    stored.count = 1
    time.now = module.REFRESH_S + 1
    assert (await enter(cap, 4)).count(True) == 2


async def test_what_could_not_be_stored_makes_room_at_once():
    cap = capped(Stored(count=2))
    assert await enter(cap, 2) == [True, False]
    cap.leave(Observe(content="x", session_id="s1"), "default")
    assert await enter(cap, 2) == [True, False]


async def test_a_look_that_fails_fails_for_all_that_wait_and_is_taken_again():
    stored = Stored(count=2)
    cap = capped(stored)
    stored.fails = True
    command: Any = Observe(content="x", session_id="s1")
    failed = await asyncio.gather(*(cap.enter(command, "default", "obs_1") for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in failed] == [TimeoutError] * 3
    stored.fails = False
    assert await enter(cap, 2) == [True, False]


async def test_who_gives_up_during_the_look_does_not_stop_it_for_the_others():
    cap = capped(Stored(count=2))
    first = asyncio.create_task(enter(cap))
    await asyncio.sleep(0)
    others = asyncio.create_task(enter(cap, 2))
    await asyncio.sleep(0.001)
    first.cancel()
    assert (await others).count(True) == 1
