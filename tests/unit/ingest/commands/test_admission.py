"""Who decides how many observations a session takes is asked before each, and told of those that did not count."""

from collections import Counter

import pytest
from factories import ManualClock

from ingest.commands.decide import AnyCommand, Caller, Observe, Remember
from ingest.commands.handler import CommandHandler
from ingest.errors import LogUnavailable, ProjectionBehind, SessionFull
from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import GroupCommit
from tests.support.memory_log import MemoryLog

ADA = Caller("acme")


class Room:
    """Takes so many observations a session."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.counted = Counter[str]()
        self.behind = False

    async def enter(self, command: Observe, tenant: str, subject: str) -> None:
        assert (tenant, subject[:4]) == ("acme", "obs_")
        if self.behind:
            raise ProjectionBehind(1.0, {})
        if self.counted[command.session_id] >= self._limit:
            raise SessionFull(command.session_id, self._limit)
        self.counted[command.session_id] += 1

    def leave(self, command: Observe, tenant: str) -> None:
        self.counted[command.session_id] -= 1


class Away(GroupCommit):
    """A log that acknowledges nothing."""

    async def append(self, entries: list[tuple[int, Entry]]) -> list[Appended]:  # type: ignore[override]
        raise LogUnavailable("away")


@pytest.fixture
def room() -> Room:
    return Room(2)


def handler(log: GroupCommit, clock: ManualClock, room: Room) -> CommandHandler:
    """A handler that asks for room."""
    made = CommandHandler(log, 4, clock)
    made.admission = room
    return made


def seen(event_id: str) -> Observe:
    """An observation in session s1."""
    return Observe(session_id="s1", content="tests are red", event_id=event_id)


async def test_an_observation_is_counted_once_however_often_it_is_sent(clock: ManualClock, room: Room):
    one = handler(GroupCommit(MemoryLog(4, clock.ms)), clock, room)
    for _ in range(3):
        await one.handle(seen("e1"), ADA)
    assert room.counted == {"s1": 1}
    for _ in range(3):
        outcome = await one.handle_batch([seen("e1")], ADA)
        assert (outcome.accepted, outcome.duplicates) == (0, 1)
    assert room.counted == {"s1": 1}


async def test_a_batch_is_rejected_from_where_the_session_is_full(clock: ManualClock, room: Room):
    one = handler(GroupCommit(MemoryLog(4, clock.ms)), clock, room)
    batch: list[AnyCommand] = [seen("e1"), seen("e2"), seen("e3"), Remember(content="likes tea")]
    outcome = await one.handle_batch(batch, ADA)
    assert (outcome.accepted, [index for index, _ in outcome.rejected]) == (3, [2])
    assert room.counted == {"s1": 2}


async def test_what_was_not_stored_does_not_count(clock: ManualClock, room: Room):
    """Neither when the log is away, nor when the count of a later item cannot be told."""
    away = handler(Away(MemoryLog(4, clock.ms)), clock, room)
    with pytest.raises(LogUnavailable):
        await away.handle(seen("e1"), ADA)
    with pytest.raises(LogUnavailable):
        await away.handle_batch([seen("e1"), seen("e2")], ADA)
    assert room.counted == {"s1": 0}
    one = handler(GroupCommit(MemoryLog(4, clock.ms)), clock, room)
    room.behind = True
    with pytest.raises(ProjectionBehind):
        await one.handle_batch([seen("e1")], ADA)
    assert room.counted == {"s1": 0}
