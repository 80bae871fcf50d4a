"""What is wrong, and how badly."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.health.diagnosis import CATEGORIES, OFFENSES, Diagnosis, DiagnosisSummary, Measured, diagnose
from projections.health.samples import Sample
from projections.health.watch import LimitExceeded, Pressure, readiness

CHECKS = [check for checks in OFFENSES.values() for check in checks]


def measure(**findings: Any) -> Measured:
    """Findings of a clean memory, but for those given; `pressure` is why writes are refused, `offenders` by check."""
    clean: dict[str, Any] = {"embedder": "minilm", "unscoped_memories": 0, "backup_trouble": "", "llm": ""}
    offenders = {check: list[str]() for check in CHECKS} | findings.pop("offenders", {})
    reason = findings.pop("pressure", "")
    figures: dict[str, Any] = {"workers": 1, "memory_used": 2**20, "memory_limit": 2**30}
    figures |= {name: findings.pop(name) for name in list(findings) if name in Sample.__struct_fields__}
    sample, pressure = Sample(**figures), Pressure((LimitExceeded("disk", reason, 1),)) if reason else None
    conditions = readiness(sample, pressure).conditions
    return Measured(sample=sample, conditions=conditions, offenders=offenders, **{**clean, **findings})


def outcomes(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The checks that did not pass."""
    return [(check.name, check.status) for check in diagnosis.checks if check.status != "pass"]


def test_a_clean_memory_passes_one_check_in_every_category():
    diagnosis = diagnose(measure())
    assert diagnosis.status == "healthy"
    assert [check.category for check in diagnosis.checks] == list(CATEGORIES)
    assert diagnosis.summary == DiagnosisSummary(len(CATEGORIES), 0, 0, 0)


@pytest.mark.parametrize(
    ("findings", "check", "status", "health"),
    [
        ({"lag": {0: 5}, "oldest_pending_s": 30.0}, "lag", "warn", "degraded"),
        ({"lag": {0: 5}, "oldest_pending_s": 3000.0}, "lag", "fail", "critical"),
        ({"workers": 0}, "workers", "warn", "degraded"),
        ({"log_file_ok": False}, "log-file", "fail", "critical"),
        ({"pressure": "the disk is full"}, "pressure", "warn", "degraded"),
        ({"outdated_s": 10.0}, "generation", "fail", "critical"),
        ({"dead_letters": 1}, "dead-letters", "warn", "degraded"),
        ({"dead_letters": 100}, "dead-letters", "fail", "critical"),
        ({"index_ready": False}, "index-ready", "fail", "critical"),
        ({"index_trouble": "two replicas differ"}, "index-trouble", "warn", "degraded"),
        ({"rebuild_due": "version 8"}, "fold-version", "warn", "degraded"),
        ({"index_ready": False, "index_partly": True, "index_trouble": "x"}, "index-trouble", "warn", "degraded"),
        ({"index_ready": False, "index_partly": True}, "index-trouble", "warn", "degraded"),
        ({"workers": 0, "lag": {0: 5}, "oldest_pending_s": 9.0}, "workers", "warn", "degraded"),
        ({"away": [3]}, "cluster", "fail", "critical"),
        ({"jobs_trouble": "refused"}, "jobs", "fail", "critical"),
        ({"lost_writes": "some"}, "lost-writes", "fail", "critical"),
        ({"log_folder_gone": True}, "log-file", "fail", "critical"),
        ({"nodes_down": "2 of 6"}, "cluster", "warn", "degraded"),
        ({"to_embed": 5000, "dimensions": 384}, "backlog", "warn", "degraded"),
        ({"memory_used": 900 * 2**20}, "memory", "warn", "degraded"),
        ({"memory_used": 2**30}, "memory", "fail", "critical"),
        ({"offenders": {"active-over-a-day": ["s1"]}}, "active-over-a-day", "warn", "degraded"),
        ({"offenders": {"missing-parent": ["m1"]}}, "missing-parent", "warn", "degraded"),
        ({"offenders": {"latest-but-superseded": ["m1"]}}, "latest-but-superseded", "fail", "degraded"),
        ({"unscoped_memories": 10_000}, "unscoped", "warn", "degraded"),
        ({"offenders": {"confidence": ["l1"]}}, "confidence", "warn", "degraded"),
        ({"offenders": {"title": ["s1"]}}, "title", "warn", "degraded"),
        ({"offenders": {"missing-requirement": ["a1"]}}, "missing-requirement", "warn", "degraded"),
        ({"offenders": {"cycle": ["a1 > a2"]}}, "cycle", "fail", "degraded"),
        ({"offenders": {"dangling": ["r1"]}}, "dangling", "warn", "degraded"),
        ({"offenders": {"over-limit": ["persona"]}}, "over-limit", "warn", "degraded"),
    ],
)
def test_every_trouble_is_named_and_weighed(findings: dict[str, Any], check: str, status: str, health: str):
    diagnosis = diagnose(measure(**findings))
    assert outcomes(diagnosis) == [(check, status)]
    assert diagnosis.status == health
    assert len(diagnosis.checks) == len(CATEGORIES)


@pytest.mark.parametrize(
    "findings",
    [
        {"lag": {0: 5_000}, "oldest_pending_s": 1.0},
        {"oldest_pending_s": 3000.0},
        {"embedder": "", "to_embed": 5_000},
        {"memory_limit": 0, "memory_used": 2**40},
        {"llm": "some model"},
    ],
)
def test_what_is_merely_unusual_passes(findings: dict[str, Any]):
    assert diagnose(measure(**findings)).status == "healthy"


