"""How many entries a runner reads at once."""

import pytest

from ingest.log.event_log import Stored
from ingest.log.position import Position
from workers.runner import BATCH, MOST, MOST_BYTES, size_of_next


def entries(count: int, size: int) -> list[Stored]:
    return [Stored(Position(1, n), b"x" * size) for n in range(count)]


@pytest.mark.parametrize(
    ("wanted", "came", "size", "then"),
    [
        (BATCH, BATCH, 600, 2 * BATCH),
        (2 * BATCH, 2 * BATCH, 600, MOST),
        (MOST, MOST, 600, MOST),
        (MOST, MOST - 1, 600, BATCH),
        (BATCH, 0, 600, BATCH),
    ],
)
def test_batches_grow_while_more_waits_than_was_read(wanted: int, came: int, size: int, then: int):
    assert size_of_next(wanted, entries(came, size)) == then


def test_batches_of_large_events_stay_small():
    large = MOST_BYTES // BATCH

    assert size_of_next(BATCH, entries(BATCH, large)) == BATCH
    assert size_of_next(2 * BATCH, entries(2 * BATCH, large)) == BATCH
