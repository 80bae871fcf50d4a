"""What is wrong with a memory, and how badly, told from plain findings. Pure; agentmemory's categories.

Every category yields at least one check: a single passing one while it is clean, else one for each kind of trouble.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from ingest.platform.sizes import mib
from projections.health.pressure import NO_WORKER, away, jobs_away, not_applied, outdated, waiting_for_vectors
from projections.health.vitals import PENDING_WARN_S, Sample

CheckStatus = Literal["pass", "warn", "fail"]
Health = Literal["healthy", "degraded", "critical"]
Offence: TypeAlias = tuple[str, CheckStatus, str, str]
"""A kind of trouble: its name, how bad it is, what the offenders do, the field of `Measured` with their ids."""

PENDING_FAIL_S = 300.0
"""By then every worker's lease has run out several times over: nobody is working."""
DEAD_LETTERS_FAIL = 100
"""So many are no longer a few odd events but a faulty projection."""
STORAGE_WARN = 0.85
STORAGE_FAIL = 0.95
"""Shares of the store's memory limit; at 1 it refuses to write."""
NAMED = 5
"""How many offenders a message names."""
VITAL = frozenset({"log", "index", "dead_letters", "storage"})
"""Categories in which a failure loses or hides what was said, which makes the whole critical."""


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `fixable` means that a heal can put it right."""

    name: str
    category: str
    status: CheckStatus
    message: str
    fixable: bool = False


class DiagnosisSummary(Struct, frozen=True, rename={"passed": "pass"}):
    """How many checks came out how; `passed` is `pass` on the wire."""

    passed: int
    warn: int
    fail: int
    fixable: int


class Diagnosis(Struct, frozen=True):
    """All checks asked for, by category, and what they amount to."""

    status: Health
    checks: list[Check]
    summary: DiagnosisSummary


class Measured(Struct, frozen=True, kw_only=True):
    """What was measured and found. Lists hold the ids of offenders; none has a default, so none is taken for clean.

    `pressure` says whose writes are refused and why, empty while they are not. `llm` and `embedder` name what is
    configured, empty for none. `action_cycles` are shown as given, one text a circle. `backup_trouble` is empty where
    backups go well, or are not wanted.
    """

    vitals: Sample
    pressure: str
    embedder: str
    active_sessions_over_a_day: list[str]
    memories_with_missing_parent: list[str]
    latest_but_superseded: list[str]
    lessons_out_of_range: list[str]
    summaries_without_title: list[str]
    actions_waiting_for_nothing: list[str]
    action_cycles: list[str]
    dangling_relations: list[str]
    slots_over_limit: list[str]
    unscoped_memories: int
    backup_trouble: str
    llm: str


def diagnose(findings: Measured, categories: Sequence[str] = (), *, operator: bool = True) -> Diagnosis:
    """The checks of the given categories, of all when none is given; unknown categories are ignored.

    Critical when a vital category fails, degraded when anything else is not as it should be. Who is no `operator` is
    told nothing of the server as a whole.
    """
    told = [name for name in CATEGORIES if operator or name not in OF_THE_SERVER]
    asked = [name for name in told if not categories or name in categories]
    checks = [check for name in asked for check in CATEGORIES[name](findings)]
    return Diagnosis(_health(checks), checks, _summary(checks))


def _health(checks: Sequence[Check]) -> Health:
    if any(check.status == "fail" and check.category in VITAL for check in checks):
        return "critical"
    return "healthy" if all(check.status == "pass" for check in checks) else "degraded"


def _summary(checks: Sequence[Check]) -> DiagnosisSummary:
    outcomes = [check.status for check in checks]
    return DiagnosisSummary(
        outcomes.count("pass"), outcomes.count("warn"), outcomes.count("fail"), sum(check.fixable for check in checks)
    )


def _log(findings: Measured) -> Iterator[Check]:
    vitals = findings.vitals
    late = vitals.oldest_pending_s if vitals.lag else 0.0
    troubled = False
    for name, status, told in _log_troubles(findings, late):
        troubled = True
        yield _check("log", name, status, told)
    graded = _graded(late, PENDING_WARN_S, PENDING_FAIL_S)
    if graded != "pass" or not troubled:
        told = f"{vitals.behind:,} events are not applied yet, the oldest for {late:.1f} s"
        yield _check("log", "lag", graded, told if vitals.lag else "every event is applied")


def _log_troubles(findings: Measured, late_s: float) -> Iterator[tuple[str, CheckStatus, str]]:
    """What keeps events from being written or applied; `late_s` is how long the first of them waits."""
    if findings.vitals.log_file_ok is False:
        yield "log-file", "fail", "the log's server cannot write its append-only file"
    if findings.vitals.away:
        yield "cluster", "fail", away(findings.vitals)
    if findings.vitals.jobs_trouble:
        yield "jobs", "fail", jobs_away(findings.vitals)
    if findings.vitals.lost_writes:
        yield "lost-writes", "fail", findings.vitals.lost_writes
    if findings.pressure:
        yield "pressure", "warn", findings.pressure
    if not findings.vitals.workers:
        status: CheckStatus = "fail" if late_s >= PENDING_WARN_S else "warn"
        yield "workers", status, NO_WORKER


def _dead_letters(findings: Measured) -> Iterator[Check]:
    count = findings.vitals.dead_letters
    told = not_applied(findings.vitals) if count else "no event was refused by a projection"
    yield _check("dead_letters", "dead-letters", _graded(count, 1, DEAD_LETTERS_FAIL), told)


def _index(findings: Measured) -> Iterator[Check]:
    trouble = findings.vitals.index_trouble
    if findings.vitals.index_is_missing:
        yield _check("index", "index-ready", "fail", f"the search index does not answer: {trouble or 'not built yet'}")
    elif trouble:
        yield _check("index", "index-trouble", "warn", f"the search index answers, but: {trouble}")
    elif findings.vitals.index_is_outdated:
        yield _check("index", "generation", "fail", f"the search {outdated(findings.vitals)}")
    else:
        yield _check("index", "index-ready", "pass", "the search index answers")


def _embedding(findings: Measured) -> Iterator[Check]:
    waiting = findings.vitals.to_embed
    if not findings.embedder:
        yield _check("embedding", "embedder", "pass", "no embedder is configured: search goes by keywords alone")
    elif findings.vitals.embedding_is_behind:
        told = f"{waiting_for_vectors(findings.vitals)} of {findings.embedder}"
        yield _check("embedding", "backlog", "warn", told)
    else:
        yield _check("embedding", "embedder", "pass", f"{findings.embedder} embeds; {waiting:,} texts wait")


def _storage(findings: Measured) -> Iterator[Check]:
    if findings.backup_trouble:
        yield _check("storage", "backup", "warn", findings.backup_trouble)
    used, limit, free = findings.vitals.memory_used, findings.vitals.memory_limit, findings.vitals.disk_free
    disk = "" if free is None else f"; its disk has {mib(free)} left"
    if used is None:
        yield _check("storage", "memory", "pass", f"the log's server does not say how much memory it uses{disk}")
    elif not limit:
        yield _check("storage", "memory", "pass", f"{mib(used)} used, no limit set{disk}")
    else:
        told = f"{mib(used)} of {mib(limit)} used ({used / limit:.0%}){disk}"
        yield _check("storage", "memory", _graded(used / limit, STORAGE_WARN, STORAGE_FAIL), told)


def _llm(findings: Measured) -> Iterator[Check]:
    told = f"{findings.llm} writes summaries" if findings.llm else "no language model is configured; none is needed"
    yield _check("llm", "llm", "pass", told)


def _memories(findings: Measured) -> Iterator[Check]:
    """A memory without a project is legitimate here, so however many there are, they are a warning."""
    if findings.unscoped_memories:
        yield _check("memories", "unscoped", "warn", f"{findings.unscoped_memories:,} memories belong to no project")
    offended = list(_offenders("memories", findings))
    if not findings.unscoped_memories or any(one.status != "pass" for one in offended):
        yield from offended


OFFENCES: dict[str, tuple[Offence, ...]] = {
    "sessions": (("active-over-a-day", "warn", "sessions are active for over 24 hours", "active_sessions_over_a_day"),),
    "memories": (
        ("missing-parent", "warn", "memories follow one that is gone", "memories_with_missing_parent"),
        ("latest-but-superseded", "fail", "memories are latest and superseded", "latest_but_superseded"),
    ),
    "lessons": (("confidence", "warn", "lessons have a confidence outside 0 to 1", "lessons_out_of_range"),),
    "summaries": (("title", "warn", "summaries have no title", "summaries_without_title"),),
    "actions": (
        ("missing-requirement", "warn", "actions require one that is gone", "actions_waiting_for_nothing"),
        ("cycle", "fail", "circles of actions wait for themselves", "action_cycles"),
    ),
    "relations": (("dangling", "warn", "relations lead to a memory that is gone", "dangling_relations"),),
    "slots": (("over-limit", "warn", "slots hold more than their limit", "slots_over_limit"),),
}
"""What may be wrong with a tenant's documents, by category."""
FIXABLE = frozenset({"latest-but-superseded"})


