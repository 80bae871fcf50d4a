"""What stops a process, what limits it, and what somebody should only look at."""

from typing import Any

import pytest
from msgspec.structs import replace

from projections.health.samples import Sample
from projections.health.watch import Limits, Readiness, decide, readiness, unavailable


def well(**changes: Any) -> Sample:
    """A sample of a system in good health, but for what is given."""
    return replace(Sample(workers=1, log_file_ok=True), **changes)


def codes(result: Readiness) -> list[str]:
    """The conditions, in their order."""
    return [condition.code for condition in result.conditions]


def test_in_good_health_there_is_nothing_to_tell():
    result = readiness(well(), None)
    assert result.conditions == []
    assert result.stopped is None
    assert readiness(well(log_file_ok=None), None).conditions == []


@pytest.mark.parametrize(
    ("sample", "code", "message"),
    [
        (well(log_file_ok=False), "log_file", "append-only file"),
        (well(log_folder_gone=True), "log_file", "folder was deleted"),
        (well(index_ready=False), "index", "the index is loading"),
        (well(index_ready=False, index_trouble="Redis is away"), "index", "Redis is away"),
        (well(outdated_s=10.0), "index", "no longer live for 10 s"),
        (
            well(workers=0, lag={0: 1}, oldest_pending_s=15.0),
            "stalled",
            "no worker is running, and events have been pending for 15 s",
        ),
    ],
)
def test_what_stops_reads_or_writes_is_named(sample: Sample, code: str, message: str):
    stopped = readiness(sample, None).stopped
    assert stopped is not None
    assert stopped.code == code
    assert message in stopped.message


@pytest.mark.parametrize(
    ("sample", "code"),
    [
        (well(oldest_pending_s=10.0, lag={0: 3}), "late"),
        (well(dead_letters=1), "dead_letters"),
        (well(nodes_down="2 of 6 cluster nodes are down"), "nodes_down"),
        (well(rebuild_due="rebuild due"), "rebuild"),
        (well(to_embed=1_001, dimensions=384), "embedding"),
        (well(index_trouble="behind"), "index_trouble"),
        (well(memory_used=85, memory_limit=100), "memory"),
    ],
)
def test_what_is_only_to_be_looked_at_stops_nothing_and_is_no_illness(sample: Sample, code: str):
    result = readiness(sample, None)
    assert codes(result) == [code]
    assert result.stopped is None
    assert result.impaired == []


def test_refused_writes_and_missing_workers_limit_and_do_not_stop():
    """A process that is taken out of service because it refuses writes would answer no reads either."""
    sample = well(workers=0, lag={0: 10})
    result = readiness(sample, decide(sample, Limits(lag=10)))
    assert codes(result) == ["overloaded", "no_worker"]
    assert result.stopped is None
    assert result.impaired == result.conditions


@pytest.mark.parametrize(
    ("sample", "code", "message"),
    [
        (well(away=[3, 7]), "store_partial", "partitions 3, 7 accept no writes"),
        (well(jobs_trouble="connection refused"), "jobs", "connection refused"),
        (well(index_ready=False, index_partly=True, index_trouble="3 is behind"), "index_partial", "3 is behind"),
    ],
)
def test_what_works_in_part_limits_and_does_not_stop(sample: Sample, code: str, message: str):
    result = readiness(sample, None)
    assert codes(result) == [code]
    assert result.stopped is None
    assert result.impaired == result.conditions
    assert message in result.conditions[0].message


def test_work_that_waits_long_while_a_worker_lives_is_late_and_not_stalled():
    assert codes(readiness(well(lag={0: 10**6}, oldest_pending_s=500.0), None)) == ["late"]


def test_a_moment_after_a_switch_is_no_condition():
    assert readiness(well(outdated_s=9.0), None).conditions == []


def test_a_log_that_does_not_answer_stops_everything():
    result = unavailable("connection refused")
    assert result.stopped is not None
    assert result.stopped.message == "Redis is not responding: connection refused"
    assert result.impaired == [], "the doors that ask have asked the log themselves"
