"""The sizes of a runner's batches, a worker's share of partitions, and the time limit of its leases."""

from types import SimpleNamespace

import pytest

from ingest.log.event_log import Stored
from ingest.log.position import Position
from workers.host import AdaptiveTimeout, share_of
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


@pytest.mark.parametrize("partitions", [1, 2, 16, 17, 1024])
@pytest.mark.parametrize("workers", [["a"], ["c", "a", "b"], [f"w{n}" for n in range(20)]])
def test_the_shares_add_up_and_differ_by_one_at_most(workers: list[str], partitions: int):
    shares = [share_of(worker, workers, partitions) for worker in workers]
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


def test_the_order_in_which_the_others_are_known_does_not_matter():
    assert share_of("b", ["c", "b", "a"], 16) == share_of("b", ["a", "b", "c"], 16)


def test_unlisted_worker_is_counted_in_its_own_share():
    assert share_of("c", ["a", "b"], 16) == 5
    assert share_of("a", [], 16) == 16


@pytest.mark.parametrize(("slowest_s", "limit_s"), [(0.1, 1), (0.5, 2), (9, 4)])
async def test_while_answers_are_slow_lease_requests_may_take_longer_and_leases_last_longer(
    slowest_s: float, limit_s: float, monkeypatch: pytest.MonkeyPatch
):
    clock = iter([0, 0, slowest_s, 1, 2])
    monkeypatch.setattr("workers.host.time", SimpleNamespace(monotonic=lambda: next(clock)))
    timeout = AdaptiveTimeout()
    async with timeout.limit():
        pass
    timeout.adapt()
    assert (timeout.seconds, timeout.lease_ms) == (limit_s, 5_000 * limit_s)
    timeout.adapt()
    assert timeout.seconds == max(1, 0.95 * limit_s)
