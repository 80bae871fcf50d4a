"""What is wrong with a memory, and how badly, from plain findings. Pure; agentmemory's categories.

Every category yields at least one check: a single passing one while it is clean, else one for each kind of trouble.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ingest.platform.files import toml_beside
from ingest.platform.settings import mib
from projections.health.samples import Sample
from projections.health.watch import CheckStatus, Condition

Health = Literal["healthy", "degraded", "critical"]

NAMED = 5
"""How many affected documents a message names."""
VITAL = frozenset({"log", "index", "dead_letters", "storage"})
"""Categories in which a failure loses or hides documents, which makes the whole critical."""
OFFENSES: Mapping[str, Mapping[str, tuple[CheckStatus, str]]] = toml_beside(__file__, "offenses.toml")
"""Possible problems with a tenant's documents: by category and check, the severity and the message."""
FIXABLE = frozenset({"latest-but-superseded"})
_SERVER = ("log", "dead_letters", "index", "embedding", "storage", "llm")
CATEGORIES = (*_SERVER, *OFFENSES)
"""In the order they are reported, the most fundamental first."""
OF_THE_SERVER = frozenset(_SERVER)
"""Server-wide categories, which only the operator sees; the others are about a tenant's documents."""


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was checked. `fixable` means that a heal can repair it."""

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
    """All requested checks, by category, and what they amount to."""

    status: Health
    checks: list[Check]
    summary: DiagnosisSummary


class Measured(Struct, frozen=True, kw_only=True):
    """What was measured and found. `offenders` has the ids of each check of OFFENSES, so none counts as clean unseen.

    `conditions` are those of readiness. `llm` and `embedder` name what is configured, empty for none. Each offender of
    `cycle` is a text that shows one circle. `backup_trouble` is empty while backups succeed, or are not configured.
    """

    sample: Sample
    conditions: Sequence[Condition]
    embedder: str
    offenders: Mapping[str, Sequence[str]]
    unscoped_memories: int
    backup_trouble: str
    llm: str


def diagnose(findings: Measured, categories: Sequence[str] = (), *, operator: bool = True) -> Diagnosis:
    """The checks of the given categories, of all when none is given; unknown categories are ignored.

    Critical when a vital category fails, degraded when anything else is not as it should be. Only an `operator` gets
    checks of the server as a whole.
    """
    checks = [
        check
        for category in CATEGORIES
        if (operator or category not in OF_THE_SERVER) and (not categories or category in categories)
        for check in (_of_the_server if category in OF_THE_SERVER else _of_documents)(category, findings)
    ]
    outcomes = [check.status for check in checks]
    status: Health = "healthy" if outcomes.count("pass") == len(outcomes) else "degraded"
    if any(check.status == "fail" and check.category in VITAL for check in checks):
        status = "critical"
    fixable = sum(check.fixable for check in checks)
    passed, warnings, failures = outcomes.count("pass"), outcomes.count("warn"), outcomes.count("fail")
    return Diagnosis(status, checks, DiagnosisSummary(passed, warnings, failures, fixable))


def _of_the_server(category: str, findings: Measured) -> Iterator[Check]:
    """A check for each condition of a category that readiness shows; a passing one without any."""
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
    sample, llm = findings.sample, findings.llm
    pending = f"{sample.behind:,} events are pending, the oldest for {sample.oldest_pending_s:.1f} s"
    embeds = "no embedder is configured, so search uses keywords"
    if findings.embedder:
        embeds = f"embedder {findings.embedder}; {sample.to_embed:,} texts are waiting"
    used, limit, free = sample.memory_used, sample.memory_limit, sample.disk_free
    memory = "Redis does not report its memory usage"
    if used is not None:
        memory = f"{mib(used)} of {mib(limit)} used ({sample.memory_share:.0%})"
        memory = memory if limit else f"{mib(used)} used, no limit set"
    return {
        "log": ("lag", pending if sample.lag else "every event is applied"),
        "dead_letters": ("dead-letters", "no event was rejected by a projection"),
        "index": ("index-ready", "the search index responds"),
        "embedding": ("embedder", embeds),
        "storage": ("memory", memory + ("" if free is None else f"; {mib(free)} free on its disk")),
        "llm": ("llm", f"{llm} writes summaries" if llm else "no language model is configured; none is needed"),
    }[category]


def _of_documents(category: str, findings: Measured) -> Iterator[Check]:
    """One check for each kind of trouble; a passing one without any."""
    # a memory without a project is legitimate here, so however many there are, they are a warning
    unscoped = findings.unscoped_memories if category == "memories" else 0
    if unscoped:
        yield _check(category, "unscoped", "warn", f"{unscoped:,} memories belong to no project")
    troubled = unscoped > 0
    for name, (status, what) in OFFENSES[category].items():
        if ids := findings.offenders[name]:
            troubled = True
            message = f"{len(ids):,} {what}: {', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''}"
            yield _check(category, name, status, message)
    if not troubled:
        yield _check(category, category, "pass", f"no problems with {category}")


def _check(category: str, name: str, status: CheckStatus, message: str) -> Check:
    return Check(name=name, category=category, status=status, message=message, fixable=name in FIXABLE)
