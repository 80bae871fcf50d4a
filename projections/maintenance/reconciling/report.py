"""What a reconciliation found and did."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from ingest.log.keys import RECONCILED
from ingest.platform.connections import Client

Fault = Literal[
    "missing_from_listing",
    "stale_in_listing",
    "missing_from_index",
    "stale_in_index",
    "vector_missing",
    "stale_in_embed_queue",
    "pending_behind_checkpoint",
    "document_missing",
]
FAULTS: tuple[Fault, ...] = (
    "missing_from_listing",
    "stale_in_listing",
    "missing_from_index",
    "stale_in_index",
    "vector_missing",
    "stale_in_embed_queue",
    "pending_behind_checkpoint",
    "document_missing",
)
EXAMPLES = 20


class Findings(Struct, kw_only=True):
    """Of one partition: what was looked at, and every fault by kind, repaired but for missing documents.

    `not_compared` says why the index could not be compared, empty when it was. `first` names up to EXAMPLES of a kind.
    """

    partition: int
    documents: int = 0
    events_sampled: int = 0
    found: dict[Fault, int] = {}
    first: dict[Fault, list[str]] = {}
    not_compared: str = ""

    def note(self, fault: Fault, name: str) -> None:
        """One more fault of a kind."""
        self.found[fault] = self.found.get(fault, 0) + 1
        examples = self.first.setdefault(fault, [])
        if len(examples) < EXAMPLES:
            examples.append(name)

    @property
    def advice(self) -> str:
        """What a person has to do; empty for nothing."""
        if self.found.get("document_missing"):
            return f"documents are missing: `mnemolog rebuild --partition {self.partition}`"
        return ""


class Report(Struct, kw_only=True):
    """A reconciliation, finished or under way: `next` is the partition it goes on with, None when it is over."""

    started_at: datetime
    finished_at: datetime | None = None
    next: int | None = 0
    partitions: list[Findings] = []

    @property
    def found(self) -> dict[Fault, int]:
        """All faults by kind, of all partitions looked at."""
        return {fault: sum(one.found.get(fault, 0) for one in self.partitions) for fault in FAULTS}

    @property
    def advice(self) -> list[str]:
        """What a person has to do."""
        return [one.advice for one in self.partitions if one.advice]


async def load_report(redis: Client) -> Report | None:
    """The newest reconciliation; None when there was none."""
    raw = await redis.get(RECONCILED)
    return msgspec.json.decode(raw, type=Report) if raw else None


async def save_report(redis: Client, report: Report) -> None:
    """Write it down: a run that is interrupted goes on with the partition that it had not finished."""
    await redis.set(RECONCILED, msgspec.json.encode(report))
