"""What stops a process, what limits it, and what somebody should only look at."""

from typing import Any

import pytest
from msgspec.structs import replace

from projections.health.samples import Sample
from projections.health.watch import Limits, Readiness, decide, readiness, unavailable


def well(**changes: Any) -> Sample:
    """A sample of a system in good health, but for what is given."""
    return replace(Sample(workers=1, log_file_ok=True), **changes)


def codes(found: Readiness) -> list[str]:
    """The conditions, in their order."""
    return [condition.code for condition in found.conditions]


def test_in_good_health_there_is_nothing_to_tell():
    found = readiness(well(), None)
    assert found.conditions == []
    assert found.stopped is None
    assert readiness(well(log_file_ok=None), None).conditions == []


@pytest.mark.parametrize(
    ("sample", "code", "told"),
    [
        (well(log_file_ok=False), "log_file", "append-only file"),
        (well(index_ready=False), "index", "the index is loading"),
        (well(index_ready=False, index_trouble="Redis is away"), "index", "Redis is away"),
        (well(outdated_s=10.0), "index", "not the live one for 10 s"),
        (well(workers=0, lag={0: 1}, oldest_pending_s=15.0), "stalled", "no worker is alive, and events wait for 15 s"),
    ],
)
def test_what_stops_reads_or_writes_is_named(sample: Sample, code: str, told: str):
    stopped = readiness(sample, None).stopped
    assert stopped is not None
    assert stopped.code == code
    assert told in stopped.message


@pytest.mark.parametrize(
    ("sample", "code"),
    [
        (well(oldest_pending_s=10.0, lag={0: 3}), "late"),
        (well(dead_letters=1), "dead_letters"),
        (well(to_embed=1_001, dimensions=384), "embedding"),
        (well(index_trouble="behind"), "index_trouble"),
        (well(memory_used=85, memory_limit=100), "memory"),
    ],
)
def test_what_is_only_to_be_looked_at_stops_nothing_and_is_no_illness(sample: Sample, code: str):
    found = readiness(sample, None)
    assert codes(found) == [code]
    assert found.stopped is None
    assert found.impaired == []


def test_refused_writes_and_missing_workers_limit_and_do_not_stop():
    """A process that is taken out of service because it refuses writes would answer no reads either."""
    sample = well(workers=0, lag={0: 10})
    found = readiness(sample, decide(sample, Limits(lag=10)))
    assert codes(found) == ["overloaded", "no_worker"]
    assert found.stopped is None
    assert found.impaired == found.conditions


def test_a_node_of_a_cluster_that_is_away_limits_and_does_not_stop():
    found = readiness(well(away=[3, 7]), None)
    assert codes(found) == ["store_partial"]
    assert found.stopped is None
    assert "partitions 3, 7 take no writes" in found.conditions[0].message


def test_a_job_server_that_is_away_limits_and_does_not_stop():
    found = readiness(well(jobs_trouble="connection refused"), None)
    assert codes(found) == ["jobs"]
    assert found.stopped is None


def test_an_index_that_is_not_ready_for_some_partitions_limits_and_does_not_stop():
    found = readiness(well(index_ready=False, index_partly=True, index_trouble="partition 3 is behind"), None)
    assert codes(found) == ["index_partial"]
    assert found.stopped is None
    assert found.impaired == found.conditions
    assert found.conditions[0].message == "partition 3 is behind"


def test_work_that_waits_long_while_a_worker_lives_is_late_and_not_stalled():
    assert codes(readiness(well(lag={0: 10**6}, oldest_pending_s=500.0), None)) == ["late"]


def test_a_moment_after_a_switch_is_no_condition():
    assert readiness(well(outdated_s=9.0), None).conditions == []


def test_a_log_that_does_not_answer_stops_everything():
    found = unavailable("connection refused")
    assert found.stopped is not None
    assert found.stopped.message == "the log does not answer: connection refused"
    assert found.impaired == [], "the doors that ask have asked the log themselves"
