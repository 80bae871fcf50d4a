"""Parts of a cluster fail under load: nothing acknowledged is lost beyond what a failover may lose. See cluster_faults.

Times are left to `python -m tests.chaos.cluster_faults`: what they are depends on what else the machine does.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster_faults import KINDS, made, play
from tests.chaos.probing import Asked, Window, longest_wait
from tools.cluster import LocalCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One of its own: parts of it are killed."""
    cluster = made(tmp_path, partitions=6)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_no_fault_of_a_cluster_loses_or_doubles_what_it_may_not(cluster: LocalCluster):
    outcome = await play(cluster, KINDS, events=2_000)
    assert outcome.broken == []
    assert [row.fault for row in outcome.rows] == list(KINDS)
    assert outcome.acknowledged > 500
    assert 503 in outcome.rows[1].statuses, "nobody noticed that a primary was killed"


def test_a_wait_begins_with_the_first_request_that_was_refused():
    asked = [Asked(0, 1, 200), Asked(2, 3, 503), Asked(4, 4.5, 0), Asked(5, 7, 200), Asked(8, 8.5, 200)]
    assert longest_wait(asked, Window(0, 10)) == 5
    assert longest_wait(asked, Window(4, 10)) == 3
    assert longest_wait(asked[:3], Window(0, 10)) == 8
    assert longest_wait([], Window(0, 10)) == 0