def _offenders(category: str, findings: Measured) -> Iterator[Check]:
    """One check for each kind that has offenders; a passing one if none has."""
    troubled = False
    for name, status, what, field in OFFENCES[category]:
        ids: list[str] = getattr(findings, field)
        if ids:
            troubled = True
            told = f"{len(ids):,} {what}: {', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''}"
            yield _check(category, name, status, told, fixable=name in FIXABLE)
    if not troubled:
        yield _check(category, category, "pass", f"nothing is wrong with {category}")


CATEGORIES: dict[str, Callable[[Measured], Iterator[Check]]] = {
    "log": _log,
    "dead_letters": _dead_letters,
    "index": _index,
    "embedding": _embedding,
    "storage": _storage,
    "llm": _llm,
    **{category: partial(_offenders, category) for category in OFFENCES},
    "memories": _memories,
}
"""In the order they are reported: what everything rests on first."""
OF_THE_SERVER = frozenset({"log", "dead_letters", "index", "embedding", "storage", "llm"})
"""Categories about the server as a whole, which is its operator's business; the others are about a tenant's documents.
"""


def _check(category: str, name: str, status: CheckStatus, message: str, *, fixable: bool = False) -> Check:
    return Check(name=name, category=category, status=status, message=message, fixable=fixable)


def _graded(value: float, warn_from: float, fail_from: float) -> CheckStatus:
    return "fail" if value >= fail_from else "warn" if value >= warn_from else "pass"
