"""What is wrong with a memory, and how badly, told from plain findings. Pure; agentmemory's categories.

Every category yields at least one check: a single passing one while it is clean, else one for each kind of trouble.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from ingest.platform.settings import mib
from projections.health.samples import Sample
from projections.health.watch import CheckStatus, Condition

Health = Literal["healthy", "degraded", "critical"]
Offence: TypeAlias = tuple[str, CheckStatus, str, str]
"""A kind of trouble: its name, how bad it is, what the offenders do, the field of `Measured` with their ids."""

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

    `conditions` are those that readiness shows. `llm` and `embedder` name what is configured,
    empty for none. `action_cycles` are shown as given, one text a circle. `backup_trouble` is empty where backups go
    well, or are not wanted.
    """

    vitals: Sample
    conditions: Sequence[Condition]
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
    names = [name for name in CATEGORIES if operator or name not in OF_THE_SERVER]
    checks = [check for name in names if not categories or name in categories for check in CATEGORIES[name](findings)]
    outcomes = [check.status for check in checks]
    status: Health = "healthy" if outcomes.count("pass") == len(outcomes) else "degraded"
    if any(check.status == "fail" and check.category in VITAL for check in checks):
        status = "critical"
    fixable = sum(check.fixable for check in checks)
    passed, warnings, failures = outcomes.count("pass"), outcomes.count("warn"), outcomes.count("fail")
    return Diagnosis(status, checks, DiagnosisSummary(passed, warnings, failures, fixable))


def _of_the_server(category: str, findings: Measured) -> Iterator[Check]:
    """A check for each condition of a category that readiness shows; a passing one where there is none."""
    conditions = [condition for condition in findings.conditions if condition.category == category]
    for condition in conditions:
        yield _check(category, condition.check, condition.status, condition.message)
    if category == "storage" and findings.backup_trouble:
        yield _check("storage", "backup", "warn", findings.backup_trouble)
    if not conditions:
        name, message = _passing(category, findings)
        yield _check(category, name, "pass", message)


def _passing(category: str, findings: Measured) -> tuple[str, str]:
    """The name and message of the check that passes."""
    sample, llm = findings.vitals, findings.llm
    waiting = f"{sample.behind:,} events are not projected yet, the oldest for {sample.oldest_pending_s:.1f} s"
    embeds = "no embedder is configured, so search uses keywords"
    if findings.embedder:
        embeds = f"{findings.embedder} embeds; {sample.to_embed:,} texts wait"
    return {
        "log": ("lag", waiting if sample.lag else "every event is applied"),
        "dead_letters": ("dead-letters", "no event was refused by a projection"),
        "index": ("index-ready", "the search index answers"),
        "embedding": ("embedder", embeds),
        "storage": ("memory", _memory(sample)),
        "llm": ("llm", f"{llm} writes summaries" if llm else "no language model is configured; none is needed"),
    }[category]


def _memory(vitals: Sample) -> str:
    used, limit, free = vitals.memory_used, vitals.memory_limit, vitals.disk_free
    disk = "" if free is None else f"; its disk has {mib(free)} left"
    if used is None:
        return f"the log's server does not say how much memory it uses{disk}"
    if not limit:
        return f"{mib(used)} used, no limit set{disk}"
    return f"{mib(used)} of {mib(limit)} used ({vitals.memory_share:.0%}){disk}"


def _memories(findings: Measured) -> Iterator[Check]:
    """A memory without a project is legitimate here, so however many there are, they are a warning."""
    if findings.unscoped_memories:
        yield _check("memories", "unscoped", "warn", f"{findings.unscoped_memories:,} memories belong to no project")
    checks = list(_offenders("memories", findings))
    if not findings.unscoped_memories or any(check.status != "pass" for check in checks):
        yield from checks


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
            message = f"{len(ids):,} {what}: {', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''}"
            yield _check(category, name, status, message, fixable=name in FIXABLE)
    if not troubled:
        yield _check(category, category, "pass", f"nothing is wrong with {category}")


_SERVER = ("log", "dead_letters", "index", "embedding", "storage", "llm")
CATEGORIES: dict[str, Callable[[Measured], Iterator[Check]]] = {
    **{category: partial(_of_the_server, category) for category in _SERVER},
    **{category: partial(_offenders, category) for category in OFFENCES},
    "memories": _memories,
}
"""In the order they are reported: what everything rests on first."""
OF_THE_SERVER = frozenset(_SERVER)
"""Categories about the server as a whole, which is its operator's business; the others are about a tenant's documents.
"""


def _check(category: str, name: str, status: CheckStatus, message: str, *, fixable: bool = False) -> Check:
    return Check(name=name, category=category, status=status, message=message, fixable=fixable)