def test_a_category_with_several_troubles_has_a_check_for_each_and_none_that_passes():
    diagnosis = diagnose(
        measure(unscoped_memories=1, offenders={"latest-but-superseded": ["m1"], "missing-parent": ["m2"]})
    )
    of_memories = [check.name for check in diagnosis.checks if check.category == "memories"]
    assert of_memories == ["unscoped", "missing-parent", "latest-but-superseded"]
    assert diagnosis.summary == DiagnosisSummary(len(CATEGORIES) - 1, 2, 1, 1)


def test_trouble_with_backups_is_a_warning_beside_what_the_memory_takes():
    diagnosis = diagnose(measure(backup_trouble="the disk is full"), ["storage"])
    assert [(check.name, check.status) for check in diagnosis.checks] == [("backup", "warn"), ("memory", "pass")]
    assert diagnosis.checks[0].message == "the disk is full"
    assert diagnosis.status == "degraded"


def test_only_a_latest_but_superseded_memory_can_be_healed():
    trouble = measure(offenders={check: ["x"] for check in CHECKS}, dead_letters=1, unscoped_memories=1)
    assert [check.name for check in diagnose(trouble).checks if check.fixable] == ["latest-but-superseded"]


def test_a_message_counts_the_offenders_and_names_a_few():
    (check,) = diagnose(measure(offenders={"dangling": [f"r{n}" for n in range(7)]}), ["relations"]).checks
    assert check.message == "7 relations point to a memory that does not exist: r0, r1, r2, r3, r4, …"


def test_only_the_categories_asked_for_are_checked_and_unknown_ones_ignored():
    diagnosis = diagnose(measure(index_ready=False), ["slots", "mesh", "lessons"])
    assert [check.category for check in diagnosis.checks] == ["lessons", "slots"]
    assert diagnosis.status == "healthy"
    assert diagnose(measure(), ["mesh"]).checks == []


def test_a_summary_says_pass_on_the_wire():
    assert msgspec.to_builtins(diagnose(measure(), ["slots"]).summary) == {
        "pass": 1,
        "warn": 0,
        "fail": 0,
        "fixable": 0,
    }


SAMPLES = st.builds(
    Sample,
    workers=st.sampled_from([0, 1]),
    log_file_ok=st.sampled_from([True, False, None]),
    lag=st.sampled_from([{}, {0: 3}]),
    oldest_pending_s=st.sampled_from([0.0, 9.0, 10.0, 15.0, 300.0]),
    dead_letters=st.sampled_from([0, 1, 100]),
    index_ready=st.booleans(),
    index_partly=st.booleans(),
    index_trouble=st.sampled_from(["", "two replicas differ"]),
    outdated_s=st.sampled_from([0.0, 10.0]),
    lost_writes=st.sampled_from(["", "partition 3 up to 5-0"]),
    away=st.sampled_from([[], [3]]),
    jobs_trouble=st.sampled_from(["", "refused"]),
    to_embed=st.sampled_from([0, 1_001]),
    dimensions=st.sampled_from([0, 384]),
    memory_used=st.sampled_from([None, 50, 85, 95]),
    memory_limit=st.sampled_from([0, 100]),
)


@given(sample=SAMPLES, refuses=st.booleans())
def test_readiness_and_diagnosis_agree_on_every_combination_of_conditions(sample: Sample, refuses: bool):
    """What the one shows the other does, in the same words; what stops a process is critical; ready is healthy."""
    reason = {"pressure": "the disk is full"} if refuses else {}
    named = msgspec.structs.asdict(sample)
    ready = readiness(sample, Pressure((LimitExceeded("disk", "the disk is full", 1),)) if refuses else None)
    diagnosis = diagnose(measure(**named, **reason))
    wrong = [check for check in diagnosis.checks if check.status != "pass"]
    assert sorted(check.message for check in wrong) == sorted(condition.message for condition in ready.conditions)
    assert (diagnosis.status == "healthy") == (ready.conditions == [])
    if ready.stopped is not None:
        assert diagnosis.status == "critical"
        (check,) = [check for check in wrong if check.message == ready.stopped.message]
        assert check.status == "fail"
    assert len({(check.category, check.name) for check in wrong}) == len(wrong), "a check has one verdict"


@pytest.mark.parametrize(
    ("signs", "code", "check", "status"),
    [
        ({"outdated_s": 10.0, "index_trouble": "behind"}, "index", "generation", "fail"),
        ({"index_ready": False, "index_partly": True}, "index_partial", "index-trouble", "warn"),
        ({"index_trouble": "behind"}, "index_trouble", "index-trouble", "warn"),
        ({"to_embed": 5_000, "dimensions": 384}, "embedding", "backlog", "warn"),
        ({"memory_used": 2**30}, "memory", "memory", "fail"),
    ],
)
def test_a_condition_has_a_name_in_readiness_and_one_in_diagnosis(
    signs: dict[str, Any], code: str, check: str, status: str
):
    """The first two were told as 503 and a warning, and as degraded and healthy."""
    measured = measure(**signs)
    assert measured.conditions[0].code == code
    assert (check, status) in outcomes(diagnose(measured))
