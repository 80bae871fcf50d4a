"""Shares of live workers: all partitions, fair to one."""

import pytest

from workers.host import share_of


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
