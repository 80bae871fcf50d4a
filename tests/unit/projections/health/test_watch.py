"""Writes between two looks at the server use up the room that the last look found."""

import pytest

from ingest.errors import Overloaded
from projections.health.watch import Room


@pytest.fixture
def room() -> Room:
    room = Room()
    room.update(room.ended, 100)
    return room


def test_writes_use_up_the_room_until_the_next_look(room: Room):
    with room.taken(60):
        pass
    with pytest.raises(Overloaded) as refused, room.taken(60):
        pass
    assert refused.value.cause == "memory"
    room.update(room.ended, 100)
    with room.taken(60):
        pass


def test_a_write_that_was_under_way_during_a_look_counts_after_it(room: Room):
    with room.taken(60):
        ended = room.ended
    room.update(ended, 100)
    with pytest.raises(Overloaded), room.taken(60):
        pass


def test_nothing_is_refused_while_the_room_is_not_known():
    room = Room()
    with room.taken(1 << 40):
        pass
    room.update(room.ended, 0)
    room.share = None
    with room.taken(1 << 40):
        pass
